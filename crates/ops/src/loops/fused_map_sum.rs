//! The sum of a formula over few elements, computed in one pass without a tensor for its terms.
#![expect(unsafe_code, reason = "element access behind the guards that are taken here")]

use super::formulas::FloatFormula;
use super::prefetch::Prefetch;
use super::reduce::{Epilogue, Sum, fold_dense};
use super::rows::{Floats, Rows, dispatch_rows};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Access, Result, ScalarType, StridedView, shape, with_guards};
use std::mem::MaybeUninit;

/// The largest number of elements.
const MAX_NUMEL: usize = 256;
/// The largest number of arguments.
const MAX_ARGUMENTS: usize = 4;

/// Sums a formula over contiguous arguments of one shape into `out`, in the order of `sum`, so that the bits are those of
/// two operators. Does nothing and returns `false` for more than [`MAX_NUMEL`] elements, and for operands of any other form.
///
/// # Errors
/// `Busy` or `Aliasing` where an operand may not be touched.
pub(crate) fn fused_map_sum<const N: usize>(
    name: &'static str,
    args: [&Tensor; N],
    out: &Tensor,
    formula: impl FloatFormula<N>,
    finish: Epilogue,
) -> Result<bool> {
    const { assert!(N > 0 && N <= MAX_ARGUMENTS) };
    let (args, out) = (args.map(Tensor::strided_view), out.strided_view());
    let (dtype, n) = (out.dtype(), args[0].numel() as usize);
    let is_alike = |t: &StridedView<'_>| {
        t.dtype() == dtype
            && t.device().is_cpu()
            && t.is_contiguous()
            && shape::same(t.sizes(), args[0].sizes())
    };
    if !matches!(dtype, ScalarType::F32 | ScalarType::F64)
        || !(1..=MAX_NUMEL).contains(&n)
        || !args.iter().all(is_alike)
        || out.numel() != 1
        || !out.device().is_cpu()
    {
        return Ok(false);
    }
    let mut accesses = [(out.storage(), Access::Write); MAX_ARGUMENTS + 1];
    for (i, arg) in args.iter().enumerate() {
        accesses[i] = (arg.storage(), Access::Read);
    }
    dispatch_all_types!(wide_floats, dtype, name, T => with_guards(&accesses[..=N], |guarded| {
        let mut terms = [MaybeUninit::<T>::uninit(); MAX_NUMEL];
        let from = args.map(|arg| guarded.ptr(arg).cast_const());
        dispatch_rows::<T, _, N>(&Rows { to: terms.as_mut_ptr().cast(), from, ..Rows::empty(n) }, Floats(formula));
        // SAFETY: `n` terms were written; `out` is guarded and has one element of this type.
        unsafe { guarded.ptr(out).cast::<T>().write(finish.apply(fold_dense(terms.as_ptr().cast::<T>(), n, Prefetch::HARDWARE, Sum))) };
    }))
    .map_err(|e| e.in_operator(name))?;
    Ok(true)
}
