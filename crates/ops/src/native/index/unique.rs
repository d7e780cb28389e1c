//! `unique` and `unique_consecutive`, of elements or of slices.

use crate::native::element_bits::{ElementBits, Numeric, RawBits, Sortable};
use crate::native::factory::copy;
use crate::native::guarded_slices::with_slices;
use crate::native::index::sort;
use crate::native::index::true_indices::{true_count, true_indices};
use crate::native::shape::view;
use crate::structured::TensorSpec;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{MemoryFormat, Result, Scalar, ensure, fallible, shape};

fn dense(tensor: &Tensor) -> Result<Tensor> {
    copy::clone(tensor, Some(MemoryFormat::Contiguous))
}

/// The elements in row-major order as a vector: a view where they are contiguous.
fn flat(tensor: &Tensor) -> Result<Tensor> {
    let dense = if tensor.is_contiguous() { tensor.clone() } else { dense(tensor)? };
    view::view(&dense, &[tensor.numel()])
}

/// The distinct values in ascending order, for each element the index of its value, and for each value how often it occurs. The
/// latter two are empty unless requested.
pub fn unique2(
    self_: &Tensor,
    _sorted: bool,
    return_inverse: bool,
    return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (values, indices) = sort::sort_default(&flat(self_)?, 0, false)?;
    runs("_unique2", self_, &values, Some(&indices), return_inverse, return_counts)
}

/// As [`unique2`], but only consecutive equal values are merged, and their order is kept.
pub fn unique_consecutive(
    self_: &Tensor,
    return_inverse: bool,
    return_counts: bool,
    dim: Option<i64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    if let Some(dim) = dim {
        const NAME: &str = "unique_consecutive";
        ensure!(
            self_.dim() > 0,
            Index(NAME, "dim"),
            "Dimension specified as {dim} but tensor has no dimensions"
        );
        let (values, inverse, counts) = slices(NAME, self_, dim, false)?;
        let requested = |is_requested: bool, made: Tensor| {
            if is_requested { Ok(made) } else { Tensor::from_vec(Vec::<i64>::new(), &[0]) }
        };
        return Ok((values, requested(return_inverse, inverse)?, requested(return_counts, counts)?));
    }
    runs("unique_consecutive", self_, &flat(self_)?, None, return_inverse, return_counts)
}

/// Finds runs of equal elements in `values`, whose elements are those of `self_` at `indices`. NaN equals nothing, as in PyTorch.
fn runs(
    name: &str,
    self_: &Tensor,
    values: &Tensor,
    indices: Option<&Tensor>,
    return_inverse: bool,
    return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(!self_.device().is_meta(), NotImplemented(name), "a tensor on meta has no values");
    let is_start = run_starts(name, values)?;
    let counts = if return_counts {
        run_lengths(&true_indices(bytemuck::cast_slice(&is_start))?, values.numel())?
    } else {
        vec![]
    };
    let inverse = if return_inverse {
        inverse(&is_start, indices, self_)?
    } else {
        Tensor::from_vec(Vec::<i64>::new(), &[0])?
    };
    let length = counts.len() as i64;
    Ok((firsts(name, values, &is_start)?, inverse, Tensor::from_vec(counts, &[length])?))
}

/// The elements of a dense vector at which runs start.
fn firsts(name: &str, values: &Tensor, is_start: &[bool]) -> Result<Tensor> {
    let count = true_count(bytemuck::cast_slice(is_start));
    let made = TensorSpec::like(values, &[count as i64]).allocate(name)?;
    dispatch_all_types!(distinct, values.dtype(), name, T => {
        type Bits = <T as ElementBits>::Bits;
        with_slices(name, &[values], &[&made], |s| {
            let (from, to) = (s.read::<Bits>(0)?, s.write::<Bits>(0)?);
            if count == from.len() {
                to.copy_from_slice(from);
                Bits::normalize_all(to);
                return Ok(());
            }
            // Every element, from the last one on, so that the first of a run stays: branches would not be predictable.
            let mut runs = count;
            for (value, is_start) in from.iter().zip(is_start).rev() {
                to[runs - 1] = value.normalized();
                runs -= usize::from(*is_start);
            }
            Ok(())
        })
    })?;
    Ok(made)
}

/// The lengths of runs of `n` elements, from their starts.
fn run_lengths(starts: &[i64], n: i64) -> Result<Vec<i64>> {
    let ends = starts.iter().skip(1).chain(std::iter::once(&n));
    fallible::collect(starts.iter().zip(ends).map(|(start, end)| end - start))
}

/// For each element whether it differs from the one before it. NaN differs from everything.
fn run_starts(name: &str, values: &Tensor) -> Result<Vec<bool>> {
    let mut is_start = fallible::filled(true, values.numel() as usize)?;
    dispatch_all_types!(distinct, values.dtype(), name, T => {
        type N = <T as ElementBits>::Number;
        with_slices(name, &[values], &[], |s| {
            let before = s.read::<N>(0)?;
            let (Some((_, own)), Some((_, is_start))) = (before.split_first(), is_start.split_first_mut()) else {
                return Ok(());
            };
            with_processor_vectors(
                #[inline(always)]
                || {
                    for ((is_start, own), before) in is_start.iter_mut().zip(own).zip(before) {
                        *is_start = own.differs_from(*before);
                    }
                },
            );
            Ok(())
        })
    })?;
    Ok(is_start)
}

/// For each element of `self_` the number of its run: the elements that `is_start` is about are those of `self_` at `indices`.
fn inverse(is_start: &[bool], indices: Option<&Tensor>, self_: &Tensor) -> Result<Tensor> {
    let mut run = -1;
    let mut number = |is_start: &bool| {
        run += i64::from(*is_start);
        run
    };
    let Some(indices) = indices else {
        return Tensor::from_vec(fallible::collect(is_start.iter().map(number))?, self_.sizes());
    };
    let mut inverse = fallible::filled(0i64, self_.numel() as usize)?;
    for (index, is_start) in indices.to_vec::<i64>()?.iter().zip(is_start) {
        inverse[*index as usize] = number(is_start);
    }
    Tensor::from_vec(inverse, self_.sizes())
}

/// The distinct slices of a dimension in lexicographic order, for each slice the index of the distinct one that equals it, and how
/// often each distinct slice occurs.
pub fn unique_dim(
    self_: &Tensor,
    dim: i64,
    _sorted: bool,
    _return_inverse: bool,
    _return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    slices("unique_dim", self_, dim, true)
}

/// As [`unique_dim`], but only consecutive equal slices are merged, and their order is kept.
pub fn unique_dim_consecutive(
    self_: &Tensor,
    dim: i64,
    _return_inverse: bool,
    _return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    slices("unique_dim_consecutive", self_, dim, false)
}

/// Finds runs of equal slices, after sorting the slices if `sort`.
fn slices(name: &str, self_: &Tensor, dim: i64, sort: bool) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(!self_.device().is_meta(), NotImplemented(name), "a tensor on meta has no values");
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(name))?;
    let count = self_.sizes().get(d).copied().unwrap_or(1);
    let empty = self_.sizes().iter().filter(|size| **size == 0).count();
    ensure!(
        empty == 0 || (count == 0 && empty == 1),
        InvalidArgument(name, "self"),
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
    );
    let rows = dense(&if self_.dim() == 0 { self_.clone() } else { ops::movedim_int(self_, d as i64, 0)? })?;
    let (keys, nan) = keys(name, &rows)?;
    let width = keys.len() / count.max(1) as usize;
    let row = |index: i64| &keys[index as usize * width..(index as usize + 1) * width];
    let mut order = fallible::collect(0..count)?;
    if sort {
        // A stable sort would allocate, and abort when out of memory.
        order.sort_unstable_by(|a, b| row(*a).cmp(row(*b)).then(a.cmp(b)));
    }
    // NaN equals nothing, as in PyTorch.
    let is_new = |i: usize| {
        let own = row(order[i]);
        i == 0 || own != row(order[i - 1]) || nan.is_some_and(|nan| own.contains(&nan))
    };
    let is_start = fallible::collect((0..order.len()).map(is_new))?;
    let starts = true_indices(bytemuck::cast_slice(&is_start))?;
    let lengths = run_lengths(&starts, count)?;
    let firsts = fallible::collect(starts.iter().map(|start| order[*start as usize]))?;
    let of_vector = |vector: Vec<i64>| {
        let length = vector.len() as i64;
        Tensor::from_vec(vector, &[length])
    };
    let chosen = ops::index_select(&rows, 0, &of_vector(firsts)?)?;
    let chosen = if self_.dim() == 0 { chosen } else { ops::movedim_int(&chosen, 0, d as i64)? };
    let order = of_vector(order)?;
    let inverse = inverse(&is_start, Some(&order), &order)?;
    Ok((chosen, inverse, of_vector(lengths)?))
}

/// The sort keys of the elements of a dense tensor, and that of NaN.
fn keys(name: &str, dense: &Tensor) -> Result<(Vec<u64>, Option<u64>)> {
    dispatch_all_types!(distinct, dense.dtype(), name, T => {
        type N = <T as ElementBits>::Number;
        with_slices(name, &[dense], &[], |s| {
            let nan = N::HAS_NAN.then(|| N::of(Scalar::Float(f64::NAN)).sort_key());
            Ok((fallible::collect(s.read::<N>(0)?.iter().map(|value| value.sort_key()))?, nan))
        })
    })
}
