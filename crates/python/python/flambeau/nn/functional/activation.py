"""Functions of each element, and the softmax family."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor

_nn = flambeau._nn
# Klambauer et al., "Self-normalizing neural networks", 2017, to the digits of float64.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """`max(x, 0)`."""
    return flambeau.relu_(input) if inplace else flambeau.relu(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`x` above the threshold, else `value`."""
    return (flambeau.threshold_ if inplace else flambeau.threshold)(input, threshold, value)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` no lower than `min_val` and no higher than `max_val`."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (_nn.hardtanh_ if inplace else _nn.hardtanh)(input, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """`min(max(x, 0), 6)`."""
    return hardtanh(input, 0.0, 6.0, inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` above 0, else `alpha (e^x - 1)`."""
    return (_nn.elu_ if inplace else _nn.elu)(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu`, scaled so that mean 0 and variance 1 stay."""
    return (_nn.elu_ if inplace else _nn.elu)(input, SELU_ALPHA, SELU_SCALE)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` above 0, else `alpha (e^(x / alpha) - 1)`."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return (_nn.elu_ if inplace else _nn.elu)(input, alpha, 1.0, 1.0 / alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`x` above 0, else `negative_slope x`."""
    return (_nn.leaky_relu_ if inplace else _nn.leaky_relu)(input, negative_slope)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`x` above 0, else `weight x`, with one weight, or one for each channel (dimension 1)."""
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.numel() != 1:
        if input.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim >= 2 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} "
                f"and channel size = {channels}."
            )
    weight = weight.reshape([weight.numel() if dim == 1 else 1 for dim in range(input.ndim)])
    return flambeau.where(input > 0, input, weight * input)


gelu = _nn.gelu


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """`x sigmoid(x)`."""
    return (_nn.silu_ if inplace else _nn.silu)(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """`x tanh(softplus(x))`."""
    return (_nn.mish_ if inplace else _nn.mish)(input)


softplus = _nn.softplus
logsigmoid = _nn.log_sigmoid


def sigmoid(input: Tensor) -> Tensor:
    """`1 / (1 + e^-x)`."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()


def softsign(input: Tensor) -> Tensor:
    """`x / (1 + |x|)`."""
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """`x - tanh(x)`."""
    return input - input.tanh()


softshrink = _nn.softshrink


hardshrink = flambeau.hardshrink


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """`min(max(x + 3, 0), 6) / 6`."""
    return (_nn.hardsigmoid_ if inplace else _nn.hardsigmoid)(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """`x hardsigmoid(x)`."""
    return (_nn.hardswish_ if inplace else _nn.hardswish)(input)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """`x` above 0, else `x` times a slope drawn for each element in training, and their mean otherwise."""
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, but got {lower} and {upper}")
    return (flambeau.rrelu_ if inplace else flambeau.rrelu)(input, lower, upper, training)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, inplace=True)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half times the sigmoid of the second."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    if input.shape[dim] % 2 != 0:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}")
    value, gate = input.chunk(2, dim)
    return value * gate.sigmoid()


def relu_(input: Tensor) -> Tensor:
    """`relu`, written over its input."""
    return relu(input, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold`, written over its input."""
    return flambeau.threshold_(input, threshold, value)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh`, written over its input."""
    return hardtanh(input, min_val, max_val, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu`, written over its input."""
    return elu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """`selu`, written over its input."""
    return selu(input, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu`, written over its input."""
    return celu(input, alpha, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu`, written over its input."""
    return leaky_relu(input, negative_slope, inplace=True)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A draw by the likelihoods of `softmax(logits)` that has a gradient: Jang et al., 2017; `hard` makes it 0 or 1."""
    noise = -flambeau.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = flambeau.zeros_like(logits).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
    return chosen - soft.detach() + soft


def _softmax_dim(name: str, dim: int | None, ndim: int, stacklevel: int) -> int:
    """The given dimension, or PyTorch's deprecated default."""
    if dim is not None:
        return dim
    import warnings

    message = f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument."
    warnings.warn(message, stacklevel=stacklevel + 1)
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: flambeau.dtype | None = None) -> Tensor:
    """`e^x` over its sum along `dim`."""
    return input.softmax(_softmax_dim("softmax", dim, input.ndim, _stacklevel), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: flambeau.dtype | None = None) -> Tensor:
    """The softmax of `-x`."""
    return (-input).softmax(_softmax_dim("softmin", dim, input.ndim, _stacklevel), dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: flambeau.dtype | None = None
) -> Tensor:
    """The logarithm of the softmax."""
    return input.log_softmax(_softmax_dim("log_softmax", dim, input.ndim, _stacklevel), dtype=dtype)
