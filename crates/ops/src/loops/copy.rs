//! Copying between any two types and any two orders.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::tiles::{StridedConvert, copy_strided};
use crate::tensor_iterator::{Pointers, TensorIterator};
use flambeau_core::Result;

/// Copies the input of an iterator of one output and one input, converting where types differ.
///
/// # Errors
/// `Busy` or `Aliasing` where an operand may not be touched.
pub fn copy_kernel(iter: &TensorIterator<'_>) -> Result<()> {
    let (to, from) = (iter.operands()[0].dtype(), iter.operands()[1].dtype());
    let convert = StridedConvert::new(from, to)?;
    iter.with_pointers(|data| {
        iter.for_each(data, |p, n, rows| {
            if to == from { copy_rows(&p, n, rows, to.size()) } else { convert_rows(&p, n, rows, convert) }
        });
    })
}

fn at(p: &Pointers<'_>, operand: usize, row: usize) -> *mut u8 {
    p.data[operand].wrapping_offset((row as i64 * p.outer[operand]) as isize)
}

fn copy_rows(p: &Pointers<'_>, n: usize, rows: usize, size: usize) {
    let dense = |operand: usize| p.inner[operand] == size as i64 || n == 1;
    for row in 0..rows {
        let (to, from) = (at(p, 0, row), at(p, 1, row));
        // SAFETY: the walk stays inside both operands; an input that shares memory with the output is the same view of it,
        // or a copy, so the regions are equal or apart.
        unsafe {
            if dense(0) && dense(1) {
                std::ptr::copy(from, to, n * size);
            } else {
                copy_strided(from, p.inner[1], to, p.inner[0], n, size);
            }
        }
    }
}

fn convert_rows(p: &Pointers<'_>, n: usize, rows: usize, convert: StridedConvert) {
    for row in 0..rows {
        // SAFETY: the walk stays inside both operands, whose types are these.
        unsafe { convert.run(at(p, 1, row), p.inner[1], at(p, 0, row), p.inner[0], n) };
    }
}
