//! Normalization of rows: `(x - mean) * rstd * weight + bias` (layer norm), and the form without a mean (RMS norm).
#![expect(unsafe_code, reason = "reads the dense rows that `map_rows` gives")]

use super::map_rows::{map_rows, should_stream_to};
use super::norm_columns::{RowParameters, norm_columns};
use super::row::{Shared, next_row_distance, row, write_row};
use crate::loops::formulas::FloatFormula;
use crate::loops::reduce::{RowFloat, SumOfSquares, computing_type, moments_of};
use crate::loops::rows::Rows;
use crate::structured::with_guards;
use crate::tensor_iterator::DimMask;
use crate::vectorized::Float;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Guarded, Result, Scalar};
use smallvec::SmallVec;

/// Weights and biases of the elements of a row: contiguous tensors of the computing type, as long as a row.
#[derive(Clone, Copy, Default)]
pub(crate) struct Affine<'a> {
    /// Factors, 1 where absent.
    pub(crate) weight: Option<&'a Tensor>,
    /// Terms, 0 where absent.
    pub(crate) bias: Option<&'a Tensor>,
}

/// The address of a parameter's elements, or of one number for all, and whether it is that.
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

/// Calls `body` under the guards of parameters and statistics, which [`map_rows`] does not see.
pub(super) fn with_parameters<R>(
    name: &str,
    read: &[Option<&Tensor>],
    written: &[&Tensor],
    body: impl for<'g> FnOnce(Guarded<'g>) -> Result<R>,
) -> Result<R> {
    let read: SmallVec<[&Tensor; 4]> = read.iter().copied().flatten().collect();
    with_guards(name, &read, written, body)
}

/// Normalizes every row of the dimensions `mask`; `mean` and `rstd` are contiguous, with one element for each row, of the computing type.
///
/// # Errors
/// As [`map_rows`].
pub(crate) fn layer_norm_rows(
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
        let parameters =
            RowParameters { weight: weight.as_ref(), bias: bias.as_ref(), mean: Some(&means), rstd: &rstds };
        if norm_columns(input, out, mask, parameters, eps)? {
            return Ok(());
        }
        let read = 1 + usize::from(weight.is_some()) + usize::from(bias.is_some());
        let streams = should_stream_to(out, mask, kernel, read);
        dispatch_all_types!(wide_floats, kernel, "layer_norm", T => {
            let (one, zero) = (T::from_scalar(Scalar::Int(1)), T::from_scalar(Scalar::Int(0)));
            map_rows([input], out, mask, kernel, |row_index, [from], to, n| {
                let (from, to): (*const T, *mut T) = (from.cast(), to.cast());
                // SAFETY: a row of `n` elements, memory for as many, and one element of each statistic for this row.
                unsafe {
                    let found = moments_of(from, n);
                    let inverse_std = 1.0 / (found.squares / found.count + eps).sqrt();
                    means.get().cast::<T>().add(row_index).write(T::from_scalar(Scalar::Float(found.mean)));
                    rstds.get().cast::<T>().add(row_index).write(T::from_scalar(Scalar::Float(inverse_std)));
                    let (weight, bias) = (parameter(weight, &one), parameter(bias, &zero));
                    let rows = Rows {
                        repeated: [false, weight.1, bias.1],
                        prefetch: [next_row_distance::<T>(n), 0, 0],
                        ..row([from, weight.0, bias.0], to, n)
                    };
                    write_row::<T, _, 3>(rows, Normalize(found.mean, inverse_std), streams);
                }
            })
        })
    })
}

/// `x * rrms * weight` for every row, where `rrms = 1 / sqrt(mean(x^2) + eps)`, which is written too.
///
/// # Errors
/// As [`map_rows`].
pub(crate) fn rms_norm_rows(
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
        let parameters = RowParameters { weight: weight.as_ref(), bias: None, mean: None, rstd: &factors };
        if norm_columns(input, out, mask, parameters, eps)? {
            return Ok(());
        }
        let streams = should_stream_to(out, mask, kernel, 1 + usize::from(weight.is_some()));
        dispatch_all_types!(wide_floats, kernel, "rms_norm", T => {
            let (one, zero) = (T::from_scalar(Scalar::Int(1)), T::from_scalar(Scalar::Int(0)));
            map_rows([input], out, mask, kernel, |row_index, [from], to, n| {
                let (from, to): (*const T, *mut T) = (from.cast(), to.cast());
                // SAFETY: as in `layer_norm_rows`.
                unsafe {
                    let squares = T::row_fold(from, n, SumOfSquares);
                    let factor = 1.0 / (squares / n as f64 + eps).sqrt();
                    factors.get().cast::<T>().add(row_index).write(T::from_scalar(Scalar::Float(factor)));
                    let weight = parameter(weight, &one);
                    let rows = Rows {
                        repeated: [false, weight.1, true],
                        prefetch: [next_row_distance::<T>(n), 0, 0],
                        ..row([from, weight.0, &raw const zero], to, n)
                    };
                    write_row::<T, _, 3>(rows, Normalize(0.0, factor), streams);
                }
            })
        })
    })
}
