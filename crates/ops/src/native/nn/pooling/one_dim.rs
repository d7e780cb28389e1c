//! Pooling over one dimension, as pooling over images of height one.

use crate::{Tensor, ops};
use flambeau_core::{Result, bail, ensure};

/// The element of an `int[1]`.
fn one(name: &str, values: &[i64]) -> Result<i64> {
    match *values {
        [value] => Ok(value),
        _ => bail!(InvalidArgument(name), "expected one number but got {values:?}"),
    }
}

/// A sequence as an image of height one.
fn as_image(name: &str, self_: &Tensor) -> Result<Tensor> {
    ensure!(
        matches!(self_.dim(), 2 | 3),
        Shape(name, "self"),
        "Expected 2D or 3D (batch mode) tensor but got input of sizes {:?}",
        self_.sizes()
    );
    self_.unsqueeze(-2)
}

fn stride_of(name: &str, stride: &[i64], kernel: i64) -> Result<i64> {
    if stride.is_empty() { Ok(kernel) } else { one(name, stride) }
}

/// The maximum of each window of a sequence, and its index.
pub fn max_pool1d_with_indices(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "max_pool1d";
    let (k, pad, step) = (one(NAME, kernel_size)?, one(NAME, padding)?, one(NAME, dilation)?);
    let stride = stride_of(NAME, stride, k)?;
    let (values, indices) = ops::max_pool2d_with_indices(
        &as_image(NAME, self_)?,
        &[1, k],
        &[1, stride],
        &[0, pad],
        &[1, step],
        ceil_mode,
    )?;
    Ok((values.squeeze_dim(-2)?, indices.squeeze_dim(-2)?))
}

/// The maximum of each window of a sequence.
pub fn max_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    Ok(ops::max_pool1d_with_indices(self_, kernel_size, stride, padding, dilation, ceil_mode)?.0)
}

/// The mean of each window of a sequence.
pub fn avg_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Result<Tensor> {
    const NAME: &str = "avg_pool1d";
    let (k, pad) = (one(NAME, kernel_size)?, one(NAME, padding)?);
    let stride = stride_of(NAME, stride, k)?;
    let image = as_image(NAME, self_)?;
    ops::avg_pool2d(&image, &[1, k], &[1, stride], &[0, pad], ceil_mode, count_include_pad, None)?
        .squeeze_dim(-2)
}

/// The means of `output_size` parts of a sequence.
pub fn adaptive_avg_pool1d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    const NAME: &str = "adaptive_avg_pool1d";
    let size = one(NAME, output_size)?;
    ops::adaptive_avg_pool2d(&as_image(NAME, self_)?, &[1, size])?.squeeze_dim(-2)
}

/// The maxima of `output_size` parts of a sequence, and their indices.
pub fn adaptive_max_pool1d(self_: &Tensor, output_size: &[i64]) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "adaptive_max_pool1d";
    let size = one(NAME, output_size)?;
    let (values, indices) = ops::adaptive_max_pool2d(&as_image(NAME, self_)?, &[1, size])?;
    Ok((values.squeeze_dim(-2)?, indices.squeeze_dim(-2)?))
}
