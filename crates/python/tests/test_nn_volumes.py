"""Layers over three dimensions, unpooling, bags, sampling and resizing: beside loops over NumPy's float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

RNG = np.random.default_rng(11)


def here(array, dtype=flambeau.float64):
    return flambeau.tensor(np.asarray(array).tolist(), dtype=dtype)


def longs(values):
    return here(values, flambeau.int64)


def there(tensor):
    return np.array(tensor.tolist(), dtype=np.float64)


def close(tensor, array):
    np.testing.assert_allclose(there(tensor), array, rtol=1e-12, atol=1e-13)


def windows(x, kernel, stride):
    """The windows of the last dimensions, as new last dimensions."""
    dims = tuple(range(2, x.ndim))
    cut = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=dims)
    return cut[(slice(None), slice(None), *(slice(None, None, step) for step in stride))]


def within(x, kernel, stride, of):
    return of(windows(x, kernel, stride), axis=tuple(range(-len(kernel), 0)))


@pytest.mark.parametrize(("layer", "of"), [(nn.MaxPool3d, np.max), (nn.AvgPool3d, np.mean)])
def test_pooling_of_volumes(layer, of):
    x = RNG.normal(size=(2, 3, 5, 4, 6))
    close(layer((2, 1, 3), (1, 2, 2))(here(x)), within(x, (2, 1, 3), (1, 2, 2), of))
    close(layer(2)(here(x[0])), within(x[:1], (2, 2, 2), (2, 2, 2), of)[0])


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_adaptive_pooling(dims):
    x = RNG.normal(size=(2, 3, 7, 5, 6)[: dims + 2])
    sizes = (3, 5, 4)[:dims]
    parts = [[slice(o * n // s, -(-(o + 1) * n // s)) for o in range(s)] for n, s in zip(x.shape[2:], sizes)]
    for name, of in (("AdaptiveAvgPool", np.mean), ("AdaptiveMaxPool", np.max)):
        want = np.empty((2, 3, *sizes))
        for o in itertools.product(*map(range, sizes)):
            part = x[(slice(None), slice(None), *(parts[d][o[d]] for d in range(dims)))]
            want[(slice(None), slice(None), *o)] = of(part, axis=tuple(range(2, dims + 2)))
        close(getattr(nn, f"{name}{dims}d")(sizes)(here(x)), want)
    values, indices = getattr(F, f"adaptive_max_pool{dims}d")(here(x), sizes, return_indices=True)
    flat = x.reshape(2, 3, -1)
    close(values, np.take_along_axis(flat, there(indices).astype(int).reshape(2, 3, -1), 2).reshape(values.shape))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling_puts_back_what_pooling_took(dims):
    x = RNG.normal(size=(2, 3, 4, 6, 2)[: dims + 2])
    pool = getattr(nn, f"MaxPool{dims}d")(2, return_indices=True)
    values, indices = pool(here(x))
    back = there(getattr(nn, f"MaxUnpool{dims}d")(2)(values, indices))
    largest = back == x
    assert largest.sum() == values.numel() and np.all((back == 0) | largest)
    close(pool(here(np.where(largest, x, -99)))[0], there(values))
    with pytest.raises(ValueError, match="invalid output_size"):
        getattr(F, f"max_unpool{dims}d")(values, indices, 2, output_size=[9] * dims)


def convolved(x, w, stride, padding):
    """Sums over channels and kernel, position by position."""
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    cut = windows(x, w.shape[2:], stride)
    return np.einsum("ncxyzijk,ocijk->noxyz", cut, w)


def test_convolution_of_volumes():
    layer = nn.Conv3d(2, 3, (2, 3, 1), stride=(1, 2, 1), padding=(1, 0, 1)).double()
    x = RNG.normal(size=(2, 2, 4, 5, 3))
    want = convolved(x, there(layer.weight), (1, 2, 1), (1, 0, 1)) + there(layer.bias).reshape(1, 3, 1, 1, 1)
    close(layer(here(x)), want)
    close(layer(here(x[0])), want[0])


def test_transposed_convolution_is_the_gradient_of_a_convolution():
    layer = nn.ConvTranspose3d(3, 2, (2, 3, 2), stride=(1, 2, 2), padding=(0, 1, 0), bias=False).double()
    y = RNG.normal(size=(2, 3, 3, 3, 2))
    made = layer(here(y))
    x = flambeau.zeros(made.shape, dtype=flambeau.float64, requires_grad=True)
    F.conv3d(x, layer.weight.detach(), stride=(1, 2, 2), padding=(0, 1, 0)).backward(here(y))
    close(made, there(x.grad))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode):
    layer = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=2).double()
    table, bags = there(layer.weight), [[1, 1, 5], [], [2, 0], [2]]
    of = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    rows = [table[[i for i in bag if i != 2]] for bag in bags]
    want = [of(part, axis=0) if len(part) else np.zeros(3) for part in rows]
    offsets = [0, 3, 3, 5]
    close(layer(longs([i for bag in bags for i in bag]), longs(offsets)), want)
    close(layer(longs([[0, 1], [4, 2]])), [of(table[[0, 1]], axis=0), of(table[[4]], axis=0)])
    with pytest.raises(ValueError, match="offsets has to be None"):
        layer(longs([[0, 1]]), longs([0]))


def test_factors_of_bags():
    table, factors = RNG.normal(size=(5, 2)), RNG.normal(size=(2, 3))
    numbers = np.array([[0, 1, 1], [4, 3, 0]])
    made = F.embedding_bag(longs(numbers), here(table), mode="sum", per_sample_weights=here(factors))
    close(made, (table[numbers] * factors[..., None]).sum(1))
    with pytest.raises(NotImplementedError, match="mode='sum'"):
        F.embedding_bag(longs(numbers), here(table), per_sample_weights=here(factors))


@pytest.mark.parametrize("align", [True, False])
def test_the_identity_samples_every_pixel(align):
    for sizes in ((2, 3, 4, 5), (1, 2, 3, 2, 4)):
        x = RNG.normal(size=sizes)
        dims = len(sizes) - 2
        theta = np.tile(np.eye(dims, dims + 1), (sizes[0], 1, 1))
        grid = F.affine_grid(here(theta), sizes, align_corners=align)
        for mode in ("bilinear", "nearest"):
            np.testing.assert_allclose(there(F.grid_sample(here(x), grid, mode, align_corners=align)), x, atol=1e-12)
        mirrored = theta * [[[-1.0]] + [[1.0]] * (dims - 1)]
        grid = F.affine_grid(here(mirrored), sizes, align_corners=align)
        np.testing.assert_allclose(there(F.grid_sample(here(x), grid, align_corners=align)), x[..., ::-1], atol=1e-12)


def test_positions_outside_of_an_image():
    x = here(np.arange(4.0).reshape(1, 1, 1, 4))
    grid = here([[[[-3.0, 0.0], [1.5, 0.0]]]])
    sample = lambda padding: there(F.grid_sample(x, grid, "nearest", padding, align_corners=True)).ravel().tolist()  # noqa: E731
    assert sample("zeros") == [0, 0]
    assert sample("border") == [0, 3]
    assert sample("reflection") == [3, 2]
    with pytest.raises(ValueError, match="padding_mode"):
        F.grid_sample(x, grid, padding_mode="wrap")


def test_resizing():
    x = np.arange(6.0).reshape(1, 1, 2, 3)
    close(F.interpolate(here(x), scale_factor=2), np.kron(x, np.ones((2, 2))))
    close(F.interpolate(here(x), size=(1, 1), mode="area"), [[[[2.5]]]])
    close(F.upsample_bilinear(here(x), size=(3, 5)), np.linspace(0, 2, 5) + np.array([[0.0], [1.5], [3.0]])[None, None])
    close(nn.Upsample(3, mode="nearest-exact")(here(x[:, :, 0])), x[:, :, 0])
    with pytest.raises(NotImplementedError, match="linear mode needs 3D input"):
        F.interpolate(here(x), scale_factor=2, mode="linear")
    with pytest.raises(ValueError, match="only one of size or scale_factor"):
        F.interpolate(here(x), 3, 2)


def test_patches():
    x = RNG.normal(size=(2, 3, 4, 5))
    columns = nn.Unfold((2, 3), stride=(2, 1))(here(x))
    cut = windows(x, (2, 3), (2, 1))
    close(columns, cut.transpose(0, 1, 4, 5, 2, 3).reshape(2, 18, 6))
    counts = there(nn.Fold((4, 5), (2, 3), stride=(2, 1))(F.unfold(here(np.ones_like(x)), (2, 3), stride=(2, 1))))
    close(F.fold(columns, (4, 5), (2, 3), stride=(2, 1)), x * counts)


def test_norms_of_windows_and_neighbours():
    x = RNG.normal(size=(2, 4, 3, 4, 4))
    close(nn.LPPool3d(2, (1, 2, 2))(here(x)), np.sqrt(within(x**2, (1, 2, 2), (1, 2, 2), np.sum)))
    padded = np.pad(x**2, [(0, 0), (1, 1), (0, 0), (0, 0), (0, 0)])
    mean = sum(padded[:, c : c + 4] for c in range(3)) / 3
    close(nn.LocalResponseNorm(3, alpha=0.5, k=2.0)(here(x)), x / (2 + 0.5 * mean) ** 0.75)


def test_products_of_two_vectors():
    layer = nn.Bilinear(3, 4, 2).double()
    x, y = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 4))
    close(layer(here(x), here(y)), np.einsum("ni,oij,nj->no", x, there(layer.weight), y) + there(layer.bias))


def test_losses_with_margins():
    x, target = RNG.normal(size=(3, 4)), [1, 0, 3]
    behind = [[max(0.0, 1 - x[n, t] + x[n, c]) for c in range(4) if c != t] for n, t in enumerate(target)]
    close(nn.MultiMarginLoss()(here(x), longs(target)), np.sum(behind) / 12)
    close(nn.MultiMarginLoss(2, reduction="sum")(here(x), longs(target)), np.sum(np.square(behind)) / 4)
    named = [[2, 0, -1, 1]] * 3
    pairs = [[max(0.0, 1 - row[t] + row[c]) for t in (2, 0) for c in (1, 3)] for row in x]
    close(nn.MultiLabelMarginLoss(reduction="none")(here(x), longs(named)), np.sum(pairs, 1) / 4)
    a, p, n = RNG.normal(size=(3, 5, 2))
    far = lambda u, v: np.abs(u - v).max(-1)  # noqa: E731
    loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda u, v: (u - v).abs().amax(-1), margin=0.3)
    close(loss(here(a), here(p), here(n)), np.maximum(0.3 + far(a, p) - far(a, n), 0).mean())
