"""The same arguments in double precision: their results tell which of two roundings is nearer, and how far other arguments move them."""

import torch
from torch.utils._pytree import tree_flatten, tree_map


def wide(dtype):
    """The type of the same kind with 64 bits a number."""
    return torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else dtype


def in_double(values, change=lambda wide, narrow: wide):
    """The same arguments in memory of their own, contiguous where they are dense, with every number that is not an integer in 64 bits."""
    def one(v):
        if isinstance(v, torch.dtype):
            return wide(v)
        if not isinstance(v, torch.Tensor):
            return v
        order = torch.contiguous_format if v.layout == torch.strided else torch.preserve_format
        made = change(v.detach().to(wide(v.dtype), copy=True, memory_format=order), v)
        return made.requires_grad_(v.requires_grad)
    return tree_map(one, values)


# The shares of an element by which arguments are moved: an eighth of the relative tolerance of the comparison, so that results are compared
# by it relative to the terms that they are sums of. What 64 bits give is moved by little more than its own roundings.
STEPS = {torch.float16: 1e-3 / 8, torch.bfloat16: 1.6e-2 / 8, torch.float32: 1.3e-6 / 8, torch.float64: 2 ** -51}


def moved(values, seed, sign):
    """The arguments in double precision, each number moved up or down by up to the step of its type."""
    generator = torch.Generator().manual_seed(seed)

    def move(made, narrow):
        if not is_number(made):
            return made
        share = torch.rand(made.shape, generator=generator, dtype=torch.float64) * 2 - 1
        return made * (1 + sign * STEPS.get(narrow.dtype.to_real(), 0.0) * share)
    return in_double(values, move)


def spreads(run, values, exact):
    """How far each element of the results in `exact` moves when the arguments do, or None. An algorithm whose result is exact for
    arguments that differ from the given ones by a few roundings is a good one, however large the difference of the results. At a jump
    of the function it moves in one direction only, which does not count."""
    none = [None] * len(exact)
    if not any(is_number(t) for t in tree_flatten(values)[0]):
        return none
    most = none
    for seed in range(2):
        ahead, behind = (run(moved(values, seed, sign)) for sign in (1, -1))
        if ahead is None or behind is None or not len(ahead) == len(behind) == len(exact):
            return none
        steps = [distance(*three) for three in zip(ahead, behind, exact)]
        most = [b if a is None or b is None else torch.maximum(a, b) for a, b in zip(most, steps)]
        # Another direction only if this one says anything that the usual tolerances do not.
        if not any(step is not None and bool((step > 2e-7 * middle.abs()).any()) for step, middle in zip(steps, exact)):
            return none
    return most


def is_number(t):
    return isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())


def distance(ahead, behind, middle):
    """How far the elements of `middle` move at least, in both directions."""
    for t in (ahead, behind, middle):
        if not is_number(t) or t.shape != middle.shape:
            return None
    step = torch.minimum((ahead - middle).abs(), (middle - behind).abs()).detach()
    return torch.where(step.isfinite(), step, 0.0)
