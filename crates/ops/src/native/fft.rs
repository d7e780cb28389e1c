//! Fourier transforms.

mod arguments;
pub mod fourier;
pub mod frequencies;
pub mod stft;
#[cfg(feature = "fft")]
pub mod transforms;
