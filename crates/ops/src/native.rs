//! The CPU kernels, by family. A pointwise file is a list of formulas.

#[macro_use]
mod formulas;

pub mod activation;
pub mod binary;
pub mod choice;
pub mod compare;
pub mod convolution;
pub mod copy;
pub mod division;
pub mod dropout;
pub mod factory;
pub mod linear;
pub mod logical;
pub mod loss;
pub mod matmul;
pub mod normalization;
pub mod pooling;
pub mod power;
pub mod random;
pub mod ranges;
pub mod reduce;
pub mod sampling;
pub mod scan;
pub mod softmax;
pub mod ternary;
pub mod triangular;
pub mod unary;
pub mod view;
