//! Elementwise loops, reductions and row operators. A kernel gives a formula and a `TensorIterator`: the element type is chosen once
//! per call, then a loop over vector lanes computes whole rows.
//!
//! A formula implements the trait with the weakest requirements on its arguments: [`NumberFormula`] (`add`: a ring, which every type is),
//! [`OrderedFormula`] (`maximum`: with an order), [`FloatFormula`] (`exp`) or [`IntegerFormula`] (`bitwise_and`); and if its results
//! are truth values [`Comparison`] (`eq`), [`OrderedComparison`] (`lt`) or [`FloatComparison`] (`signbit`). Complex numbers are in a ring
//! without an order; other formulas of theirs are a [`ComplexFormula`] (`exp`), [`ComplexToReal`] (`abs`) or [`ComplexComparison`].
//!
//! # Note: what is compiled how often
//!
//! A formula is compiled for each element type and instruction set, some thousand times for all formulas together. Everything else is
//! compiled once: guards, tiles, threads and the iteration over rows know a kernel only as `&dyn Fn(&Rows<N>)`. The loop over a row
//! contains the formula once, for whole vectors, for the last elements and for repeated arguments alike. Reductions know a fold only as
//! a table of functions, and an accumulator as sixteen bytes (`reduce/any_fold.rs`).
//!
//! Most formulas compute f16 and bf16 in f32, through tiles ([`float_kernel`]). Formulas in which networks of half precision spend their
//! time are compiled for these types too ([`half_kernel`]), and may have a form with fewer digits ([`FloatFormula::call_to_half`]).
//! Formulas that need only the bits of elements have them in lanes of another type (`bit_lanes.rs`).
//!
//! The machine code of a loop is generated in the module of its formula (`CodegenAnchor::Anchor`) and not in that of the loop, so that
//! an edit of one file of kernels recompiles only the loops of that file.
//!
//! Where the operands are on a device whose crate has registered [`device::DeviceLoops`], the formula is traced once more, by the
//! vectors of [`crate::vectorized::traced`], and the device prints and runs its expression.
//!
//! # Note: non-temporal stores
//!
//! A non-temporal (streaming) store bypasses the caches (*Intel 64 and IA-32 Architectures Optimization Reference Manual*, "Streaming
//! stores"). For a result that is larger than the LLC it saves two things: the read of each cache line that an ordinary store makes
//! before it overwrites the line (read for ownership), and the eviction of lines that would have been found in the cache later.
//! Three conditions follow, of which `streaming::should_stream` checks the first two, and its callers the third:
//!
//! - The result and its inputs do not fit the LLC. Otherwise the next operator would find the result there.
//! - A store writes a whole cache line, which takes AVX-512. Partial lines gain nothing, since the write-combining buffer that
//!   collects them is often evicted before it is full.
//! - The result shares no memory with an input.
//!
//! Loops over vectors that fill a cache line, or half of one, use such stores themselves where all rows begin at a cache line
//! (`rows::LaneFormula::STREAMS`). Otherwise a piece of the result is computed into a tile in L1 and copied from there. These stores are
//! weakly ordered: `streaming::fence` comes before another thread may read the result.
//!
//! # Note: prefetching
//!
//! The hardware prefetcher recognizes sequential reads. It stops at the end of a page, runs less far ahead where a loop reads several
//! arguments, and does not foresee where the next row begins. There loops prefetch by instructions, a fixed distance in bytes before
//! the read (`machine`):
//!
//! - Elementwise loops prefetch into L1 where the result bypasses the caches, and else into L2, with a shorter distance, since the
//!   result needs L1 for itself.
//! - Reductions read their input once. On AMD's Zen 3 and 4 the hardware prefetcher runs furthest ahead where two loads read each
//!   cache line, and less far beside prefetches into L1. So each cache line is loaded twice there, and prefetches go into L2.
//! - Row operators (softmax, normalization) read a row in several passes. They prefetch the next row into L1 during the last pass,
//!   which computes little.
//! - Copies of rows in the order of indices (`index_select`, `embedding`) prefetch the rows that come next.

mod bit_lanes;
mod convert;
mod copy;
mod copy_bytes;
pub mod device;
mod formulas;
mod fused_map_sum;
mod generate;
mod machine;
mod neighbors;
mod packed;
mod prefetch;
pub(crate) mod reduce;
pub(crate) mod rolled;
mod row_offsets;
pub(crate) mod row_ops;
mod rows;
mod select;
pub(crate) mod streaming;
mod strided;
mod tiles;
pub(crate) mod transposed;
mod update;

pub(crate) use convert::{Convert, converter};
pub use copy::copy_kernel;
pub(crate) use copy_bytes::{copy_bytes, copy_elements};
pub use formulas::{
    Argument, Comparison, ComplexComparison, ComplexFormula, ComplexToReal, Division, DivisionFormula,
    FloatComparison, FloatFormula, IntegerFormula, LogicalFormula, NumberFormula, OrderedComparison,
    OrderedFormula,
};
pub(crate) use fused_map_sum::fused_map_sum;
pub(crate) use generate::Words64;
pub use generate::{
    generate, generate_by_index, generate_by_word, generate_by_word64, generate_normal, normal_expression,
};
pub(crate) use row_offsets::RowOffsets;
pub use select::{all_true, select_kernel};
pub use update::{Rounding, UpdateFormula, update_kernel};

use crate::dispatch_all_types;
use crate::tensor_iterator::{Operand, TensorIterator};
use crate::vectorized::traced::{TraceAs, Traced};
use crate::vectorized::{CodegenAnchor, EveryIsa, Integer, Lanes};
use bit_lanes::{DividesByFloats, Nonzero};
use convert::Mapping;
use flambeau_core::{Complex, Element, Result, Scalar, ScalarType, ensure};
use reduce::computing_type;
use rows::{
    Compares, ComplexCompares, Complexes, Divides, FloatCompares, Floats, Integers, LaneFormula, Magnitudes,
    Numbers, OrderedCompares, OrderedNumbers, RowKernel, Rows,
};
use std::sync::atomic::{AtomicBool, Ordering};
use tiles::{Kernel, for_each_rows};

/// Evaluates a floating point formula over an iterator of one output and `N` inputs. f16 and bf16 are converted to f32 in tiles: most
/// such formulas are long, and machine code for two more types costs more than a tile in L1.
///
/// # Errors
/// `NotImplemented` for other types, `Busy` or `Aliasing` where an operand may not be touched.
pub fn float_kernel<const N: usize>(iter: &TensorIterator<'_>, formula: impl FloatFormula<N>) -> Result<()> {
    dispatch_all_types!(wide_floats, computing_type(iter.common_dtype()), iter.name(), T => run::<T, _, N>(iter, Floats(formula), T::SCALAR_TYPE))
}

/// [`float_kernel`] in f64, whatever the type is: for formulas that would lose digits in f32, or are too long to be compiled twice.
///
/// # Errors
/// As [`float_kernel`].
pub fn double_kernel<const N: usize>(iter: &TensorIterator<'_>, formula: impl FloatFormula<N>) -> Result<()> {
    dispatch_all_types!(floats, iter.common_dtype(), iter.name(), T => {
        const { assert!(T::SCALAR_TYPE.is_floating_point()) };
        run::<f64, _, N>(iter, Floats(formula), ScalarType::F64)
    })
}

/// [`float_kernel`] without tiles for f16 and bf16, which take half as long as an exponential. Each such formula is compiled for
/// two more types, so this is for those in which networks of half precision spend their time.
///
/// # Errors
/// As [`float_kernel`].
pub fn half_kernel<const N: usize>(iter: &TensorIterator<'_>, formula: impl FloatFormula<N>) -> Result<()> {
    dispatch_all_types!(floats, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Floats(formula), T::SCALAR_TYPE))
}

/// Evaluates a formula of complex numbers, or with `of_reals` the formula of real ones.
///
/// # Errors
/// As [`float_kernel`].
#[inline(always)]
pub fn complex_or<'i, F: ComplexFormula<N>, const N: usize>(
    iter: &TensorIterator<'i>,
    formula: F,
    of_reals: impl FnOnce(&TensorIterator<'i>, F) -> Result<()>,
) -> Result<()> {
    match iter.common_dtype() {
        ScalarType::Complex64 => run::<Complex<f32>, _, N>(iter, Complexes(formula), ScalarType::Complex64),
        ScalarType::Complex128 => run::<Complex<f64>, _, N>(iter, Complexes(formula), ScalarType::Complex128),
        _ => of_reals(iter, formula),
    }
}

/// Evaluates a formula of complex numbers.
///
/// # Errors
/// As [`float_kernel`].
pub fn complex_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl ComplexFormula<N>,
) -> Result<()> {
    dispatch_all_types!(through_complex, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Complexes(formula), T::SCALAR_TYPE))
}

/// Evaluates a formula of complex numbers whose results are real.
///
/// # Errors
/// As [`float_kernel`].
pub fn complex_to_real_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl ComplexToReal<N>,
) -> Result<()> {
    dispatch_all_types!(through_complex, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Magnitudes(formula), T::SCALAR_TYPE.to_real()))
}

/// Evaluates a predicate of complex numbers; the output is bool.
///
/// # Errors
/// As [`float_kernel`].
pub fn complex_comparison_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl ComplexComparison<N>,
) -> Result<()> {
    dispatch_all_types!(through_complex, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, ComplexCompares(formula), ScalarType::Bool))
}

/// Evaluates a formula of numbers; bool is refused, as PyTorch refuses `-` on it.
///
/// # Errors
/// As [`float_kernel`].
pub fn number_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl NumberFormula<N>,
) -> Result<()> {
    dispatch_all_types!(through_numbers, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Numbers(formula), T::SCALAR_TYPE))
}

/// [`number_kernel`] of a formula that changes only the sign. For f16 and bf16 it is `of_bits`, the same formula of integers that hold
/// their bits: they need not be converted.
///
/// # Errors
/// As [`float_kernel`].
pub fn sign_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl NumberFormula<N>,
    of_bits: impl IntegerFormula<N>,
) -> Result<()> {
    match iter.common_dtype() {
        dtype @ (ScalarType::F16 | ScalarType::BF16) => {
            run_bits::<i16, f32, _, _, N>(iter, Numbers(formula), Integers(of_bits), dtype)
        }
        _ => number_kernel(iter, formula),
    }
}

/// [`sign_kernel`] of a formula that [`ordered_number_kernel`] evaluates.
///
/// # Errors
/// As [`float_kernel`].
pub fn ordered_sign_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedFormula<N>,
    of_bits: impl IntegerFormula<N>,
) -> Result<()> {
    match iter.common_dtype() {
        dtype @ (ScalarType::F16 | ScalarType::BF16) => {
            run_bits::<i16, f32, _, _, N>(iter, OrderedNumbers(formula), Integers(of_bits), dtype)
        }
        _ => ordered_number_kernel(iter, formula),
    }
}

/// [`sign_kernel`] of a formula that [`float_kernel`] evaluates: so it does where operands are of several types, since a conversion to
/// bf16 takes the sign from NaN.
///
/// # Errors
/// As [`float_kernel`].
pub fn float_sign_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl FloatFormula<N>,
    of_bits: impl IntegerFormula<N>,
) -> Result<()> {
    let dtype = iter.common_dtype();
    if dtype.is_reduced_floating_point() && iter.operands().iter().all(|operand| operand.dtype() == dtype) {
        return run_bits::<i16, f32, _, _, N>(iter, Floats(formula), Integers(of_bits), dtype);
    }
    float_kernel(iter, formula)
}

/// Evaluates a formula of elements of any type, bool included.
///
/// # Errors
/// As [`float_kernel`].
pub fn any_kernel<const N: usize>(iter: &TensorIterator<'_>, formula: impl NumberFormula<N>) -> Result<()> {
    dispatch_all_types!(through_ring, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Numbers(formula), T::SCALAR_TYPE))
}

/// [`any_kernel`] of a product. f16 and bf16 beside a number of another type are computed in f32, so that the number in `x * 1e-7` is not
/// rounded to half precision before it is multiplied.
///
/// # Errors
/// As [`float_kernel`].
pub fn product_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl NumberFormula<N>,
) -> Result<()> {
    if iter.common_dtype().is_reduced_floating_point() && has_number_of_another_type(iter) {
        return run::<f32, _, N>(iter, Numbers(formula), ScalarType::F32);
    }
    any_kernel(iter, formula)
}

/// Whether an input is one value for all elements, of another type than the formula is evaluated in.
fn has_number_of_another_type(iter: &TensorIterator<'_>) -> bool {
    let is_number = |input: &Operand<'_>| input.strides().iter().all(|stride| *stride == 0);
    let inputs = iter.operands().iter().skip(iter.outputs());
    inputs.into_iter().any(|input| input.dtype() != iter.common_dtype() && is_number(input))
}

/// Evaluates a formula of numbers that have an order; bool is refused.
///
/// # Errors
/// As [`float_kernel`].
pub fn ordered_number_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedFormula<N>,
) -> Result<()> {
    dispatch_all_types!(through_ordered_numbers, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, OrderedNumbers(formula), T::SCALAR_TYPE))
}

/// Evaluates a formula of elements of any type with an order, bool included.
///
/// # Errors
/// As [`float_kernel`].
pub fn ordered_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedFormula<N>,
) -> Result<()> {
    dispatch_all_types!(through_order, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, OrderedNumbers(formula), T::SCALAR_TYPE))
}

/// [`ordered_kernel`] of a formula that only compares its arguments with each other and chooses one of them. It is the same for u64 and
/// for i64, to which u64 is converted in order.
///
/// # Errors
/// As [`float_kernel`].
pub fn choice_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedFormula<N>,
) -> Result<()> {
    dispatch_all_types!(through_order, iter.common_dtype(), iter.name(),
        T => run::<T, _, N>(iter, OrderedNumbers(formula), T::SCALAR_TYPE),
        U64 => run_mapped::<i64, _, N>(iter, OrderedNumbers(formula), ScalarType::I64, Mapping::Order))
}

/// [`choice_kernel`], by which bool is refused.
///
/// # Errors
/// As [`float_kernel`].
pub fn number_choice_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedFormula<N>,
) -> Result<()> {
    dispatch_all_types!(through_ordered_numbers, iter.common_dtype(), iter.name(),
        T => run::<T, _, N>(iter, OrderedNumbers(formula), T::SCALAR_TYPE),
        U64 => run_mapped::<i64, _, N>(iter, OrderedNumbers(formula), ScalarType::I64, Mapping::Order))
}

/// [`number_choice_kernel`] of integers.
///
/// # Errors
/// As [`float_kernel`].
pub fn integer_choice_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedFormula<N>,
) -> Result<()> {
    dispatch_all_types!(through_integers, iter.common_dtype(), iter.name(),
        T => run::<T, _, N>(iter, OrderedNumbers(formula), T::SCALAR_TYPE),
        U64 => run_mapped::<i64, _, N>(iter, OrderedNumbers(formula), ScalarType::I64, Mapping::Order))
}

/// [`ordered_comparison_kernel`] of a formula that only compares its arguments with each other, as [`choice_kernel`].
///
/// # Errors
/// As [`float_kernel`].
pub fn order_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedComparison<N>,
) -> Result<()> {
    dispatch_all_types!(through_comparison, iter.common_dtype(), iter.name(),
        T => run::<T, _, N>(iter, OrderedCompares(formula), ScalarType::Bool),
        U64 => run_mapped::<i64, _, N>(iter, OrderedCompares(formula), ScalarType::Bool, Mapping::Order))
}

/// Evaluates a formula of integers and bool whose results do not depend on the sign.
///
/// # Errors
/// As [`float_kernel`].
pub fn bitwise_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl IntegerFormula<N>,
) -> Result<()> {
    dispatch_all_types!(through_bits, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Integers(formula), T::SCALAR_TYPE))
}

/// [`bitwise_kernel`] of the negation, which for bool is logical: eight bytes at a time.
///
/// # Errors
/// As [`float_kernel`].
pub fn not_kernel(iter: &TensorIterator<'_>, formula: impl IntegerFormula<1>) -> Result<()> {
    if iter.common_dtype() != ScalarType::Bool {
        return bitwise_kernel(iter, formula);
    }
    let run = |rows: &Rows<1>| bit_lanes::dispatch_not(rows, Integers(formula));
    let types = (ScalarType::Bool, ScalarType::Bool);
    run_rows::<i64, _, 1>(iter, Integers(formula), types, Mapping::Value, &run)
}

/// The bits of a number of 16 bits, as the integer that has them.
#[derive(Clone, Copy)]
struct Bits16(u16);

impl IntegerFormula<0> for Bits16 {
    #[inline(always)]
    fn call<V: Integer>(self, []: [V; 0]) -> V {
        V::scalar(Scalar::Int(self.0.into()))
    }
}

/// Writes one value to all elements, of any type.
///
/// # Errors
/// As [`float_kernel`].
pub fn constant_kernel(iter: &TensorIterator<'_>, formula: impl NumberFormula<0>) -> Result<()> {
    let dtype = iter.common_dtype();
    let half = match dtype {
        ScalarType::F16 => Some(bit_lanes::constant::<half::f16>(formula).to_bits()),
        ScalarType::BF16 => Some(bit_lanes::constant::<half::bf16>(formula).to_bits()),
        _ => None,
    };
    if let Some(bits) = half {
        return run_bits::<i16, f32, _, _, 0>(iter, Numbers(formula), Integers(Bits16(bits)), dtype);
    }
    dispatch_all_types!(through_equality, iter.common_dtype(), iter.name(), T => run::<T, _, 0>(iter, Numbers(formula), T::SCALAR_TYPE))
}

/// Evaluates a formula of integers and bool.
///
/// # Errors
/// As [`float_kernel`].
pub fn integer_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl IntegerFormula<N>,
) -> Result<()> {
    dispatch_all_types!(through_shifts, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Integers(formula), T::SCALAR_TYPE))
}

/// Evaluates a predicate of inputs of any one type; the output is bool.
///
/// # Errors
/// As [`float_kernel`].
pub fn comparison_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl Comparison<N>,
) -> Result<()> {
    dispatch_all_types!(through_equality, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, Compares(formula), ScalarType::Bool))
}

/// [`comparison_kernel`] of a formula of whether inputs differ from 0. Vectors of floats, whose comparisons are faster, take the bits of
/// integers as wide.
///
/// # Errors
/// As [`float_kernel`].
pub fn logical_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl Comparison<N> + LogicalFormula<N>,
) -> Result<()> {
    let types = (iter.common_dtype(), ScalarType::Bool);
    let traced = Compares(formula);
    match types.0 {
        ScalarType::I32 => {
            let run = |rows: &Rows<N>| rows::dispatch_rows::<f32, _, N>(rows, Nonzero(formula));
            run_rows::<i64, _, N>(iter, traced, types, Mapping::Value, &run)
        }
        ScalarType::I64 => {
            let run = |rows: &Rows<N>| rows::dispatch_rows::<f64, _, N>(rows, Nonzero(formula));
            run_rows::<i64, _, N>(iter, traced, types, Mapping::Value, &run)
        }
        _ => comparison_kernel(iter, formula),
    }
}

/// Evaluates a predicate of inputs of any one type that has an order; the output is bool.
///
/// # Errors
/// As [`float_kernel`].
pub fn ordered_comparison_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl OrderedComparison<N>,
) -> Result<()> {
    dispatch_all_types!(through_comparison, iter.common_dtype(), iter.name(), T => run::<T, _, N>(iter, OrderedCompares(formula), ScalarType::Bool))
}

/// Evaluates a formula of two integers that has no value where the second is 0; bool is refused.
///
/// # Errors
/// `InvalidArgument`, PyTorch's `ZeroDivisionError`, where an element of the second input is 0. Others as [`float_kernel`].
pub fn division_kernel(iter: &TensorIterator<'_>, formula: impl DivisionFormula) -> Result<()> {
    // A formula is traced without its elements, so on another device they are looked at beforehand.
    let is_elsewhere = iter.device().is_some_and(|device| !device.is_cpu());
    let by_zero = AtomicBool::new((is_elsewhere || !iter.writes_new()) && has_zero(iter)?);
    ensure!(!by_zero.load(Ordering::Relaxed), InvalidArgument(iter.name()), "ZeroDivisionError");
    let divides = Divides(formula, &by_zero);
    if iter.common_dtype() == ScalarType::I64 {
        let run = |rows: &Rows<2>| rows::dispatch_rows::<f64, _, 2>(rows, DividesByFloats(formula, &by_zero));
        let types = (ScalarType::I64, ScalarType::I64);
        run_rows::<i64, _, 2>(iter, divides, types, Mapping::Value, &run)?;
    } else {
        dispatch_all_types!(through_integers, iter.common_dtype(), iter.name(), T => run::<T, _, 2>(iter, divides, T::SCALAR_TYPE))?;
    }
    ensure!(
        is_elsewhere || !by_zero.load(Ordering::Relaxed),
        InvalidArgument(iter.name()),
        "ZeroDivisionError"
    );
    Ok(())
}

/// Whether an element of the second input is 0 in the common type. Checked beforehand where the output is visible to others, so that
/// a failed call leaves it unchanged.
fn has_zero(iter: &TensorIterator<'_>) -> Result<bool> {
    let Some(divisor) = iter.operands().get(2).and_then(Operand::tensor) else { return Ok(false) };
    let divisor = divisor.to(iter.common_dtype())?;
    if divisor.numel() == 1 {
        return Ok(divisor.item_scalar()?.to_i64() == 0);
    }
    Ok(!all_true(&crate::ops::ne_scalar(&divisor, Scalar::Int(0))?)?)
}

/// Evaluates a predicate of floating point inputs; the output is bool.
///
/// # Errors
/// As [`float_kernel`].
pub fn float_comparison_kernel<const N: usize>(
    iter: &TensorIterator<'_>,
    formula: impl FloatComparison<N>,
) -> Result<()> {
    dispatch_all_types!(wide_floats, computing_type(iter.common_dtype()), iter.name(), T => run::<T, _, N>(iter, FloatCompares(formula), ScalarType::Bool))
}

/// The loop for elements of `T`: operands of other types, or not dense, are converted and gathered in tiles.
#[inline]
fn run<T, F, const N: usize>(iter: &TensorIterator<'_>, formula: F, output: ScalarType) -> Result<()>
where
    T: Element + TraceAs<As: Lanes<Traced>>,
    F: Copy + Sync + LaneFormula<Traced, T::As, N>,
    for<'r> RowKernel<'r, T, F, N>: EveryIsa,
{
    let mapping = match (output, iter.common_dtype()) {
        (ScalarType::I64, dtype @ (ScalarType::U16 | ScalarType::U32 | ScalarType::U64)) => {
            Mapping::Modulo(dtype)
        }
        _ => Mapping::Value,
    };
    run_mapped::<T, F, N>(iter, formula, output, mapping)
}

/// [`run`] for elements of `T` that stand for others.
fn run_mapped<T, F, const N: usize>(
    iter: &TensorIterator<'_>,
    formula: F,
    output: ScalarType,
    mapping: Mapping,
) -> Result<()>
where
    T: Element + TraceAs<As: Lanes<Traced>>,
    F: Copy + Sync + LaneFormula<Traced, T::As, N>,
    for<'r> RowKernel<'r, T, F, N>: EveryIsa,
{
    let run = |rows: &Rows<N>| rows::dispatch_rows::<T, F, N>(rows, formula);
    run_rows::<T::As, F, N>(iter, formula, (T::SCALAR_TYPE, output), mapping, &run)
}

/// [`run`] by lanes of `L` and a formula of them, for elements of `dtype` that have the bits of `L`.
fn run_bits<L, As, F, G, const N: usize>(
    iter: &TensorIterator<'_>,
    formula: F,
    of_bits: G,
    dtype: ScalarType,
) -> Result<()>
where
    As: Lanes<Traced>,
    F: LaneFormula<Traced, As, N>,
    G: Copy + Sync + CodegenAnchor,
    for<'r> RowKernel<'r, L, G, N>: EveryIsa,
{
    let run = |rows: &Rows<N>| rows::dispatch_rows::<L, G, N>(rows, of_bits);
    run_rows::<As, F, N>(iter, formula, (dtype, dtype), Mapping::Value, &run)
}

/// The loop `run` over inputs of the first type, with results of the second; on another device `formula`, traced by `As`.
#[inline]
fn run_rows<As, F, const N: usize>(
    iter: &TensorIterator<'_>,
    formula: F,
    (input, output): (ScalarType, ScalarType),
    mapping: Mapping,
    run: &(dyn Fn(&Rows<N>) + Sync),
) -> Result<()>
where
    As: Lanes<Traced>,
    F: LaneFormula<Traced, As, N>,
{
    let supports_nt_stores = rows::supports_nt_stores(input, output);
    let kernel = Kernel { inputs: [input; N], output, supports_nt_stores, mapping, run };
    device::or_on_device(for_each_rows(iter, &kernel), iter, |loops| {
        device::pointwise::<As, F, N>(loops, iter, formula, input, output)
    })
}
