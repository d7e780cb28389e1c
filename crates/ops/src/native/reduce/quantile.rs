//! `quantile` and `nanquantile`.

use crate::enums::QuantileInterpolation;
use crate::ops::options::{AnyOptions, SumOptions};
use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, Scalar, ScalarType, bail, ensure, shape};

/// Interpolates between the elements at the ranks below and above `rank`.
fn between(
    below: &Tensor,
    above: &Tensor,
    rank: &Tensor,
    interpolation: QuantileInterpolation,
) -> Result<Tensor> {
    let fraction = match interpolation {
        QuantileInterpolation::Midpoint => return below.lerp_scalar(above, 0.5),
        _ => rank.sub(&rank.floor()?)?,
    };
    below.lerp(above, &fraction)
}

/// The quantiles `q` of each row.
fn quantiles(
    name: &str,
    self_: &Tensor,
    q: &Tensor,
    (dim, keepdim): (Option<i64>, bool),
    interpolation: &str,
    only_numbers: bool,
) -> Result<Tensor> {
    ensure!(self_.numel() > 0, Shape(name, "self"), "input tensor must be non-empty");
    ensure!(q.dim() <= 1, Shape(name, "q"), "q must be a scalar or 1D tensor");
    let wide = matches!(self_.dtype(), ScalarType::F32 | ScalarType::F64);
    ensure!(wide, Dtype(name, "self"), "input tensor must be either float or double dtype");
    ensure!(self_.dtype() == q.dtype(), Dtype(name, "q"), "q tensor must be same dtype as the input tensor");
    let Some(interpolation) = QuantileInterpolation::from_text(interpolation) else {
        bail!(
            InvalidArgument(name, "interpolation"),
            "interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    };
    if !q.device().is_meta() {
        let inside = q.ge_scalar(0)?.logical_and(&q.le_scalar(1)?)?.all()?;
        ensure!(
            inside.item_scalar()?.to_bool(),
            InvalidArgument(name, "q"),
            "q values must be in the range [0, 1]"
        );
    }
    let d = shape::wrap_dim(dim.unwrap_or(0), self_.dim()).map_err(|e| e.in_operator(name))?;
    let rows = match dim {
        Some(dim) if self_.dim() > 0 => self_.movedim(&[dim], &[-1])?,
        _ => self_.reshape(&[-1])?,
    };
    let sorted = rows.sort()?.0;
    let ranks = ranks(&sorted, q, only_numbers)?;
    let at = |rank: &Tensor| sorted.gather(-1, &rank.to(ScalarType::I64)?);
    let made = match interpolation {
        QuantileInterpolation::Lower => at(&ranks.floor()?)?,
        QuantileInterpolation::Higher => at(&ranks.ceil()?)?,
        QuantileInterpolation::Nearest => at(&ranks.round()?)?,
        QuantileInterpolation::Linear | QuantileInterpolation::Midpoint => {
            between(&at(&ranks.floor()?)?, &at(&ranks.ceil()?)?, &ranks, interpolation)?
        }
    };
    // The quantiles are in the last dimension of `made`; of a result for several `q` they are the first one.
    let mut sizes = DimVec::from_slice(&made.sizes()[..made.dim() - 1]);
    if keepdim {
        match dim {
            Some(_) if self_.dim() > 0 => sizes.insert(d, 1),
            _ => sizes = DimVec::from_elem(1, self_.dim()),
        }
    }
    if q.dim() == 0 {
        return made.reshape(&sizes);
    }
    sizes.insert(0, q.numel());
    made.movedim(&[-1], &[0])?.reshape(&sizes)
}

/// For each row and each of `q` the rank, which need not be an integer. In rows with NaN it is the last one, where NaN is sorted,
/// unless `only_numbers`, where NaN is ignored.
fn ranks(sorted: &Tensor, q: &Tensor, only_numbers: bool) -> Result<Tensor> {
    let n = sorted.sizes().last().copied().unwrap_or(1);
    let nan = sorted.isnan()?;
    let mut sizes = DimVec::from_slice(sorted.sizes());
    if let Some(last) = sizes.last_mut() {
        *last = q.numel();
    }
    let q = q.reshape(&[-1])?;
    if only_numbers {
        let counts = nan.logical_not()?.sum_with(SumOptions::new().dim(&[-1]).keepdim(true))?;
        return q.mul(&counts.sub_scalar(1)?.to(q.dtype())?)?.clamp_min(0);
    }
    let whole = q.mul_scalar(n - 1)?.expand(&sizes)?;
    whole.masked_fill(&nan.any_with(AnyOptions::new().dim(&[-1]).keepdim(true))?, n - 1)
}

macro_rules! quantiles {
    ($($name:literal $only_numbers:literal: $of_tensor:ident $of_number:ident;)*) => {$(
        /// The quantiles `q`, along a dimension or of all elements.
        pub fn $of_tensor(self_: &Tensor, q: &Tensor, dim: Option<i64>, keepdim: bool, interpolation: &str) -> Result<Tensor> {
            quantiles($name, self_, q, (dim, keepdim), interpolation, $only_numbers)
        }

        /// The quantile of one number `q`, along a dimension or of all elements.
        pub fn $of_number(self_: &Tensor, q: f64, dim: Option<i64>, keepdim: bool, interpolation: &str) -> Result<Tensor> {
            ensure!((0.0..=1.0).contains(&q), InvalidArgument($name, "q"), "q must be in the range [0, 1] but got {q}");
            let q = ops::full(&[], Scalar::Float(q), Some(self_.dtype()), None, Some(self_.device()), None)?;
            quantiles($name, self_, &q, (dim, keepdim), interpolation, $only_numbers)
        }
    )*};
}

quantiles! {
    "quantile" false: quantile quantile_scalar;
    "nanquantile" true: nanquantile nanquantile_scalar;
}
