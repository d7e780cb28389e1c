//! Slices, selected rows and single indices. The work is that of the elements that are selected, and a search among the others.

use super::{rules, unsupported};
use crate::convert::{as_layout_of, coo_of, with_index_type};
use crate::dense::{ONE, add, arange, as_long, floor_divided, positions, reshape, rows, slice, zeros};
use crate::parts::{Compressed, Coo};
use flambeau_core::{DimVec, Layout, Result, Scalar, ScalarType, ensure, shape};
use flambeau_ops::{Tensor, ops};

/// Which elements runs of positions consist of: `counts[i]` positions from `starts[i]` on, and for each of them `i`.
fn runs(starts: &Tensor, counts: &Tensor) -> Result<(Tensor, Tensor)> {
    let number = ops::repeat_interleave_tensor(counts, None)?;
    let ends = ops::cumsum(counts, 0, None)?;
    let before = ops::sub_tensor(&ends, counts, ONE)?;
    let within = ops::sub_tensor(&arange(number.numel(), number.device())?, &rows(&before, &number)?, ONE)?;
    Ok((add(&rows(starts, &number)?, &within)?, number))
}

/// Indices of one dimension, counted from the front.
fn wrapped(name: &str, index: &Tensor, size: i64) -> Result<Tensor> {
    ensure!(
        index.dim() <= 1 && matches!(index.dtype(), ScalarType::I32 | ScalarType::I64),
        Index(name, "index"),
        "expected indices of one dimension, int32 or int64, but got {}",
        index.signature()
    );
    let mut index = reshape(&as_long(index)?, &[-1])?;
    if index.numel() > 0 && ops::amin(&index, &[], false)?.item::<i64>()? < 0 {
        let negative = ops::lt_scalar(&index, Scalar::Int(0))?;
        index = add(&index, &crate::dense::scaled(&as_long(&negative)?, size.into())?)?;
    }
    Ok(index)
}

/// The slices along `dim` at these indices.
pub(crate) fn index_select(tensor: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    const NAME: &str = "index_select";
    let dim = shape::wrap_dim(dim, tensor.dim())?;
    let index = wrapped(NAME, index, tensor.sizes()[dim])?;
    if tensor.layout() == Layout::SparseCsr && tensor.dim() == 2 && dim == 0 {
        return compressed_rows(Compressed::of(tensor)?, &index);
    }
    crate::parts::check_coordinates("index", &ops::unsqueeze(&index, 0)?, &[tensor.sizes()[dim]])?;
    let coo = coo_of(tensor)?;
    let Some(d) = dim.checked_sub(coo.sparse_dim()) else {
        return as_layout_of(&selected(&coo, dim, &index)?, tensor);
    };
    let values = ops::index_select(&coo.values, d as i64 + 1, &index)?;
    as_layout_of(&coo.with_values(values), tensor)
}

fn selected(coo: &Coo, dim: usize, index: &Tensor) -> Result<Coo> {
    let own = coo.row(dim)?;
    // Coordinates of a coalesced tensor are in the order of their first index.
    let is_sorted = coo.is_coalesced && dim == 0;
    let (order, sorted) = match is_sorted {
        true => (None, own),
        false => {
            let (order, ..) = ops::_coo_order(&ops::unsqueeze(&own, 0)?, &[coo.sizes[dim]])?;
            (Some(order.clone()), rows(&own, &order)?)
        }
    };
    let found = |right: bool| ops::searchsorted_tensor(&sorted, index, false, right, None, None);
    let (starts, ends) = (found(false)?, found(true)?);
    let (at, number) = runs(&starts, &ops::sub_tensor(&ends, &starts, ONE)?)?;
    let mut made = coo.at(&order.map_or_else(|| Ok(at.clone()), |order| rows(&order, &at))?)?;
    made.indices = with_row(&made.indices, dim, &number)?;
    made.sizes[dim] = index.numel();
    made.is_coalesced = is_sorted;
    made.coalesced()
}

/// Coordinates with other indices in one dimension.
fn with_row(indices: &Tensor, dim: usize, row: &Tensor) -> Result<Tensor> {
    let (dim, count) = (dim as i64, indices.sizes()[0]);
    let parts = [slice(indices, 0, 0, dim)?, ops::unsqueeze(row, 0)?, slice(indices, 0, dim + 1, count)?];
    ops::cat(&parts, 0)
}

/// Rows of a matrix of layout `SparseCsr`.
fn compressed_rows(mut of: Compressed, index: &Tensor) -> Result<Tensor> {
    let dtype = of.compressed.dtype();
    of.sizes[0] = index.numel();
    (of.compressed, of.plain, of.values) = ops::_csr_select(&of.compressed, &of.plain, &of.values, index)?;
    with_index_type(of.into_tensor()?, dtype)
}

/// Every `step`-th index of a dimension from `start` to below `end`.
fn slice_rule(tensor: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
    let dim = shape::wrap_dim(dim, tensor.dim())?;
    ensure!(step > 0, InvalidArgument("slice", "step"), "slice step must be positive");
    let size = tensor.sizes()[dim];
    let bound = |index: i64| if index < 0 { (index + size).max(0) } else { index.min(size) };
    let start = bound(start.unwrap_or(0));
    let end = bound(end.unwrap_or(size)).max(start);
    if (start, end, step) == (0, size, 1) {
        return ops::alias(tensor);
    }
    let coo = coo_of(tensor)?;
    if let Some(d) = dim.checked_sub(coo.sparse_dim()) {
        let values = ops::slice_tensor(&coo.values, d as i64 + 1, Some(start), Some(end), step)?;
        return as_layout_of(&coo.with_values(values), tensor);
    }
    let row = ops::sub_scalar(&coo.row(dim)?, Scalar::Int(start), ONE)?;
    let is_inside = ops::logical_and(
        &ops::ge_scalar(&row, Scalar::Int(0))?,
        &ops::lt_scalar(&row, Scalar::Int(end - start))?,
    )?;
    let is_step = ops::eq_scalar(&crate::dense::remainder(&row, step)?, Scalar::Int(0))?;
    let at = positions(&ops::logical_and(&is_inside, &is_step)?)?;
    let mut made = coo.at(&at)?;
    made.indices = with_row(&made.indices, dim, &floor_divided(&rows(&row, &at)?, step)?)?;
    made.sizes[dim] = (end - start) / step + i64::from((end - start) % step != 0);
    as_layout_of(&made, tensor)
}

/// The slice at one index of a dimension. It is strided if no sparse dimension is left.
fn select(tensor: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let dim = shape::wrap_dim(dim, tensor.dim())?;
    let size = tensor.sizes()[dim];
    ensure!(
        (-size..size).contains(&index),
        Index("select", "index"),
        "index {index} is out of bounds for dimension {dim} with size {size}"
    );
    let index = if index < 0 { index + size } else { index };
    let coo = coo_of(tensor)?;
    if let Some(d) = dim.checked_sub(coo.sparse_dim()) {
        let values = ops::select_int(&coo.values, d as i64 + 1, index)?;
        return as_layout_of(&coo.with_values(values), tensor);
    }
    let at = positions(&ops::eq_scalar(&coo.row(dim)?, Scalar::Int(index))?)?;
    let made = coo.at(&at)?;
    if coo.sparse_dim() == 1 {
        return ops::sum_dim_intlist(&made.values, Some(&[0]), false, Some(made.values.dtype()));
    }
    let (last, count) = (dim as i64, coo.sparse_dim() as i64);
    let indices =
        ops::cat(&[slice(&made.indices, 0, 0, last)?, slice(&made.indices, 0, last + 1, count)?], 0)?;
    let mut sizes: DimVec = made.sizes.clone();
    sizes.remove(dim);
    let made = Coo { indices, sizes, ..made };
    if made.sparse_dim() < 2 {
        return made.into_tensor();
    }
    as_layout_of(&made, tensor)
}

/// `tensor[index]`: one list of indices or mask, in any dimension.
fn index(tensor: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let given: Vec<(usize, &Tensor)> =
        indices.iter().enumerate().filter_map(|(d, index)| index.as_ref().map(|index| (d, index))).collect();
    match given[..] {
        [] => ops::alias(tensor),
        [(dim, index)] if index.dim() == 1 => {
            let is_mask = matches!(index.dtype(), ScalarType::Bool | ScalarType::U8);
            if is_mask {
                ensure!(
                    index.sizes() == [tensor.size(dim as i64)?],
                    Index("index", "indices"),
                    "expected a mask of {} elements but got {:?}",
                    tensor.sizes()[dim],
                    index.sizes()
                );
                return index_select(tensor, dim as i64, &positions(index)?);
            }
            index_select(tensor, dim as i64, index)
        }
        _ => unsupported("index", tensor, "indices of several dimensions are not implemented"),
    }
}

/// An index of a strided tensor by a sparse one is refused, as is one that would write.
fn gather_rows(tensor: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    match tensor.layout().is_sparse() {
        true => index_select(tensor, dim, index),
        false => unsupported("index_select", index, "indices must be strided"),
    }
}

/// All slices along a dimension.
fn unbind(tensor: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    (0..tensor.size(dim)?).map(|index| select(tensor, dim, index)).collect()
}

/// The elements on a diagonal of a sparse matrix, strided, with zeros where there are none.
fn diagonal(tensor: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let dims = (shape::wrap_dim(dim1, tensor.dim())?, shape::wrap_dim(dim2, tensor.dim())?);
    let coo = coo_of(tensor)?.coalesced()?;
    if tensor.dim() != 2 || coo.sparse_dim() != 2 || dims != (0, 1) {
        return unsupported("diagonal", tensor, "it is implemented for matrices");
    }
    let (row, column) = (coo.row(0)?, coo.row(1)?);
    let distance = ops::sub_tensor(&column, &row, ONE)?;
    let at = positions(&ops::eq_scalar(&distance, Scalar::Int(offset))?)?;
    let count = (tensor.sizes()[0] + offset.min(0)).min(tensor.sizes()[1] - offset.max(0)).max(0);
    let index = rows(if offset >= 0 { &row } else { &column }, &at)?;
    ops::index_put(&zeros(&[count], &coo.values)?, &[Some(index)], &rows(&coo.values, &at)?, false)
}

rules! {
    INDEX_SELECT => |_, tensor, dim, index| gather_rows(tensor, dim, index);
    SLICE_TENSOR => |_, tensor, dim, start, end, step| slice_rule(tensor, dim, start, end, step);
    SELECT_INT => |_, tensor, dim, at| select(tensor, dim, at);
    INDEX_TENSOR => |_, tensor, indices| match tensor.layout().is_sparse() {
        true => index(tensor, indices),
        false => unsupported("index", tensor, "indices must be strided"),
    };
    UNBIND_INT => |_, tensor, dim| unbind(tensor, dim);
    DIAGONAL => |_, tensor, offset, dim1, dim2| diagonal(tensor, offset, dim1, dim2);
}
