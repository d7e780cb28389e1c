//! The CPU kernels, by family. A pointwise file is a list of formulas.

pub mod binary;
pub mod convolution;
pub mod copy;
pub mod factory;
pub mod linear;
pub mod loss;
pub mod matmul;
pub mod normalization;
pub mod pooling;
pub mod reduce;
pub mod scan;
pub mod softmax;
pub mod unary;
pub mod view;
