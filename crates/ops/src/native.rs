//! The CPU kernels, by family. A pointwise file is a list of formulas.

#[macro_use]
mod formulas;

pub mod activation;
pub mod binary;
pub mod choice;
pub mod compare;
pub mod convert;
pub mod convolution;
pub mod copy;
pub mod division;
pub mod dropout;
pub mod embedding;
pub mod factory;
pub mod gather;
pub mod grid;
pub mod index;
pub mod index_dim;
pub mod join;
pub mod linear;
pub mod logical;
pub mod loss;
pub mod mask;
pub mod matmul;
pub mod normalization;
pub mod pooling;
pub mod power;
pub mod random;
pub mod ranges;
pub mod rearrange;
pub mod reduce;
pub mod repeat;
pub mod sampling;
pub mod scan;
pub mod search;
mod slices;
pub mod softmax;
pub mod sort;
pub mod split;
mod stored;
pub mod ternary;
pub mod triangular;
pub mod unary;
pub mod view;
pub mod view_backward;
pub mod view_in_place;
mod walk;
