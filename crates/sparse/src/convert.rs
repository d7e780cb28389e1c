//! Conversions between layouts. Values are selected and summed by differentiable operators, so that gradients follow.

use crate::dense::{
    add, arange, as_long, cast, floor_divided, joined, long, product, raveled, remainder, reshape, rows,
    scaled, slice, unraveled, zeros,
};
use crate::parts::{Compressed, Coo, check_coordinates, is_sparse};
use flambeau_core::{DimVec, Layout, Result, Scalar, ScalarType, bail, ensure};
use flambeau_ops::{Tensor, ops};

/// The coordinates of a tensor of any sparse layout.
pub(crate) fn coo_of(tensor: &Tensor) -> Result<Coo> {
    match tensor.layout() {
        Layout::SparseCoo => Coo::of(tensor),
        layout if layout.is_sparse_compressed() => coordinates(&Compressed::of(tensor)?),
        layout => bail!(InvalidArgument, "expected a sparse tensor but got one of layout {layout}"),
    }
}

/// The same result in the layout of `like`, of compressed ones where the tensor has as many batch dimensions.
pub(crate) fn as_layout_of(coo: &Coo, like: &Tensor) -> Result<Tensor> {
    let layout = like.layout();
    if !layout.is_sparse_compressed() || coo.sparse_dim() < 2 {
        return coo.clone().into_tensor();
    }
    let like = Compressed::of(like)?;
    let made = compress(coo, layout, layout.is_blocked().then(|| like.block_sizes()))?;
    with_index_type(made, like.compressed.dtype())
}

/// The same compressed tensor with indices of a type, unless that is int32 and some may not fit.
pub(crate) fn with_index_type(tensor: Tensor, dtype: ScalarType) -> Result<Tensor> {
    let mut of = Compressed::of(&tensor)?;
    let largest = of.sizes.iter().copied().fold(of.nnz(), i64::max);
    if of.compressed.dtype() == dtype || dtype == ScalarType::I32 && largest > i64::from(i32::MAX) {
        return Ok(tensor);
    }
    (of.compressed, of.plain) = (cast(&of.compressed, dtype)?, cast(&of.plain, dtype)?);
    of.into_tensor()
}

/// Pointers for all batch elements, one after the other.
fn joined_pointers(of: &Compressed, batches: i64, rows_each: i64) -> Result<Tensor> {
    let compressed = as_long(&of.compressed)?;
    if of.batch_dim() == 0 {
        return Ok(compressed);
    }
    let (nnz, device) = (of.nnz(), compressed.device());
    let each = slice(&reshape(&compressed, &[batches, rows_each + 1])?, 1, 0, rows_each)?;
    let first = reshape(&scaled(&arange(batches, device)?, nnz.into())?, &[-1, 1])?;
    ops::cat(&[reshape(&add(&each, &first)?, &[-1])?, long(&[batches * nnz], device)?], 0)
}

/// The coordinates of compressed rows or columns.
fn coordinates(of: &Compressed) -> Result<Coo> {
    let batches = product(of.batch_sizes())?;
    let rows_each = of.compressed.sizes()[of.batch_dim()] - 1;
    let pointers = joined_pointers(of, batches, rows_each)?;
    let plain = reshape(&as_long(&of.plain)?, &[-1])?;
    let pair = ops::_convert_indices_from_csr_to_coo(&pointers, &plain, false, false)?;
    let major = ops::select_int(&pair, 0, 0)?;
    let batch = unraveled(&floor_divided(&major, rows_each)?, of.batch_sizes())?;
    let major = remainder(&major, rows_each)?;
    let by_rows = of.layout.has_compressed_rows();
    let (row, column) = if by_rows { (major, plain) } else { (plain, major) };
    let dense = of.dense_sizes();
    let indices = match of.layout.is_blocked() {
        true => {
            // Before they are multiplied by the sizes of blocks, which may wrap around to an index in bounds.
            let (block, batch_dim) = (of.block_sizes(), of.batch_dim());
            let counts = [0, 1].map(|d| of.sizes[batch_dim + d] / block[d].max(1));
            check_coordinates("indices", &ops::stack(&[&row, &column].map(Tensor::clone), 0)?, &counts)?;
            block_coordinates(&batch, [&row, &column], block)?
        }
        false => ops::cat(&[batch, ops::stack(&[row, column], 0)?], 0)?,
    };
    let values = reshape(&of.values, &joined(&[&[indices.sizes()[1]], dense]))?;
    // Columns ascend in each row. What is not coalesced is checked when it is.
    let is_coalesced = by_rows && !of.layout.is_blocked();
    if is_coalesced {
        check_coordinates("indices", &indices, &of.sizes[..of.batch_dim() + 2])?;
    }
    Ok(Coo { indices, values, sizes: of.sizes.clone(), is_coalesced })
}

/// The coordinates of all elements of blocks, for the rows and columns of the blocks.
fn block_coordinates(batch: &Tensor, of: [&Tensor; 2], block: [i64; 2]) -> Result<Tensor> {
    let (count, device) = (of[0].numel(), of[0].device());
    let all = [count, block[0], block[1]];
    let within = |d: usize, inner: &[i64]| {
        let starts = reshape(&scaled(of[d], block[d].into())?, &[-1, 1, 1])?;
        let inside = reshape(&arange(block[d], device)?, inner)?;
        reshape(&ops::expand(&add(&starts, &inside)?, &all, false)?, &[1, -1])
    };
    let (row, column) = (within(0, &[1, -1, 1])?, within(1, &[1, 1, -1])?);
    let dims = batch.sizes()[0];
    let batch = ops::expand(&reshape(batch, &[dims, count, 1])?, &[dims, count, block[0] * block[1]], false)?;
    ops::cat(&[reshape(&batch, &[dims, count * block[0] * block[1]])?, row, column], 0)
}

/// A tensor of a compressed layout for coordinates: the last two sparse dimensions are rows and columns, those before them batch dimensions.
pub(crate) fn compress(coo: &Coo, layout: Layout, block: Option<[i64; 2]>) -> Result<Tensor> {
    let name = name_of(layout);
    let sparse_dim = coo.sparse_dim();
    ensure!(
        sparse_dim >= 2,
        InvalidArgument(name),
        "expected at least 2 sparse dimensions but got {sparse_dim}"
    );
    check_coordinates("indices", &coo.indices, coo.sparse_sizes())?;
    let batch = sparse_dim - 2;
    let (mut parts, mut sizes) = (coo.coalesced()?, DimVec::from_slice(coo.sparse_sizes()));
    if layout.is_blocked() {
        let Some(block) = block else {
            bail!(InvalidArgument(name, "blocksize"), "expected sizes of blocks")
        };
        parts = blocks(name, &parts, block)?;
        sizes = parts.sizes[..sparse_dim].into();
    }
    if !layout.has_compressed_rows() {
        parts = columns_first(&parts)?;
        sizes.swap(batch, batch + 1);
    }
    let (majors, count) = (product(&sizes[..=batch])?, parts.nnz());
    let major = raveled(&slice(&parts.indices, 0, 0, batch as i64 + 1)?, &sizes[..=batch])?;
    let pointers = ops::_convert_indices_from_coo_to_csr(&major, majors, false)?;
    let plain = parts.row(batch + 1)?;
    let (batches, each) = (product(&sizes[..batch])?, sizes[batch]);
    let nnz = if batches == 0 { 0 } else { count / batches };
    let compressed = split_pointers(name, &pointers, [batches, each, nnz])?;
    let batch_sizes = &coo.sizes[..batch];
    let made = Compressed {
        layout,
        compressed: reshape(&compressed, &joined(&[batch_sizes, &[each + 1]]))?,
        plain: reshape(&plain, &joined(&[batch_sizes, &[nnz]]))?,
        values: reshape(&parts.values, &joined(&[batch_sizes, &[nnz], &parts.values.sizes()[1..]]))?,
        sizes: coo.sizes.clone(),
    };
    made.into_tensor()
}

/// The pointers of each batch element, which must all have `nnz` elements: `[batches, each + 1]`.
fn split_pointers(name: &str, pointers: &Tensor, [batches, each, nnz]: [i64; 3]) -> Result<Tensor> {
    if batches == 1 {
        return Ok(pointers.clone());
    }
    let device = pointers.device();
    let starts = reshape(&scaled(&arange(batches, device)?, each.into())?, &[-1, 1])?;
    let which = add(&starts, &reshape(&arange(each + 1, device)?, &[1, -1])?)?;
    let found = reshape(&rows(pointers, &reshape(&which, &[-1])?)?, &[batches, each + 1])?;
    let first = reshape(&scaled(&arange(batches, device)?, nnz.into())?, &[-1, 1])?;
    let found = ops::sub_tensor(&found, &first, Scalar::Int(1))?;
    let (starts, ends) = (slice(&found, 1, 0, 1)?, slice(&found, 1, each, each + 1)?);
    let is_even = |t: &Tensor, expected: i64| -> Result<bool> {
        Ok(t.to_vec::<i64>()?.iter().all(|value| *value == expected))
    };
    ensure!(
        is_even(&starts, 0)? && is_even(&ends, nnz)?,
        InvalidArgument(name),
        "expected the same number of specified elements per batch"
    );
    Ok(found)
}

/// The name of the conversion to a layout.
pub(crate) fn name_of(layout: Layout) -> &'static str {
    match layout {
        Layout::SparseCsr => "to_sparse_csr",
        Layout::SparseCsc => "to_sparse_csc",
        Layout::SparseBsr => "to_sparse_bsr",
        Layout::SparseBsc => "to_sparse_bsc",
        _ => "to_sparse",
    }
}

/// Rows and columns exchanged and in ascending order again.
fn columns_first(coo: &Coo) -> Result<Coo> {
    let last = coo.sparse_dim() as i64;
    let mut dims: Vec<i64> = (0..last).collect();
    dims.swap(last as usize - 1, last as usize - 2);
    let exchanged = ops::index_select(&coo.indices, 0, &long(&dims, coo.indices.device())?)?;
    let mut sizes = coo.sizes.clone();
    sizes.swap(last as usize - 1, last as usize - 2);
    let (order, ..) = ops::_coo_order(&exchanged, &sizes[..last as usize])?;
    let indices = ops::index_select(&exchanged, 1, &order)?;
    Ok(Coo { indices, values: rows(&coo.values, &order)?, sizes, is_coalesced: true })
}

/// The blocks in which elements are, in ascending order: their coordinates, and values of `[blocks, *block, *dense]`.
fn blocks(name: &str, coo: &Coo, block: [i64; 2]) -> Result<Coo> {
    let first = coo.sparse_dim() - 2;
    let mut sizes = coo.sizes.clone();
    for (d, block) in block.iter().enumerate() {
        ensure!(
            *block > 0 && sizes[first + d] % block == 0,
            InvalidArgument(name, "blocksize"),
            "expected sizes of blocks that divide the {} of the matrix but got {:?} for sizes {:?}",
            ["rows", "columns"][d],
            block,
            coo.sizes
        );
        sizes[first + d] /= block;
    }
    let (row, column) = (coo.row(first)?, coo.row(first + 1)?);
    let of_blocks = ops::stack(&[floor_divided(&row, block[0])?, floor_divided(&column, block[1])?], 0)?;
    let indices = ops::cat(&[slice(&coo.indices, 0, 0, first as i64)?, of_blocks], 0)?;
    let (order, starts, groups) = ops::_coo_order(&indices, &sizes[..first + 2])?;
    let count = starts.numel() - 1;
    let indices = ops::index_select(&indices, 1, &rows(&order, &slice(&starts, 0, 0, count)?)?)?;
    let inside = add(&scaled(&remainder(&row, block[0])?, block[1].into())?, &remainder(&column, block[1])?)?;
    let position = add(&scaled(&groups, (block[0] * block[1]).into())?, &inside)?;
    let all = zeros(&joined(&[&[count * block[0] * block[1]], coo.dense_sizes()]), &coo.values)?;
    let values = ops::index_put(&all, &[Some(position)], &coo.values, false)?;
    let values = reshape(&values, &joined(&[&[count], &block, coo.dense_sizes()]))?;
    Ok(Coo { indices, values, sizes, is_coalesced: true })
}

/// The strided tensor of all elements; itself if it is strided.
///
/// # Errors
/// `Index` where indices are out of bounds; `OutOfMemory`.
///
/// ```
/// use flambeau_ops::Tensor;
/// use flambeau_sparse::{sparse_coo_tensor, to_dense};
/// let (indices, values) = (Tensor::from([[0i64, 1], [1, 0]]), Tensor::from([2.0f32, 3.0]));
/// let sparse = sparse_coo_tensor(&indices, &values, Some(&[2, 2]), None)?;
/// assert_eq!(to_dense(&sparse)?.to_vec::<f32>()?, [0.0, 2.0, 3.0, 0.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn to_dense(tensor: &Tensor) -> Result<Tensor> {
    if !is_sparse(tensor) {
        return Ok(tensor.clone());
    }
    let coo = coo_of(tensor)?;
    // Sums of bools are not those of `index_add`.
    let coo = if tensor.dtype() == ScalarType::Bool { coo.coalesced()? } else { coo };
    let all = zeros(&joined(&[&[product(coo.sparse_sizes())?], coo.dense_sizes()]), &coo.values)?;
    let keys = coo.keys()?;
    let filled = match tensor.dtype() {
        ScalarType::Bool => ops::index_put(&all, &[Some(keys)], &coo.values, false)?,
        _ => ops::index_add(&all, 0, &keys, &coo.values, Scalar::Int(1))?,
    };
    reshape(&filled, &coo.sizes)
}

/// The coordinates of the slices of a strided tensor, in its first `sparse_dim` dimensions, that are not all 0.
pub(crate) fn coo_of_strided(tensor: &Tensor, sparse_dim: usize) -> Result<Coo> {
    let (sparse, dense) = tensor.sizes().split_at(sparse_dim);
    let flat = reshape(tensor, &joined(&[&[product(sparse)?], dense]))?;
    let nonzero = ops::ne_scalar(&flat, Scalar::Int(0))?;
    let width = product(dense)?;
    let nonzero = match dense.is_empty() {
        true => nonzero,
        false => ops::any_dim(&reshape(&nonzero, &[product(sparse)?, width])?, 1, false)?,
    };
    let keys = crate::dense::positions(&nonzero)?;
    let indices = unraveled(&keys, sparse)?;
    Ok(Coo { indices, values: rows(&flat, &keys)?, sizes: tensor.sizes().into(), is_coalesced: true })
}

/// A tensor of layout `SparseCoo`: of a strided tensor the elements that are not 0, where the last `dim - sparse_dim` dimensions stay
/// dense; of another sparse layout all that it stores.
///
/// # Errors
/// `InvalidArgument` for a number of sparse dimensions that the tensor cannot have.
pub fn to_sparse_coo(tensor: &Tensor, sparse_dim: Option<i64>) -> Result<Tensor> {
    if is_sparse(tensor) {
        let own = coo_of(tensor)?;
        ensure!(
            sparse_dim.is_none_or(|dim| dim == own.sparse_dim() as i64),
            InvalidArgument("to_sparse", "sparse_dim"),
            "expected {} sparse dimensions, as the tensor has, but got {sparse_dim:?}",
            own.sparse_dim()
        );
        return match tensor.layout() {
            Layout::SparseCoo => Ok(tensor.clone()),
            _ => own.coalesced()?.into_tensor(),
        };
    }
    let dims = tensor.dim() as i64;
    let sparse_dim = sparse_dim.unwrap_or(dims);
    ensure!(
        (0..=dims).contains(&sparse_dim) && (sparse_dim > 0 || dims == 0),
        InvalidArgument("to_sparse", "sparse_dim"),
        "expected 1 to {dims} sparse dimensions but got {sparse_dim}"
    );
    coo_of_strided(tensor, sparse_dim as usize)?.into_tensor()
}

/// A tensor of the given layout, with all elements of a sparse tensor, or those of a strided one that are not 0. `block` is for blocked
/// layouts; the last `dense_dim` dimensions of a strided tensor stay dense, and those before the last two others are batch dimensions.
///
/// # Errors
/// `InvalidArgument` for dimensions that the layout cannot have, and batch elements with different numbers of elements.
pub fn to_sparse(
    tensor: &Tensor,
    layout: Layout,
    block: Option<[i64; 2]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    let name = name_of(layout);
    ensure!(
        layout.is_blocked() || block.is_none(),
        InvalidArgument(name, "blocksize"),
        "layout {layout} has no blocks"
    );
    let own_block =
        if tensor.layout().is_blocked() { Some(Compressed::of(tensor)?.block_sizes()) } else { None };
    match layout {
        Layout::Strided => return to_dense(tensor),
        _ if tensor.layout() == layout && (block.is_none() || block == own_block) => {
            return Ok(tensor.clone());
        }
        Layout::SparseCoo => {
            let sparse_dim = dense_dim.map(|dense| (tensor.dim() as i64).saturating_sub(dense));
            return to_sparse_coo(tensor, sparse_dim.filter(|_| !is_sparse(tensor)));
        }
        _ => {}
    }
    if is_sparse(tensor) {
        let own = crate::dense_dim(tensor);
        ensure!(
            dense_dim.is_none_or(|dense| dense == own),
            InvalidArgument(name, "dense_dim"),
            "expected {own} dense dimensions, as the tensor has, but got {dense_dim:?}"
        );
        return match with_other_indices_compressed(tensor, layout)? {
            Some(made) => Ok(made),
            None => compress(&coo_of(tensor)?, layout, block.or(own_block)),
        };
    }
    let dense = dense_dim.unwrap_or(0);
    let sparse_dim = (tensor.dim() as i64).saturating_sub(dense);
    ensure!(
        dense >= 0 && sparse_dim >= 2,
        InvalidArgument(name, "dense_dim"),
        "expected a tensor with at least 2 dimensions that are not dense but got {} dimensions, {dense} of them dense",
        tensor.dim()
    );
    compress(&coo_of_strided(tensor, sparse_dim as usize)?, layout, block)
}

/// Compressed rows as compressed columns, or the reverse: the pattern of the transpose.
fn with_other_indices_compressed(tensor: &Tensor, layout: Layout) -> Result<Option<Tensor>> {
    if ![(Layout::SparseCsr, Layout::SparseCsc), (Layout::SparseCsc, Layout::SparseCsr)]
        .contains(&(tensor.layout(), layout))
    {
        return Ok(None);
    }
    let of = Compressed::of(tensor)?;
    if of.batch_dim() > 0 {
        return Ok(None);
    }
    let size = of.sizes[usize::from(of.layout.has_compressed_rows())];
    let (compressed, plain, values) = ops::_csr_transposed(&of.compressed, &of.plain, &of.values, size)?;
    let dtype = of.compressed.dtype();
    let made = Compressed { layout, compressed, plain, values, sizes: of.sizes };
    with_index_type(made.into_tensor()?, dtype).map(Some)
}

/// The same tensor with distinct coordinates in ascending order: values of equal ones are summed.
///
/// # Errors
/// `InvalidArgument` for other layouts than `SparseCoo`, `Index` for indices out of bounds.
pub fn coalesce(tensor: &Tensor) -> Result<Tensor> {
    let coo = Coo::of(tensor).map_err(|e| e.in_operator("coalesce"))?;
    if coo.is_coalesced { Ok(tensor.clone()) } else { coo.coalesced()?.into_tensor() }
}

/// The elements of a strided tensor at the coordinates of a sparse one.
///
/// # Errors
/// `Shape` for tensors of different sizes.
pub fn sparse_mask(tensor: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(
        tensor.sizes() == mask.sizes(),
        Shape("sparse_mask", "mask"),
        "expected a mask of sizes {:?} but got {:?}",
        tensor.sizes(),
        mask.sizes()
    );
    let pattern = coo_of(mask).map_err(|e| e.in_operator("sparse_mask"))?.coalesced()?;
    as_layout_of(&gathered(tensor, &pattern)?, mask)
}

/// The elements of `tensor`, of any layout, at the coordinates of `pattern`, which is coalesced.
pub(crate) fn gathered(tensor: &Tensor, pattern: &Coo) -> Result<Coo> {
    let sparse = product(pattern.sparse_sizes())?;
    if !is_sparse(tensor) {
        let flat = reshape(tensor, &joined(&[&[sparse], &tensor.sizes()[pattern.sparse_dim()..]]))?;
        return Ok(pattern.with_values(rows(&flat, &pattern.keys()?)?));
    }
    let from = coo_of(tensor)?.coalesced()?;
    ensure!(
        from.sparse_dim() == pattern.sparse_dim(),
        InvalidArgument,
        "expected {} sparse dimensions but got {}",
        pattern.sparse_dim(),
        from.sparse_dim()
    );
    let (here, there) = pattern.common(&from)?;
    let all = zeros(&joined(&[&[pattern.nnz()], from.dense_sizes()]), &from.values)?;
    let values = ops::index_put(&all, &[Some(here)], &rows(&from.values, &there)?, false)?;
    Ok(pattern.with_values(values))
}
