//! Activations that are defined piecewise: `hardshrink`, `softshrink`, `hardsigmoid`, `hardswish`, `glu`, `celu`, `selu`, `relu6`,
//! `prelu` and `rrelu`.

use crate::native::formulas::chain_rule;
use crate::structured::ensure_same_device;
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{Float, Vector};
use crate::{Tensor, ops};
use flambeau_core::{Generator, MemoryFormat, Result, Scalar, ensure};

formulas! { float_kernel(FloatFormula, Float) -> V:
    /// x, but 0 for x in -lambd to lambd.
    fn hardshrink, hardshrink_meta = build_unary_op(self_: x; lambd: Scalar) => V::select(is_within(x, V::scalar(lambd)), V::zero(), x);
    /// The gradient of `hardshrink` and of `softshrink`.
    fn shrink_backward, shrink_backward_meta = build_binary_op(grad_output: g, self_: x; lambd: Scalar) =>
        V::select(is_within(x, V::scalar(lambd)), V::zero(), g);
    /// x - lambd for x above lambd, x + lambd for x below -lambd, and 0 between.
    fn softshrink, softshrink_by_meta = build_unary_op(self_: x; lambd: Scalar) => {
        let by = V::scalar(lambd);
        V::select(x.gt(by), x - by, V::select(x.lt(-by), x + by, x * V::zero()))
    };
    /// (x + 3) / 6, clamped to 0 to 1.
    fn hardsigmoid, hardsigmoid_meta = build_unary_op(self_: x) => ramp(x) / V::constant(6.0);
    /// The gradient of `hardsigmoid`.
    fn hardsigmoid_backward, hardsigmoid_backward_meta = build_binary_op(grad_output: g, self_: x) => {
        let three = V::constant(3.0);
        V::select(x.gt(-three) & x.lt(three), g / V::constant(6.0), V::zero())
    };
    /// x (x + 3) / 6, but 0 below -3 and x above 3.
    fn hardswish, hardswish_meta = build_unary_op(self_: x) => x * ramp(x) / V::constant(6.0);
    /// The gradient of `hardswish`.
    fn hardswish_backward, hardswish_backward_meta = build_binary_op(grad_output: g, self_: x) => {
        let three = V::constant(3.0);
        let slope = chain_rule(g, x / three + V::constant(0.5));
        V::select(x.le(-three), V::zero(), V::select(x.ge(three), g, slope))
    };
    /// a sigmoid(b).
    fn gate, gate_meta = build_binary_op(self_: a, other: b) => a * b.sigmoid();
    /// x if it is above 0, else x times its weight.
    fn prelu_kernel, prelu_kernel_meta = build_binary_op(self_: x, weight: w) => V::select(x.gt(V::zero()), x, x * w);
    /// The gradient of `prelu` with respect to its input.
    fn prelu_by_input, prelu_by_input_meta = build_ternary_op(grad_output: g, self_: x, weight: w) =>
        V::select(x.gt(V::zero()), g, chain_rule(g, w));
    /// The gradient of `prelu` with respect to its expanded weight; the caller sums it to the sizes of the weight.
    fn prelu_by_weight, prelu_by_weight_meta = build_binary_op(grad_output: g, self_: x) =>
        V::select(x.gt(V::zero()), V::zero(), chain_rule(g, x));
}

/// Whether `|x| <= bound`; false for NaN.
#[inline(always)]
fn is_within<V: Float>(x: V, bound: V) -> <V as Vector>::Mask {
    x.ge(-bound) & x.le(bound)
}

/// `x + 3`, clamped to 0 to 6.
#[inline(always)]
fn ramp<V: Float>(x: V) -> V {
    (x + V::constant(3.0)).maximum(V::zero()).minimum(V::constant(6.0))
}

/// Shape and type of [`softshrink`].
pub fn softshrink_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, lambd: Scalar) -> Result<()> {
    let value = lambd.to_f64();
    ensure!(
        value >= 0.0 && value.is_finite(),
        InvalidArgument(iter.name(), "lambd"),
        "lambda must be greater or equal to 0 and finite, but found to be {value}."
    );
    softshrink_by_meta(iter, self_, lambd)
}

fn ensure_floating(name: &str, tensor: &Tensor) -> Result<()> {
    let dtype = tensor.dtype();
    ensure!(
        dtype.is_floating_point(),
        NotImplemented,
        operator = name,
        argument = "self",
        "{name} is not implemented for {dtype}"
    );
    Ok(())
}

/// The two halves of a tensor along a dimension.
fn halves(name: &str, self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    ensure!(self_.dim() > 0, Shape(name, "self"), "glu does not support 0-dimensional tensors");
    let d = flambeau_core::shape::wrap_dim(dim, self_.dim())?;
    let size = self_.sizes()[d];
    ensure!(
        size % 2 == 0,
        Shape(name, "self"),
        "Halving dimension must be even, but dimension {d} is size {size}"
    );
    Ok((ops::narrow(self_, d as i64, 0, size / 2)?, ops::narrow(self_, d as i64, size / 2, size / 2)?))
}

/// The first half of a dimension times the sigmoid of the second.
pub fn glu(self_: &Tensor, dim: i64) -> Result<Tensor> {
    ensure_floating("glu", self_)?;
    let (a, b) = halves("glu", self_, dim)?;
    let mut iter = TensorIterator::functional("glu");
    gate_meta(&mut iter, &a, &b)?;
    if !iter.is_meta() {
        gate(&mut iter, &a, &b)?;
    }
    iter.take_result()
}

/// The gradient of [`glu`].
pub fn glu_backward(grad_output: &Tensor, self_: &Tensor, dim: i64) -> Result<Tensor> {
    let (a, b) = halves("glu_backward", self_, dim)?;
    let gate = ops::sigmoid(&b)?;
    let of_gate = ops::sigmoid_backward(&ops::_chain(grad_output, &a)?, &gate)?;
    ops::cat(&[ops::_chain(grad_output, &gate)?, of_gate], dim)
}

/// `elu` whose slope is 1 at 0.
pub fn celu(self_: &Tensor, alpha: Scalar) -> Result<Tensor> {
    ops::elu(self_, alpha, Scalar::Float(1.0), inverse("celu", alpha)?)
}

/// [`celu`] in place.
pub fn celu_(self_: &Tensor, alpha: Scalar) -> Result<()> {
    ops::elu_(self_, alpha, Scalar::Float(1.0), inverse("celu_", alpha)?)
}

fn inverse(name: &str, alpha: Scalar) -> Result<Scalar> {
    ensure!(
        alpha.to_f64() != 0.0,
        InvalidArgument(name, "alpha"),
        "ZeroDivisionError: alpha cannot be 0 for CELU"
    );
    Ok(Scalar::Float(1.0 / alpha.to_f64()))
}

/// The constants that preserve mean and variance (Klambauer et al., "Self-Normalizing Neural Networks", 2017).
const SELU_ALPHA: Scalar = Scalar::Float(1.673_263_242_354_377_2);
const SELU_SCALE: Scalar = Scalar::Float(1.050_700_987_355_480_5);

/// `elu` with the constants that preserve mean and variance.
pub fn selu(self_: &Tensor) -> Result<Tensor> {
    ops::elu(self_, SELU_ALPHA, SELU_SCALE, Scalar::Int(1))
}

/// [`selu`] in place.
pub fn selu_(self_: &Tensor) -> Result<()> {
    ops::elu_(self_, SELU_ALPHA, SELU_SCALE, Scalar::Int(1))
}

/// Each element clamped to 0 to 6.
pub fn relu6(self_: &Tensor) -> Result<Tensor> {
    ops::hardtanh(self_, Scalar::Int(0), Scalar::Int(6))
}

/// [`relu6`] in place.
pub fn relu6_(self_: &Tensor) -> Result<()> {
    ops::hardtanh_(self_, Scalar::Int(0), Scalar::Int(6))
}

/// x if it is above 0, else x times the weight of its channel, which is the index in dimension 1.
pub fn prelu(self_: &Tensor, weight: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dtype() == weight.dtype(),
        Dtype("prelu", "weight"),
        "Type promoting not supported. Got {} and {}",
        self_.dtype(),
        weight.dtype()
    );
    ensure_floating("prelu", self_)?;
    ensure!(
        weight.dim() <= 1,
        Shape("prelu", "weight"),
        "Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
        weight.dim()
    );
    if weight.numel() == 1 {
        return ops::_prelu_kernel(self_, &ops::reshape(weight, &vec![1; self_.dim()])?);
    }
    ensure!(self_.dim() > 0, Shape("prelu", "self"), "Not allow zero-dim input tensor.");
    let channels = if self_.dim() > 1 { self_.sizes()[1] } else { 1 };
    ensure!(
        weight.numel() == channels,
        Shape("prelu", "weight"),
        "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = \
         {channels}.",
        weight.numel()
    );
    let mut sizes = vec![1; self_.dim()];
    sizes[1] = channels;
    ops::_prelu_kernel(self_, &ops::reshape(weight, &sizes)?)
}

/// The gradients of `_prelu_kernel`.
pub fn prelu_kernel_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    weight: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let (mut input, mut by_weight) = (
        TensorIterator::functional("_prelu_kernel_backward"),
        TensorIterator::functional("_prelu_kernel_backward"),
    );
    prelu_by_input_meta(&mut input, grad_output, self_, weight)?;
    prelu_by_weight_meta(&mut by_weight, grad_output, self_)?;
    if !input.is_meta() {
        prelu_by_input(&mut input, grad_output, self_, weight)?;
        prelu_by_weight(&mut by_weight, grad_output, self_)?;
    }
    Ok((input.take_result()?, by_weight.take_result()?))
}

/// The checked bounds of the random slope, and their mean.
fn slope_bounds(name: &str, lower: Scalar, upper: Scalar) -> Result<(f64, f64, Scalar)> {
    let (lower, upper) = (lower.to_f64(), upper.to_f64());
    ensure!(
        lower <= upper,
        InvalidArgument(name, "upper"),
        "Lower bound should be less than or equal to the upper bound"
    );
    Ok((lower, upper, Scalar::Float((lower + upper) / 2.0)))
}

/// Refuses a `noise` of other sizes.
fn check_noise(name: &str, self_: &Tensor, noise: &Tensor) -> Result<()> {
    ensure!(
        self_.sizes() == noise.sizes(),
        Shape(name, "noise"),
        "expected `noise` of sizes {:?} but got {:?}",
        self_.sizes(),
        noise.sizes()
    );
    Ok(())
}

/// Writes to `noise` a random slope for each element of `self_` that is not above 0, and 1 for the others.
fn draw_slopes(
    self_: &Tensor,
    noise: &Tensor,
    (lower, upper): (f64, f64),
    generator: Option<&Generator>,
) -> Result<()> {
    ensure_same_device("rrelu_with_noise", &[self_, noise])?;
    let unchanged = ops::gt_scalar(self_, Scalar::Int(0))?;
    ops::uniform_(noise, lower, upper, generator)?;
    ops::masked_fill__scalar(noise, &unchanged, Scalar::Int(1))
}

/// `leaky_relu`, in training with a random slope for each element; `noise` then receives the factor of each element.
pub fn rrelu_with_noise(
    self_: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_noise("rrelu_with_noise", self_, noise)?;
    let (lower, upper, middle) = slope_bounds("rrelu_with_noise", lower, upper)?;
    if !training {
        return ops::leaky_relu(self_, middle);
    }
    draw_slopes(self_, noise, (lower, upper), generator)?;
    // The result has the memory format of the first argument.
    ops::mul_tensor(noise, self_)
}

/// [`rrelu_with_noise`] in place.
pub fn rrelu_with_noise_(
    self_: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<()> {
    check_noise("rrelu_with_noise_", self_, noise)?;
    let (lower, upper, middle) = slope_bounds("rrelu_with_noise_", lower, upper)?;
    if !training {
        return ops::leaky_relu_(self_, middle);
    }
    ensure!(
        self_.dtype() == noise.dtype(),
        Dtype("rrelu_with_noise_", "noise"),
        "expected `noise` of {} but got {}",
        self_.dtype(),
        noise.dtype()
    );
    draw_slopes(self_, noise, (lower, upper), generator)?;
    ops::mul__tensor(self_, noise)
}

/// The gradient of [`rrelu_with_noise`].
pub fn rrelu_with_noise_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    self_is_result: bool,
) -> Result<Tensor> {
    let (lower, upper, middle) = slope_bounds("rrelu_with_noise_backward", lower, upper)?;
    if training && upper - lower > 1e-6 {
        return ops::mul_tensor(grad_output, noise);
    }
    ops::leaky_relu_backward(grad_output, self_, middle, self_is_result)
}

/// [`rrelu_with_noise`] without returning the noise.
pub fn rrelu(
    self_: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let noise = ops::empty_like(self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    ops::rrelu_with_noise(self_, &noise, lower, upper, training, generator)
}

/// [`rrelu`] in place.
pub fn rrelu_(
    self_: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<()> {
    let noise = ops::empty_like(self_, None, None, None, None, None)?;
    ops::rrelu_with_noise_(self_, &noise, lower, upper, training, generator)
}
