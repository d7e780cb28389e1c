//! Normalization of short rows, one in each lane, and its derivative: a loop over each row takes longer to start than to run.
#![expect(
    unsafe_code,
    reason = "reads the strips that `map_columns` gives, and statistics under the callers' guards"
)]

use super::columns::map_columns;
use super::map_rows::Strip;
use super::row::Shared;
use crate::loops::reduce::moments_of;
use crate::loops::reduce::strips::{SHORT, STRIP};
use crate::tensor_iterator::DimMask;
use crate::vectorized::{
    CodegenAnchor, Convert, Float, FloatLanes, Isa, Kernel, Mask, Number, Ordered, Vector, dispatch, load_one,
};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar};
use std::marker::PhantomData;

/// Weights and biases of the elements of a row, and statistics of each row, of the computing type.
#[derive(Clone, Copy)]
pub(super) struct RowParameters<'a> {
    pub(super) weight: Option<&'a Shared>,
    pub(super) bias: Option<&'a Shared>,
    /// Absent where rows are not centred.
    pub(super) mean: Option<&'a Shared>,
    pub(super) rstd: &'a Shared,
}

/// The element of a parameter or statistic at an index, of the computing type `F`.
fn element<F>(shared: &Shared, at: usize) -> *mut F {
    shared.get().cast::<F>().wrapping_add(at)
}

/// Number `at` of a parameter in all lanes; `otherwise` where there is none.
///
/// # Safety
/// - The parameter has this element.
#[inline(always)]
unsafe fn in_all_lanes<V: Float>(parameter: Option<&Shared>, at: usize, otherwise: V) -> V {
    // SAFETY: this function's condition.
    parameter.map_or(otherwise, |p| V::splat(unsafe { *element::<V::Element>(p, at) }))
}

/// The statistics of `count` rows from `row` on.
///
/// # Safety
/// - There are as many, valid for reading.
#[inline(always)]
unsafe fn of_rows<V: Float>(statistic: &Shared, row: usize, count: usize) -> V {
    // SAFETY: this function's condition.
    unsafe { V::load_partial(element(statistic, row), count) }
}

/// Rows `row..row + rows` of `n` elements, and where the results go.
struct StripOf<'a, T, const N: usize> {
    row: usize,
    rows: usize,
    n: usize,
    from: [Strip; N],
    to: Strip,
    parameters: RowParameters<'a>,
    element: PhantomData<T>,
}

impl<T, const N: usize> StripOf<'_, T, N> {
    /// The address of element `i` of row `first` of argument `k`.
    #[inline(always)]
    fn source(&self, k: usize, i: usize, first: usize) -> *const T {
        let strip = self.from[k];
        strip.at.wrapping_offset(i as isize * strip.step).cast::<T>().wrapping_add(first)
    }

    /// That of its result.
    #[inline(always)]
    fn target(&self, i: usize, first: usize) -> *mut T {
        self.to.at.wrapping_offset(i as isize * self.to.step).cast::<T>().wrapping_add(first)
    }
}

/// `(x - mean) * rstd * weight + bias`, and the statistics; returns for each row whether these are finite.
struct NormalizeStrip<'a, T> {
    strip: StripOf<'a, T, 1>,
    eps: f64,
}

impl<T> CodegenAnchor for NormalizeStrip<'_, T> {
    type Anchor = NormalizeStrip<'static, T>;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I, [bool; STRIP]> for NormalizeStrip<'_, T> {
    #[inline(always)]
    unsafe fn run(self) -> [bool; STRIP] {
        let NormalizeStrip { strip, eps } = self;
        let (lanes, parameters) = (T::Vector::LANES, strip.parameters);
        let (zero, one) = (T::Vector::zero(), T::Vector::one());
        let (n, infinity) = (T::Vector::constant(strip.n as f64), T::Vector::constant(f64::INFINITY));
        let mut finite = [false; STRIP];
        for first in (0..strip.rows).step_by(lanes) {
            let count = lanes.min(strip.rows - first);
            // SAFETY: `count` rows of the strip, with a weight and a bias for each element, and statistics for each row.
            unsafe {
                let (mut centre, mut correction, mut squares) = (zero, zero, zero);
                if parameters.mean.is_some() {
                    for i in 0..strip.n {
                        centre = centre + T::load_up_to(strip.source(0, i, first), count);
                    }
                    centre = centre / n;
                }
                for i in 0..strip.n {
                    let d = T::load_up_to(strip.source(0, i, first), count) - centre;
                    correction = correction + d;
                    squares = d.mul_add(d, squares);
                }
                if let Some(means) = parameters.mean {
                    squares = correction.neg_mul_add(correction / n, squares);
                    squares = T::Vector::select(squares.lt(zero), zero, squares);
                    centre = centre + correction / n;
                    centre.store_partial(element(means, strip.row + first), count);
                }
                let factor = one / (squares / n + T::Vector::constant(eps)).sqrt();
                factor.store_partial(element(parameters.rstd, strip.row + first), count);
                let is_finite = centre.abs().lt(infinity) & squares.abs().lt(infinity);
                is_finite.store_bool(finite.as_mut_ptr().add(first), count);
                for i in 0..strip.n {
                    let x = T::load_up_to(strip.source(0, i, first), count) - centre;
                    let (weight, bias) =
                        (in_all_lanes(parameters.weight, i, one), in_all_lanes(parameters.bias, i, zero));
                    T::store_up_to((x * factor).mul_add(weight, bias), strip.target(i, first), count);
                }
            }
        }
        finite
    }
}

/// [`NormalizeStrip`] in f64, one by one, of the rows whose statistics are not finite: those of f64 may be.
///
/// # Safety
/// - The conditions of [`NormalizeStrip`]; parameters and statistics are of type `S`.
#[cold]
unsafe fn normalize_any<T: Element + Convert, S: Element + Convert>(
    strip: &StripOf<'_, T, 1>,
    eps: f64,
    finite: &[bool; STRIP],
) {
    let (n, parameters) = (strip.n, strip.parameters);
    let number = |p: Option<&Shared>, at: usize, otherwise: f64| {
        // SAFETY: this function's condition.
        p.map_or(otherwise, |p| unsafe { load_one(element::<S>(p, at)) }.to_scalar().to_f64())
    };
    for row in (0..strip.rows).filter(|row| !finite[*row]) {
        let mut x = [0.0; SHORT];
        for (i, x) in x[..n].iter_mut().enumerate() {
            // SAFETY: an element of the row.
            *x = unsafe { load_one(strip.source(0, i, row)) }.to_scalar().to_f64();
        }
        // SAFETY: the array holds them; a statistic for this row, and an element of its result.
        unsafe {
            let (mean, squares) = match parameters.mean {
                Some(means) => {
                    let found = moments_of(x.as_ptr(), n);
                    element::<S>(means, strip.row + row).write(S::from_scalar(Scalar::Float(found.mean)));
                    (found.mean, found.squares)
                }
                None => (0.0, x[..n].iter().map(|x| x * x).sum()),
            };
            let factor = 1.0 / (squares / n as f64 + eps).sqrt();
            element::<S>(parameters.rstd, strip.row + row).write(S::from_scalar(Scalar::Float(factor)));
            for (i, x) in x[..n].iter().enumerate() {
                let (weight, bias) = (number(parameters.weight, i, 1.0), number(parameters.bias, i, 0.0));
                let result = (x - mean) * factor * weight + bias;
                strip.target(i, row).write_unaligned(T::from_scalar(Scalar::Float(result)));
            }
        }
    }
}

/// [`layer_norm_rows`](super::layer_norm_rows), or without means [`rms_norm_rows`](super::rms_norm_rows), of short rows; `false` if rows
/// are not short, or operands not of one type, and then nothing is written.
///
/// # Errors
/// As [`map_columns`].
pub(super) fn norm_columns(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    parameters: RowParameters<'_>,
    eps: f64,
) -> Result<bool> {
    if mask.count(out.sizes()) > SHORT as i64 {
        return Ok(false);
    }
    dispatch_all_types!(floats, out.dtype(), "layer_norm", T => {
        map_columns([input], out, mask, |row, from, to, n, rows| {
            let strip = || StripOf::<T, 1> { row, rows, n, from, to, parameters, element: PhantomData };
            // SAFETY: the strips have these elements, and the callers' guards protect parameters and statistics.
            unsafe {
                let finite = dispatch(NormalizeStrip { strip: strip(), eps });
                if !finite[..rows].iter().all(|finite| *finite) {
                    match size_of::<T>() {
                        8 => normalize_any::<T, f64>(&strip(), eps, &finite),
                        _ => normalize_any::<T, f32>(&strip(), eps, &finite),
                    }
                }
            }
        })
    })
}

/// `rstd * (g - a - (x - mean) * rstd * b)`, where `g = grad * weight`, and `a` and `b` are the means of `g` and of `g * (x - mean) * rstd`;
/// `a = 0` where rows are not centred. The arguments are `grad` and `x`.
struct NormGradientOfStrip<'a, T>(StripOf<'a, T, 2>);

impl<T> CodegenAnchor for NormGradientOfStrip<'_, T> {
    type Anchor = NormGradientOfStrip<'static, T>;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for NormGradientOfStrip<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let strip = self.0;
        let (lanes, parameters) = (T::Vector::LANES, strip.parameters);
        let (zero, one) = (T::Vector::zero(), T::Vector::one());
        let n = T::Vector::constant(strip.n as f64);
        for first in (0..strip.rows).step_by(lanes) {
            let (row, count) = (strip.row + first, lanes.min(strip.rows - first));
            // SAFETY: `count` rows of the strip, with a weight for each element, and statistics for each row.
            unsafe {
                let rstd: T::Vector = of_rows(parameters.rstd, row, count);
                let mean = match parameters.mean {
                    Some(means) => of_rows(means, row, count),
                    None => zero,
                };
                let (mut a, mut b) = (zero, zero);
                for i in 0..strip.n {
                    let weight = in_all_lanes(parameters.weight, i, one);
                    let g = T::load_up_to(strip.source(0, i, first), count) * weight;
                    let x = T::load_up_to(strip.source(1, i, first), count);
                    a = a + g;
                    b = g.mul_add((x - mean) * rstd, b);
                }
                a = if parameters.mean.is_some() { a / n } else { zero };
                b = b / n;
                for i in 0..strip.n {
                    let weight = in_all_lanes(parameters.weight, i, one);
                    let grad = T::load_up_to(strip.source(0, i, first), count);
                    let normal = (T::load_up_to(strip.source(1, i, first), count) - mean) * rstd;
                    let result = (grad * weight - a - normal * b) * rstd;
                    T::store_up_to(result, strip.target(i, first), count);
                }
            }
        }
    }
}

/// [`layer_norm_backward_rows`](super::layer_norm_backward_rows) of short rows; `false` as [`norm_columns`].
///
/// # Errors
/// As [`map_columns`].
pub(super) fn norm_backward_columns(
    [grad, input]: [&Tensor; 2],
    to: &Tensor,
    mask: DimMask,
    parameters: RowParameters<'_>,
) -> Result<bool> {
    if mask.count(to.sizes()) > SHORT as i64 {
        return Ok(false);
    }
    dispatch_all_types!(floats, to.dtype(), "layer_norm_backward", T => {
        map_columns([grad, input], to, mask, |row, from, to, n, rows| {
            let strip = StripOf::<T, 2> { row, rows, n, from, to, parameters, element: PhantomData };
            // SAFETY: the strips have these elements, and the callers' guards protect parameters and statistics.
            unsafe { dispatch(NormGradientOfStrip(strip)) }
        })
    })
}
