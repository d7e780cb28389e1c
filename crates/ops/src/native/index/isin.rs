//! Membership, places in a table of fixed size, and slices brought together.

use crate::native::factory::copy;
use crate::native::shape::view;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure, shape};

/// Up to so many elements are compared with each; more are searched for in order. PyTorch's measure.
fn few(elements: i64, tests: i64) -> bool {
    (tests as f64) < 10.0 * (elements as f64).powf(0.145)
}

/// For each element whether it is among `test_elements`, or with `invert` whether not.
pub fn isin(elements: &Tensor, test_elements: &Tensor, _assume_unique: bool, invert: bool) -> Result<Tensor> {
    let tests = test_elements.reshape(&[-1])?;
    let found = if tests.numel() == 0 {
        ops::zeros_like(elements, Some(ScalarType::Bool), None, None, None, None)?
    } else if few(elements.numel(), tests.numel()) {
        elements.unsqueeze(-1)?.eq(&tests)?.any_dim(-1, false)?
    } else {
        let sorted = tests.sort(0, false)?.0;
        let places = ops::searchsorted_tensor(&sorted, elements, false, false, None, None)?;
        let places = places.clamp_max(tests.numel() - 1)?;
        sorted.take(&places)?.eq(elements)?
    };
    if invert { found.logical_not() } else { Ok(found) }
}

/// For each element whether it equals a number.
pub fn isin_scalar(
    elements: &Tensor,
    test_element: Scalar,
    _assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    if invert { elements.ne_scalar(test_element) } else { elements.eq_scalar(test_element) }
}

/// Whether a number is among `test_elements`.
pub fn isin_number(
    element: Scalar,
    test_elements: &Tensor,
    _assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    let found = test_elements.eq_scalar(element)?.any()?;
    if invert { found.logical_not() } else { Ok(found) }
}

/// The places of the first `size` elements that are not 0, and rows of `fill_value` where there are fewer.
pub fn nonzero_static(self_: &Tensor, size: i64, fill_value: i64) -> Result<Tensor> {
    ensure!(size >= 0, InvalidArgument, "nonzero_static: 'size' must be an non-negative integer");
    let sizes = [size, self_.dim() as i64];
    let options = (Some(ScalarType::I64), Some(self_.device()));
    let made = ops::full(&sizes, Scalar::Int(fill_value), options.0, None, options.1, None)?;
    if !self_.device().is_meta() {
        let found = self_.nonzero()?;
        let count = found.sizes()[0].min(size);
        copy::copy_(
            &view::slice(&made, 0, Some(0), Some(count), 1)?,
            &view::slice(&found, 0, Some(0), Some(count), 1)?,
            false,
        )?;
    }
    Ok(made)
}

/// `self_` with the slices of `source` brought into those of `dim` that `index` names, by a product, mean or extreme.
pub fn index_reduce(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    const NAME: &str = "index_reduce";
    ensure!(
        ["prod", "mean", "amax", "amin"].contains(&reduce),
        InvalidArgument,
        "{NAME}: expected reduce to be one of prod, mean, amax or amin but got {reduce}."
    );
    ensure!(
        index.dim() <= 1,
        Index,
        "{NAME}: Index is supposed to be a vector, but got dim: {}",
        index.dim()
    );
    let whole = matches!(index.dtype(), ScalarType::I32 | ScalarType::I64);
    ensure!(whole, Dtype, "{NAME}: Expected dtype int32/int64 for index");
    ensure!(
        self_.dtype() == source.dtype(),
        Dtype,
        "{NAME}: self and source expected to have the same dtype"
    );
    ensure!(self_.dim() == source.dim(), Shape, "{NAME}: self and source must have as many dimensions");
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.context(NAME))?;
    let fits = (0..self_.dim()).all(|at| {
        let size = source.sizes()[at];
        if at == d { size == index.numel() } else { size == self_.sizes()[at] }
    });
    ensure!(
        fits,
        Shape,
        "{NAME}: expected a source of as many slices as there are indices ({}), and otherwise of the sizes {:?}, but got {:?}",
        index.numel(),
        self_.sizes(),
        source.sizes()
    );
    let mut sizes = vec![1; self_.dim()];
    if let Some(size) = sizes.get_mut(d) {
        *size = index.numel();
    }
    let places = index.to(ScalarType::I64)?.reshape(&sizes)?.expand(source.sizes())?;
    ops::scatter_reduce_two(self_, dim, &places, source, reduce, include_self)
}
