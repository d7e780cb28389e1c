//! The sum of a formula over a few elements, which takes no tensor for its terms.
#![expect(unsafe_code, reason = "element access behind the guards that are taken here")]

use super::ahead::Asking;
use super::formulas::FloatFormula;
use super::reduce::{Finish, Sum, fold_dense};
use super::rows::{Floats, Rows, dispatch_rows};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Access, Result, ScalarType, StridedView, shape, with_guards};
use std::mem::MaybeUninit;

/// Elements at most.
const FEW: usize = 256;
/// Arguments at most.
const ARGUMENTS: usize = 4;

/// Adds up a formula over dense arguments of one shape into `out`, in the order of a sum of all elements; does nothing and
/// answers `false` where they are more than a few, or anything else.
///
/// # Errors
/// `Busy` or `Aliasing` where an operand may not be touched.
pub(crate) fn sum_few<const N: usize>(
    name: &'static str,
    args: [&Tensor; N],
    out: &Tensor,
    formula: impl FloatFormula<N>,
    finish: Finish,
) -> Result<bool> {
    const { assert!(N > 0 && N <= ARGUMENTS) };
    let (args, out) = (args.map(Tensor::strided_view), out.strided_view());
    let (dtype, n) = (out.dtype(), args[0].numel() as usize);
    let is_alike = |t: &StridedView<'_>| {
        t.dtype() == dtype
            && t.device().is_cpu()
            && t.is_contiguous()
            && shape::same(t.sizes(), args[0].sizes())
    };
    if !matches!(dtype, ScalarType::F32 | ScalarType::F64)
        || !(1..=FEW).contains(&n)
        || !args.iter().all(is_alike)
        || out.numel() != 1
        || !out.device().is_cpu()
    {
        return Ok(false);
    }
    let mut wanted = [(out.storage(), Access::Write); ARGUMENTS + 1];
    for (i, arg) in args.iter().enumerate() {
        wanted[i] = (arg.storage(), Access::Read);
    }
    dispatch_all_types!(wide_floats, dtype, name, T => with_guards(&wanted[..=N], |guarded| {
        let mut terms = [MaybeUninit::<T>::uninit(); FEW];
        let from = args.map(|arg| guarded.ptr(arg).cast_const());
        dispatch_rows::<T, _, N>(&Rows { to: terms.as_mut_ptr().cast(), from, ..Rows::empty(n) }, Floats(formula));
        // SAFETY: `n` terms were written; `out` is guarded and has one element of this type.
        unsafe { guarded.ptr(out).cast::<T>().write(finish.apply(fold_dense(terms.as_ptr().cast::<T>(), n, Asking::NONE, Sum))) };
    }))
    .map_err(|e| e.context(name))?;
    Ok(true)
}
