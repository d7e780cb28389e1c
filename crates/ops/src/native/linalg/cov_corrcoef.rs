//! Covariance and correlation coefficients.

use crate::ops::options::SumOptions;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, bail, ensure};

/// The weights of samples: frequencies times importances.
fn weights(
    name: &str,
    count: i64,
    fweights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    for (what, weights) in [("fweights", fweights), ("aweights", aweights)] {
        let Some(w) = weights else { continue };
        ensure!(
            w.dim() <= 1,
            Shape(name, what),
            "expected {what} to have one or fewer dimensions but got {}",
            w.dim()
        );
        let kind =
            if what == "fweights" { w.dtype().is_integral(false) } else { w.dtype().is_floating_point() };
        ensure!(kind, Dtype(name, what), "{what} of dtype {} are not supported", w.dtype());
        ensure!(
            w.numel() == count,
            Shape(name, what),
            "expected {what} to have the same numel as there are observations in the input but got {} != {count}",
            w.numel()
        );
        let min = if count == 0 { 0.0 } else { w.min()?.item_scalar()?.to_f64() };
        ensure!(min >= 0.0, InvalidArgument(name, what), "{what} cannot be negative");
    }
    Ok(match (fweights, aweights) {
        (Some(f), Some(a)) => Some(f.mul(a)?),
        (one, other) => one.or(other).cloned(),
    })
}

/// The covariance matrix of rows: products of their deviations from the means and the conjugates of those, divided by the number of samples minus
/// `correction`.
pub fn cov(
    self_: &Tensor,
    correction: i64,
    fweights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Tensor> {
    const NAME: &str = "cov";
    ensure!(
        self_.dim() <= 2,
        Shape(NAME, "self"),
        "expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    ensure!(self_.dtype() != ScalarType::Bool, Dtype(NAME, "self"), "bool dtype is not supported for input");
    let rows = if self_.dim() < 2 { self_.reshape(&[1, -1])? } else { self_.clone() };
    let count = rows.sizes()[1];
    let Some(w) = weights(NAME, count, fweights, aweights)? else {
        let centred =
            rows.sub(&rows.sum_with(SumOptions::new().dim(&[1]).keepdim(true))?.div_scalar(count as f64)?)?;
        let left = (count as f64 - correction as f64).max(0.0);
        return centred.mm(&centred.t()?.conj()?)?.div_scalar(left)?.squeeze();
    };
    let total = w.sum()?;
    ensure!(
        total.item_scalar()?.to_f64() != 0.0,
        InvalidArgument(NAME),
        "weights sum to zero, can't be normalized"
    );
    let centred =
        rows.sub(&rows.mul(&w)?.sum_with(SumOptions::new().dim(&[1]).keepdim(true))?.div(&total)?)?;
    let products = centred.mm(&centred.mul(&w)?.t()?.conj()?)?;
    // Computed with tensors rather than numbers, since weights may require gradients.
    let left = match aweights {
        Some(a) if correction != 0 => total.sub(&w.mul(a)?.sum()?.mul_scalar(correction)?.div(&total)?)?,
        _ => total.sub_scalar(correction)?,
    };
    products.div(&left.clamp_min(Scalar::Int(0))?)?.squeeze()
}

/// The correlation coefficients: [`cov`] divided by the standard deviations, with parts clamped to -1 to 1.
pub fn corrcoef(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2,
        Shape("corrcoef", "self"),
        "expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    let c = ops::cov(self_, 1, None, None)?;
    match c.dim() {
        0 => c.div(&c),
        2 => {
            let deviation = ops::real(&c.diagonal()?)?.sqrt()?;
            let scaled = c.div(&deviation.unsqueeze(1)?)?.div(&deviation.unsqueeze(0)?)?;
            let clamped = |part: &Tensor| part.clamp(Scalar::Int(-1), Scalar::Int(1));
            match scaled.is_complex() {
                true => ops::complex(&clamped(&ops::real(&scaled)?)?, &clamped(&ops::imag(&scaled)?)?),
                false => clamped(&scaled),
            }
        }
        rank => bail!(Internal("corrcoef"), "expected a matrix but got {rank} dimensions"),
    }
}
