//! From a scalar type known at run time to a Rust type: the one macro of type dispatch and its named subsets, which also
//! decide what an operator supports.

use flambeau_core::{Error, ScalarType, error};

/// The error of `name` for a type outside its set.
#[doc(hidden)]
#[cold]
pub fn not_implemented(name: &dyn std::fmt::Display, dtype: ScalarType) -> Error {
    error!(NotImplemented, operator = name, got = dtype, "{operator} is not implemented for {got}")
}

/// Calls `$body` with `$T` bound to the Rust type of `$dtype`; a type outside the set is an error that names the operator.
///
/// The sets say what an operator needs of a type. Stored: `all_and_complex` (the twelve), `all` (the ten that are not complex). In a ring:
/// `numbers_and_complex` and `numbers` (without bool). `complex`: complex64 and complex128. With an order, which complex numbers have not:
/// `ordered` (the ten), `ordered_numbers` (without bool), `ordered_computing` (without f16 and bf16, which are computed as f32). Of one kind: `integers` (without bool), `bits` (integers and bool), `floats`, `wide_floats` (without f16 and
/// bf16). `accumulators`: i64, f32, f64.
#[macro_export]
macro_rules! dispatch_all_types {
    ($set:ident, $dtype:expr, $name:expr, $T:ident => $body:expr) => {
        $crate::dispatch_all_types!(@$set $dtype, $name, $T, $body)
    };
    (@all $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@numbers $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body,
            U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@all_and_complex $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
            Complex64 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@numbers_and_complex $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body,
            U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
            Complex64 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@complex $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body,
            Complex64 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@ordered $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@ordered_numbers $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body,
            U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@integers $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64)
    };
    (@bits $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body, Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64)
    };
    (@floats $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@ordered_computing $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F32 f32, F64 f64)
    };
    (@wide_floats $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body, F32 f32, F64 f64)
    };
    (@wide_floats_and_complex $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body,
            F32 f32, F64 f64, Complex64 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@accumulators $dtype:expr, $name:expr, $T:ident, $body:expr) => {
        $crate::dispatch_all_types!(@match $dtype, $name, $T, $body, I64 i64, F32 f32, F64 f64)
    };
    (@match $dtype:expr, $name:expr, $T:ident, $body:expr, $($variant:ident $rust:ty),*) => {
        match $dtype {
            $(flambeau_core::ScalarType::$variant => {
                type $T = $rust;
                $body
            })*
            other => Err($crate::dispatch_types::not_implemented(&$name, other)),
        }
    };
}
