//! Pointwise operators: each element of the result depends on the elements of the operands at the same index.

pub mod accumulate;
pub mod activation;
pub mod activation_piecewise;
pub mod adam;
pub mod binary;
pub mod bitwise_logical;
pub mod comparison;
pub mod complex;
pub mod division;
pub mod gcd_lcm_shift;
mod plane;
pub mod pow;
pub mod special;
pub mod special_scalar;
pub mod ternary;
pub mod unary;
pub mod where_masked_fill;
