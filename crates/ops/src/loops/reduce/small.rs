//! Reductions of a few elements that lie densely. What decides between walks and cuts for threads takes several times as long as
//! such a fold.
#![expect(unsafe_code, reason = "element access behind the guards that are taken here")]

use super::any_fold::AnyFold;
use crate::Tensor;
use crate::tensor_iterator::DimMask;
use flambeau_core::{Access, Result, ScalarType, StridedView, with_guards};

/// Rows at most: as many as the walk over columns folds into one row of accumulators.
const ROWS: usize = 64;
/// Elements at most.
const FEW: i64 = 1024;
/// Elements at most of lines that are as long as that: a call for each costs little.
const LONG: i64 = 16 * FEW;

/// Folds `input` into `out` if there is little to fold; else does nothing and answers `false`.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(super) fn fold_small(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    fold: &dyn AnyFold,
) -> Result<bool> {
    let (input, out) = (input.strided_view(), out.strided_view());
    let of_kernel = |t: StridedView<'_>| t.dtype() == kernel && t.is_contiguous() && t.device().is_cpu();
    if !(1..=LONG).contains(&input.numel()) || !of_kernel(input) || !of_kernel(out) {
        return Ok(false);
    }
    let Some(dims) = Dims::of(input.sizes(), mask) else { return Ok(false) };
    let long = dims.columns == 1 && dims.rows as i64 >= FEW;
    if !long && input.numel() > FEW {
        return Ok(false);
    }
    if (dims.columns > 1 && dims.rows > ROWS) || dims.blocks * dims.columns != out.numel() as usize {
        return Ok(false);
    }
    let guards = [(input.storage(), Access::Read), (out.storage(), Access::Write)];
    with_guards(&guards, |guarded| {
        let (from, to, size) = (guarded.ptr(input).cast_const(), guarded.ptr(out), kernel.size());
        let apart = dims.rows * dims.columns * size;
        // SAFETY: both are guarded and dense, of the fold's type, and hold so many blocks.
        unsafe {
            if dims.columns == 1 {
                fold.lines(from, dims.rows, apart as isize, to, dims.blocks);
                return fold.write(to, dims.blocks, to, size as isize);
            }
            for block in 0..dims.blocks {
                let to = to.wrapping_add(block * dims.columns * size);
                fold_block(from.wrapping_add(block * apart), to, &dims, size, fold);
            }
        }
    })
    .map_err(|e| e.context("reduction"))?;
    Ok(true)
}

/// Dimensions that are kept, dimensions that are folded, and dimensions that are kept, in this order.
struct Dims {
    blocks: usize,
    rows: usize,
    columns: usize,
}

impl Dims {
    /// Those of a tensor whose dimensions `mask` are folded, if they lie so.
    fn of(sizes: &[i64], mask: DimMask) -> Option<Self> {
        let mut dims = Dims { blocks: 1, rows: 1, columns: 1 };
        for (d, &size) in sizes.iter().enumerate().filter(|(_, size)| **size != 1) {
            let size = size as usize;
            match (mask.has(d), dims.rows, dims.columns) {
                (true, _, 1) => dims.rows *= size,
                (true, ..) => return None,
                (false, 1, _) => dims.blocks *= size,
                (false, ..) => dims.columns *= size,
            }
        }
        Some(dims)
    }
}

/// Folds the rows of one block, of more than one column.
///
/// # Safety
/// - `from` is valid for reading the elements of a block, of `size` bytes, and `to` for writing its columns.
unsafe fn fold_block(from: *const u8, to: *mut u8, dims: &Dims, size: usize, fold: &dyn AnyFold) {
    let Dims { rows, columns, .. } = *dims;
    // SAFETY: this function's conditions.
    unsafe {
        let mut addresses = [from; ROWS];
        for (row, address) in addresses[..rows].iter_mut().enumerate() {
            *address = from.wrapping_add(row * columns * size);
        }
        let identity = fold.identity();
        for column in 0..columns {
            identity.as_ptr().copy_to_nonoverlapping(to.add(column * size), size);
        }
        fold.rows(&addresses[..rows], to, columns, false);
        fold.write(to, columns, to, size as isize);
    }
}
