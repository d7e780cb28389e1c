//! The macros of which the generated files are made: the node of a derivative, and the kernels that record calls.
//!
//! They find the statics of operators in the module `super::operators`, which for those of this library is `flambeau_ops::ops`, and for
//! those of another crate is generated beside their nodes.

use flambeau_core::DispatchKey;
use flambeau_ops::dispatch::{KernelFn, Operator, Registration};

/// Declares the node of a derivative: the struct of the values that it saves, and a formula for each input.
///
/// ```text
/// node! {
///     MulBackward0 { other: MaybeSaved, self_: MaybeSaved } gradients(self, grads, grad = 0) [];
///     self_ [other] => ops::_chain(grad, other),
///     other [self_] => ops::_chain(grad, self_),
/// }
/// ```
///
/// `grad = 0` is the gradient of result 0, without which no input has one. The saved tensors in brackets are unpacked: for one formula,
/// or, behind the head, for all. `gradients` may be [`optional_gradients`](super::optional_gradients); with `inputs` each formula names
/// its method of [`InputGradients`](super::InputGradients), as in `several(mask): input, weight => ..`.
#[doc(hidden)]
#[macro_export]
macro_rules! node {
    (
        $name:ident $fields:tt
        inputs($self:ident, $grads:ident $(, $grad:ident = $index:literal)?) $always:tt;
        $($method:ident $(($mask:tt))?: $($input:ident),+ $([$($needed:ident),+])? => $formula:expr),+ $(,)?
    ) => {
        $crate::record::node! { @declare $name $fields ($self, cx, $grads $(, $grad = $index)?) $always {
            let mut inputs = $crate::record::InputGradients::new(cx);
            $(inputs.$method(|$($mask)?| {
                $($(let $needed = &$crate::record::Saved::unpack(&$self.$needed, cx)?;)+)?
                $formula
            })?;)+
            Ok(inputs.finish())
        } }
    };
    (
        $name:ident $fields:tt
        $function:ident($self:ident, $grads:ident $(, $grad:ident = $index:literal)?) $always:tt;
        $($input:ident $([$($needed:ident),+])? => $formula:expr),+ $(,)?
    ) => {
        $crate::record::node! { @declare $name $fields ($self, cx, $grads $(, $grad = $index)?) $always {
            $crate::record::$function(cx, [$(&|| {
                $($(let $needed = &$crate::record::Saved::unpack(&$self.$needed, cx)?;)+)?
                $formula
            }),+])
        } }
    };
    (
        @declare $name:ident { $($field:ident: $ty:ty),* }
        ($self:ident, $cx:ident, $grads:ident $(, $grad:ident = $index:literal)?) [$($always:ident),*] $body:block
    ) => {
        pub(super) struct $name {
            $(pub(super) $field: $ty,)*
        }

        impl $crate::Backward for $name {
            const NAME: &'static str = stringify!($name);
            const SAVES: bool = $crate::record::any(&[$(<$ty as $crate::record::Field>::SAVES),*]);

            #[allow(unused_variables, reason = "a formula need not use the gradients")]
            fn backward(
                &$self,
                $cx: &$crate::Context<'_>,
                $grads: &$crate::Gradients,
            ) -> $crate::record::Result<$crate::Gradients> {
                $(let Some($grad) = &$grads[$index] else { return Ok($crate::Gradients::new()) };)?
                $(let $always = &$crate::record::Saved::unpack(&$self.$always, $cx)?;)*
                $body
            }

            #[allow(unused_variables, reason = "some nodes save nothing")]
            fn owns(&self, visit: &mut dyn FnMut($crate::graph::node::Owned<'_>)) {
                $($crate::record::Field::owns(&self.$field, visit);)*
            }
        }
    };
}

/// A call of the kernel below autograd with the same arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! below {
    ($operator:ident, $keys:ident $(, $argument:ident)*) => {{
        let _below = $crate::record::below();
        let (keys, kernel) = super::operators::$operator.select($keys)?;
        kernel(keys $(, $argument)*)
    }};
}

/// A call of a function of this module for inputs that are plain tensors, optional tensors, or of any kind.
#[doc(hidden)]
#[macro_export]
macro_rules! of {
    (any_requires_grad of [$($input:ident),*]) => { $crate::record::any_requires_grad([$($input),*]) };
    (any_requires_grad of_any [$($input:ident),*]) => { $crate::record::any_requires_grad_of(&[$(&$input),*]) };
    (edges of [$($input:ident),*]) => { $crate::record::edges([$($input),*]) };
    (edges of_any [$($input:ident),*]) => { $crate::record::edges_of(&[$(&$input),*]) };
    (recorded_edges of [$($input:ident),*]) => { $crate::record::recorded_edges([$($input),*]) };
    (recorded_edges of_optional [$($input:ident),*]) => {
        $crate::record::recorded_edges_optional([$(Option::from($input)),*])
    };
    (recorded_edges of_any [$($input:ident),*]) => { $crate::record::recorded_edges_of(&[$(&$input),*]) };
    (check_out $operator:ident of [$($input:ident),*]) => {
        $crate::record::check_out($crate::record::dispatch::OperatorInfo::name($operator), [$($input),*])
    };
    (check_out $operator:ident of_any [$($input:ident),*]) => {
        $crate::record::check_out_of($crate::record::dispatch::OperatorInfo::name($operator), &[$(&$input),*])
    };
}

/// Registers the kernel of an operator that returns new tensors, which records the call if an input requires a gradient:
///
/// ```text
/// recorded! {
///     MUL_SCALAR(self_, other) -> result, edges of [self_];
///     set_history(&mut result), MulBackward1 { other }
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! recorded {
    ($operator:ident $arguments:tt -> $result:ident, $($rest:tt)+) => {
        $crate::record::recorded! { @kernel $operator $arguments (mut $result) $result, $($rest)+ }
    };
    ($operator:ident $arguments:tt -> ($($result:ident),+), $($rest:tt)+) => {
        $crate::record::recorded! { @kernel $operator $arguments (($($result),+)) ($($result),+), $($rest)+ }
    };
    (
        @kernel $operator:ident ($($argument:ident),*) ($($pattern:tt)+) $result:expr,
        $edges:ident $of:ident $inputs:tt; $set:ident($($target:expr),+), $node:expr
    ) => {
        $crate::record::register!($operator, Autograd, |keys $(, $argument)*| {
            #[allow(unused_mut, reason = "the history of several results is set behind shared references")]
            let $($pattern)+ = $crate::record::below!($operator, keys $(, $argument)*)?;
            if let Some($edges) = $crate::record::of!(recorded_edges $of $inputs)? {
                let backward = $node;
                $crate::record::$set($($target,)+ $edges, backward);
            }
            Ok($result)
        });
    };
}

/// Registers the kernel of an operator that writes its first argument:
///
/// ```text
/// recorded_in_place! {
///     MUL__SCALAR(self_, other), edges of [self_];
///     MulBackward1 { other }
/// }
/// ```
///
/// A node that saves what was written is constructed `after` the call, from values that were saved before it.
#[doc(hidden)]
#[macro_export]
macro_rules! recorded_in_place {
    (
        $operator:ident ($self_:ident $(, $argument:ident)*), $edges:ident $of:ident $inputs:tt;
        $(let $local:ident = $value:expr;)* after $node:expr
    ) => {
        $crate::record::recorded_in_place! {
            @kernel $operator ($self_ $(, $argument)*), $edges $of $inputs;
            [$(let $local = $value;)*] [let backward = $node;] backward
        }
    };
    (
        $operator:ident ($self_:ident $(, $argument:ident)*), $edges:ident $of:ident $inputs:tt;
        $node:expr
    ) => {
        $crate::record::recorded_in_place! {
            @kernel $operator ($self_ $(, $argument)*), $edges $of $inputs;
            [let backward = $node;] [] backward
        }
    };
    (
        @kernel $operator:ident ($self_:ident $(, $argument:ident)*), $edges:ident $of:ident $inputs:tt;
        [$($before:tt)*] [$($after:tt)*] $backward:ident
    ) => {
        $crate::record::register!($operator, Autograd, |keys, $self_ $(, $argument)*| {
            if !$crate::record::of!(any_requires_grad $of $inputs) {
                return $crate::record::below!($operator, keys, $self_ $(, $argument)*);
            }
            $crate::record::check_inplace($self_)?;
            let $edges = $crate::record::of!(edges $of $inputs)?;
            $($before)*
            $crate::record::below!($operator, keys, $self_ $(, $argument)*)?;
            $($after)*
            $crate::record::rebase_history($self_, $edges, $backward)
        });
    };
}

/// Registers the kernel of an operator whose results depend differentiably on no argument: `unrecorded! { EQ_TENSOR(self_, other) }`.
#[doc(hidden)]
#[macro_export]
macro_rules! unrecorded {
    ($operator:ident($($argument:ident),*)) => {
        $crate::record::for_both_keys!($operator, |keys $(, $argument)*| {
            $crate::record::below!($operator, keys $(, $argument)*)
        });
    };
}

/// Registers the kernel of an operator that writes a tensor from outside, whose history would be lost, and refuses to be recorded:
/// `out_variant! { NEG_OUT(self_, out), refused of [self_, out] }`.
#[doc(hidden)]
#[macro_export]
macro_rules! out_variant {
    ($operator:ident($($argument:ident),*), refused $of:ident $inputs:tt) => {
        $crate::record::for_both_keys!($operator, |keys $(, $argument)*| {
            let operator = &super::operators::$operator;
            $crate::record::of!(check_out operator $of $inputs)?;
            $crate::record::below!($operator, keys $(, $argument)*)
        });
    };
}

/// Registers the kernel of a view operator that records the base of the result: `tracked! { T(self_), view of self_ }`.
#[doc(hidden)]
#[macro_export]
macro_rules! tracked {
    ($operator:ident($($argument:ident),*), $record_view:ident of $base:ident) => {
        $crate::record::register!($operator, ADInplaceOrView, |keys $(, $argument)*| {
            $crate::record::$record_view($base, || {
                let (below, kernel) = super::operators::$operator.select(keys)?;
                kernel(below $(, $argument)*)
            })
        });
    };
}

/// Registers a kernel of a built-in operator for a dispatch key: `register!(MUL_TENSOR, Autograd, mul_tensor)`.
#[doc(hidden)]
#[macro_export]
macro_rules! register {
    ($operator:ident, $key:ident, $kernel:expr) => {
        $crate::record::dispatch::register!(super::operators::$operator, $key, $kernel);
    };
}

/// Registers a kernel for `Autograd` and `ForwardGrad`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_both_keys {
    ($operator:ident, $kernel:expr) => {
        const _: () = {
            const KERNELS: ($crate::record::dispatch::Registration, $crate::record::dispatch::Registration) =
                $crate::record::registrations(&super::operators::$operator, $kernel);
            $crate::record::dispatch::inventory::submit! { KERNELS.0 }
            $crate::record::dispatch::inventory::submit! { KERNELS.1 }
        };
    };
}

#[doc(hidden)]
pub use crate::{
    below, for_both_keys, node, of, out_variant, recorded, recorded_in_place, register, tracked, unrecorded,
};

/// The registrations of [`for_both_keys!`].
#[doc(hidden)]
#[track_caller]
pub const fn registrations<F: KernelFn>(
    operator: &'static Operator<F>,
    kernel: F,
) -> (Registration, Registration) {
    (
        Registration::new(operator, DispatchKey::Autograd, kernel),
        Registration::new(operator, DispatchKey::ForwardGrad, kernel),
    )
}

/// Whether one is true.
#[doc(hidden)]
pub const fn any(values: &[bool]) -> bool {
    let mut index = 0;
    while index < values.len() && !values[index] {
        index += 1;
    }
    index < values.len()
}
