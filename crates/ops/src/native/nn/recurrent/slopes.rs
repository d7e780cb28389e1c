//! The derivatives of the nonlinearities of cells, from their results.

use crate::native::formulas::chain_rule;
use crate::vectorized::Float;

/// The gradient of `sigmoid`, as of `sigmoid_backward`.
#[inline(always)]
pub(super) fn by_sigmoid<V: Float>(grad: V, result: V) -> V {
    chain_rule(grad, (V::one() - result) * result)
}

/// The gradient of `tanh`, as of `tanh_backward`.
#[inline(always)]
pub(super) fn by_tanh<V: Float>(grad: V, result: V) -> V {
    chain_rule(grad, V::one() - result * result)
}
