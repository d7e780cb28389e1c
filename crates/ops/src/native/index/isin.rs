//! `isin`: whether elements are members of a set.

use crate::ops::options::SortOptions;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType};

/// Whether to compare each element with each test element; otherwise binary search in the sorted test elements is faster. PyTorch's
/// heuristic.
fn should_compare_all(elements: i64, tests: i64) -> bool {
    (tests as f64) < 10.0 * (elements as f64).powf(0.145)
}

/// Of at least as many elements each test element is compared with all in one call; with fewer the calls would dominate the run time.
const MIN_COMPARED_ONE_BY_ONE: i64 = 4096;

/// For each element whether it equals one of `tests`, a vector that is not empty.
fn equals_any(elements: &Tensor, tests: &Tensor) -> Result<Tensor> {
    // A tensor without dimensions would take another part in type promotion.
    if elements.dim() == 0 || elements.numel() < MIN_COMPARED_ONE_BY_ONE {
        return elements.unsqueeze(-1)?.eq(tests)?.any_dim(-1);
    }
    let equals = |index: i64| elements.eq(&tests.narrow(0, index, 1)?);
    (1..tests.numel()).try_fold(equals(0)?, |found, index| found.bitwise_or(&equals(index)?))
}

/// For each element whether it is in `test_elements`, or with `invert` whether it is not.
pub fn isin(elements: &Tensor, test_elements: &Tensor, _assume_unique: bool, invert: bool) -> Result<Tensor> {
    let tests = test_elements.reshape(&[-1])?;
    let found = if tests.numel() == 0 {
        ops::zeros_like(elements, Some(ScalarType::Bool), None, None, None, None)?
    } else if should_compare_all(elements.numel(), tests.numel()) {
        equals_any(elements, &tests)?
    } else {
        let sorted = tests.sort_with(SortOptions::new().dim(0))?.0;
        let index = ops::searchsorted_tensor(&sorted, elements, false, false, None, None)?;
        let index = index.clamp_max(tests.numel() - 1)?;
        sorted.take(&index)?.eq(elements)?
    };
    if invert { found.logical_not() } else { Ok(found) }
}

/// For each element whether it equals a number, or with `invert` whether it does not.
pub fn isin_scalar(
    elements: &Tensor,
    test_element: Scalar,
    _assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    if invert { elements.ne_scalar(test_element) } else { elements.eq_scalar(test_element) }
}

/// Whether a number is in `test_elements`, or with `invert` whether it is not.
pub fn isin_number(
    element: Scalar,
    test_elements: &Tensor,
    _assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    let found = test_elements.eq_scalar(element)?.any()?;
    if invert { found.logical_not() } else { Ok(found) }
}
