"""Samples of the gamma distribution, differentiable by its shape.

Samples are drawn by Marsaglia's and Tsang's method (2000), all elements at once, until each is accepted. Their derivative is the implicit
one (Figurnov et al., 2018), `-(dF/da) / f` of distribution function and density, with `dF/da` by differences of fourth order in double
precision, whose error is about 1e-10 of the derivative.
"""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _drawn(shape: Tensor) -> Tensor:
    """Samples for shapes of at least 1: a squeeze of a normal number to the third power."""
    d = shape - 1.0 / 3.0
    c = (9.0 * d).rsqrt()
    made = flambeau.zeros_like(shape)
    left = flambeau.ones_like(shape, dtype=flambeau.bool)
    while bool(left.any()):
        d_left, c_left = d[left], c[left]
        x = flambeau.empty_like(d_left).normal_()
        v = (1 + c_left * x) ** 3
        log_u = flambeau.empty_like(d_left).uniform_().clamp(min=1e-300).log()
        accepted = (v > 0) & (log_u < 0.5 * x * x + d_left - d_left * v + d_left * v.clamp(min=1e-300).log())
        values = made[left]
        made[left] = flambeau.where(accepted, d_left * v, values)
        left[left.clone()] = ~accepted
    return made


def standard_gamma_values(concentration: Tensor) -> Tensor:
    """Samples with scale 1, without history. For shapes below 1, those of one more, times a power of a uniform number."""
    shape = concentration.detach().double()
    valid = shape > 0
    shape = shape.where(valid, flambeau.ones_like(shape))
    small = shape < 1
    made = _drawn(shape.where(~small, shape + 1))
    boost = flambeau.empty_like(shape).uniform_().clamp(min=1e-300) ** (1 / shape)
    made = made.where(~small, made * boost)
    made = made.clamp(min=flambeau.finfo(concentration.dtype).tiny)
    return made.where(valid, flambeau.full_like(made, float("nan"))).to(concentration.dtype)


def standard_gamma_grad(concentration: Tensor, sample: Tensor) -> Tensor:
    """The derivative of samples by the shape."""
    a, x = concentration.detach().double(), sample.detach().double()
    h = 1e-3 * a.clamp(max=1.0) + 1e-4 * a
    near = flambeau.igamma(a + h, x) - flambeau.igamma(a - h, x)
    far = flambeau.igamma(a + 2 * h, x) - flambeau.igamma(a - 2 * h, x)
    slope = (8 * near - far) / (12 * h)
    log_density = (a - 1) * x.log() - x - a.lgamma()
    return (-slope / log_density.exp()).to(concentration.dtype)


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        sample = standard_gamma_values(concentration)
        ctx.save_for_backward(concentration, sample)
        return sample

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        concentration, sample = ctx.saved_tensors
        return grad * standard_gamma_grad(concentration, sample)


def standard_gamma(concentration: Tensor) -> Tensor:
    """Samples with scale 1, differentiable by the shape."""
    return _StandardGamma.apply(concentration)
