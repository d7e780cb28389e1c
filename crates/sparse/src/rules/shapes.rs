//! Dimensions in another order, inserted, removed and concatenated.

use super::copies::promoted;
use super::{rules, unsupported};
use crate::convert::{as_layout_of, coo_of};
use crate::dense::{add, long, zeros};
use crate::parts::{Compressed, Coo, is_sparse};
use flambeau_core::{DimVec, Layout, Result, Scalar, bail, ensure, shape};
use flambeau_ops::{Tensor, ops};

fn permute(tensor: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let count = tensor.dim();
    let dims: Vec<usize> = dims.iter().map(|dim| shape::wrap_dim(*dim, count)).collect::<Result<_>>()?;
    ensure!(
        (0..count).all(|d| dims.contains(&d)) && dims.len() == count,
        InvalidArgument("permute", "dims"),
        "expected each of {count} dimensions once but got {dims:?}"
    );
    if dims.is_sorted() {
        return ops::alias(tensor);
    }
    if tensor.layout().is_sparse_compressed() {
        return permute_compressed(tensor, &dims);
    }
    let coo = Coo::of(tensor)?;
    let sparse_dim = coo.sparse_dim();
    if dims[..sparse_dim].iter().any(|d| *d >= sparse_dim) {
        return unsupported("permute", tensor, "sparse and dense dimensions cannot be exchanged");
    }
    let order: Vec<i64> = dims[..sparse_dim].iter().map(|d| *d as i64).collect();
    let indices = ops::index_select(&coo.indices, 0, &long(&order, coo.indices.device())?)?;
    let dense = std::iter::once(0).chain(dims[sparse_dim..].iter().map(|d| (*d - sparse_dim) as i64 + 1));
    let values = ops::permute(&coo.values, &dense.collect::<Vec<_>>())?;
    let sizes: DimVec = dims.iter().map(|d| coo.sizes[*d]).collect();
    let is_coalesced = coo.is_coalesced && order.is_sorted();
    let made = Coo { indices, values, sizes, is_coalesced };
    if coo.is_coalesced { made.coalesced()?.into_tensor() } else { made.into_tensor() }
}

/// Rows and columns exchanged: the same parts in the other layout.
fn permute_compressed(tensor: &Tensor, dims: &[usize]) -> Result<Tensor> {
    let of = Compressed::of(tensor)?;
    let batch = of.batch_dim();
    let mut exchanged: Vec<usize> = (0..dims.len()).collect();
    exchanged.swap(batch, batch + 1);
    if dims != exchanged {
        return unsupported("permute", tensor, "only rows and columns can be exchanged");
    }
    let layout = match of.layout {
        Layout::SparseCsr => Layout::SparseCsc,
        Layout::SparseCsc => Layout::SparseCsr,
        Layout::SparseBsr => Layout::SparseBsc,
        _ => Layout::SparseBsr,
    };
    let blocks = batch as i64 + 1;
    let values =
        if of.layout.is_blocked() { ops::transpose_int(&of.values, blocks, blocks + 1)? } else { of.values };
    let mut sizes = of.sizes;
    sizes.swap(batch, batch + 1);
    Compressed { layout, compressed: of.compressed, plain: of.plain, values, sizes }.into_tensor()
}

fn transpose(tensor: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    let count = tensor.dim();
    let (a, b) = (shape::wrap_dim(dim0, count)?, shape::wrap_dim(dim1, count)?);
    let mut dims: Vec<i64> = (0..count as i64).collect();
    if count > 0 {
        dims.swap(a, b);
    }
    permute(tensor, &dims)
}

/// A dimension of size 1 inserted: a sparse one, unless it is after a dense one.
fn unsqueeze(tensor: &Tensor, dim: i64) -> Result<Tensor> {
    let dim = shape::wrap_dim(dim, tensor.dim() + 1)?;
    let coo = coo_of(tensor)?;
    let mut sizes = coo.sizes.clone();
    sizes.insert(dim, 1);
    let sparse_dim = coo.sparse_dim();
    if dim > sparse_dim {
        let values = ops::unsqueeze(&coo.values, (dim - sparse_dim) as i64 + 1)?;
        return Coo { values, sizes, ..coo }.into_tensor();
    }
    let (at, count) = (dim as i64, sparse_dim as i64);
    let row = ops::zeros(&[1, coo.nnz()], Some(coo.indices.dtype()), None, Some(coo.indices.device()), None)?;
    let parts =
        [crate::dense::slice(&coo.indices, 0, 0, at)?, row, crate::dense::slice(&coo.indices, 0, at, count)?];
    Coo { indices: ops::cat(&parts, 0)?, sizes, ..coo }.into_tensor()
}

/// A dimension removed if its size is 1.
fn squeeze(tensor: &Tensor, dim: i64) -> Result<Tensor> {
    let at = shape::wrap_dim(dim, tensor.dim())?;
    if tensor.sizes().get(at) == Some(&1) { ops::select_int(tensor, dim, 0) } else { ops::alias(tensor) }
}

fn squeeze_all(tensor: &Tensor) -> Result<Tensor> {
    (0..tensor.dim() as i64).rev().try_fold(tensor.clone(), |tensor, dim| match is_sparse(&tensor) {
        true => squeeze(&tensor, dim),
        false => ops::squeeze_dim(&tensor, dim),
    })
}

/// Sparse tensors one after the other along a dimension.
fn cat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.iter().find(|tensor| is_sparse(tensor)) else {
        return ops::cat(tensors, dim);
    };
    ensure!(
        tensors.iter().all(is_sparse),
        InvalidArgument("cat", "tensors"),
        "expected sparse tensors only, since one of them is; call `to_dense()` or `to_sparse()` first"
    );
    let dim = shape::wrap_dim(dim, first.dim())?;
    let sparse_dim = coo_of(first)?.sparse_dim();
    let mut sizes = DimVec::from_slice(first.sizes());
    sizes[dim] = total_size(tensors, dim)?;
    let (mut indices, mut values, mut start) = (Vec::new(), Vec::new(), 0);
    for tensor in tensors {
        let (tensor, _) = promoted(tensor, first)?;
        let coo = coo_of(&tensor)?;
        let fits = coo.sizes.len() == sizes.len()
            && coo.sparse_dim() == sparse_dim
            && (0..sizes.len()).all(|d| d == dim || coo.sizes[d] == sizes[d]);
        ensure!(
            fits,
            Shape("cat", "tensors"),
            "expected tensors with the same sizes but for dimension {dim}, and {sparse_dim} sparse dimensions, but got {:?} and {:?}",
            first.sizes(),
            coo.sizes
        );
        let size = coo.sizes[dim];
        match dim.checked_sub(sparse_dim) {
            None => {
                let mut offsets = vec![0; sparse_dim];
                offsets[dim] = start;
                let offsets = ops::unsqueeze(&long(&offsets, coo.indices.device())?, 1)?;
                indices.push(add(&coo.indices, &offsets)?);
                values.push(coo.values);
            }
            Some(d) => {
                indices.push(coo.indices);
                values.push(padded(&coo.values, d + 1, [start, sizes[dim] - start - size])?);
            }
        }
        start += size;
    }
    let made =
        Coo { indices: ops::cat(&indices, 1)?, values: ops::cat(&values, 0)?, sizes, is_coalesced: false };
    as_layout_of(&made.coalesced()?, first)
}

/// The sum of the sizes in a dimension.
fn total_size(tensors: &[Tensor], dim: usize) -> Result<i64> {
    let sizes = tensors.iter().map(|tensor| tensor.sizes().get(dim).copied().unwrap_or(0));
    match sizes.clone().try_fold(0i64, i64::checked_add) {
        Some(total) => Ok(total),
        None => bail!(
            Overflow("cat", "tensors"),
            "expected sizes in dimension {dim} whose sum is below 2^63 but got {:?}",
            sizes.collect::<Vec<_>>()
        ),
    }
}

/// Values with zeros before and after them along a dimension.
fn padded(values: &Tensor, dim: usize, [before, after]: [i64; 2]) -> Result<Tensor> {
    let filler = |count: i64| {
        let mut sizes = values.sizes().to_vec();
        sizes[dim] = count;
        zeros(&sizes, values)
    };
    ops::cat(&[filler(before)?, values.clone(), filler(after)?], dim as i64)
}

/// Sparse tensors along a new dimension.
fn stack(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let parts: Vec<Tensor> =
        tensors.iter().map(|tensor| ops::unsqueeze(tensor, dim)).collect::<Result<_>>()?;
    cat(&parts, dim)
}

/// The sum of the diagonal of a matrix.
fn trace(tensor: &Tensor) -> Result<Tensor> {
    ops::sum(&ops::diagonal(tensor, 0, 0, 1)?, None)
}

/// Whether all elements are close: the same as that of strided tensors, at the joined coordinates.
fn allclose(a: &Tensor, b: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
    ensure!(
        is_sparse(a) && is_sparse(b),
        InvalidArgument("allclose"),
        "expected two sparse tensors but got layouts {} and {}",
        a.layout(),
        b.layout()
    );
    let pattern = |tensor: &Tensor| {
        let coo = coo_of(tensor)?;
        let ones = ops::ones_like(&coo.values, None, None, None, None, None)?;
        coo.with_values(ones).into_tensor()
    };
    let all = coo_of(&ops::add_tensor(&pattern(a)?, &pattern(b)?, Scalar::Int(1))?)?.coalesced()?;
    let at = |tensor: &Tensor| crate::convert::gathered(tensor, &all).map(|coo| coo.values);
    ops::allclose(&at(a)?, &at(b)?, rtol, atol, equal_nan)
}

rules! {
    PERMUTE => |_, tensor, dims| permute(tensor, dims);
    TRANSPOSE_INT => |_, tensor, dim0, dim1| transpose(tensor, dim0, dim1);
    UNSQUEEZE => |_, tensor, dim| unsqueeze(tensor, dim);
    SQUEEZE_DIM => |_, tensor, dim| squeeze(tensor, dim);
    SQUEEZE => |_, tensor| squeeze_all(tensor);
    CAT => |_, tensors, dim| cat(tensors, dim);
    STACK => |_, tensors, dim| stack(tensors, dim);
    TRACE => |_, tensor| trace(tensor);
    ALLCLOSE => |_, a, b, rtol, atol, equal_nan| allclose(a, b, rtol, atol, equal_nan);
}
