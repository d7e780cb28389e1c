"""Moments, densities, distribution functions and divergences of every distribution, and transforms, as JSON."""

import json
import warnings

import torch
import torch.distributions as D
from torch import tensor as t

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)


def cases():
    a, b = t([0.3, 1.7, 2.5]), t([1.2, 0.4, 3.0])
    x, n = t([0.2, 0.5, 0.9]), t([1.0, 2.0, 0.0])
    shares = t([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    hot, counts = t([[1.0, 0, 0], [0, 0, 1]]), t([[1.0, 1, 2], [0, 3, 1]])
    yield from (
        (D.Normal(a, b), x),
        (D.Laplace(a, b), x),
        (D.Cauchy(a, b), x),
        (D.Uniform(-a, b + 1), x),
        (D.StudentT(a + 3, a, b), x),
        (D.Gamma(a, b), x),
        (D.Chi2(a), x),
        (D.Exponential(a), x),
        (D.Beta(a, b), x),
        (D.Dirichlet(t([[0.5, 1.5, 2.0], [1.0, 2.0, 3.0]])), shares),
        (D.FisherSnedecor(a + 5, b + 5), x),
        (D.Bernoulli(x), t([1.0, 0.0, 1.0])),
        (D.Bernoulli(logits=a), t([1.0, 0.0, 1.0])),
        (D.Geometric(x), n),
        (D.Binomial(5, x), n),
        (D.NegativeBinomial(a, x), n),
        (D.Poisson(a), n),
        (D.Categorical(shares), t([1, 2])),
        (D.Categorical(logits=shares), t([1, 2])),
        (D.OneHotCategorical(shares), hot),
        (D.Multinomial(4, shares), counts),
        (D.ContinuousBernoulli(x), x),
        (D.LogNormal(a, b), x),
        (D.HalfNormal(b), x),
        (D.HalfCauchy(b), x),
        (D.Gumbel(a, b), x),
        (D.Weibull(a, b), x),
        (D.Pareto(x / 2, a + 3), x),
        (D.InverseGamma(a, b), x),
        (D.LogisticNormal(t([0.1, 0.2]), t([0.5, 0.6])), t([0.2, 0.3, 0.5])),
        (D.Independent(D.Normal(a, b), 1), x),
        (D.MixtureSameFamily(D.Categorical(t([0.3, 0.7])), D.Normal(t([0.0, 1.0]), t([1.0, 2.0]))), t(0.5)),
        (D.RelaxedBernoulli(t(0.5), x), x),
        (D.RelaxedOneHotCategorical(t(0.5), shares), shares),
        (D.TransformedDistribution(D.Normal(a, b), [D.AffineTransform(1.0, 2.0), D.SigmoidTransform(), D.TanhTransform()]), x * 0.7),
    )


def of(distribution, value):
    """All that the distribution implements."""
    calls = {
        "mean": lambda: distribution.mean,
        "mode": lambda: distribution.mode,
        "variance": lambda: distribution.variance,
        "log_prob": lambda: distribution.log_prob(value),
        "cdf": lambda: distribution.cdf(value),
        "icdf": lambda: distribution.icdf(t(0.3)),
        "entropy": distribution.entropy,
        "expanded": lambda: distribution.expand((2, *distribution.batch_shape)).log_prob(value),
        "shape": lambda: t(list(distribution.sample((2, 3)).shape)),
    }
    found = {}
    for name, call in calls.items():
        try:
            found[name] = call().tolist()
        except NotImplementedError:
            pass
    return found


def divergences():
    found = {}
    several = list(cases())
    for i, (p, _) in enumerate(several):
        for j, (q, _) in enumerate(several):
            try:
                found[f"{i} {type(p).__name__} || {j} {type(q).__name__}"] = D.kl_divergence(p, q).tolist()
            except NotImplementedError:
                pass
    return found


def of_transforms():
    x = t([[0.3, -0.2, 0.7], [1.0, 0.5, -0.4]])
    transforms = {
        "exp": D.ExpTransform(),
        "sigmoid": D.SigmoidTransform(),
        "tanh": D.TanhTransform(),
        "softplus": D.SoftplusTransform(),
        "affine": D.AffineTransform(1.0, t([2.0, -1.0, 0.5])),
        "stick": D.StickBreakingTransform(),
        "corr": D.CorrCholeskyTransform(),
        "composed": D.ComposeTransform([D.AffineTransform(0.5, 2.0), D.ExpTransform()]),
        "reshape": D.ReshapeTransform((3,), (3, 1)),
    }
    found = {}
    for name, transform in transforms.items():
        y = transform(x)
        found[name] = [y.tolist(), transform.inv(y).tolist(), transform.log_abs_det_jacobian(x, y).tolist()]
    return found


answers = {f"{i} {type(d).__name__}": of(d, value) for i, (d, value) in enumerate(cases())}
print(json.dumps({"distributions": answers, "divergences": divergences(), "transforms": of_transforms()}))
