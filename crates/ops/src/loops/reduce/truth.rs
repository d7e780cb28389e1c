//! `any` and `all` of rows: whether bits of elements are set, read as they are in memory, up to the first block that decides.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::fold::{BLOCK, RowFold};
use super::strips::{STRIP, Strip, StripResults};
use crate::vectorized::with_processor_vectors;
use flambeau_core::ScalarType;
use std::ops::{BitAnd, BitOr};

/// Whether some element differs from zero, or all do.
#[derive(Clone, Copy)]
pub(super) struct Truth {
    /// Some, not all.
    some: bool,
    /// Bytes of an element.
    size: usize,
    /// The bits of which one is set where an element differs from zero: all but the sign of a floating point number.
    bits: u64,
}

impl Truth {
    /// Of elements of `dtype`; `None` where their bits do not tell.
    pub(super) fn of(dtype: ScalarType, some: bool) -> Option<Self> {
        use ScalarType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8};
        let bits = match dtype {
            Bool | U8 | I8 | I16 | I32 | I64 => u64::MAX,
            F16 | BF16 => u64::MAX >> 49,
            F32 => u64::MAX >> 33,
            F64 => u64::MAX >> 1,
            _ => return None,
        };
        Some(Truth { some, size: dtype.size(), bits })
    }
}

/// Calls a function with the bits as those of unsigned integers of the size of elements.
macro_rules! by_size {
    ($truth:expr, |$bits:ident| $body:expr) => {
        match $truth.size {
            1 => by_size!(u8, $truth, |$bits| $body),
            2 => by_size!(u16, $truth, |$bits| $body),
            4 => by_size!(u32, $truth, |$bits| $body),
            _ => by_size!(u64, $truth, |$bits| $body),
        }
    };
    ($type:ty, $truth:expr, |$bits:ident| $body:expr) => {{
        let $bits = $truth.bits as $type;
        with_processor_vectors(
            #[inline(always)]
            || $body,
        )
    }};
}

/// Unsigned integers.
trait Unsigned: Copy + Default + PartialEq + BitAnd<Output = Self> + BitOr<Output = Self> {}
impl<B: Copy + Default + PartialEq + BitAnd<Output = B> + BitOr<Output = B>> Unsigned for B {}

/// Whether one of the `bits` is set in some element.
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline(always)]
unsafe fn some_set<B: Unsigned>(from: *const u8, n: usize, bits: B) -> bool {
    let mut all = B::default();
    for i in 0..n {
        // SAFETY: this function's condition.
        all = all | unsafe { from.cast::<B>().add(i).read_unaligned() };
    }
    (all & bits) != B::default()
}

/// Whether one of the `bits` is set in every element.
///
/// # Safety
/// - As for [`some_set`].
#[inline(always)]
unsafe fn all_set<B: Unsigned>(from: *const u8, n: usize, bits: B) -> bool {
    let mut is_unset = false;
    for i in 0..n {
        // SAFETY: this function's condition.
        is_unset |= (unsafe { from.cast::<B>().add(i).read_unaligned() } & bits) == B::default();
    }
    !is_unset
}

/// The results of the rows of a strip.
///
/// # Safety
/// - The strip is valid for reading.
#[inline(always)]
unsafe fn of_strip<B: Unsigned>(strip: Strip, bits: B, some: bool) -> [bool; STRIP] {
    // Whether an element decides: one that is set for some, one that is not for all.
    let mut is_decided = [false; STRIP];
    for i in 0..strip.n {
        for (row, is_decided) in is_decided.iter_mut().enumerate() {
            // SAFETY: an element of the strip.
            let x = unsafe { strip.elements.cast::<B>().add(i * STRIP + row).read_unaligned() };
            *is_decided |= ((x & bits) != B::default()) == some;
        }
    }
    is_decided.map(|is_decided| is_decided == some)
}

impl RowFold<1> for Truth {
    type State = bool;

    fn empty(self) -> bool {
        !self.some
    }

    unsafe fn block(self, from: *const u8, n: usize, _: usize) -> bool {
        // SAFETY: this function's condition.
        unsafe {
            match self.some {
                true => by_size!(self, |bits| some_set(from, n, bits)),
                false => by_size!(self, |bits| all_set(from, n, bits)),
            }
        }
    }

    unsafe fn run(self, from: *const u8, n: usize, first: usize, size: usize) -> bool {
        // SAFETY: the elements from `start` on, as many as are left, or a block.
        let block =
            |start: usize| unsafe { self.block(from.add(start * size), BLOCK.min(n - start), first + start) };
        let is_decided = (0..n).step_by(BLOCK).any(|start| block(start) == self.some);
        is_decided == self.some
    }

    unsafe fn strip(self, strip: Strip, results: &StripResults<1>) {
        // SAFETY: this function's conditions.
        unsafe {
            let found = by_size!(self, |bits| of_strip(strip, bits, self.some));
            results.write(0, &found);
        }
    }

    fn combine(self, a: bool, b: bool) -> bool {
        if self.some { a | b } else { a & b }
    }

    unsafe fn write(self, state: bool, [to]: [*mut u8; 1]) {
        // SAFETY: `to` takes one bool.
        unsafe { to.cast::<bool>().write(state) }
    }
}
