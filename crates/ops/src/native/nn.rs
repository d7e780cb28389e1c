//! Operators of neural networks: convolution, pooling, normalization, attention, losses, embeddings, resampling.

pub mod attention;
pub mod convolution;
pub mod dropout;
pub mod embedding;
pub mod embedding_bag;
pub mod grid_sample;
pub mod im2col;
pub mod loss;
pub mod normalization;
pub mod padding;
pub mod pixel_shuffle;
pub mod pooling;
pub mod recurrent;
pub mod upsample;
