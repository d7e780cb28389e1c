//! Normalization of lines: `(x - mean) * rstd * weight + bias`, and the form without a mean.
#![expect(unsafe_code, reason = "reads the dense lines that the driver gives")]

use super::drive::{map_lines, streams_to};
use super::row::{next_line, row, write_row};
use crate::loops::formulas::FloatFormula;
use crate::loops::reduce::{LineFloat, SumOfSquares, computing_type, moments_of};
use crate::loops::rows::Rows;
use crate::structured::with_guards;
use crate::tensor_iterator::DimMask;
use crate::vectorized::Float;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Guarded, Result, Scalar};
use smallvec::SmallVec;

/// Weights and offsets of the elements of a line: contiguous tensors of the computing type, as long as a line.
#[derive(Clone, Copy, Default)]
pub(crate) struct Affine<'a> {
    /// Factors, 1 where there are none.
    pub(crate) weight: Option<&'a Tensor>,
    /// Terms, 0 where there are none.
    pub(crate) bias: Option<&'a Tensor>,
}

/// An address that crosses to other threads under guards.
#[derive(Clone, Copy)]
pub(super) struct Shared(*mut u8);

// SAFETY: parameters are only read, and each line writes its own statistics, while the guards are held.
unsafe impl Sync for Shared {}

impl Shared {
    pub(super) fn of(guarded: Guarded<'_>, tensor: &Tensor) -> Self {
        Shared(guarded.ptr(tensor.strided_view()))
    }

    pub(super) fn get(&self) -> *mut u8 {
        self.0
    }
}

/// A parameter, or one number for all.
pub(super) fn parameter<T>(shared: Option<Shared>, otherwise: &T) -> (*const T, bool) {
    match shared {
        Some(shared) => (shared.get().cast_const().cast(), false),
        None => (std::ptr::from_ref(otherwise), true),
    }
}

/// `(x - mean) * rstd * weight + bias`.
#[derive(Clone, Copy)]
pub(super) struct Normalize(pub(super) f64, pub(super) f64);

impl FloatFormula<3> for Normalize {
    #[inline(always)]
    fn call<V: Float>(self, [x, weight, bias]: [V; 3]) -> V {
        ((x - V::constant(self.0)) * V::constant(self.1)).mul_add(weight, bias)
    }
}

/// Calls `body` under the guards of parameters and statistics, which [`map_lines`] does not see.
pub(super) fn with_parameters<R>(
    name: &str,
    read: &[Option<&Tensor>],
    written: &[&Tensor],
    body: impl for<'g> FnOnce(Guarded<'g>) -> Result<R>,
) -> Result<R> {
    let read: SmallVec<[&Tensor; 4]> = read.iter().copied().flatten().collect();
    with_guards(name, &read, written, body)
}

/// Normalizes every line along `mask`; `mean` and `rstd` are contiguous, one element a line, of the computing type.
///
/// # Errors
/// As [`map_lines`].
pub(crate) fn layer_norm_lines(
    input: &Tensor,
    affine: Affine<'_>,
    [out, mean, rstd]: [&Tensor; 3],
    mask: DimMask,
    eps: f64,
) -> Result<()> {
    let kernel = computing_type(input.dtype());
    with_parameters("layer_norm", &[affine.weight, affine.bias], &[mean, rstd], |guarded| {
        let shared = |tensor| Shared::of(guarded, tensor);
        let (weight, bias) = (affine.weight.map(shared), affine.bias.map(shared));
        let (means, rstds) = (shared(mean), shared(rstd));
        let read = 1 + usize::from(weight.is_some()) + usize::from(bias.is_some());
        let streams = streams_to(out, mask, kernel, read);
        dispatch_all_types!(wide_floats, kernel, "layer_norm", T => {
            let (one, zero) = (T::from_scalar(Scalar::Int(1)), T::from_scalar(Scalar::Int(0)));
            map_lines([input], out, mask, kernel, |line, [from], to, n| {
                let (from, to): (*const T, *mut T) = (from.cast(), to.cast());
                // SAFETY: a line of `n` elements, room for as many, and a slot of each statistic for this line.
                unsafe {
                    let found = moments_of(from, n);
                    let spread = 1.0 / (found.squares / found.count + eps).sqrt();
                    means.get().cast::<T>().add(line).write(T::from_scalar(Scalar::Float(found.mean)));
                    rstds.get().cast::<T>().add(line).write(T::from_scalar(Scalar::Float(spread)));
                    let (weight, bias) = (parameter(weight, &one), parameter(bias, &zero));
                    let rows = Rows {
                        repeated: [false, weight.1, bias.1],
                        ahead: [next_line::<T>(n), 0, 0],
                        ..row([from, weight.0, bias.0], to, n)
                    };
                    write_row::<T, _, 3>(rows, Normalize(found.mean, spread), streams);
                }
            })
        })
    })
}

/// `x * rrms * weight` for every line, where `rrms = 1 / sqrt(mean(x^2) + eps)`, which is written too.
///
/// # Errors
/// As [`map_lines`].
pub(crate) fn rms_norm_lines(
    input: &Tensor,
    weight: Option<&Tensor>,
    [out, rrms]: [&Tensor; 2],
    mask: DimMask,
    eps: f64,
) -> Result<()> {
    let kernel = computing_type(input.dtype());
    with_parameters("rms_norm", &[weight], &[rrms], |guarded| {
        let shared = |tensor| Shared::of(guarded, tensor);
        let (weight, factors) = (weight.map(shared), shared(rrms));
        let streams = streams_to(out, mask, kernel, 1 + usize::from(weight.is_some()));
        dispatch_all_types!(wide_floats, kernel, "rms_norm", T => {
            let (one, zero) = (T::from_scalar(Scalar::Int(1)), T::from_scalar(Scalar::Int(0)));
            map_lines([input], out, mask, kernel, |line, [from], to, n| {
                let (from, to): (*const T, *mut T) = (from.cast(), to.cast());
                // SAFETY: as in `layer_norm_lines`.
                unsafe {
                    let squares = T::line_fold(from, n, SumOfSquares);
                    let factor = 1.0 / (squares / n as f64 + eps).sqrt();
                    factors.get().cast::<T>().add(line).write(T::from_scalar(Scalar::Float(factor)));
                    let weight = parameter(weight, &one);
                    let rows = Rows {
                        repeated: [false, weight.1, true],
                        ahead: [next_line::<T>(n), 0, 0],
                        ..row([from, weight.0, &raw const zero], to, n)
                    };
                    write_row::<T, _, 3>(rows, Normalize(0.0, factor), streams);
                }
            })
        })
    })
}
