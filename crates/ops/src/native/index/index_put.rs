//! `index` and `index_put`, which index several dimensions by a tensor each, as `x[i, :, mask]` does; `take` and `put`.

use crate::native::element_bits::{ElementBits, RawBits};
use crate::native::factory::copy;
use crate::native::guarded_slices::{Slices, fill, with_slices};
use crate::native::index::dim_index::{Combine, DimIndex, ensure_written_once, upcast_if, with_upcast};
use crate::native::index::index_select::wrapped;
use crate::native::index::nonzero;
use crate::native::index::row_major::RowMajor;
use crate::native::shape::view;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{DimVec, MemoryFormat, Result, ScalarType, bail, ensure, error, fallible, shape};
use std::sync::atomic::{AtomicBool, Ordering};

/// The sizes of an indexing result, and the offsets of its elements in the indexed tensor.
struct Plan {
    /// The sizes of the result.
    sizes: DimVec,
    /// The strides over the result of the indexed tensor, 0 along the dimensions of the indices.
    strides: DimVec,
    /// For each element of the broadcast indices the offset that they contribute; dense. `None` on a device without values.
    offsets: Option<Tensor>,
    /// The strides of `offsets` over the result.
    offset_strides: DimVec,
    /// An upper bound of the offsets.
    end: i64,
}

/// One index per dimension that is indexed: masks become the indices of their true elements.
fn expand_masks(name: &str, self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let mut expanded: Vec<Option<Tensor>> = Vec::new();
    for index in indices {
        let Some(index) = index else {
            expanded.push(None);
            continue;
        };
        ensure!(
            index.device() == self_.device() || index.device().is_cpu(),
            Device(name, "indices"),
            "indices should be either on cpu or on the same device as the indexed tensor ({}) but one is on {}",
            self_.device(),
            index.device()
        );
        match index.dtype() {
            ScalarType::I64 => expanded.push(Some(index.clone())),
            ScalarType::I32 => {
                let long = copy::to_copy(index, Some(ScalarType::I64), None, None, None, false, None)?;
                expanded.push(Some(long));
            }
            ScalarType::Bool | ScalarType::U8 => {
                check_mask(name, self_, index, expanded.len())?;
                let coordinates = nonzero::nonzero(index)?;
                for d in 0..index.dim() as i64 {
                    expanded.push(Some(view::select(&coordinates, 1, d)?));
                }
            }
            other => bail!(
                Index(name, "indices"),
                "tensors used as indices must be long, int, byte or bool tensors but got {other}"
            ),
        }
    }
    ensure!(
        expanded.len() <= self_.dim(),
        Index(name, "indices"),
        "too many indices for tensor of dimension {} (got {})",
        self_.dim(),
        expanded.len()
    );
    expanded.resize(self_.dim(), None);
    Ok(expanded)
}

fn check_mask(name: &str, self_: &Tensor, mask: &Tensor, first: usize) -> Result<()> {
    for (d, &size) in mask.sizes().iter().enumerate() {
        let expected = self_.sizes().get(first + d).copied();
        ensure!(
            expected == Some(size),
            Index(name, "indices"),
            "The shape of the mask {:?} at index {d} does not match the shape of the indexed tensor {:?} at index {}",
            mask.sizes(),
            self_.sizes(),
            first + d
        );
    }
    Ok(())
}

impl Plan {
    fn new(name: &str, self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Self> {
        let indices = expand_masks(name, self_, indices)?;
        let indexed: Vec<(usize, &Tensor)> =
            indices.iter().enumerate().filter_map(|(d, index)| Some((d, index.as_ref()?))).collect();
        let mut common = DimVec::new();
        for (_, index) in &indexed {
            common = shape::broadcast(&common, index.sizes()).map_err(|_| {
                let shapes: Vec<&[i64]> = indexed.iter().map(|(_, i)| i.sizes()).collect();
                error!(
                    Index(name, "indices"),
                    "shape mismatch: indexing tensors could not be broadcast together with shapes {shapes:?}"
                )
            })?;
        }
        // As in NumPy: if the indexed dimensions are adjacent, those of the indices replace them, otherwise they come first.
        let dims: Vec<usize> = indexed.iter().map(|(d, _)| *d).collect();
        let adjacent = dims.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let at = if adjacent { dims.first().copied().unwrap_or(0) } else { 0 };
        let g = self_.geometry();
        let others = (0..g.dim()).filter(|d| !dims.contains(d));
        let (mut sizes, mut strides): (DimVec, DimVec) =
            others.map(|d| (g.sizes()[d], g.strides()[d])).unzip();
        let mut offset_strides = DimVec::from_elem(0, sizes.len());
        sizes.insert_from_slice(at, &common);
        strides.insert_from_slice(at, &DimVec::from_elem(0, common.len()));
        offset_strides.insert_from_slice(at, &shape::contiguous_strides(&common));
        let offsets = offsets(name, self_, &indexed, &common)?;
        // The maximum is that of the last index of each indexed dimension.
        let last = |&d: &usize| (g.sizes()[d] - 1).max(0) * g.strides()[d];
        let end = dims.iter().map(last).sum::<i64>() + 1;
        Ok(Plan { sizes, strides, offsets, offset_strides, end })
    }

    /// The offsets as indices of one dimension of stride 1.
    fn dim_index<'a>(&'a self, name: &'a str) -> DimIndex<'a> {
        DimIndex {
            name,
            sizes: &self.sizes,
            strides: &self.strides,
            index_strides: &self.offset_strides,
            dim: 0,
            size: self.end,
            stride: 1,
        }
    }
}

/// The sum over the indexed dimensions of index times stride; `None` on a device without values.
fn offsets(
    name: &str,
    self_: &Tensor,
    indexed: &[(usize, &Tensor)],
    common: &[i64],
) -> Result<Option<Tensor>> {
    if self_.device().is_meta() || indexed.iter().any(|(_, index)| index.device().is_meta()) {
        return Ok(None);
    }
    let mut sums = fallible::filled(0i64, shape::numel(common)? as usize).map_err(|e| e.in_operator(name))?;
    for &(d, index) in indexed {
        let (size, stride) = (self_.sizes()[d], self_.strides()[d]);
        ensure!(
            size > 0 || sums.is_empty(),
            Index(name, "indices"),
            "index is out of bounds for dimension {d} with size 0"
        );
        let checked = wrapped(name, index, d, size)?;
        let values = view::expand(&checked, common, false)?.to_vec::<i64>()?;
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * stride);
    }
    Ok(Some(Tensor::from_vec(sums, common)?))
}

/// The elements of `self_` at `indices`.
pub fn index(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let plan = Plan::new("index", self_, indices)?;
    let made = TensorSpec::like(self_, &plan.sizes).allocate("index")?;
    if let Some(offsets) = plan.offsets.as_ref().filter(|_| made.numel() > 0) {
        plan.dim_index("index").gather(self_, offsets, &made, true)?;
    }
    Ok(made)
}

/// Writes `values`, broadcast, to the elements of `self_` at `indices`, or adds them, in row-major order.
pub fn index_put_(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<()> {
    const NAME: &str = "index_put_";
    ensure!(
        self_.dtype() == values.dtype(),
        Dtype(NAME, "values"),
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the \
         source.",
        self_.dtype(),
        values.dtype()
    );
    ensure_written_once(NAME, self_)?;
    let how = if accumulate { Combine::Add } else { Combine::Assign };
    let upcast = how.needs_upcast(self_.dtype());
    let values = upcast_if(values, upcast)?;
    if upcast && put_values(self_, indices, &values, how, true)? {
        return Ok(());
    }
    with_upcast(self_, how, |target, _| put_values(target, indices, &values, how, false).map(|_| ()))
}

/// Combines `values` with the elements of `target` at `indices`; with `few` only if [`DimIndex::scatter_few`] does, else returns `false`.
fn put_values(
    target: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    how: Combine,
    few: bool,
) -> Result<bool> {
    const NAME: &str = "index_put_";
    let plan = Plan::new(NAME, target, indices)?;
    let Ok(value_strides) = shape::expand_strides(values.sizes(), values.strides(), &plan.sizes) else {
        bail!(
            Shape(NAME, "values"),
            "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {:?}",
            values.sizes(),
            plan.sizes
        );
    };
    let Some(offsets) = plan.offsets.as_ref().filter(|_| !plan.sizes.contains(&0)) else { return Ok(!few) };
    let (dim_index, source) = (plan.dim_index(NAME), (values, &value_strides[..]));
    if few {
        return dim_index.scatter_few(target, offsets, source, how);
    }
    // The indices were checked when the offsets were computed.
    dim_index.scatter(target, offsets, source, how, true)?;
    Ok(true)
}

/// As [`index_put_`], into a copy.
pub fn index_put(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    let made = copy::clone(self_, Some(MemoryFormat::Preserve))?;
    index_put_(&made, indices, values, accumulate)?;
    Ok(made)
}

/// The elements of `self_` at `index`, which counts elements in row-major order; negative indices count from the end.
pub fn take(self_: &Tensor, index: &Tensor) -> Result<Tensor> {
    ensure!(
        index.dtype() == ScalarType::I64,
        Dtype("take", "index"),
        "Expected a long tensor for index, but got {}",
        index.dtype()
    );
    ensure!(
        self_.numel() != 0 || index.numel() == 0,
        Index("take", "self"),
        "tried to take from an empty tensor"
    );
    let made = TensorSpec::like(self_, index.sizes()).allocate("take")?;
    if made.numel() == 0 || self_.device().is_meta() || index.device().is_meta() {
        return Ok(made);
    }
    let index = if index.is_contiguous() {
        index.clone()
    } else {
        copy::clone(index, Some(MemoryFormat::Contiguous))?
    };
    let order = RowMajor::new(self_.sizes(), self_.strides());
    let are_valid = dispatch_all_types!(moved, self_.dtype(), "take", T => {
        with_slices("take", &[self_, &index], &[&made], |s| {
            take_elements::<<T as ElementBits>::Bits>(s, &order)
        })
    })?;
    if !are_valid {
        wrapped("take", &index, 0, self_.numel())?;
        bail!(Index("take", "index"), "an index was out of bounds while elements were read");
    }
    Ok(made)
}

/// Copies the elements at the indices, which are dense; false if one of these is out of bounds.
fn take_elements<B: RawBits>(s: &Slices<'_>, order: &RowMajor) -> Result<bool> {
    let (from, index, out) = (s.read::<B>(0)?, s.read::<i64>(1)?, s.write::<B>(0)?);
    let (numel, outside) = (order.numel(), AtomicBool::new(false));
    fill(out, 1, |range, part| {
        let mut any = false;
        for (to, &i) in part.iter_mut().zip(&index[range]) {
            let number = i + if i < 0 { numel } else { 0 };
            // As an unsigned integer a number that is still negative is out of bounds, too.
            let is_outside = number as u64 >= numel as u64;
            any |= is_outside;
            let number = if is_outside { 0 } else { number };
            *to = from[order.offset(number) as usize].normalized();
        }
        if any {
            outside.store(true, Ordering::Relaxed);
        }
    });
    Ok(!outside.into_inner())
}

/// The offsets of the elements of `self_` at `index`, which counts elements in row-major order.
fn flat_offsets(name: &str, self_: &Tensor, index: &Tensor) -> Result<Option<Tensor>> {
    if self_.device().is_meta() || index.device().is_meta() {
        return Ok(None);
    }
    let checked = wrapped(name, index, 0, self_.numel())?;
    if self_.is_contiguous() {
        return Ok(Some(checked));
    }
    let order = RowMajor::new(self_.sizes(), self_.strides());
    let mut offsets = checked.to_vec::<i64>()?;
    offsets.iter_mut().for_each(|offset| *offset = order.offset(*offset));
    Ok(Some(Tensor::from_vec(offsets, index.sizes())?))
}

/// The [`DimIndex`] for [`flat_offsets`], which are dense over the sizes of `index`.
fn flat_index<'a>(
    name: &'a str,
    self_: &Tensor,
    index: &'a Tensor,
    zeros: &'a [i64],
) -> Result<FlatIndex<'a>> {
    let end = shape::extent(self_.sizes(), self_.strides())?.map_or(0, |last| last + 1);
    Ok(FlatIndex { name, sizes: index.sizes(), zeros, dense: shape::contiguous_strides(index.sizes()), end })
}

/// Owns the strides of a [`DimIndex`] whose indices are offsets from the first element.
struct FlatIndex<'a> {
    name: &'a str,
    sizes: &'a [i64],
    zeros: &'a [i64],
    dense: DimVec,
    end: i64,
}

impl FlatIndex<'_> {
    fn dim_index(&self) -> DimIndex<'_> {
        DimIndex {
            name: self.name,
            sizes: self.sizes,
            strides: self.zeros,
            index_strides: &self.dense,
            dim: 0,
            size: self.end,
            stride: 1,
        }
    }
}

/// Writes the elements of `source` to those of `self_` at `index`, which counts elements in row-major order, or adds them.
pub fn put_(self_: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<()> {
    const NAME: &str = "put_";
    ensure!(
        index.dtype() == ScalarType::I64,
        Dtype(NAME, "index"),
        "Expected a long tensor for index, but got {}",
        index.dtype()
    );
    ensure!(
        source.dtype() == self_.dtype(),
        Dtype(NAME, "source"),
        "self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
        self_.dtype(),
        source.dtype()
    );
    ensure!(
        source.numel() == index.numel(),
        Shape(NAME, "source"),
        "Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() \
         = {}",
        source.numel(),
        index.numel()
    );
    ensure_written_once(NAME, self_)?;
    ensure!(
        self_.numel() != 0 || index.numel() == 0,
        Index(NAME, "self"),
        "tried to put elements into an empty tensor"
    );
    let how = if accumulate { Combine::Add } else { Combine::Assign };
    let upcast = how.needs_upcast(self_.dtype());
    let dense = copy::clone(&upcast_if(source, upcast)?, Some(MemoryFormat::Contiguous))?;
    let offsets = |target: &Tensor| -> Result<Option<Tensor>> {
        Ok(flat_offsets(NAME, target, index)?.filter(|o| o.numel() > 0))
    };
    let zeros = DimVec::from_elem(0, index.dim());
    if upcast && let Some(offsets) = offsets(self_)? {
        let flat = flat_index(NAME, self_, index, &zeros)?;
        if flat.dim_index().scatter_few(self_, &offsets, (&dense, &flat.dense), how)? {
            return Ok(());
        }
    }
    with_upcast(self_, how, |target, _| {
        let Some(offsets) = offsets(target)? else { return Ok(()) };
        let flat = flat_index(NAME, target, index, &zeros)?;
        flat.dim_index().scatter(target, &offsets, (&dense, &flat.dense), how, true)
    })
}

/// As [`put_`], into a copy.
pub fn put(self_: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    let made = copy::clone(self_, Some(MemoryFormat::Preserve))?;
    put_(&made, index, source, accumulate)?;
    Ok(made)
}
