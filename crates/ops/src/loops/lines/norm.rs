//! Normalization of lines: `(x - mean) * rstd * weight + bias`, its derivative, and the form without a mean.
#![expect(unsafe_code, reason = "reads the dense lines that the driver gives")]

use super::{map_lines, row};
use crate::loops::FloatFormula;
use crate::loops::reduce::{LineFloat, SumOfSquares, computing_type, first_element, moments_of};
use crate::loops::rows::{Rows, dispatch_rows_of};
use crate::tensor_iterator::DimMask;
use crate::vectorized::Float;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Access, Element, Result, Scalar, Storage, StorageGuards};

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
struct Shared(*mut u8);

// SAFETY: parameters are only read, and each line writes its own statistics, while the guards are held.
unsafe impl Sync for Shared {}

impl Shared {
    fn of(tensor: &Tensor) -> Self {
        Shared(first_element(tensor))
    }

    fn get(&self) -> *mut u8 {
        self.0
    }
}

/// A parameter, or one number for all.
fn parameter<T>(shared: Option<Shared>, otherwise: &T) -> (*const T, bool) {
    match shared {
        Some(shared) => (shared.get().cast_const().cast(), false),
        None => (std::ptr::from_ref(otherwise), true),
    }
}

/// `(x - mean) * rstd * weight + bias`.
#[derive(Clone, Copy)]
struct Normalize(f64, f64);

impl FloatFormula<3> for Normalize {
    #[inline(always)]
    fn call<V: Float>(self, [x, weight, bias]: [V; 3]) -> V {
        ((x - V::constant(self.0)) * V::constant(self.1)).mul_add(weight, bias)
    }
}

/// The storages of parameters and statistics, which [`map_lines`] does not see.
fn storages<'a>(read: &[Option<&'a Tensor>], written: &[&'a Tensor]) -> Vec<(&'a Storage, Access)> {
    let read = read.iter().flatten().map(|t| (t.storage(), Access::Read));
    read.chain(written.iter().map(|t| (t.storage(), Access::Write))).collect()
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
    let wanted = storages(&[affine.weight, affine.bias], &[mean, rstd]);
    let _guards = StorageGuards::acquire(&wanted)?;
    let (weight, bias) = (affine.weight.map(Shared::of), affine.bias.map(Shared::of));
    let (means, rstds) = (Shared::of(mean), Shared::of(rstd));
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
                let rows = Rows { repeated: [false, weight.1, bias.1], ..row([from, weight.0, bias.0], to, n) };
                dispatch_rows_of::<T, _, 3>(rows, Normalize(found.mean, spread));
            }
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
    let wanted = storages(&[weight], &[rrms]);
    let _guards = StorageGuards::acquire(&wanted)?;
    let (weight, factors) = (weight.map(Shared::of), Shared::of(rrms));
    dispatch_all_types!(wide_floats, kernel, "rms_norm", T => {
        let (one, zero) = (T::from_scalar(Scalar::Int(1)), T::from_scalar(Scalar::Int(0)));
        map_lines([input], out, mask, kernel, |line, [from], to, n| {
            let (from, to): (*const T, *mut T) = (from.cast(), to.cast());
            // SAFETY: as in `layer_norm_lines`.
            unsafe {
                let squares = T::line_fold(from, n, SumOfSquares, |a, b| a + b);
                let factor = 1.0 / (squares / n as f64 + eps).sqrt();
                factors.get().cast::<T>().add(line).write(T::from_scalar(Scalar::Float(factor)));
                let weight = parameter(weight, &one);
                let rows = Rows { repeated: [false, weight.1, true], ..row([from, weight.0, &raw const zero], to, n) };
                dispatch_rows_of::<T, _, 3>(rows, Normalize(0.0, factor));
            }
        })
    })
}

/// `grad * weight`, times `(x - mean) * rstd` or 1.
#[derive(Clone, Copy)]
struct Weighted<const DEVIATION: bool>(f64, f64);

impl<const DEVIATION: bool> FloatFormula<3> for Weighted<DEVIATION> {
    #[inline(always)]
    fn call<V: Float>(self, [grad, x, weight]: [V; 3]) -> V {
        let g = grad * weight;
        if DEVIATION { g * ((x - V::constant(self.0)) * V::constant(self.1)) } else { g }
    }
}

/// `rstd * (g - a - (x - mean) * rstd * b)`, in this order: mean, rstd, a, b.
#[derive(Clone, Copy)]
struct NormGradient(f64, f64, f64, f64);

impl FloatFormula<3> for NormGradient {
    #[inline(always)]
    fn call<V: Float>(self, [grad, x, weight]: [V; 3]) -> V {
        let NormGradient(mean, rstd, a, b) = self;
        let normal = (x - V::constant(mean)) * V::constant(rstd);
        (grad * weight - V::constant(a) - normal * V::constant(b)) * V::constant(rstd)
    }
}

/// The derivative of [`layer_norm_lines`] (or, without `mean`, of [`rms_norm_lines`]) with respect to its input.
///
/// # Errors
/// As [`map_lines`].
pub(crate) fn layer_norm_backward_lines(
    [grad, input]: [&Tensor; 2],
    mean: Option<&Tensor>,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    to: &Tensor,
    mask: DimMask,
) -> Result<()> {
    let kernel = computing_type(input.dtype());
    let wanted = storages(&[weight, mean, Some(rstd)], &[]);
    let _guards = StorageGuards::acquire(&wanted)?;
    let (weight, means, rstds) = (weight.map(Shared::of), mean.map(Shared::of), Shared::of(rstd));
    dispatch_all_types!(wide_floats, kernel, "layer_norm_backward", T => {
        let one = T::from_scalar(Scalar::Int(1));
        map_lines([grad, input], to, mask, kernel, |line, [grad, from], to, n| {
            let (grad, from, to): (*const T, *const T, *mut T) = (grad.cast(), from.cast(), to.cast());
            // SAFETY: lines of `n` elements, room for as many, and a statistic of each kind for this line.
            unsafe {
                let statistic = |shared: &Shared| shared.get().cast::<T>().add(line).read().to_scalar().to_f64();
                let (mean, rstd) = (means.as_ref().map_or(0.0, statistic), statistic(&rstds));
                let weight = parameter(weight, &one);
                let rows = Rows { repeated: [false, false, weight.1], ..row([grad, from, weight.0], to, n) };
                dispatch_rows_of::<T, _, 3>(rows, Weighted::<true>(mean, rstd));
                let b = T::line_sum(to, n) / n as f64;
                dispatch_rows_of::<T, _, 3>(rows, Weighted::<false>(mean, rstd));
                let a = if means.is_some() { T::line_sum(to, n) / n as f64 } else { 0.0 };
                dispatch_rows_of::<T, _, 3>(rows, NormGradient(mean, rstd, a, b));
            }
        })
    })
}
