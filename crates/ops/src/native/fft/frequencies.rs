//! The frequencies of the elements of a transform, and shifts that sort them.

use super::arguments::wrapped;
use crate::{Tensor, ops};
use flambeau_core::{Device, DimVec, Layout, Result, Scalar, ScalarType, default_dtype, ensure};

/// The type in which frequencies are computed, and that of the result.
fn types(name: &str, dtype: Option<ScalarType>) -> Result<(ScalarType, ScalarType)> {
    let dtype = dtype.unwrap_or_else(default_dtype);
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        Dtype,
        operator = format_args!("fft.{name}"),
        argument = "dtype",
        got = dtype,
        "{name} requires a floating point or complex dtype, but got {got}"
    );
    Ok((if dtype.is_complex() { dtype.to_real() } else { dtype }, dtype))
}

fn ensure_count(name: &str, n: i64) -> Result<()> {
    ensure!(
        n >= 0,
        InvalidArgument(name, "n"),
        got = n,
        "expected a length that is not negative, but got {got}"
    );
    Ok(())
}

fn scaled(numbers: &Tensor, n: i64, d: f64, dtype: ScalarType) -> Result<Tensor> {
    let frequencies = ops::mul_scalar(numbers, Scalar::Float(1.0 / (n as f64 * d)))?;
    if dtype.is_complex() { ops::to_dtype(&frequencies, dtype, false, false, None) } else { Ok(frequencies) }
}

/// The frequencies of the elements of `fft_fft`: 0 and above, then negative ones.
pub fn fft_fftfreq(
    n: i64,
    d: f64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure_count("fft.fftfreq", n)?;
    let (real, dtype) = types("fftfreq", dtype)?;
    let from = |start: i64, end: i64| {
        ops::arange_start(start.into(), end.into(), Some(real), layout, device, pin_memory)
    };
    let numbers = ops::cat(&[from(0, n / 2 + n % 2)?, from(-(n / 2), 0)?], 0)?;
    scaled(&numbers, n, d, dtype)
}

/// The frequencies of the elements of `fft_rfft`.
pub fn fft_rfftfreq(
    n: i64,
    d: f64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure_count("fft.rfftfreq", n)?;
    let (real, dtype) = types("rfftfreq", dtype)?;
    scaled(&ops::arange((n / 2 + 1).into(), Some(real), layout, device, pin_memory)?, n, d, dtype)
}

/// Rolls dimensions by half of their sizes, rounded down or up.
fn shifted(name: &str, self_: &Tensor, dim: Option<&[i64]>, rounded_up: bool) -> Result<Tensor> {
    let rank = self_.dim();
    let dims = match dim {
        Some(dims) => {
            let from_front = dims.iter().map(|dim| Ok(wrapped(name, *dim, rank)? as i64));
            from_front.collect::<Result<DimVec>>()?
        }
        None => (0..rank as i64).collect(),
    };
    let shift = |dim: &i64| (self_.sizes()[*dim as usize] + i64::from(rounded_up)) / 2;
    let shifts: DimVec = dims.iter().map(shift).collect();
    ops::roll(self_, &shifts, &dims)
}

/// Moves the element of frequency 0 to the middle of each dimension.
pub fn fft_fftshift(self_: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    shifted("fft.fftshift", self_, dim, false)
}

/// The inverse of [`fft_fftshift`].
pub fn fft_ifftshift(self_: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    shifted("fft.ifftshift", self_, dim, true)
}
