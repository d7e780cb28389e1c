//! `where`: the choice between two values by a bool; and whether all elements of a bool tensor are true.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::convert::Mapping;
use super::device::or_on_device;
use super::rows::Rows;
use super::tiles::{self, for_each_rows};
use crate::Tensor;
use crate::structured::with_guards;
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{CodegenAnchor, EveryIsa, Isa, Kernel, Lanes, Mask, Vector, dispatch};
use flambeau_core::{Complex, MemoryFormat, Result, ScalarType, ensure};
use std::marker::PhantomData;

/// Writes `yes` where the condition holds and `no` elsewhere: an iterator of one output, a bool condition and two inputs.
///
/// Elements are moved as bits, so one loop serves every type of a size; except for bool, whose bytes may be other than 0 and 1 and are
/// normalized.
///
/// # Errors
/// `Busy` or `Aliasing` where an operand may not be touched.
pub fn select_kernel(iter: &TensorIterator<'_>) -> Result<()> {
    match (iter.common_dtype(), iter.common_dtype().size()) {
        (ScalarType::Bool, _) => run::<bool>(iter),
        (_, 1) => run::<u8>(iter),
        (_, 2) => run::<i16>(iter),
        (_, 4) => run::<f32>(iter),
        (_, 8) => run::<f64>(iter),
        _ => run::<Complex<f64>>(iter),
    }
}

fn run<T>(iter: &TensorIterator<'_>) -> Result<()>
where
    for<'r> Select<'r, T>: EveryIsa,
{
    let dtype = iter.common_dtype();
    let run = |rows: &Rows<3>| {
        // SAFETY: `for_each_rows` makes only rows that lie inside their operands, of types as wide as `T`.
        unsafe { dispatch(Select { rows, element: PhantomData::<T> }) }
    };
    let kernel = tiles::Kernel {
        inputs: [ScalarType::Bool, dtype, dtype],
        output: dtype,
        supports_nt_stores: false,
        mapping: Mapping::Value,
        run: &run,
    };
    or_on_device(for_each_rows(iter, &kernel), iter, |loops| loops.select(iter))
}

/// Rows of a condition, what to take where it holds, and what elsewhere.
struct Select<'r, T> {
    rows: &'r Rows<3>,
    element: PhantomData<T>,
}

impl<T> CodegenAnchor for Select<'_, T> {
    type Anchor = Self;
}

impl<I: Isa, T: Lanes<I>> Kernel<I> for Select<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let mut rows = *self.rows;
        for _ in 0..rows.rows {
            // SAFETY: as the caller says of every row.
            unsafe { row::<I, T>(&rows) };
            rows.to = rows.to.wrapping_offset(rows.to_row as isize);
            for i in 0..3 {
                rows.from[i] = rows.from[i].wrapping_offset(rows.from_row[i] as isize);
            }
        }
    }
}

/// One row.
///
/// # Safety
/// - Dense arguments are valid for reading `n` elements, repeated ones for one; `to` for writing `n`.
#[inline(always)]
unsafe fn row<I: Isa, T: Lanes<I>>(rows: &Rows<3>) {
    let lanes = T::Vector::LANES;
    let mut at = 0;
    while at < rows.n {
        let count = lanes.min(rows.n - at);
        // SAFETY: `count` elements from `at` on are inside the row.
        unsafe {
            let mask = condition::<I, T>(rows, at, count);
            let (yes, no) = (value::<I, T>(rows, 1, at, count), value::<I, T>(rows, 2, at, count));
            let chosen = T::Vector::select(mask, yes, no);
            T::store_up_to(chosen, rows.to.cast::<T>().add(at), count);
        }
        at += lanes;
    }
}

/// `count` elements of the condition from element `at` on, as a mask.
///
/// # Safety
/// - As [`row`], with `at + count` at most `n`.
#[inline(always)]
unsafe fn condition<I: Isa, T: Lanes<I>>(
    rows: &Rows<3>,
    at: usize,
    count: usize,
) -> <T::Vector as Vector>::Mask {
    type MaskOf<V> = <V as Vector>::Mask;
    if rows.repeated[0] {
        // SAFETY: the condition has one element, of any value.
        let holds = unsafe { rows.from[0].cast::<u8>().read() } != 0;
        return MaskOf::<T::Vector>::first(if holds { count } else { 0 });
    }
    // SAFETY: by this function's condition.
    unsafe { MaskOf::<T::Vector>::load_bool(rows.from[0].cast::<bool>().add(at), count) }
}

/// `count` elements of argument `i` from element `at` on.
///
/// # Safety
/// - As [`condition`].
#[inline(always)]
unsafe fn value<I: Isa, T: Lanes<I>>(rows: &Rows<3>, i: usize, at: usize, count: usize) -> T::Vector {
    let from = rows.from[i].cast::<T>();
    // SAFETY: by this function's condition.
    unsafe {
        if rows.repeated[i] {
            T::Vector::splat(T::load_one(from).widen())
        } else {
            T::load_up_to(from.add(at), count)
        }
    }
}

/// Whether every element of a bool tensor is true; so for an empty one. Elements of another device are copied to the host.
///
/// # Errors
/// `Dtype` for other types, `Device` for a meta tensor, `Busy` where they may not be read.
pub fn all_true(tensor: &Tensor) -> Result<bool> {
    ensure!(tensor.dtype() == ScalarType::Bool, Dtype, "expected a bool tensor but got {}", tensor.dtype());
    let dense = match tensor.device().is_cpu() {
        true => crate::ops::clone(tensor, Some(MemoryFormat::Contiguous))?,
        false => tensor.on_host()?,
    };
    let count = dense.numel() as usize;
    with_guards("all", &[&dense], &[], |guarded| {
        if count == 0 {
            return Ok(true);
        }
        // SAFETY: the guard is held, and a contiguous tensor of bool is that many bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts(guarded.ptr(dense.strided_view()).cast_const(), count) };
        Ok(!bytes.contains(&0))
    })
}
