"""More calls than the database makes: its samples of other seeds, with other sizes, values, strides and plain arguments.

A call counts if PyTorch takes it and it was not made before. What is derived from a sample may mean nothing to its operator, so
refusals are not compared here; the database has calls for that.
"""

import random

import torch
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_map

from convert import tensors

# Operators that read a row as ascending: noise would take that from it.
ORDERED = ("searchsorted", "bucketize", "histogram", "embedding_bag", "gradient", "trapezoid", "trapz")
# How many derivations are tried for each one requested, for operators that refuse most of them.
MAX_TRIES = 40
# A call is not derived if it has or makes more elements than this.
LARGEST = 100_000


class Derivation:
    """One random change of all arguments of a call."""

    def __init__(self, values, seed, noisy):
        self.random = random.Random(seed)
        # A call without tensors has nothing else to change.
        self.often = 0.15 if tensors(list(values)) else 0.7
        self.generator = torch.Generator().manual_seed(seed)
        self.noisy = noisy
        self.made = {}
        sizes = sorted({n for t in tensors(list(values)) for n in t.shape if n > 1})
        resized = self.random.random() < 0.7
        self.sizes = {n: self.random.randint(max(1, n - 3), n + 3) if resized else n for n in sizes}

    def of(self, value):
        if isinstance(value, torch.Tensor):
            # A tensor that occurs twice is one tensor afterwards.
            if id(value) not in self.made:
                self.made[id(value)] = (value, self.tensor(value))
            return self.made[id(value)][1]
        return self.plain(value)

    def tensor(self, value):
        """Other elements of the same rows, as many as its sizes have become; small noise; other strides."""
        made = value.detach()
        for dim, size in enumerate(value.shape):
            if self.sizes.get(size, size) != size:
                rows = torch.randint(size, (self.sizes[size],), generator=self.generator)
                made = made.index_select(dim, rows.sort().values)
        if self.noisy and made.is_floating_point():
            # Towards 0, so that what is a probability, a cosine or positive stays so.
            made = made * (1 - 0.3 * torch.rand(made.shape, generator=self.generator)).to(made.dtype)
        return self.laid(made).detach().requires_grad_(value.requires_grad)

    def laid(self, value):
        layout = self.random.choice(["plain", "plain", "transposed", "gaps", "inside"])
        if layout == "transposed" and value.dim() > 1:
            return value.transpose(0, -1).contiguous().transpose(0, -1)
        if layout == "gaps" and value.dim() > 0:
            return torch.stack([value, value], -1)[..., 1]
        if layout == "inside" and value.dim() > 0:
            return torch.cat([value, value, value])[value.shape[0] : 2 * value.shape[0]]
        return value.clone()

    def plain(self, value):
        """A number or a choice, rarely another one."""
        if self.random.random() > self.often:
            return value
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            others = [value - 1, value + 1, -value, self.random.randint(0, 9), self.sizes.get(value, value)]
            return self.random.choice(others)
        if isinstance(value, torch.Size):
            return torch.Size(self.of(size) for size in value)
        if isinstance(value, float):
            return value * self.random.uniform(0.5, 1.5)
        return value


def derived(sample, seed, name):
    """The sample's call, changed by a seed."""
    values = (sample.input, tuple(sample.args), dict(sample.kwargs))
    change = Derivation(values, seed, not any(word in name for word in ORDERED))
    first, rest, named = tree_map(change.of, values)
    return SampleInput(first, args=rest, kwargs=named, output_process_fn_grad=sample.output_process_fn_grad)


def mark(sample):
    """What tells a call from others: its arguments, elements included."""
    told = lambda value: (value.dtype, tuple(value.shape), value.stride(), tuple(value.detach().double().flatten().tolist())) \
        if isinstance(value, torch.Tensor) else value
    return repr(tree_map(told, (sample.input, tuple(sample.args), dict(sample.kwargs))))


def is_small(values):
    return sum(t.numel() for t in tensors(values)) <= LARGEST


def accepted(function, sample):
    """Whether PyTorch takes a call."""
    try:
        first, rest, named = tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v,
                                      (sample.input, tuple(sample.args), dict(sample.kwargs)))
        return is_small(function(first, *rest, **named))
    except Exception:
        return False


def more(samples_of_seed, function, name, count):
    """So many new calls, or fewer if the limit of tries is reached: `samples_of_seed(n)` are the database's samples of that seed."""
    seen, tried = set(), 0
    for seed in range(1, MAX_TRIES * count):
        for sample in samples_of_seed(seed):
            tried += 1
            if tried > MAX_TRIES * count:
                return
            made = derived(sample, seed * 1009 + tried, name)
            if not is_small([made.input, list(made.args), made.kwargs]) or mark(made) in seen or not accepted(function, made):
                continue
            seen.add(mark(made))
            yield made
            if len(seen) >= count:
                return
