"""botorch: a fitted process and values of acquisition functions."""

import botorch
import torch

from harness import uniform

REASONS = {"sampling": "torch.quasirandom.SobolEngine needs a table of direction numbers, which is not here"}
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
