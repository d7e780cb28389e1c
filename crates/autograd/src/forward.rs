//! Forward mode: every operator propagates the tangents of its arguments, derivatives along one direction, to its results.
//!
//! An open [`dual_level`] includes the dispatch key `ForwardGrad` on its thread, so that forward mode costs nothing outside a level.
//! The kernels for this key are boxed. There is one for each operator with a derivative, generated from `derivatives.yaml`. It calls
//! `out_of_place` or `in_place`, which run the operator without the key and then compute the tangents of its results by one of four
//! JVP rules. Operators without such a kernel are composite, or have no derivative.
//!
//! | module | holds |
//! |---|---|
//! | `call` | the arguments, tangents and results of a call |
//! | `jvp_rules` | from tangents of arguments to tangents of results |
//! | `out_of_place`, `in_place` | kernels of operators that return new tensors, and of those that write their first argument |
//! | `forward_kernel`, `generated` | the kernels for `ForwardGrad` |
//!
//! Tangents are computed by ordinary recorded calls without the key `ForwardGrad`, so backward passes go through them. Saved
//! variables keep their tangents, so a backward pass inside a level gives gradients with tangents.

mod call;
mod forward_kernel;
mod generated;
mod in_place;
mod jvp_rules;
mod out_of_place;

pub use crate::graph::dual_level::{DualLevel, dual_level, is_dual_level_open};

#[doc(hidden)]
pub use call::{Call, JvpRule, Sum};
#[doc(hidden)]
pub use forward_kernel::{ForwardKernel, forward_kernel};
pub(crate) use in_place::set;

use crate::batched;
use crate::variable::tangents::{below, is_dual, set_tangent, tangent};
use flambeau_core::{DispatchKey, DispatchKeySet, Result, ThreadKeysGuard, ensure};
use flambeau_ops::batched::{rewrap, wrappers};
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::{Tensor, ops};

/// The results of `operator` for the arguments `given`, with tangents. The tangents are computed by differentiating the backward
/// pass, so the kernel for `ForwardGrad` of an operator of another crate can call this function instead of having a formula.
/// `inputs` are the indices of the differentiable arguments.
///
/// # Errors
/// Those of the operator and of its derivative, which must be differentiable itself.
///
/// ```
/// use flambeau_autograd::forward::{dual_level, make_dual, transposed, unpack_dual};
/// use flambeau_ops::dispatch::Value;
/// use flambeau_ops::{Tensor, ops};
/// let _level = dual_level()?;
/// let x = make_dual(&Tensor::from([3.0f64]), &Tensor::from([1.0f64]))?;
/// let results = transposed(&ops::SQUARE, &[0], &[Value::from(&x)])?;
/// let [Value::Tensor(square)] = &results[..] else { panic!("expected one tensor") };
/// assert_eq!(unpack_dual(square)?.1.map(|slope| slope.to_vec::<f64>()).transpose()?, Some(vec![6.0]));
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn transposed(
    operator: &'static dyn OperatorInfo,
    inputs: &[usize],
    given: &[Value],
) -> Result<Vec<Value>> {
    out_of_place::call(operator, JvpRule::Transposed, inputs, given)
}

/// An alias of `primal` with the tangent `tangent` until the level is closed. It shares the elements of both.
///
/// # Errors
/// `Autograd` where no level is open, `primal` has a tangent already, or the two differ in sizes, type or device.
///
/// ```
/// use flambeau_autograd::forward::{dual_level, make_dual, unpack_dual};
/// use flambeau_ops::{Tensor, ops};
/// let _level = dual_level()?;
/// let x = make_dual(&Tensor::from([3.0f64]), &Tensor::from([1.0f64]))?;
/// let (square, slope) = unpack_dual(&ops::square(&x)?)?;
/// assert_eq!(square.to_vec::<f64>()?, [9.0]);
/// assert_eq!(slope.map(|slope| slope.to_vec::<f64>()).transpose()?, Some(vec![6.0]));
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn make_dual(primal: &Tensor, tangent: &Tensor) -> Result<Tensor> {
    if let Some((primal, tangent, wrappers)) = batched::dual(primal, tangent)? {
        return rewrap(&make_dual(&primal, &tangent)?, &wrappers);
    }
    ensure!(
        is_dual_level_open(),
        Autograd,
        "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
    );
    ensure!(
        primal.dtype().is_differentiable(),
        InvalidArgument,
        "Expected primal to be floating point or complex, but got: {}",
        primal.dtype()
    );
    ensure!(
        tangent.dtype().is_differentiable(),
        InvalidArgument,
        "Expected tangent to be floating point or complex, but got: {}",
        tangent.dtype()
    );
    ensure!(
        !is_dual(primal),
        Autograd,
        "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
    );
    ensure!(
        primal.sizes() == tangent.sizes(),
        Autograd,
        "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not \
         supported. Tensor is of size {:?} while the given forward gradient is of size {:?}.",
        primal.sizes(),
        tangent.sizes()
    );
    ensure!(
        primal.dtype() == tangent.dtype() && primal.device() == tangent.device(),
        Autograd,
        "expected a tangent of type {} on {} but got one of type {} on {}",
        primal.dtype(),
        primal.device(),
        tangent.dtype(),
        tangent.device()
    );
    let dual = {
        let _below = below();
        ops::alias(primal)?
    };
    set_tangent(&dual, tangent.clone())?;
    Ok(dual)
}

/// The tensor without its tangent, and the tangent, if it has one in the level that is open.
///
/// # Errors
/// Those of creating an alias.
pub fn unpack_dual(tensor: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
    if !is_dual_level_open() {
        return Ok((tensor.clone(), None));
    }
    if let Some(below) = batched::below(tensor) {
        let ((primal, tangent), wrappers) = (unpack_dual(below)?, wrappers(tensor));
        let tangent = tangent.map(|tangent| rewrap(&tangent, &wrappers)).transpose()?;
        return Ok((rewrap(&primal, &wrappers)?, tangent));
    }
    let found = tangent(tensor)?;
    if found.is_none() {
        return Ok((tensor.clone(), None));
    }
    // Not tracked as a view: a view has the tangent of its base.
    let _below = below();
    let _untracked = ThreadKeysGuard::exclude(DispatchKeySet::of(DispatchKey::ADInplaceOrView));
    Ok((ops::alias(tensor)?, found))
}
