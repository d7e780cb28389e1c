//! `max_unpool2d` and `max_unpool3d`: elements at the indices where pooling found them, and zeros elsewhere.

use crate::batched::is_batched;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, ScalarType, ensure, shape};

fn check(name: &str, self_: &Tensor, indices: &Tensor, dims: usize) -> Result<()> {
    ensure!(
        indices.dtype() == ScalarType::I64,
        Dtype,
        operator = name,
        argument = "indices",
        "elements in indices should be type int64 but got: {}",
        indices.dtype()
    );
    ensure!(
        self_.dim() == dims + 1 || self_.dim() == dims + 2,
        Shape,
        operator = name,
        argument = "self",
        "Input to {name} should be a {}d or {}d Tensor, but got a tensor with {} dimensions.",
        dims + 1,
        dims + 2,
        self_.dim()
    );
    ensure!(
        indices.sizes() == self_.sizes(),
        Shape,
        operator = name,
        argument = "indices",
        "Expected shape of indices to be same as that of the input tensor ({:?}) but got indices tensor with shape: {:?}",
        self_.sizes(),
        indices.sizes()
    );
    ensure!(
        self_.is_floating_point(),
        NotImplemented,
        operator = name,
        argument = "self",
        "\"{name}\" not implemented for '{}'",
        self_.dtype()
    );
    let inner = &self_.sizes()[self_.dim() - dims - 1..];
    ensure!(
        inner.iter().all(|size| *size > 0),
        Shape(name, "self"),
        "Expected input to have non-zero size for non-batch dimensions, but got {:?}",
        self_.sizes()
    );
    Ok(())
}

/// `source` at its indices along a dimension, and zeros elsewhere.
fn among_zeros(zeros: Tensor, dim: i64, indices: &Tensor, source: &Tensor) -> Result<Tensor> {
    // What is batched cannot be written to what is not.
    if is_batched(indices) || is_batched(source) {
        return ops::scatter_src(&zeros, dim, indices, source);
    }
    ops::scatter__src(&zeros, dim, indices, source)?;
    Ok(zeros)
}

/// Scatters each element to its index in the channel: of several elements with one index the last.
fn unpooled(self_: &Tensor, indices: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    let channels = &self_.sizes()[..self_.dim() - output_size.len()];
    let with = |rest: &[i64]| -> DimVec { channels.iter().chain(rest).copied().collect() };
    let pixels = shape::numel(&self_.sizes()[channels.len()..])?;
    let flat = |tensor: &Tensor| tensor.reshape(&with(&[pixels]));
    let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
    let zeros = ops::zeros(&with(&[shape::numel(output_size)?]), dtype, None, device, None)?;
    among_zeros(zeros, -1, &flat(indices)?, &flat(self_)?)?.reshape(&with(output_size))
}

/// The same of batches of images in the order of channels last.
fn unpooled_channels_last(self_: &Tensor, indices: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    let &[batch, channels, height, width] = self_.sizes() else {
        return unpooled(self_, indices, output_size);
    };
    let flat = |tensor: &Tensor| {
        ops::reshape(&ops::permute(tensor, &[0, 2, 3, 1])?, &[batch, height * width, channels])
    };
    let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
    let zeros = ops::zeros(&[batch, shape::numel(output_size)?, channels], dtype, None, device, None)?;
    let made = among_zeros(zeros, 1, &flat(indices)?, &flat(self_)?)?;
    ops::permute(&ops::view(&made, &[batch, output_size[0], output_size[1], channels])?, &[0, 3, 1, 2])
}

/// The partial inverse of `max_pool2d`: each element at its index in a plane of `output_size`, and zeros elsewhere.
pub fn max_unpool2d(self_: &Tensor, indices: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    ensure!(
        output_size.len() == 2,
        InvalidArgument,
        operator = "max_unpool2d",
        argument = "output_size",
        "There should be exactly two elements (height, width) in output_size, but got {} elements.",
        output_size.len()
    );
    check("max_unpooling2d", self_, indices, 2)?;
    if self_.suggest_memory_format() == MemoryFormat::ChannelsLast {
        return unpooled_channels_last(self_, indices, output_size);
    }
    unpooled(self_, indices, output_size)
}

/// The same over three dimensions. Strides and padding are checked and otherwise unused.
pub fn max_unpool3d(
    self_: &Tensor,
    indices: &Tensor,
    output_size: &[i64],
    stride: &[i64],
    padding: &[i64],
) -> Result<Tensor> {
    for (what, list) in [("output_size", output_size), ("stride", stride), ("padding", padding)] {
        ensure!(
            list.len() == 3,
            InvalidArgument,
            operator = "max_unpool3d",
            argument = what,
            "There should be exactly three elements (depth, height, width) in {what}, but got: {} elements.",
            list.len()
        );
    }
    ensure!(
        stride.iter().all(|step| *step > 0),
        InvalidArgument,
        operator = "max_unpool3d",
        argument = "stride",
        "strides should be greater than zero, but got stride: {stride:?}"
    );
    check("max_unpooling3d", self_, indices, 3)?;
    unpooled(self_, indices, output_size)
}
