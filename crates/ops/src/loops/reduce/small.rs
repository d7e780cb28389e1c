//! Reductions of few dense elements, folded at once: the general path plans inner and outer loops and the split among threads, which
//! takes several times as long as such a fold.
#![expect(unsafe_code, reason = "element access behind the guards that are taken here")]

use super::any_fold::AnyFold;
use crate::Tensor;
use crate::tensor_iterator::DimMask;
use flambeau_core::{Access, Result, ScalarType, StridedView, with_guards};

/// The largest number of rows: as many as an outer reduction folds into one row of accumulators.
const MAX_ROWS: usize = 64;
/// The largest number of elements.
const SMALL_NUMEL: i64 = 1024;
/// The largest number of elements of dense rows that have at least [`SMALL_NUMEL`] elements each: a call for each costs little.
const SMALL_NUMEL_OF_LONG_ROWS: i64 = 16 * SMALL_NUMEL;

/// Folds `input` into `out` if that is small; else does nothing and returns `false`.
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
    if !(1..=SMALL_NUMEL_OF_LONG_ROWS).contains(&input.numel()) || !of_kernel(input) || !of_kernel(out) {
        return Ok(false);
    }
    let Some(dims) = Dims::of(input.sizes(), mask) else { return Ok(false) };
    let long = dims.columns == 1 && dims.rows as i64 >= SMALL_NUMEL;
    if !long && input.numel() > SMALL_NUMEL {
        return Ok(false);
    }
    if (dims.columns > 1 && dims.rows > MAX_ROWS) || dims.blocks * dims.columns != out.numel() as usize {
        return Ok(false);
    }
    let guards = [(input.storage(), Access::Read), (out.storage(), Access::Write)];
    with_guards(&guards, |guarded| {
        let (from, to, size) = (guarded.ptr(input).cast_const(), guarded.ptr(out), kernel.size());
        let block_bytes = dims.rows * dims.columns * size;
        // SAFETY: both are guarded and dense, of the fold's type, and hold `dims.blocks` blocks.
        unsafe {
            if dims.columns == 1 {
                fold.fold_rows(kernel, from, dims.rows, block_bytes as isize, to, dims.blocks);
                return fold.write(to, dims.blocks, to, size as isize);
            }
            for block in 0..dims.blocks {
                let to = to.wrapping_add(block * dims.columns * size);
                fold_block(from.wrapping_add(block * block_bytes), to, &dims, size, fold);
            }
        }
    })
    .map_err(|e| e.in_operator("reduction"))?;
    Ok(true)
}

/// Sizes of a tensor seen as three dimensions: kept, folded, kept.
struct Dims {
    blocks: usize,
    rows: usize,
    columns: usize,
}

impl Dims {
    /// Those of a tensor whose dimensions `mask` are folded, if the folded ones are adjacent.
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
        let mut addresses = [from; MAX_ROWS];
        for (row, address) in addresses[..rows].iter_mut().enumerate() {
            *address = from.wrapping_add(row * columns * size);
        }
        let identity = fold.identity();
        for column in 0..columns {
            identity.as_ptr().copy_to_nonoverlapping(to.add(column * size), size);
        }
        fold.accumulate_rows(&addresses[..rows], to, columns, false);
        fold.write(to, columns, to, size as isize);
    }
}
