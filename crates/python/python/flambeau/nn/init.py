"""Values that parameters begin with."""

from __future__ import annotations

import math

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Generator, Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

GAINS = {"relu": math.sqrt(2.0), "tanh": 5.0 / 3, "selu": 3.0 / 4}
LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid")


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much values must grow so that `nonlinearity` leaves their variance as it was."""
    if nonlinearity in LINEAR:
        return 1
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not (param is None or isinstance(param, (int, float))):
            raise ValueError(f"negative_slope {param} not a valid number")
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return GAINS[nonlinearity]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills with numbers from `a` to `b`."""
    with flambeau.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills with normal numbers."""
    with flambeau.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fills with normal numbers of which those outside `[a, b]` are drawn again."""
    low, high = (a - mean) / std, (b - mean) / std
    if not low < high:
        raise ValueError(f"expected a < b but got a={a} and b={b}")
    draw = _plain if _mass(low, high) > 0.25 else _uniform
    with flambeau.no_grad():
        values = flambeau.empty(tensor.numel(), dtype=flambeau.float64)
        wrong = flambeau.ones(tensor.numel(), dtype=flambeau.bool)
        while (left := int(wrong.sum().item())) > 0:
            made, accepted = draw(values.new_empty(left), low, high, generator)
            values.masked_scatter_(wrong, made)
            wrong.masked_scatter_(wrong.clone(), ~accepted)
        return tensor.copy_(values.mul_(std).add_(mean).clamp_(a, b).view(tensor.shape))


def _mass(low: float, high: float) -> float:
    """The part of normal numbers from `low` to `high`."""
    return (math.erf(high / math.sqrt(2.0)) - math.erf(low / math.sqrt(2.0))) / 2


def _plain(like: Tensor, low: float, high: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    made = flambeau.empty_like(like).normal_(generator=generator)
    return made, (made >= low) & (made <= high)


def _uniform(like: Tensor, low: float, high: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Where hardly any normal number falls: uniform ones, each accepted as the density says.

    What lies so far out that the density has fallen to e^-40 of its largest is never drawn. Beyond 0, distances from the nearest
    end are drawn: far out, squares of the numbers themselves would have no digits left for these.
    """
    nearest = max(low, -high, 0.0)
    reach = 80 / (math.hypot(nearest, math.sqrt(80.0)) + nearest)
    ends = (0.0, min(high - low, reach)) if nearest > 0 else (max(low, -reach), min(high, reach))
    beyond = flambeau.empty_like(like).uniform_(*ends, generator=generator)
    chance = flambeau.empty_like(like).uniform_(generator=generator)
    made = nearest + beyond if low >= 0 else beyond if high >= 0 else -nearest - beyond
    return made, chance <= (-beyond * (nearest + beyond / 2)).exp()


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills with `val`."""
    with flambeau.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills with 0."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Makes a matrix the identity, as far as its shape allows."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with flambeau.no_grad():
        return tensor.copy_(flambeau.eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The weight of a convolution that is the identity, for as many channels as inputs and outputs have in common."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out, channels = tensor.shape[:2]
    if groups < 1:
        raise ValueError(f"expected at least one group but got {groups}")
    if out % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with flambeau.no_grad():
        tensor.zero_()
        channel = flambeau.arange(min(out // groups, channels), device=tensor.device).expand(groups, -1)
        first = flambeau.arange(groups, device=tensor.device).unsqueeze(1) * (out // groups)
        index = (first + channel, channel, *middle)
        tensor[index] = 1
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A random matrix with orthonormal rows or columns, whichever are fewer: Saxe et al., 2014. Dimensions but the first are one."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with flambeau.no_grad():
        drawn = normal_(flambeau.empty(rows, columns, dtype=tensor.dtype), generator=generator)
        q, r = flambeau.linalg.qr(drawn.t() if rows < columns else drawn)
        # With the signs of R's diagonal, all orthogonal matrices are equally likely: Mezzadri, 2007.
        q = q * flambeau.diagonal(r).sign()
        return tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """A matrix of normal numbers, of which a share of each column, chosen at random, is 0: Martens, 2010."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with flambeau.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[flambeau.randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input has."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform numbers that preserve the variance forwards and backwards: Glorot and Bengio, 2010."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal numbers that preserve the variance forwards and backwards: Glorot and Bengio, 2010."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform numbers that preserve the variance through `nonlinearity`: He et al., 2015."""
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal numbers that preserve the variance through `nonlinearity`: He et al., 2015."""
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[0 if mode == "fan_in" else 1]


# PyTorch's names without gradients, which packages use.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_
# The names before those of functions in place ended with an underscore.
uniform, normal, constant, eye, dirac = uniform_, normal_, constant_, eye_, dirac_
xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal = xavier_uniform_, xavier_normal_, kaiming_uniform_, kaiming_normal_
orthogonal, sparse = orthogonal_, sparse_
