//! The macro `options!`: the struct of a method's options, with a setter for each.

/// Declares the structs of options, with a default for each field. The word before a field's type says what its setter takes:
///
/// | word | the field | the setter takes |
/// |---|---|---|
/// | `is` | `T` | `T` |
/// | `into` | `T` | `impl Into<T>` |
/// | `some` | `Option<T>` | `T` |
/// | `some_into` | `Option<T>` | `impl Into<T>` |
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident $(<$lifetime:lifetime>)? {
        $($(#[$field_doc:meta])* $field:ident: $takes:ident $ty:ty = $default:expr;)+
    })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[must_use]
        pub struct $name $(<$lifetime>)? {
            $(pub(in crate::ops) $field: $crate::method_options::field!($takes $ty),)+
        }

        impl $(<$lifetime>)? Default for $name $(<$lifetime>)? {
            fn default() -> Self {
                Self { $($field: $default),+ }
            }
        }

        impl $(<$lifetime>)? $name $(<$lifetime>)? {
            /// Every option at its default.
            #[inline]
            pub fn new() -> Self {
                Self::default()
            }

            $($crate::method_options::setter! { $(#[$field_doc])* $takes $field $ty })+
        }
    )+};
}

/// The type of a field.
macro_rules! field {
    (is $ty:ty) => { $ty };
    (into $ty:ty) => { $ty };
    (some $ty:ty) => { Option<$ty> };
    (some_into $ty:ty) => { Option<$ty> };
}

/// The setter of a field.
macro_rules! setter {
    ($(#[$doc:meta])* is $field:ident $ty:ty) => {
        $crate::method_options::setter! { $(#[$doc])* $field, $ty, $field }
    };
    ($(#[$doc:meta])* into $field:ident $ty:ty) => {
        $crate::method_options::setter! { $(#[$doc])* $field, impl Into<$ty>, $field.into() }
    };
    ($(#[$doc:meta])* some $field:ident $ty:ty) => {
        $crate::method_options::setter! { $(#[$doc])* $field, $ty, Some($field) }
    };
    ($(#[$doc:meta])* some_into $field:ident $ty:ty) => {
        $crate::method_options::setter! { $(#[$doc])* $field, impl Into<$ty>, Some($field.into()) }
    };
    ($(#[$doc:meta])* $field:ident, $parameter:ty, $value:expr) => {
        $(#[$doc])*
        #[inline]
        pub fn $field(mut self, $field: $parameter) -> Self {
            self.$field = $value;
            self
        }
    };
}

pub(crate) use {field, options, setter};
