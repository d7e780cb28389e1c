//! How options are declared: a struct, its defaults, and a method of the same name for each field.

use std::ops::Deref;

/// A size for each of `N` dimensions; of a number, that number for each.
///
/// ```
/// use flambeau_nn::functional::Size;
/// assert_eq!(Size::<2>::from(3), Size::from([3, 3]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size<const N: usize>(pub [i64; N]);

impl<const N: usize> From<i64> for Size<N> {
    fn from(size: i64) -> Self {
        Size([size; N])
    }
}

impl<const N: usize> From<[i64; N]> for Size<N> {
    fn from(sizes: [i64; N]) -> Self {
        Size(sizes)
    }
}

impl<const N: usize> Deref for Size<N> {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        &self.0
    }
}

/// Declares options: `Name { field: Type = default, .. }`. Tensors that may be absent stand in brackets before the others.
macro_rules! options {
    ($(#[$doc:meta])* $name:ident $(<const $n:ident: usize>)? $([$($(#[$tensor_doc:meta])* $tensor:ident),+])? {
        $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name $(<const $n: usize>)? {
            $($($(#[$tensor_doc])* pub $tensor: Option<::flambeau_ops::Tensor>,)+)?
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $(<const $n: usize>)? Default for $name $(<$n>)? {
            fn default() -> Self {
                $name { $($($tensor: None,)+)? $($field: $default,)* }
            }
        }

        setters! {
            $name $(<const $n: usize>)? [$($($(#[$tensor_doc])* $tensor),+)?] $($(#[$field_doc])* $field: $type,)*
        }
    };
}

/// Declares options that are a module without parameters: a loss, or an activation. Their tensors are buffers.
macro_rules! module_options {
    ($(#[$doc:meta])* $name:ident $([$($(#[$tensor_doc:meta])* $tensor:ident),+])? {
        $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, $crate::Module)]
        pub struct $name {
            $($($(#[$tensor_doc])* #[module(buffer)] pub $tensor: Option<::flambeau_ops::Tensor>,)+)?
            $($(#[$field_doc])* #[module(skip)] pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($($tensor: None,)+)? $($field: $default,)* }
            }
        }

        setters! { $name [$($($(#[$tensor_doc])* $tensor),+)?] $($(#[$field_doc])* $field: $type,)* }
    };
}

/// The methods that set one option each.
macro_rules! setters {
    ($name:ident $(<const $n:ident: usize>)? [$($(#[$tensor_doc:meta])* $tensor:ident),*]
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*) => {
        impl $(<const $n: usize>)? $name $(<$n>)? {
            $(
                $(#[$tensor_doc])*
                #[must_use]
                pub fn $tensor(mut self, $tensor: &::flambeau_ops::Tensor) -> Self {
                    self.$tensor = Some($tensor.clone());
                    self
                }
            )*
            $(
                $(#[$field_doc])*
                #[must_use]
                pub fn $field(mut self, $field: impl Into<$type>) -> Self {
                    self.$field = $field.into();
                    self
                }
            )*
        }
    };
}
