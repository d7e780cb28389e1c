//! The declaration of an operator: a static with its kernels, the function that calls it, and both forms of boxed calls.

/// Declares an operator from its schema, its function and its kernels:
///
/// ```
/// use flambeau_core::Result;
/// use flambeau_ops::{Tensor, dispatch::operator, ops};
///
/// operator! {
///     /// `self^3`, element by element.
///     CUBE: "mine::cube(Tensor self) -> Tensor", cube(self_: &Tensor) -> Tensor, by [self_];
///     CompositeImplicitAutograd => ops::mul_tensor(&ops::mul_tensor(self_, self_)?, self_),
/// }
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// assert_eq!(cube(&x)?.to_vec::<f32>()?, [1.0, 8.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
///
/// `by` lists the arguments whose dispatch keys choose the kernel: all that hold tensors, and after `on` the argument that is a
/// device, if the operator makes tensors. `Cpu + Cuda =>` declares one kernel for two keys. Each kernel is an expression of the arguments, and a function `kernel`, which the expression
/// may call again with other arguments.
#[macro_export]
macro_rules! operator {
    (
        $(#[$doc:meta])*
        $operator:ident: $schema:literal, $function:ident $parameters:tt -> $returned:ty,
        by [$($tensor:ident),*] $(on $device:expr)?;
        $($key:ident $(+ $also:ident)? => $kernel:expr),+ $(,)?
    ) => {
        #[doc = concat!("The operator `", $schema, "`.")]
        pub static $operator: $crate::dispatch::Operator<$crate::operator!(@type $parameters -> $returned)> =
            $crate::dispatch::Operator::new(
                $crate::dispatch::name_of($schema),
                $schema,
                &[
                    $($crate::dispatch::Kernel::new(
                        $crate::dispatch::DispatchKey::$key,
                        $crate::operator!(@kernel $parameters -> $returned = $kernel),
                    )$(.and($crate::dispatch::DispatchKey::$also))?,)+
                    $crate::operator!(@observed $operator [$($tensor),*] $parameters -> $returned),
                    $crate::operator!(@boxing $operator $parameters -> $returned),
                ],
                $crate::operator!(@boxed $schema, $function $parameters),
            );

        $crate::operator!(
            @function [$(#[$doc])* #[doc = ""] #[doc = concat!("`", $schema, "`")]]
            $operator $function [$($tensor),*] [$($device)?] $parameters -> $returned
        );
    };
    (@type ($($argument:ident: $ty:ty),* $(,)?) -> $returned:ty) => {
        fn($crate::dispatch::DispatchKeySet $(, $ty)*) -> ::flambeau_core::Result<$returned>
    };
    (@kernel ($($argument:ident: $ty:ty),* $(,)?) -> $returned:ty = $kernel:expr) => {{
        #[allow(unused_variables, reason = "meta kernels need not look at all arguments")]
        fn kernel($($argument: $ty),*) -> ::flambeau_core::Result<$returned> {
            $kernel
        }
        (|_, $($argument),*| kernel($($argument),*)) as $crate::operator!(@type ($($argument: $ty),*) -> $returned)
    }};
    (@observed $operator:ident [$($tensor:ident),*] ($($argument:ident: $ty:ty),* $(,)?) -> $returned:ty) => {
        $crate::observed!(
            $operator: $crate::operator!(@type ($($argument: $ty),*) -> $returned), [$($tensor),*] $(, $argument)*
        )
    };
    (@boxing $operator:ident ($($argument:ident: $ty:ty),* $(,)?) -> $returned:ty) => {
        $crate::boxing!($operator: $crate::operator!(@type ($($argument: $ty),*) -> $returned) $(, $argument)*)
    };
    (@boxed $schema:literal, $function:ident ($($argument:ident: $ty:ty),* $(,)?)) => {
        |values| {
            const NAME: &str = $crate::dispatch::name_of($schema);
            const COUNT: usize = <[&str]>::len(&[$(stringify!($argument)),*]);
            #[allow(unused_mut, unused_variables, reason = "some operators have no arguments")]
            let mut list = $crate::dispatch::Arguments::new(NAME, values, COUNT)?;
            $function($(list.take::<$ty>()?),*).map($crate::dispatch::IntoValues::into_values)
        }
    };
    (
        @function [$(#[$doc:meta])*] $operator:ident $function:ident [$($tensor:ident),*] [$($device:expr)?]
        ($($argument:ident: $ty:ty),* $(,)?) -> $returned:ty
    ) => {
        $(#[$doc])*
        #[inline]
        pub fn $function($($argument: $ty),*) -> ::flambeau_core::Result<$returned> {
            #[allow(unused_imports, reason = "tensors have the method themselves")]
            use $crate::dispatch::HasKeys;
            let keys = $crate::dispatch::DispatchKeySet::EMPTY $(| $tensor.key_set())*;
            $(let keys = $crate::dispatch::factory_keys(keys, $device);)?
            let (keys, kernel) = $operator.select(keys)?;
            kernel(keys $(, $argument)*)
        }
    };
}

/// `add.Tensor` of `add.Tensor(Tensor self, ..) -> Tensor`.
#[must_use]
pub const fn name_of(schema: &'static str) -> &'static str {
    let bytes = schema.as_bytes();
    let mut end = 0;
    while end < bytes.len() && bytes[end] != b'(' {
        end += 1;
    }
    schema.split_at(end).0
}
