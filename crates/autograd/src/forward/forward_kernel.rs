//! What the generated rules say of an operator: how tangents go through it. Each is a kernel for `ForwardGrad` of that operator.

use super::call::Way;
use super::{in_place, out_of_place};
use flambeau_core::Result;
use flambeau_ops::dispatch::{self, BoxedKernel, OperatorInfo, Value};

/// How tangents go through an operator.
pub(crate) enum Rule {
    /// It makes its results; the differentiable arguments are at these places.
    Results(Way, &'static [usize]),
    /// It writes what its functional `twin` gives for the arguments in the same order or, where there is one, in `order`.
    InPlace { twin: &'static dyn OperatorInfo, order: &'static [usize] },
    /// It writes what depends on nothing that has a tangent.
    Overwritten,
    /// It changes how its argument looks at its memory.
    ViewInPlace,
    /// It is `copy_`.
    Copy,
    /// It writes, and nobody knows the tangent of that.
    Refused,
}

impl BoxedKernel for Rule {
    fn call(&self, call: &dispatch::Call<'_>) -> Result<Vec<Value>> {
        let (operator, given) = (call.operator, call.arguments);
        let written = match *self {
            Rule::Results(way, inputs) => return out_of_place::call(operator, way, inputs, given),
            Rule::InPlace { twin, order } => in_place::in_place(operator, twin, order, given),
            Rule::Overwritten => in_place::overwritten(operator, given),
            Rule::ViewInPlace => in_place::view_in_place(operator, given),
            Rule::Copy => in_place::copy_(operator, given),
            Rule::Refused => in_place::refused(operator, given),
        };
        written.map(|()| Vec::new())
    }
}

/// Puts a rule in force at link time: `rule!(MUL_TENSOR, Rule::Results(Way::Pointwise, &[0, 1]))`.
macro_rules! rule {
    ($operator:ident, $rule:expr) => {
        flambeau_ops::dispatch::inventory::submit! {
            flambeau_ops::dispatch::BoxedRegistration::new(
                &flambeau_ops::ops::$operator,
                flambeau_core::DispatchKey::ForwardGrad,
                &$rule,
            )
        }
    };
}
pub(crate) use rule;
