"""Packages that compute with arrays of any library compute with ours: array-api-compat, Hypothesis, SciPy, scikit-learn."""

import os
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fl
from flambeau import array_api as xp


def run(code):
    """Runs a program that sets SCIPY_ARRAY_API before SciPy is imported."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-W", "error::DeprecationWarning", "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_array_api_compat_finds_the_namespace():
    compat = pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
    x = fl.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert compat.array_namespace(x, x * 2) is xp and compat.is_array_api_obj(x)
    assert compat.device(x) == x.device and compat.size(x) == 4 and compat.to_device(x, "cpu").tolist() == x.tolist()
    namespace = compat.array_namespace(x)
    assert namespace.std(x, axis=0, correction=1).tolist() == pytest.approx(np.std(x.tolist(), axis=0, ddof=1))


def test_array_api_extra():
    """Functions that are composed of those of the standard."""
    extra = pytest.importorskip("array_api_extra", reason="array-api-extra is not installed")
    x = fl.tensor([[1.0, 4.0, 2.0], [0.5, 1.0, 6.0]], dtype=fl.float64)
    np.testing.assert_allclose(extra.cov(x).tolist(), np.cov(x.tolist()))
    np.testing.assert_allclose(extra.kron(x, x).tolist(), np.kron(x.tolist(), x.tolist()))
    np.testing.assert_allclose(extra.sinc(x).tolist(), np.sinc(x.tolist()), atol=1e-12)
    assert extra.atleast_nd(fl.tensor(1.0), ndim=2, xp=xp).shape == (1, 1)


@pytest.mark.filterwarnings("ignore:Array module")
def test_hypothesis():
    """Its strategies for arrays of any library draw ours."""
    hypothesis = pytest.importorskip("hypothesis", reason="Hypothesis is not installed")
    from hypothesis import strategies
    from hypothesis.extra.array_api import make_strategies_namespace

    drawn = make_strategies_namespace(xp)

    @hypothesis.settings(max_examples=50, deadline=None, database=None)
    @hypothesis.given(strategies.data())
    def check(data):
        dtype = data.draw(drawn.scalar_dtypes())
        x = data.draw(drawn.arrays(dtype, drawn.array_shapes(min_dims=0, min_side=0)))
        assert x.dtype == dtype and x.__array_namespace__() is xp
        axes = data.draw(drawn.valid_tuple_axes(x.ndim))
        assert xp.any(x, axis=axes).ndim == x.ndim - len(axes)
        shapes = data.draw(drawn.mutually_broadcastable_shapes(2))
        assert xp.add(*map(xp.ones, shapes.input_shapes)).shape == shapes.result_shape

    check()


@pytest.mark.parametrize(
    "code",
    [
        "from scipy.special import logsumexp; check(logsumexp(x, axis=0), logsumexp(a, axis=0))",
        "from scipy.special import expit, log_softmax, softmax; check(softmax(x, axis=1), softmax(a, axis=1)); "
        "check(log_softmax(x, axis=0), log_softmax(a, axis=0))",
        "from scipy.stats import zscore; check(zscore(x, axis=0), zscore(a, axis=0))",
        "from scipy.stats import skew, kurtosis; check(skew(x), skew(a)); check(kurtosis(x), kurtosis(a))",
        "from scipy.signal import detrend; check(detrend(x), detrend(a))",
        "from scipy.fft import fft, irfft, rfft; check(fft(x), fft(a)); check(irfft(rfft(x), n=3), a)",
        "from scipy.cluster.vq import whiten; check(whiten(x), whiten(a))",
        "from scipy.integrate import simpson, trapezoid; check(trapezoid(x, axis=0), trapezoid(a, axis=0))",
    ],
)
def test_scipy(code):
    pytest.importorskip("scipy", reason="SciPy is not installed")
    run(
        "import numpy as np\nimport flambeau as fl\n"
        "a = np.asarray([[0.5, 2.0, -1.0], [1.5, 0.25, 3.0], [2.5, -0.75, 1.0], [0.0, 4.0, -2.0]])\nx = fl.tensor(a.tolist(), dtype=fl.float64)\n"
        "def check(found, expected):\n"
        "    assert isinstance(found, fl.Tensor), type(found)\n"
        "    np.testing.assert_allclose(np.asarray(found.tolist()), expected, rtol=1e-10, atol=1e-12)\n" + code
    )


@pytest.mark.parametrize(
    "code",
    [
        "from sklearn.preprocessing import StandardScaler, MinMaxScaler\n"
        "for scaler in (StandardScaler(), MinMaxScaler()):\n"
        "    expected = scaler.fit_transform(a)\n    found = scaler.fit_transform(x)\n    check(found, expected)",
        "from sklearn.decomposition import PCA\n"
        "expected = PCA(n_components=2, svd_solver='full').fit(a)\nfound = PCA(n_components=2, svd_solver='full').fit(x)\n"
        "check(abs(found.components_), abs(expected.components_))\ncheck(found.explained_variance_, expected.explained_variance_)",
        "from sklearn.linear_model import Ridge\n"
        "expected = Ridge(solver='svd').fit(a, a[:, 0])\nfound = Ridge(solver='svd').fit(x, x[:, 0])\ncheck(found.coef_, expected.coef_)",
        "from sklearn.metrics import mean_squared_error, r2_score\n"
        "assert abs(float(mean_squared_error(x[:, 0], x[:, 1])) - mean_squared_error(a[:, 0], a[:, 1])) < 1e-12\n"
        "assert abs(float(r2_score(x[:, 0], x[:, 1])) - r2_score(a[:, 0], a[:, 1])) < 1e-12",
    ],
)
def test_scikit_learn(code):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    run(
        "import numpy as np\nimport flambeau as fl\nimport sklearn\nsklearn.set_config(array_api_dispatch=True)\n"
        "a = np.random.default_rng(3).normal(size=(30, 4))\nx = fl.tensor(a.tolist(), dtype=fl.float64)\n"
        "def check(found, expected):\n"
        "    assert isinstance(found, fl.Tensor), type(found)\n"
        "    np.testing.assert_allclose(np.asarray(found.tolist()), expected, rtol=1e-8, atol=1e-10)\n" + code
    )
