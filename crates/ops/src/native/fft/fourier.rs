//! The functions of `torch.fft` that transform: of one dimension, of two, of several; composed of three kernels.

use super::arguments::{Axes, ensure_length, normalization, promoted, resized, wrapped};
use crate::{Tensor, ops};
use flambeau_core::{Result, ensure};

fn ensure_real(name: &str, self_: &Tensor) -> Result<()> {
    ensure!(
        !self_.is_complex(),
        Dtype,
        operator = format_args!("fft.{name}"),
        argument = "self",
        got = self_.dtype(),
        "{name} expects a real input tensor, but got {got}"
    );
    Ok(())
}

/// Real numbers along one dimension. A transform backwards is the conjugate of one forwards.
fn real_to_complex(
    name: &str,
    self_: &Tensor,
    (n, dim): (Option<i64>, i64),
    norm: Option<&str>,
    forward: bool,
    onesided: bool,
) -> Result<Tensor> {
    ensure_real(name, self_)?;
    let name = &format!("fft.{name}");
    let input = promoted(name, self_, false)?;
    let dim = wrapped(name, dim, input.dim())?;
    let n = n.unwrap_or(input.sizes()[dim]);
    ensure_length(name, n)?;
    let dims = [dim as i64];
    let normalization = normalization(name, norm, forward)?;
    let result = ops::_fft_r2c(&resized(name, &input, &dims, &[n])?, &dims, normalization, onesided)?;
    if forward { Ok(result) } else { ops::conj(&result) }
}

/// Complex numbers along one dimension.
fn complex_to_complex(
    name: &str,
    self_: &Tensor,
    (n, dim): (Option<i64>, i64),
    norm: Option<&str>,
    forward: bool,
) -> Result<Tensor> {
    let name = &format!("fft.{name}");
    let dim = wrapped(name, dim, self_.dim())?;
    let n = n.unwrap_or(self_.sizes()[dim]);
    ensure_length(name, n)?;
    let dims = [dim as i64];
    let normalization = normalization(name, norm, forward)?;
    ops::_fft_c2c(&resized(name, self_, &dims, &[n])?, &dims, normalization, forward)
}

/// Half of a transform of real numbers along one dimension. The kernel transforms backwards: forwards is that of the conjugates.
fn complex_to_real(
    name: &str,
    self_: &Tensor,
    (n, dim): (Option<i64>, i64),
    norm: Option<&str>,
    forward: bool,
) -> Result<Tensor> {
    let name = &format!("fft.{name}");
    let input = promoted(name, self_, true)?;
    let dim = wrapped(name, dim, input.dim())?;
    let n = n.unwrap_or(2 * (input.sizes()[dim] - 1));
    ensure_length(name, n)?;
    let dims = [dim as i64];
    let normalization = normalization(name, norm, forward)?;
    let half = resized(name, &input, &dims, &[n / 2 + 1])?;
    ops::_fft_c2r(&if forward { ops::conj(&half)? } else { half }, &dims, normalization, n)
}

/// A transform along one dimension to all complex numbers.
fn all_along(
    name: &str,
    self_: &Tensor,
    along: (Option<i64>, i64),
    norm: Option<&str>,
    forward: bool,
) -> Result<Tensor> {
    match self_.is_complex() {
        true => complex_to_complex(name, self_, along, norm, forward),
        false => real_to_complex(name, self_, along, norm, forward, false),
    }
}

/// The discrete Fourier transform along `dim`.
pub fn fft_fft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    all_along("fft", self_, (n, dim), norm, true)
}

/// The inverse of [`fft_fft`].
pub fn fft_ifft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    all_along("ifft", self_, (n, dim), norm, false)
}

/// The first half of [`fft_fft`] of real numbers.
pub fn fft_rfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    real_to_complex("rfft", self_, (n, dim), norm, true, true)
}

/// The inverse of [`fft_rfft`].
pub fn fft_irfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    complex_to_real("irfft", self_, (n, dim), norm, false)
}

/// [`fft_fft`] of a signal that is Hermitian, given by its first half: real numbers.
pub fn fft_hfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    complex_to_real("hfft", self_, (n, dim), norm, true)
}

/// The inverse of [`fft_hfft`].
pub fn fft_ihfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    real_to_complex("ihfft", self_, (n, dim), norm, false, true)
}

type Sizes<'a> = Option<&'a [i64]>;

fn complex_axes(
    name: &str,
    self_: &Tensor,
    s: Sizes<'_>,
    dim: Sizes<'_>,
    norm: Option<&str>,
    forward: bool,
) -> Result<Tensor> {
    let name = &format!("fft.{name}");
    let axes = Axes::new(name, self_, s, dim)?;
    let input = resized(name, &promoted(name, self_, true)?, &axes.dims, &axes.sizes)?;
    ops::_fft_c2c(&input, &axes.dims, normalization(name, norm, forward)?, forward)
}

/// The discrete Fourier transform along several dimensions.
pub fn fft_fftn(self_: &Tensor, s: Sizes<'_>, dim: Sizes<'_>, norm: Option<&str>) -> Result<Tensor> {
    complex_axes("fftn", self_, s, dim, norm, true)
}

/// The inverse of [`fft_fftn`].
pub fn fft_ifftn(self_: &Tensor, s: Sizes<'_>, dim: Sizes<'_>, norm: Option<&str>) -> Result<Tensor> {
    complex_axes("ifftn", self_, s, dim, norm, false)
}

/// The first half of [`fft_fftn`] of real numbers.
pub fn fft_rfftn(self_: &Tensor, s: Sizes<'_>, dim: Sizes<'_>, norm: Option<&str>) -> Result<Tensor> {
    const NAME: &str = "fft.rfftn";
    ensure!(
        !self_.is_complex(),
        Dtype,
        operator = NAME,
        argument = "self",
        got = self_.dtype(),
        "rfftn expects a real-valued input tensor, but got {got}"
    );
    let axes = Axes::new(NAME, self_, s, dim)?.ensure_any("rfftn")?;
    let input = resized(NAME, &promoted(NAME, self_, false)?, &axes.dims, &axes.sizes)?;
    ops::_fft_r2c(&input, &axes.dims, normalization(NAME, norm, true)?, true)
}

/// The inverse of [`fft_rfftn`].
pub fn fft_irfftn(self_: &Tensor, s: Sizes<'_>, dim: Sizes<'_>, norm: Option<&str>) -> Result<Tensor> {
    const NAME: &str = "fft.irfftn";
    let (axes, n) = Axes::new(NAME, self_, s, dim)?.ensure_any("irfftn")?.with_real_output(NAME, self_, s)?;
    let input = resized(NAME, &promoted(NAME, self_, true)?, &axes.dims, &axes.sizes)?;
    ops::_fft_c2r(&input, &axes.dims, normalization(NAME, norm, false)?, n)
}

/// [`fft_fftn`] of a signal that is Hermitian, given by its first half: real numbers.
pub fn fft_hfftn(self_: &Tensor, s: Sizes<'_>, dim: Sizes<'_>, norm: Option<&str>) -> Result<Tensor> {
    const NAME: &str = "fft.hfftn";
    let (axes, n) = Axes::new(NAME, self_, s, dim)?.ensure_any("hfftn")?.with_real_output(NAME, self_, s)?;
    let input = resized(NAME, &promoted(NAME, self_, true)?, &axes.dims, &axes.sizes)?;
    let normalization = normalization(NAME, norm, true)?;
    let (others, last) = axes.dims.split_at(axes.dims.len() - 1);
    let along_others =
        if others.is_empty() { input } else { ops::_fft_c2c(&input, others, normalization, true)? };
    ops::_fft_c2r(&ops::conj(&along_others)?, last, normalization, n)
}

/// The inverse of [`fft_hfftn`].
pub fn fft_ihfftn(self_: &Tensor, s: Sizes<'_>, dim: Sizes<'_>, norm: Option<&str>) -> Result<Tensor> {
    const NAME: &str = "fft.ihfftn";
    let axes = Axes::new(NAME, self_, s, dim)?.ensure_any("ihfftn")?;
    ensure_real("ihfftn", self_)?;
    let input = resized(NAME, &promoted(NAME, self_, false)?, &axes.dims, &axes.sizes)?;
    let normalization = normalization(NAME, norm, false)?;
    let (others, last) = axes.dims.split_at(axes.dims.len() - 1);
    let along_last = ops::conj(&ops::_fft_r2c(&input, last, normalization, true)?)?;
    if others.is_empty() { Ok(along_last) } else { ops::_fft_c2c(&along_last, others, normalization, false) }
}

macro_rules! planes {
    ($($(#[$doc:meta])* $name:ident = $axes:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(self_: &Tensor, s: Sizes<'_>, dim: &[i64], norm: Option<&str>) -> Result<Tensor> {
            $axes(self_, s, Some(dim), norm)
        }
    )*};
}

planes! {
    /// [`fft_fftn`] along two dimensions.
    fft_fft2 = fft_fftn;
    /// [`fft_ifftn`] along two dimensions.
    fft_ifft2 = fft_ifftn;
    /// [`fft_rfftn`] along two dimensions.
    fft_rfft2 = fft_rfftn;
    /// [`fft_irfftn`] along two dimensions.
    fft_irfft2 = fft_irfftn;
    /// [`fft_hfftn`] along two dimensions.
    fft_hfft2 = fft_hfftn;
    /// [`fft_ihfftn`] along two dimensions.
    fft_ihfft2 = fft_ihfftn;
}
