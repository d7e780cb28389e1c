//! The seam through which gradients attach to a tensor; core and the operators know no more of them than this.

use std::any::Any;

/// What the autograd crate keeps beside a tensor: history, gradient, hooks, the base of a view.
///
/// Set at most once in a tensor's life; what changes later changes inside, behind the implementation's own lock.
pub trait AutogradMeta: Any + Send + Sync {
    /// Whether a gradient is asked for, directly or through history.
    fn requires_grad(&self) -> bool;
}
