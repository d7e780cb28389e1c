//! Products of a few elements that are converted before they are summed, such as those of half precision: element by element, since
//! packing would take longer.
#![expect(unsafe_code, reason = "raw operands")]

use super::{Gemm, GemmElement, element::Scalar};

/// The largest product that is computed here, in multiply-adds.
const MAX_MULTIPLY_ADDS: usize = 256;
/// The same for a vector times a matrix, which needs little packing.
const MAX_OF_VECTOR: usize = 32;

/// Whether the product is so small.
pub(super) fn applies<T: GemmElement>(g: &Gemm<T>, is_vector: bool) -> bool {
    let most = if is_vector { MAX_OF_VECTOR } else { MAX_MULTIPLY_ADDS };
    g.m.saturating_mul(g.n).saturating_mul(g.k.max(1)) <= most
}

/// # Safety
/// - As [`super::gemm`].
pub(super) unsafe fn multiply<T: GemmElement>(g: &Gemm<T>) {
    let (old, old_strides) = g.addend.map_or((g.c.cast_const(), g.c_strides), |d| (d.first, d.strides));
    let reads_old = g.beta != T::Scalar::ZERO;
    for i in 0..g.m as isize {
        for j in 0..g.n as isize {
            // SAFETY: elements of the operands.
            unsafe {
                let (a, b) =
                    (g.a.wrapping_offset(i * g.a_strides[0]), g.b.wrapping_offset(j * g.b_strides[1]));
                let mut sum = T::Scalar::ZERO;
                for p in 0..g.k as isize {
                    let (a, b) =
                        (a.wrapping_offset(p * g.a_strides[1]), b.wrapping_offset(p * g.b_strides[0]));
                    sum = a.read().widen().mul_add(b.read().widen(), sum);
                }
                let mut value = sum.mul(g.alpha);
                if reads_old {
                    let old = old.wrapping_offset(i * old_strides[0] + j * old_strides[1]);
                    value = old.read().widen().mul_add(g.beta, value);
                }
                g.c.wrapping_offset(i * g.c_strides[0] + j * g.c_strides[1]).write(T::narrow(value));
            }
        }
    }
}
