//! The exclusive or of the bits of elements, read as they are in memory. It has no order.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::fold::RowFold;
use super::strips::{STRIP, Strip, StripResults};
use super::targets::row_fold;
use crate::Tensor;
use crate::tensor_iterator::DimMask;
use crate::vectorized::with_processor_vectors;
use flambeau_core::{Result, ScalarType};
use std::marker::PhantomData;

/// The exclusive or along the dimensions `mask` of elements of up to eight bytes, into `out` of the same type.
///
/// # Errors
/// `NotImplemented` for a type without storage, `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn exclusive_or_fold(input: &Tensor, out: &Tensor, mask: DimMask) -> Result<()> {
    match (input.dtype(), input.dtype().size()) {
        (ScalarType::Bool, _) => fold::<BoolByte>(input, out, mask),
        (_, 1) => fold::<u8>(input, out, mask),
        (_, 2) => fold::<u16>(input, out, mask),
        (_, 4) => fold::<u32>(input, out, mask),
        _ => fold::<u64>(input, out, mask),
    }
}

fn fold<B: Bits>(input: &Tensor, out: &Tensor, mask: DimMask) -> Result<()> {
    let dtype = input.dtype();
    row_fold(input, [out], mask, dtype, [dtype], ExclusiveOr::<B>(PhantomData))
}

/// The bits of an element.
trait Bits: Copy + Default + Send + Sync {
    /// The exclusive or of a result with one more element. Mark it `#[inline(always)]`.
    fn with(self, element: Self) -> Self;
}

macro_rules! bits {
    ($($type:ty)*) => {$(
        impl Bits for $type {
            #[inline(always)]
            fn with(self, element: Self) -> Self {
                self ^ element
            }
        }
    )*};
}

bits! { u8 u16 u32 u64 }

/// The byte of a bool, which in memory from elsewhere may be any: true unless it is 0. Results are 0 or 1.
#[derive(Clone, Copy, Default)]
struct BoolByte(u8);

impl Bits for BoolByte {
    #[inline(always)]
    fn with(self, element: Self) -> Self {
        BoolByte(self.0 ^ u8::from(element.0 != 0))
    }
}

/// The fold of elements that have the bits `B`.
#[derive(Clone, Copy)]
struct ExclusiveOr<B>(PhantomData<B>);

impl<B: Bits> RowFold<1> for ExclusiveOr<B> {
    type State = B;

    fn empty(self) -> B {
        B::default()
    }

    unsafe fn block(self, from: *const u8, n: usize, _: usize) -> B {
        with_processor_vectors(
            #[inline(always)]
            move || {
                let mut all = B::default();
                for i in 0..n {
                    // SAFETY: this function's condition.
                    all = all.with(unsafe { from.cast::<B>().add(i).read_unaligned() });
                }
                all
            },
        )
    }

    unsafe fn run(self, from: *const u8, n: usize, first: usize, _: usize) -> B {
        // SAFETY: this function's condition: a block may have any number of elements.
        unsafe { self.block(from, n, first) }
    }

    unsafe fn strip(self, strip: Strip, results: &StripResults<1>) {
        let all = with_processor_vectors(
            #[inline(always)]
            move || {
                let mut all = [B::default(); STRIP];
                for i in 0..strip.n {
                    for (row, all) in all.iter_mut().enumerate() {
                        // SAFETY: an element of the strip.
                        *all = all.with(unsafe {
                            strip.elements.cast::<B>().add(i * STRIP + row).read_unaligned()
                        });
                    }
                }
                all
            },
        );
        // SAFETY: this function's condition.
        unsafe { results.write(0, &all) }
    }

    fn combine(self, a: B, b: B) -> B {
        a.with(b)
    }

    unsafe fn write(self, state: B, [to]: [*mut u8; 1]) {
        // SAFETY: `to` takes one result.
        unsafe { to.cast::<B>().write_unaligned(state) }
    }
}
