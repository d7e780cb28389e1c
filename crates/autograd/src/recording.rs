//! Recording kernels: what an operator does when an input may require a gradient.
//!
//! # The pattern
//! Written by hand for a few operators, and exactly as the code generator writes it for all. For each operator:
//!
//! 1. **A struct of saved values**, `MulTensor`: a [`SavedVariable`](crate::SavedVariable) for each tensor whose *values*
//!    the formula uses, in an `Option` if only some gradients need it (saved where the edge that needs it is there: see
//!    [`record::saved_input`](crate::record::saved_input)); sizes, geometry and plain arguments as they are. `Clone`, since a clone of
//!    it runs.
//! 2. **`impl Backward`**: `NAME` is what PyTorch calls the node, `SAVES` whether a field is a saved tensor. `backward`
//!    gives one formula for each differentiable input in the order of the edges, through
//!    [`record::gradients`](crate::record::gradients), which runs those that are wanted. Formulas call operators through
//!    `flambeau_ops::ops`, so that a pass with `create_graph` records them. They do not undo broadcasting and do not convert types: the engine does.
//! 3. **The kernel** for `DispatchKey::Autograd`, of the operator's own signature behind a `DispatchKeySet`:
//!    * functional: below, and if [`any_requires_grad`](crate::record::any_requires_grad): `edges`, the struct,
//!      [`set_history`](crate::record::set_history). The struct is made after the call, so that outputs can be saved.
//!    * in-place: if recording, [`check_inplace`](crate::record::check_inplace), `edges` and values of `self` that a formula
//!      needs ([`original`](crate::record::original)) come *before* the call; saved outputs and
//!      [`rebase_history`](crate::record::rebase_history) after it.
//!    * `out=`: [`check_out`](crate::record::check_out), then below.
//!    * no derivative: as functional, with [`NotImplemented`](crate::record::NotImplemented), so that the error comes in the backward
//!      pass and names the operator.
//!    * not differentiable (results are bool, integers, numbers): the call below and nothing else. Results that are not
//!      floating point carry no history in any case; of several results,
//!      [`set_history_of_all`](crate::record::set_history_of_all) is given all, in order, and skips those.
//! 4. For a view operator also **the kernel for `DispatchKey::ADInplaceOrView`**: [`record::view`](crate::record::view), or
//!    [`record::views`](crate::record::views) for several results.
//! 5. **`register!`** for each kernel. An operator with no kernel for `Autograd` refuses tensors that require a gradient: none may
//!    be forgotten. Composite operators (`CompositeImplicitAutograd`) need none.

#![expect(non_snake_case, reason = "`add_.Tensor` is `add__tensor`, so that names tell overloads apart")]

/// Registers a kernel at link time: `register!(MUL_TENSOR, Autograd, mul_tensor)`.
macro_rules! register {
    ($operator:ident, $key:ident, $kernel:ident) => {
        inventory::submit! {
            flambeau_ops::dispatch::Registration::new(
                &flambeau_ops::ops::$operator,
                flambeau_core::DispatchKey::$key,
                $kernel,
            )
        }
    };
}

mod binary;
mod copy;
mod matmul;
mod reduce;
mod unary;
mod view;
