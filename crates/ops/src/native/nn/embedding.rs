//! `embedding`: rows of a table selected by indices, and the gradient of the table.

use crate::loops::streaming;
use crate::native::element_bits::{ElementBits, Numeric};
use crate::native::factory::copy;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::index::dim_index;
use crate::native::index::dim_index::long_index;
use crate::structured::TensorSpec;
use crate::tensor::sparse::SparseParts;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{DimVec, Layout, MemoryFormat, Result, Scalar, ScalarType, bail, ensure, fallible};

/// The rows of `weight` that `indices` name: each index is replaced by a row.
pub fn embedding(
    weight: &Tensor,
    indices: &Tensor,
    _padding_idx: i64,
    _scale_grad_by_freq: bool,
    _sparse: bool,
) -> Result<Tensor> {
    const NAME: &str = "embedding";
    ensure!(weight.dim() == 2, Shape(NAME, "weight"), "'weight' must be 2-D but got {}-D", weight.dim());
    let indices = long_index(NAME, indices)?;
    let mut sizes = DimVec::from_slice(indices.sizes());
    sizes.push(weight.sizes()[1]);
    let output = TensorSpec::like(weight, &sizes).allocate(NAME)?;
    if output.device().is_meta() || indices.numel() == 0 {
        return Ok(output);
    }
    let mut index_strides = DimVec::from_slice(indices.strides());
    index_strides.push(0);
    let mut strides = DimVec::from_elem(0, indices.dim());
    strides.push(weight.strides()[1]);
    let lookup = dim_index::DimIndex {
        name: NAME,
        sizes: &sizes,
        strides: &strides,
        index_strides: &index_strides,
        dim: 0,
        size: weight.sizes()[0],
        stride: weight.strides()[0],
    };
    lookup.gather(weight, &indices, &output, true)?;
    Ok(output)
}

/// The gradient of `weight` of [`embedding`].
pub fn embedding_backward(
    grad: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    if !sparse {
        return ops::embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq);
    }
    const NAME: &str = "embedding_backward";
    ensure!(
        !scale_grad_by_freq,
        InvalidArgument(NAME, "scale_grad_by_freq"),
        "scale_grad_by_freq is not supported with sparse gradients"
    );
    let width = grad.sizes().last().copied().unwrap_or(1);
    let rows = ops::reshape(&ops::to_dtype(indices, ScalarType::I64, false, false, None)?, &[1, -1])?;
    sparse_rows(&rows, &ops::reshape(grad, &[rows.numel(), width])?, num_weights, padding_idx)
}

/// A coalesced sparse matrix of `num_weights` rows, where row `rows[0][i]` is the sum of all such `grad[i]`, except for `padding_idx`.
fn sparse_rows(rows: &Tensor, grad: &Tensor, num_weights: i64, padding_idx: i64) -> Result<Tensor> {
    let (mut rows, mut grad) = (rows.clone(), grad.clone());
    if padding_idx >= 0 {
        let used = ops::reshape(&ops::nonzero(&ops::ne_scalar(&rows, Scalar::Int(padding_idx))?)?, &[-1, 2])?;
        let used = ops::select_int(&used, 1, 1)?;
        (rows, grad) = (ops::index_select(&rows, 1, &used)?, ops::index_select(&grad, 0, &used)?);
    }
    let (order, starts, groups) = ops::_coo_order(&rows, &[num_weights])?;
    let values = ops::_segment_sum(&grad, Some(&order), &starts, &groups)?;
    let first = ops::index_select(&order, 0, &ops::slice_tensor(&starts, 0, None, Some(-1), 1)?)?;
    let indices = ops::index_select(&rows, 1, &first)?;
    let sizes = [num_weights, grad.sizes()[1]];
    let parts = SparseParts::Coo { indices, values, is_coalesced: true };
    Tensor::from_sparse_parts(Layout::SparseCoo, &sizes, parts)
}

/// The positions in the list of indices, grouped by the row that the index names: those of row `r` are
/// `positions[starts[r]..starts[r + 1]]`, in ascending order.
struct Groups {
    starts: Vec<usize>,
    positions: Vec<u32>,
}

impl Groups {
    /// A counting sort. Positions of row `padding` are left out.
    fn new(indices: &[i64], rows: usize, padding: i64) -> Result<Self> {
        let mut starts = fallible::filled(0usize, rows + 1)?;
        for &index in indices {
            if index < 0 || index >= rows as i64 {
                bail!(
                    Index("embedding_dense_backward", "indices"),
                    "index {index} is out of bounds for dimension 0 with size {rows}"
                );
            }
            if index != padding {
                starts[index as usize + 1] += 1;
            }
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        let mut next = fallible::to_vec(&starts)?;
        let mut positions = fallible::filled(0u32, starts[rows])?;
        for (&index, position) in indices.iter().zip(0u32..) {
            if index != padding {
                positions[next[index as usize]] = position;
                next[index as usize] += 1;
            }
        }
        Ok(Groups { starts, positions })
    }
}

/// For each of `num_weights` rows the sum of the rows of `grad_output` whose index names it, in their order; divided by their
/// number where `scale_grad_by_freq`. Row `padding_idx` stays zero. Half precision is summed in f32.
pub fn embedding_dense_backward(
    grad_output: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    const NAME: &str = "embedding_dense_backward";
    let width = grad_output.sizes().last().copied().unwrap_or(1);
    ensure!(
        indices.numel().checked_mul(width) == Some(grad_output.numel())
            && indices.numel() < i64::from(u32::MAX),
        Shape(NAME, "grad_output"),
        "expected a row of grad_output for each index but got sizes {:?} for indices of sizes {:?}",
        grad_output.sizes(),
        indices.sizes()
    );
    let output = TensorSpec::like(grad_output, &[num_weights, width]).allocate(NAME)?;
    if output.device().is_meta() || output.numel() == 0 {
        return Ok(output);
    }
    let sums =
        if grad_output.dtype().is_reduced_floating_point() { ScalarType::F32 } else { grad_output.dtype() };
    let dense = |t: &Tensor, dtype| {
        copy::to_copy(t, Some(dtype), None, None, None, false, Some(MemoryFormat::Contiguous))
    };
    // The gradient of a sum is a single expanded element: one row of it is materialized, rather than all.
    let one_row = grad_output.dim() > 0
        && grad_output.numel() > 0
        && grad_output.strides().iter().all(|&stride| stride == 0);
    let grad = if one_row { first_row(grad_output)? } else { grad_output.clone() };
    let grad = if grad.is_contiguous() && sums == grad.dtype() { grad } else { dense(&grad, sums)? };
    let target = if sums == output.dtype() {
        output.clone()
    } else {
        TensorSpec::like(&grad, output.sizes()).allocate(NAME)?
    };
    let indices = dense(&long_index(NAME, indices)?, ScalarType::I64)?;
    let width = width as usize;
    dispatch_all_types!(numbers, sums, NAME, T => {
        type N = <T as ElementBits>::Number;
        with_slices(NAME, &[&grad, &indices], &[&target], |s| {
            let (grad, indices, out) = (s.read::<N>(0)?, s.read::<i64>(1)?, s.write::<N>(0)?);
            let groups = Groups::new(indices, num_weights as usize, padding_idx)?;
            let rows = Rows { grad, pitch: if one_row { 0 } else { width }, scale_grad_by_freq };
            let streams = streaming::should_stream(size_of_val(out), || 1);
            fill(out, width, |range, part| {
                // Most rows of a large table are named by no index.
                let zeros = scratch::filled(N::of(Scalar::Int(0)), if streams { width } else { 0 });
                let mut tile = scratch::to_vec(&zeros);
                for (sum, row) in part.chunks_mut(width).zip(range.start / width..) {
                    let positions = &groups.positions[groups.starts[row]..groups.starts[row + 1]];
                    match positions {
                        _ if !streams => rows.add_up(sum, positions),
                        [] => streaming::stream_slice(&zeros, sum),
                        _ => {
                            rows.add_up(&mut tile, positions);
                            streaming::stream_slice(&tile, sum);
                        }
                    }
                }
                streaming::fence(streams);
            });
            Ok(())
        })
    })?;
    if sums != output.dtype() {
        copy::copy_(&output, &target, false)?;
    }
    Ok(output)
}

/// The first of the rows of the last dimension.
fn first_row(tensor: &Tensor) -> Result<Tensor> {
    let (last, width) = (tensor.dim() - 1, tensor.sizes()[tensor.dim() - 1]);
    tensor.alias_as(&[width], &[tensor.strides()[last]], tensor.storage_offset())
}

/// Rows of gradients, `pitch` elements apart.
struct Rows<'a, N> {
    grad: &'a [N],
    pitch: usize,
    scale_grad_by_freq: bool,
}

impl<N: Numeric> Rows<'_, N> {
    /// The sum of the rows at `positions`, divided by their number if `scale_grad_by_freq`.
    fn add_up(&self, sum: &mut [N], positions: &[u32]) {
        let width = sum.len();
        sum.fill(N::of(Scalar::Int(0)));
        for &position in positions {
            let row = &self.grad[position as usize * self.pitch..][..width];
            sum.iter_mut().zip(row).for_each(|(to, from)| *to = to.plus(*from));
        }
        if self.scale_grad_by_freq && positions.len() > 1 {
            let factor = N::of(Scalar::Float(1.0 / positions.len() as f64));
            sum.iter_mut().for_each(|to| *to = to.times(factor));
        }
    }
}
