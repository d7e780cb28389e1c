"""gpytorch: regression by exact and by variational Gaussian processes, to the end of their training."""

import gpytorch
import torch

from harness import fill, tensor, uniform

TOLERANCE = 1e-4


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution))
        self.mean = gpytorch.means.ZeroMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(1.5))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def data(count, seed):
    x = uniform(count, 2, seed=seed)
    return x, torch.sin(6 * x[:, 0]) + x[:, 1].square() + 0.05 * tensor(count, seed=seed + 10)


def fit(model, likelihood, objective, x, y, steps, rate):
    model.train(), likelihood.train()
    parameters = {id(p): p for part in (model, likelihood) for p in part.parameters()}
    optimizer = torch.optim.Adam(parameters.values(), lr=rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses[::5]


def error(model, likelihood):
    model.eval(), likelihood.eval()
    x, y = data(15, 5)
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        prediction = likelihood(model(x))
        lower, upper = prediction.confidence_region()
    root = float((prediction.mean - y).square().mean().sqrt())
    return [root, bool(root < 0.2), prediction.mean, upper - lower]


def case_exact():
    x, y = data(40, 0)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Exact(x, y, likelihood).double()
    losses = fit(model, likelihood, gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model), x, y, 60, 0.1)
    return [losses, [float(p) for p in (model.kernel.outputscale, likelihood.noise)], error(model, likelihood)]


def case_variational():
    x, y = data(60, 1)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Variational(uniform(12, 2, seed=3)).double()
    # At its first call the strategy would draw the distribution's mean around the prior by a generator of its own.
    model.variational_strategy.variational_params_initialized.fill_(1)
    fill(model.variational_strategy._variational_distribution, gain=0.1)
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    losses = fit(model, likelihood, objective, x, y, 60, 0.05)
    return [losses, float(likelihood.noise), error(model, likelihood)]
