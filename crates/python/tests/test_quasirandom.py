"""`quasirandom.SobolEngine`: the points themselves, and how evenly they fill intervals."""

import numpy as np
import pytest

import flambeau as fl
from flambeau.quasirandom import SobolEngine

# In 64ths, from the definition: the van der Corput sequence in the order of Gray codes, and the polynomials x + 1, x^2 + x + 1, x^3 + x + 1.
POINTS = [[0, 0, 0, 0], [32, 32, 32, 32], [48, 16, 16, 16], [16, 48, 48, 48], [24, 24, 40, 56], [56, 56, 8, 24], [40, 8, 56, 40], [8, 40, 24, 8]]


def test_the_first_points():
    engine = SobolEngine(4)
    assert (engine.draw(3) * 64).tolist() == POINTS[:3] and (engine.draw(5) * 64).tolist() == POINTS[3:]
    assert engine.num_generated == 8 and engine.draw(0).shape == (0, 4)
    assert (engine.reset().fast_forward(6).draw(2) * 64).tolist() == POINTS[6:]
    assert engine.reset().draw(dtype=fl.float64).dtype == fl.float64 and repr(engine) == "SobolEngine(dimension=4)"
    out = fl.empty(0)
    assert engine.reset().draw_base2(2, out=out) is out and (out * 64).tolist() == POINTS[:4]


@pytest.mark.parametrize("scramble", [False, True])
def test_points_are_even_in_each_dimension(scramble):
    """Of the first 2^m points one is in each interval of 2^-m, in every dimension, and so in boxes of the first two."""
    points = np.asarray(SobolEngine(1111, scramble=scramble, seed=3).draw(64, dtype=fl.float64).tolist())
    np.testing.assert_array_equal(np.sort(np.floor(points * 64), axis=0), np.broadcast_to(np.arange(64.0)[:, None], points.shape))
    boxes = np.floor(points[:, :2] * 8) @ [8, 1]
    assert sorted(boxes) == list(range(64))


def test_scrambled_points_repeat_with_a_seed():
    first, again = (SobolEngine(5, scramble=True, seed=7) for _ in range(2))
    assert first.draw(9).tolist() == again.draw(9).tolist() and repr(first) == "SobolEngine(dimension=5, scramble=True, seed=7)"
    assert SobolEngine(5, scramble=True, seed=8).draw(9).tolist() != again.reset().draw(9).tolist()
    mean = SobolEngine(3, scramble=True, seed=1).draw(1024).mean(0)
    assert ((mean - 0.5).abs() < 1e-3).all()


def test_all_dimensions_as_scipy():
    """SciPy has the same table of direction numbers."""
    qmc = pytest.importorskip("scipy.stats.qmc", reason="SciPy is not installed")
    expected = qmc.Sobol(1111, scramble=False, bits=30).random(256)
    np.testing.assert_array_equal(SobolEngine(1111).draw(256, dtype=fl.float64).tolist(), expected)


def test_refusals():
    for wrong in (0, 1112):
        with pytest.raises(ValueError, match="1, 1111"):
            SobolEngine(wrong)
    with pytest.raises(ValueError, match="power of 2"):
        SobolEngine(1).fast_forward(1).draw_base2(2)
    with pytest.raises(ValueError, match="at most"):
        SobolEngine(1).fast_forward(2**30).draw()
