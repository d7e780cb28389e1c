//! `empty`, `full`, `zeros`, `ones`, `eye`, and their `*_like` and `new_*` forms.

use crate::native::shape::view;
use crate::structured::TensorSpec;
use crate::tensor_iterator::{Config, TensorIterator};
use crate::{Tensor, ops};
use flambeau_core::{
    Device, DimVec, Layout, MemoryFormat, Result, Scalar, ScalarType, default_dtype, ensure, shape,
};

/// Refuses layouts and memory that are not implemented.
#[inline]
pub(crate) fn check_options(name: &str, layout: Option<Layout>, pin_memory: Option<bool>) -> Result<()> {
    ensure!(
        layout.unwrap_or_default() == Layout::Strided,
        NotImplemented(name, "layout"),
        "expected a strided layout but got {}",
        layout.unwrap_or_default()
    );
    ensure!(
        pin_memory != Some(true),
        NotImplemented(name, "pin_memory"),
        "pinned memory needs a CUDA device"
    );
    Ok(())
}

/// An uninitialized tensor.
pub fn empty(
    size: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_options("empty", layout, pin_memory)?;
    let (dtype, device) = (dtype.unwrap_or_else(default_dtype), device.unwrap_or(Device::CPU));
    match memory_format {
        None | Some(MemoryFormat::Contiguous) => {
            Tensor::empty_contiguous(size, dtype, device).map_err(|e| e.in_operator("empty"))
        }
        Some(format) => TensorSpec::new(size, dtype, device).with_format(format).allocate("empty"),
    }
}

/// A tensor of zeros.
pub fn zeros(
    size: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let made = ops::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    ops::zero_(&made)?;
    Ok(made)
}

/// A tensor of ones.
pub fn ones(
    size: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    full(size, Scalar::Int(1), Some(dtype.unwrap_or_else(default_dtype)), layout, device, pin_memory)
}

/// A tensor filled with `fill_value`, by default of that value's type.
pub fn full(
    size: &[i64],
    fill_value: Scalar,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(|| match fill_value.scalar_type() {
        ScalarType::F64 => default_dtype(),
        ScalarType::Complex128 => default_dtype().to_complex(),
        // An integer that is too large for the type of integers, which `fill_` says.
        ScalarType::U64 => ScalarType::I64,
        other => other,
    });
    let made = ops::empty_memory_format(size, Some(dtype), layout, device, pin_memory, None)?;
    ops::fill__scalar(&made, fill_value)?;
    Ok(made)
}

/// An uninitialized tensor with the given strides.
pub fn empty_strided(
    size: &[i64],
    stride: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_options("empty_strided", layout, pin_memory)?;
    ensure!(
        size.len() == stride.len(),
        Shape("empty_strided", "stride"),
        "expected as many strides as sizes but got sizes {size:?} and strides {stride:?}"
    );
    let (dtype, device) = (dtype.unwrap_or_else(default_dtype), device.unwrap_or(Device::CPU));
    Tensor::empty_with_strides(size, stride, dtype, device).map_err(|e| e.in_operator("empty_strided"))
}

/// A tensor without dimensions that holds a number, by default of the default floating point type.
pub fn scalar_tensor(
    s: Scalar,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    full(&[], s, Some(dtype.unwrap_or_else(default_dtype)), layout, device, pin_memory)
}

/// The identity matrix.
pub fn eye(
    n: i64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    eye_m(n, n, dtype, layout, device, pin_memory)
}

/// A matrix with ones on the diagonal and zeros elsewhere.
pub fn eye_m(
    n: i64,
    m: i64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    for (name, size) in [("n", n), ("m", m)] {
        ensure!(size >= 0, InvalidArgument("eye", name), "{name} must be greater or equal to 0, got {size}");
    }
    let made = ops::zeros(&[n, m], dtype, layout, device, pin_memory)?;
    let diagonal = view::as_strided(&made, &[n.min(m)], &[m.saturating_add(1)], Some(0))?;
    ops::fill__scalar(&diagonal, Scalar::Int(1))?;
    Ok(made)
}

/// An uninitialized tensor with the sizes of another, and by default with its type, device and order of dimensions.
pub fn empty_like(
    self_: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_options("empty_like", layout, pin_memory)?;
    let (dtype, device) = (dtype.unwrap_or(self_.dtype()), device.unwrap_or(self_.device()));
    match memory_format {
        None | Some(MemoryFormat::Preserve) => {
            let strides = dense_strides(self_)?;
            Tensor::empty_with_strides(self_.sizes(), &strides, dtype, device)
                .map_err(|e| e.in_operator("empty_like"))
        }
        Some(format) => {
            TensorSpec::new(self_.sizes(), dtype, device).with_format(format).allocate("empty_like")
        }
    }
}

/// The strides of `tensor` if it is dense, otherwise dense strides of the same order.
pub(crate) fn dense_strides(tensor: &Tensor) -> Result<DimVec> {
    if shape::is_non_overlapping_and_dense(tensor.sizes(), tensor.strides()) {
        return Ok(DimVec::from_slice(tensor.strides()));
    }
    pointwise_strides(&[tensor])
}

/// The strides of the result of a pointwise operator on the operands.
pub(crate) fn pointwise_strides(operands: &[&Tensor]) -> Result<DimVec> {
    let to_meta = |operand: &&Tensor| {
        Tensor::empty_with_strides(operand.sizes(), operand.strides(), ScalarType::F32, Device::META)
    };
    let operands: Vec<Tensor> = operands.iter().map(to_meta).collect::<Result<_>>()?;
    let mut iter = TensorIterator::functional("empty_like");
    operands.iter().for_each(|operand| iter.add_input(operand));
    iter.build(Config::SAME)?;
    Ok(DimVec::from_slice(iter.take_result()?.strides()))
}

/// A tensor of zeros with the sizes of another.
pub fn zeros_like(
    self_: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    full_like(self_, Scalar::Int(0), dtype, layout, device, pin_memory, memory_format)
}

/// A tensor of ones with the sizes of another.
pub fn ones_like(
    self_: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    full_like(self_, Scalar::Int(1), dtype, layout, device, pin_memory, memory_format)
}

/// A tensor filled with `fill_value`, with the sizes and by default the type of another.
pub fn full_like(
    self_: &Tensor,
    fill_value: Scalar,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let made = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    ops::fill__scalar(&made, fill_value)?;
    Ok(made)
}

/// An uninitialized tensor of the given sizes, by default of the type and on the device of another.
pub fn new_empty(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = (dtype.unwrap_or(self_.dtype()), device.unwrap_or(self_.device()));
    ops::empty_memory_format(size, Some(dtype), layout, Some(device), pin_memory, None)
}

/// [`new_empty`] with the given strides.
pub fn new_empty_strided(
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = (dtype.unwrap_or(self_.dtype()), device.unwrap_or(self_.device()));
    ops::empty_strided(size, stride, Some(dtype), layout, Some(device), pin_memory)
}

/// A tensor filled with `fill_value`, by default of the type and on the device of another.
pub fn new_full(
    self_: &Tensor,
    size: &[i64],
    fill_value: Scalar,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let made = ops::new_empty(self_, size, dtype, layout, device, pin_memory)?;
    ops::fill__scalar(&made, fill_value)?;
    Ok(made)
}

/// A tensor of zeros, by default of the type and on the device of another.
pub fn new_zeros(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    new_full(self_, size, Scalar::Int(0), dtype, layout, device, pin_memory)
}

/// A tensor of ones, by default of the type and on the device of another.
pub fn new_ones(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    new_full(self_, size, Scalar::Int(1), dtype, layout, device, pin_memory)
}

/// An uninitialized tensor whose dimensions have the order `physical_layout` in memory, outermost first.
pub fn empty_permuted(
    size: &[i64],
    physical_layout: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    const NAME: &str = "empty_permuted";
    ensure!(
        size.len() == physical_layout.len(),
        InvalidArgument(NAME, "physical_layout"),
        "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {} is not \
         equal to len(physical_layout) = {}",
        size.len(),
        physical_layout.len()
    );
    let order = crate::native::shape::view::wrap_dims(NAME, physical_layout, size.len())?;
    let physical_sizes: Vec<i64> = order.iter().map(|d| size[*d]).collect();
    let physical_strides = shape::contiguous_strides(&physical_sizes);
    let mut strides = vec![0; size.len()];
    order.iter().zip(&physical_strides).for_each(|(d, stride)| strides[*d] = *stride);
    ops::empty_strided(size, &strides, dtype, layout, device, pin_memory)
}
