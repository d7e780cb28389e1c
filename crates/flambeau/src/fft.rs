//! Fourier transforms: the functions of PyTorch's `torch.fft` with all their arguments. [`Tensor`](crate::Tensor) has each as a method too,
//! which leaves out what has a default: `x.fft_fft()`. A transform along a dimension of n elements takes O(n log n) for every n.
//!
//! ```
//! use flambeau::{Tensor, fft};
//!
//! let x = Tensor::from([1.0, 2.0, 3.0, 4.0]);
//! let spectrum = fft::rfft(&x, None, -1, None)?;
//! assert!(fft::irfft(&spectrum, Some(4), -1, None)?.allclose(&x, 1e-12, 1e-12, false)?);
//! # Ok::<(), flambeau::Error>(())
//! ```

pub use flambeau_ops::ops::{
    fft_fft as fft, fft_fft2 as fft2, fft_fftfreq as fftfreq, fft_fftn as fftn, fft_fftshift as fftshift,
    fft_hfft as hfft, fft_hfft2 as hfft2, fft_hfftn as hfftn, fft_ifft as ifft, fft_ifft2 as ifft2,
    fft_ifftn as ifftn, fft_ifftshift as ifftshift, fft_ihfft as ihfft, fft_ihfft2 as ihfft2,
    fft_ihfftn as ihfftn, fft_irfft as irfft, fft_irfft2 as irfft2, fft_irfftn as irfftn, fft_rfft as rfft,
    fft_rfft2 as rfft2, fft_rfftfreq as rfftfreq, fft_rfftn as rfftn,
};
