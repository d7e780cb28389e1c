"""Masked reductions and normalisations, against loops over the selected elements."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fl
from flambeau import masked

SHAPES = [(5,), (3, 4), (2, 3, 2)]


def cases():
    """Arrays, masks that select all, some, one column's or no elements, and dimensions."""
    random = np.random.default_rng(11)
    for shape in SHAPES:
        values = random.normal(size=shape) * 3
        masks = [None, random.random(shape) < 0.6, random.random(shape[-1:]) < 0.6, np.zeros(shape, bool)]
        for mask, dim in itertools.product(masks, [None, *range(len(shape)), *([(0, -1)] if len(shape) > 1 else [])]):
            yield values, mask, dim


def rows(values, mask, dim):
    """The selected elements of each part that is reduced, in the order of the result's elements."""
    dims = list(range(values.ndim)) if dim is None else [one % values.ndim for one in ((dim,) if isinstance(dim, int) else dim)]
    selected = np.ones(values.shape, bool) if mask is None else np.broadcast_to(mask, values.shape)
    kept = [one for one in range(values.ndim) if one not in dims]
    for index in np.ndindex(*[values.shape[one] for one in kept]):
        where = [slice(None)] * values.ndim
        for one, at in zip(kept, index):
            where[one] = at
        yield values[tuple(where)][selected[tuple(where)]]


def tensors(values, mask):
    return fl.tensor(values.tolist(), dtype=fl.float64), None if mask is None else fl.tensor(mask.tolist())


def variance(row, correction=1):
    """What PyTorch gives: the number of elements less the correction is at least 0."""
    if len(row) == 0:
        return math.nan
    squares = ((row - row.mean()) ** 2).sum()
    count = max(len(row) - correction, 0)
    return squares / count if count else (math.nan if squares == 0 else math.inf)


REDUCTIONS = {
    "amax": lambda row: row.max(initial=-math.inf),
    "amin": lambda row: row.min(initial=math.inf),
    "mean": lambda row: row.mean() if len(row) else math.nan,
    "prod": np.prod,
    "std": lambda row: math.sqrt(variance(row)),
    "sum": np.sum,
    "var": variance,
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    for values, mask, dim in cases():
        x, m = tensors(values, mask)
        expected = [REDUCTIONS[name](row) for row in rows(values, mask, dim)]
        found = getattr(masked, name)(x, dim, mask=m)
        np.testing.assert_allclose(found.reshape(-1).tolist(), expected, rtol=1e-10, atol=1e-12, err_msg=f"{dim} {mask}")
        kept = getattr(masked, name)(x, dim, mask=m, keepdim=True)
        assert kept.dim() == x.dim() and kept.reshape(-1).tolist() == pytest.approx(found.reshape(-1).tolist(), nan_ok=True)


@pytest.mark.parametrize("order", [1, 2, 3, math.inf, -math.inf])
def test_norm(order):
    for values, mask, dim in cases():
        x, m = tensors(values, mask)
        parts = [np.abs(row) for row in rows(values, mask, dim)]
        if math.isinf(order):
            expected = [part.max(initial=0.0) if order > 0 else part.min(initial=math.inf) for part in parts]
        else:
            expected = [(part**order).sum() ** (1 / order) for part in parts]
        np.testing.assert_allclose(masked.norm(x, order, dim, mask=m).reshape(-1).tolist(), expected, rtol=1e-10)


def test_corrections_of_variances():
    for values, mask, dim in cases():
        x, m = tensors(values, mask)
        for options, correction in (({"correction": 0}, 0), ({"unbiased": False}, 0), ({"correction": 2}, 2)):
            expected = [variance(row, correction) for row in rows(values, mask, dim)]
            np.testing.assert_allclose(masked.var(x, dim, mask=m, **options).reshape(-1).tolist(), expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="Only one"):
        masked.var(x, mask=m, unbiased=True, correction=1)


@pytest.mark.parametrize("name", ["argmax", "argmin", "median", "logsumexp"])
def test_along_a_dimension(name):
    def expected_of(row, full, selected):
        if name == "logsumexp":
            return math.log(sum(math.exp(value) for value in row)) if len(row) else -math.inf
        if name == "median":
            return sorted(row)[(len(row) - 1) // 2] if len(row) else math.nan
        best = (max if name == "argmax" else min)(row, default=None)
        return 0 if best is None else [at for at, value in enumerate(full) if selected[at] and value == best][0]

    for values, mask, dim in cases():
        if not isinstance(dim, int):
            continue
        x, m = tensors(values, mask)
        selected = np.ones(values.shape, bool) if mask is None else np.broadcast_to(mask, values.shape)
        lines = [np.moveaxis(part, dim, -1).reshape(-1, values.shape[dim]) for part in (values, selected)]
        expected = [expected_of(list(line[chosen]), line, chosen) for line, chosen in zip(*lines)]
        found = getattr(masked, name)(x, dim, mask=m)
        np.testing.assert_allclose(found.reshape(-1).tolist(), expected, rtol=1e-10)


def running(name, line, chosen):
    """One row of a function that gives an element for each."""
    if name in ("cumsum", "cumprod"):
        values = np.where(chosen, line, 0 if name == "cumsum" else 1)
        return np.cumsum(values) if name == "cumsum" else np.cumprod(values)
    if name == "normalize":
        values = np.where(chosen, line, 0)
        return values / max(math.sqrt((values**2).sum()), 1e-12)
    if not chosen.any():
        return np.full(len(line), math.nan)
    weights = np.where(chosen, np.exp(-line if name == "softmin" else line), 0)
    with np.errstate(divide="ignore"):
        return np.log(weights / weights.sum()) if name == "log_softmax" else weights / weights.sum()


@pytest.mark.parametrize("name", ["cumprod", "cumsum", "log_softmax", "normalize", "softmax", "softmin"])
def test_one_result_for_each_element(name):
    for values, mask, dim in cases():
        if not isinstance(dim, int):
            continue
        x, m = tensors(values, mask)
        selected = np.ones(values.shape, bool) if mask is None else np.broadcast_to(mask, values.shape)
        parts = [np.moveaxis(part, dim, -1) for part in (values, selected)]
        lines = [part.reshape(-1, values.shape[dim]) for part in parts]
        expected = np.asarray([running(name, line, chosen) for line, chosen in zip(*lines)]).reshape(parts[0].shape)
        found = masked.normalize(x, 2.0, dim, mask=m) if name == "normalize" else getattr(masked, name)(x, dim, mask=m)
        np.testing.assert_allclose(found.tolist(), np.moveaxis(expected, -1, dim), rtol=1e-10, atol=1e-12)


def test_logaddexp():
    x, y = fl.tensor([1.0, 2.0, 3.0]), fl.tensor([0.5, -1.0, 2.0])
    first, second = fl.tensor([True, False, False]), fl.tensor([True, True, False])
    found = masked.logaddexp(x, y, input_mask=first, other_mask=second).tolist()
    assert found == pytest.approx([math.log(math.exp(1) + math.exp(0.5)), -1.0, -math.inf])


def test_integers():
    """Sums of integers are int64's; extremes of none selected are the limits of the type."""
    x, m = fl.tensor([[3, 1], [4, 1]], dtype=fl.int16), fl.tensor([[True, False], [False, False]])
    assert masked.sum(x, 1, mask=m).tolist() == [3, 0] and masked.sum(x, 1, mask=m).dtype == fl.int64
    assert masked.prod(x, mask=m).item() == 3 and masked.sum(x, mask=m, dtype=fl.float32).item() == 3.0
    assert masked.amax(x, 1, mask=m).tolist() == [3, -32768] and masked.amin(x, 1, mask=m).tolist() == [3, 32767]
    assert masked.median(x, 0, mask=fl.tensor([[True, True], [True, False]])).tolist() == [3, 1]
    with pytest.raises(ValueError, match="fully masked"):
        masked.median(x, 1, mask=m)


def test_gradients_are_of_selected_elements_only():
    x, m = fl.tensor([1.0, 2.0, 3.0], requires_grad=True), fl.tensor([True, False, True])
    (masked.sum(x * x, mask=m) + masked.mean(x, mask=m)).backward()
    assert x.grad.tolist() == [2.5, 0.0, 6.5]


def test_tensors_with_a_mask_are_refused_by_name():
    """PyTorch's `masked` has a class of such tensors; calls of it say what there is instead."""
    code = (
        "import flambeau.torch\nflambeau.torch.install()\nimport torch\n"
        "assert torch.masked.sum(torch.ones(2), mask=torch.tensor([True, False])).item() == 1\n"
        "for name in ('MaskedTensor', 'as_masked_tensor', 'is_masked_tensor', 'masked_tensor'):\n"
        "    try:\n        getattr(torch.masked, name)(torch.ones(2), torch.ones(2).bool())\n"
        "    except NotImplementedError as error:\n        assert f'torch.masked.{name}: there are no tensors with a mask' in str(error), error\n"
        "    else:\n        raise AssertionError(name)\n"
        "assert torch.quasirandom.SobolEngine(2).draw(1).tolist() == [[0, 0]] and callable(torch.lobpcg)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
