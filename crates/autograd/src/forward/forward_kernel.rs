//! The kernels for `ForwardGrad`, of which each operator has one that is generated.

use super::call::JvpRule;
use super::{in_place, out_of_place};
use flambeau_core::Result;
use flambeau_ops::dispatch::{self, BoxedKernel, OperatorInfo, Value};

/// How an operator propagates tangents.
pub enum ForwardKernel {
    /// It returns new tensors or views. The differentiable arguments have these indices.
    Functional(JvpRule, &'static [usize]),
    /// It writes the result of its `functional` variant for the arguments in the same order, or, if `order` is not empty, in that.
    InPlace {
        /// The operator that returns what this one writes.
        functional: &'static dyn OperatorInfo,
        /// The indices of this operator's arguments in the order of the other's.
        order: &'static [usize],
    },
    /// It writes values that depend on nothing with a tangent.
    Overwrite,
    /// It changes the geometry of its argument.
    ViewInPlace,
    /// It is `copy_`.
    Copy,
    /// It writes values whose tangent is not implemented.
    Unsupported,
}

impl BoxedKernel for ForwardKernel {
    fn call(&self, call: &dispatch::Call<'_>) -> Result<Vec<Value>> {
        let (operator, given) = (call.operator, call.arguments);
        let written = match *self {
            ForwardKernel::Functional(rule, inputs) => {
                return out_of_place::call(operator, rule, inputs, given);
            }
            ForwardKernel::InPlace { functional, order } => {
                in_place::in_place(operator, functional, order, given)
            }
            ForwardKernel::Overwrite => in_place::overwritten(operator, given),
            ForwardKernel::ViewInPlace => in_place::view_in_place(operator, given),
            ForwardKernel::Copy => in_place::copy_(operator, given),
            ForwardKernel::Unsupported => in_place::refused(operator, given),
        };
        written.map(|()| Vec::new())
    }
}

/// Registers a kernel at link time: `forward_kernel!(MUL_TENSOR, ForwardKernel::Functional(JvpRule::Pointwise, &[0, 1]))`.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_kernel {
    ($operator:ident, $rule:expr) => {
        $crate::record::dispatch::inventory::submit! {
            $crate::record::dispatch::BoxedRegistration::new(
                &super::operators::$operator,
                $crate::record::dispatch::DispatchKey::ForwardGrad,
                &$rule,
            )
        }
    };
}
#[doc(hidden)]
pub use crate::forward_kernel;
