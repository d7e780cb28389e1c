"""Normalisation: mean 0 and variance 1 over one set of elements or another."""

from __future__ import annotations

import math

import flambeau
from flambeau.nn.functional.padding import pad
from flambeau.nn.functional.pooling import avg_pool3d

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau import Tensor


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Over each channel of the batch; when not training, by the running statistics."""
    if training and math.prod(input.shape) == (input.shape[1] if input.ndim > 1 else 1):
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    return flambeau.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Over each channel of each picture: a batch norm for which every channel of every picture is one of its own."""
    batch, channels = input.shape[:2]
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    for_each = lambda tensor: None if tensor is None else tensor.repeat(batch)  # noqa: E731
    mean, var = for_each(running_mean), for_each(running_var)
    one = input.reshape(1, batch * channels, *input.shape[2:])
    made = flambeau.batch_norm(one, for_each(weight), for_each(bias), mean, var, use_input_stats, momentum, eps, False)
    if use_input_stats:
        with flambeau.no_grad():
            for running, seen in ((running_mean, mean), (running_var, var)):
                if running is not None and seen is not None:
                    running.copy_(seen.view(batch, channels).mean(0))
    return made.view(input.shape)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Over the last dimensions, which are `normalized_shape`."""
    return flambeau.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divides by the root of the mean square over the last dimensions."""
    return flambeau.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Over groups of channels of each picture."""
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    return flambeau.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divides each channel by a power of the mean square of `size` neighbours: Krizhevsky et al., 2012."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if input.numel() == 0:
        return input
    squares = input.square().reshape(input.shape[0], 1, input.shape[1], input.shape[2], -1)
    around = pad(squares, (0, 0, 0, 0, size // 2, (size - 1) // 2))
    means = avg_pool3d(around, (size, 1, 1), 1).view(input.shape)
    return input / means.mul(alpha).add(k).pow(beta)
