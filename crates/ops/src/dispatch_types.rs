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
/// The sets say what an operator needs of a type. `stored`: all nineteen. `moved`: all, where types whose elements most kernels do not
/// compute with are bound to another type of their size. `wrapping` and `distinct`: the twelve or ten that kernels compute with, and
/// unsigned types, bound to the signed type of their size, which has the same sums, products and equal elements. `all`: the ten that are
/// not complex. In a ring: `numbers` (without bool). With an order: `ordered` (the ten), `ordered_numbers` (without bool). Of one kind:
/// `integers` (without bool), `bits` (integers and bool), `floats`, `wide_floats` (without f16 and bf16), `wide_floats_and_complex`.
/// `accumulators`: i64, f32, f64.
///
/// The sets whose names begin with `through` are for loops that convert operands to `$T` in tiles. There are in them also u16 and u32,
/// bound to i64; u64, where the bits of a result are those of i64; complex32, bound to complex64; and in comparisons floats of eight bits,
/// bound to f32. `through_ring` and `through_numbers` (without bool): formulas with `+` and `*`. `through_equality`: with `==` alone.
/// `through_order` and `through_ordered_numbers` (without bool): with `<`. `through_comparison`: the same, with results of bool.
/// `through_computing`: reductions with `<`, for which f16 and bf16 are computed as f32. `through_bits`: `&` and `|`. `through_integers`
/// (without bool) and `through_shifts`: operators of integers that depend on the sign. `through_complex`: formulas of complex numbers.
///
/// `, U64 => expression` at the end is for loops that treat u64 differently.
#[macro_export]
macro_rules! dispatch_all_types {
    ($set:ident, $dtype:expr, $name:expr, $T:ident => $body:expr $(, $other:ident => $special:expr)?) => {
        $crate::dispatch_all_types!(@$set [$dtype, $name, $T, $body $(, $other => $special)?])
    };
    (@stored $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
            Complex64 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>,
            U16 u16, U32 u32, U64 u64, Complex32 flambeau_core::Complex<half::f16>,
            F8E4M3FN flambeau_core::F8E4M3FN, F8E5M2 flambeau_core::F8E5M2, F8E8M0FNU flambeau_core::F8E8M0FNU)
    };
    (@moved $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 | F8E4M3FN | F8E5M2 | F8E8M0FNU u8, I8 i8, I16 | U16 i16, I32 | U32 | Complex32 i32, I64 | U64 i64,
            F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
            Complex64 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@wrapping $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 u8, I8 i8, I16 | U16 i16, I32 | U32 i32, I64 | U64 i64,
            F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
            Complex64 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@distinct $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 u8, I8 i8, I16 | U16 i16, I32 | U32 i32, I64 | U64 i64,
            F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@all $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@numbers $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@through_ring $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 | U16 | U32 | U64 i64,
            F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
            Complex64 | Complex32 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@through_numbers $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            U8 u8, I8 i8, I16 i16, I32 i32, I64 | U16 | U32 | U64 i64,
            F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
            Complex64 | Complex32 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@through_equality $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 | U16 | U32 | U64 i64,
            F16 half::f16, BF16 half::bf16, F32 | F8E4M3FN | F8E5M2 | F8E8M0FNU f32, F64 f64,
            Complex64 | Complex32 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@through_complex $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Complex64 | Complex32 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@ordered $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@through_order $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 | U16 | U32 i64,
            F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@through_comparison $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 | U16 | U32 i64,
            F16 half::f16, BF16 half::bf16, F32 | F8E4M3FN | F8E5M2 | F8E8M0FNU f32, F64 f64)
    };
    (@ordered_numbers $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@through_ordered_numbers $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            U8 u8, I8 i8, I16 i16, I32 i32, I64 | U16 | U32 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@integers $call:tt) => {
        $crate::dispatch_all_types!(@match $call, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64)
    };
    (@through_integers $call:tt) => {
        $crate::dispatch_all_types!(@match $call, U8 u8, I8 i8, I16 i16, I32 i32, I64 | U16 | U32 i64)
    };
    (@bits $call:tt) => {
        $crate::dispatch_all_types!(@match $call, Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64)
    };
    (@through_bits $call:tt) => {
        $crate::dispatch_all_types!(@match $call, Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 | U16 | U32 | U64 i64)
    };
    (@through_shifts $call:tt) => {
        $crate::dispatch_all_types!(@match $call, Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 | U16 | U32 i64)
    };
    (@floats $call:tt) => {
        $crate::dispatch_all_types!(@match $call, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@through_computing $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            Bool bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 | U16 | U32 i64, F32 f32, F64 f64)
    };
    (@wide_floats $call:tt) => {
        $crate::dispatch_all_types!(@match $call, F32 f32, F64 f64)
    };
    (@wide_floats_and_complex $call:tt) => {
        $crate::dispatch_all_types!(@match $call,
            F32 f32, F64 f64, Complex64 flambeau_core::Complex<f32>, Complex128 flambeau_core::Complex<f64>)
    };
    (@accumulators $call:tt) => {
        $crate::dispatch_all_types!(@match $call, I64 i64, F32 f32, F64 f64)
    };
    (@match [$dtype:expr, $name:expr, $T:ident, $body:expr $(, $other:ident => $special:expr)?],
        $($($variant:ident)|+ $rust:ty),*) => {
        match $dtype {
            $($(flambeau_core::ScalarType::$variant)|+ => {
                type $T = $rust;
                $body
            })*
            $(flambeau_core::ScalarType::$other => $special,)?
            other => Err($crate::dispatch_types::not_implemented(&$name, other)),
        }
    };
}
