"""botorch: a fitted process and values of acquisition functions."""

import botorch
import torch

from harness import uniform

REASONS = {"sampling": "the points of a scrambled SobolEngine are drawn by another generator than PyTorch's"}
TOLERANCE = 1e-4


def model():
    x = uniform(12, 2)
    y = (torch.sin(5 * x[:, :1]) + x[:, 1:].square()).to(torch.float64)
    return botorch.models.SingleTaskGP(x, y), y


def case_acquisition():
    process, y = model()
    points = uniform(5, 1, 2, seed=3)
    best = y.max()
    kinds = [
        botorch.acquisition.ExpectedImprovement(process, best),
        botorch.acquisition.LogExpectedImprovement(process, best),
        botorch.acquisition.UpperConfidenceBound(process, 0.2),
        botorch.acquisition.PosteriorMean(process),
    ]
    return [kind(points) for kind in kinds]


def case_fit():
    import gpytorch

    process, _ = model()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(process.likelihood, process)
    botorch.fit.fit_gpytorch_mll(objective, optimizer_kwargs={"options": {"maxiter": 10}})
    return process.posterior(uniform(4, 2, seed=5)).mean


def case_sampling():
    process, y = model()
    sampler = botorch.sampling.SobolQMCNormalSampler(torch.Size([16]), seed=1)
    return botorch.acquisition.qExpectedImprovement(process, y.max(), sampler)(uniform(3, 2, 2, seed=3))


def case_sobol():
    engine = torch.quasirandom.SobolEngine(7)
    found = [engine.draw(3), engine.fast_forward(4).draw(2), engine.reset().draw_base2(3), engine.num_generated]
    points = botorch.utils.sampling.draw_sobol_samples(torch.tensor([[0.0, 1.0], [2.0, 3.0]]), n=4, q=1, seed=3)
    # Scrambled points differ, but there is one in each quarter of the range.
    return [found, points.shape, (points[:, 0, 0] * 2).floor().long().sort().values]
