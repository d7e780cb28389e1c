//! Where a formula meets an iterator: the type is chosen once per call, then a loop over lanes runs on whole rows.
//!
//! A formula implements the trait that asks least of its arguments: [`NumberFormula`] (`add`: a ring, which every type is),
//! [`OrderedFormula`] (`maximum`: with an order), [`FloatFormula`] (`exp`) or [`IntegerFormula`] (`bitwise_and`); and if its results
//! are truth values [`Comparison`] (`eq`), [`OrderedComparison`] (`lt`) or [`FloatComparison`] (`signbit`).

mod ahead;
mod copy;
mod formulas;
mod generate;
pub(crate) mod lines;
pub(crate) mod reduce;
mod rows;
mod select;
pub(crate) mod streaming;
mod strided;
mod summed;
mod tiles;
mod turned;

pub use copy::copy_kernel;
pub use formulas::{
    Comparison, FloatComparison, FloatFormula, IntegerFormula, NumberFormula, OrderedComparison,
    OrderedFormula,
};
pub use generate::{generate, generate_by_index, generate_by_word, generate_by_word64, generate_normal};
pub use select::{all_true, select_kernel};
pub(crate) use summed::sum_few;

use crate::dispatch_all_types;
use crate::tensor_iterator::{Operand, TensorIterator};
use crate::vectorized::EveryIsa;
use flambeau_core::{Element, Result, Scalar, ScalarType, ensure};
use reduce::computing_type;
use rows::{
    Compares, Divides, FloatCompares, Floats, Integers, Numbers, OrderedCompares, OrderedNumbers, RowKernel,
    Rows,
};
use std::sync::atomic::{AtomicBool, Ordering};
use tiles::{Kernel, for_each_rows};

/// Evaluates a floating point formula over an iterator of one output and `N` inputs. f16 and bf16 pass through tiles of f32: most
/// such formulas are long, and code for two more types costs more than a tile in cache.
///
/// # Errors
/// `NotImplemented` for other types, `Busy` or `Aliasing` where an operand may not be touched.
pub fn float_kernel<const N: usize>(iter: &TensorIterator<'_>, formula: impl FloatFormula<N>) -> Result<()> {
    dispatch_all_types!(wide_floats, computing_type(iter.common_dtype()), iter.name(), T => run::<T, _, N>(iter, Floats(formula), T::SCALAR_TYPE))
}

/// The same without tiles, which for f16 take half as long as an exponential: for formulas that networks of half precision spend
/// their time in, since each is compiled for two more types.
///
/// # Errors
/// As [`float_kernel`].
pub fn half_kernel<const N: usize>(iter: &TensorIterator<'_>, formula: impl FloatFormula<N>) -> Result<()> {
    dispatch_all_types!(floats, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Floats(formula), T::SCALAR_TYPE))
}

/// Evaluates a formula of numbers; bool is refused, as PyTorch refuses `-` on it.
///
/// # Errors
/// As [`float_kernel`].
pub fn number_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl NumberFormula<N>,
) -> Result<()> {
    dispatch_all_types!(numbers, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Numbers(formula), T::SCALAR_TYPE))
}

/// Evaluates a formula that bool has too.
///
/// # Errors
/// As [`float_kernel`].
pub fn any_kernel<const N: usize>(iter: &TensorIterator<'_>, formula: impl NumberFormula<N>) -> Result<()> {
    dispatch_all_types!(all, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Numbers(formula), T::SCALAR_TYPE))
}

/// Evaluates a formula of numbers that have an order; bool is refused.
///
/// # Errors
/// As [`float_kernel`].
pub fn ordered_number_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedFormula<N>,
) -> Result<()> {
    dispatch_all_types!(ordered_numbers, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, OrderedNumbers(formula), T::SCALAR_TYPE))
}

/// Evaluates a formula of all that has an order, bool too.
///
/// # Errors
/// As [`float_kernel`].
pub fn ordered_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedFormula<N>,
) -> Result<()> {
    dispatch_all_types!(ordered, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, OrderedNumbers(formula), T::SCALAR_TYPE))
}

/// Evaluates a formula of integers and bool.
///
/// # Errors
/// As [`float_kernel`].
pub fn integer_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl IntegerFormula<N>,
) -> Result<()> {
    dispatch_all_types!(bits, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Integers(formula), T::SCALAR_TYPE))
}

/// Answers a question about inputs of any one type; the output is bool.
///
/// # Errors
/// As [`float_kernel`].
pub fn comparison_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl Comparison<N>,
) -> Result<()> {
    dispatch_all_types!(all, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Compares(formula), ScalarType::Bool))
}

/// Answers a question about inputs of any one type that has an order; the output is bool.
///
/// # Errors
/// As [`float_kernel`].
pub fn ordered_comparison_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedComparison<N>,
) -> Result<()> {
    dispatch_all_types!(ordered, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, OrderedCompares(formula), ScalarType::Bool))
}

/// Evaluates a formula of two integers that has no value where the second is 0; bool is refused.
///
/// # Errors
/// `InvalidArgument`, PyTorch's `ZeroDivisionError`, where an element of the second input is 0. Others as [`float_kernel`].
pub fn division_kernel(iter: &TensorIterator<'_>, formula: impl IntegerFormula<2>) -> Result<()> {
    let by_zero = AtomicBool::new(!iter.writes_new() && has_zero(iter)?);
    ensure!(!by_zero.load(Ordering::Relaxed), InvalidArgument, "{}: ZeroDivisionError", iter.name());
    dispatch_all_types!(integers, iter.common_dtype(), iter.name(), T => run::<T, _, 2>(iter, Divides(formula, &by_zero), T::SCALAR_TYPE))?;
    ensure!(!by_zero.load(Ordering::Relaxed), InvalidArgument, "{}: ZeroDivisionError", iter.name());
    Ok(())
}

/// Whether an element of the second input is 0 in the type computed in. Asked before others can see what is written.
fn has_zero(iter: &TensorIterator<'_>) -> Result<bool> {
    let Some(divisor) = iter.operands().get(2).and_then(Operand::tensor) else { return Ok(false) };
    let divisor = divisor.to(iter.common_dtype())?;
    if divisor.numel() == 1 {
        return Ok(divisor.item_scalar()?.to_i64() == 0);
    }
    Ok(!all_true(&crate::ops::ne_scalar(&divisor, Scalar::Int(0))?)?)
}

/// Answers a question about floating point inputs; the output is bool.
///
/// # Errors
/// As [`float_kernel`].
pub fn float_comparison_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl FloatComparison<N>,
) -> Result<()> {
    dispatch_all_types!(wide_floats, computing_type(iter.common_dtype()), iter.name(), T => run::<T, _, N>(iter, FloatCompares(formula), ScalarType::Bool))
}

/// The loop for elements of `T`: operands of other types or odd strides pass through tiles.
fn run<T, F, const N: usize>(iter: &TensorIterator<'_>, formula: F, output: ScalarType) -> Result<()>
where
    T: Element,
    F: Copy + Sync,
    for<'r> RowKernel<'r, T, F, N>: EveryIsa,
{
    let run = |rows: &Rows<N>| rows::dispatch_rows::<T, F, N>(rows, formula);
    let input = T::SCALAR_TYPE;
    for_each_rows(
        iter,
        &Kernel { inputs: [input; N], output, heeds_streams: rows::streams(input, output), run: &run },
    )
}
