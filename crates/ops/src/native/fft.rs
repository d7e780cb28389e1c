//! Fourier transforms.

mod arguments;
pub mod fourier;
pub mod frequencies;
pub mod stft;
pub mod transforms;
