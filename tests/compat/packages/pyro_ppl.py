"""pyro: the density of a model, a step of variational inference, and Hamiltonian moves without randomness."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal

from harness import tensor


def model(x, y):
    slope = pyro.sample("slope", dist.Normal(torch.zeros(2), torch.ones(2)).to_event(1))
    noise = pyro.sample("noise", dist.LogNormal(torch.tensor(0.0), torch.tensor(1.0)))
    with pyro.plate("data", len(x)):
        pyro.sample("y", dist.Normal(x @ slope, noise), obs=y)


def case_density():
    held = pyro.condition(model, data={"slope": torch.tensor([0.3, -0.5]), "noise": torch.tensor(0.7)})
    trace = pyro.poutine.trace(held).get_trace(tensor(8, 2), tensor(8, seed=1))
    return {name: trace.nodes[name]["fn"].log_prob(trace.nodes[name]["value"]) for name in ("slope", "noise", "y")}


def case_maximum():
    pyro.clear_param_store()
    guide_start = pyro.infer.autoguide.init_to_value(values={"slope": torch.tensor([0.1, 0.2]), "noise": torch.tensor(0.9)})
    svi = SVI(model, AutoDelta(model, init_loc_fn=guide_start), pyro.optim.Adam({"lr": 0.02}), Trace_ELBO())
    losses = [svi.step(tensor(8, 2), tensor(8, seed=1)) for _ in range(10)]
    return [losses, dict(pyro.get_param_store().items())]


def case_guide():
    pyro.clear_param_store()
    guide = AutoNormal(model, init_loc_fn=pyro.infer.autoguide.init_to_value(values={"slope": torch.zeros(2), "noise": torch.tensor(1.0)}))
    guide(tensor(8, 2), tensor(8, seed=1))
    return guide.median()


def case_distributions():
    values = torch.tensor([0.3, 1.2, 2.5])
    return [
        dist.GammaPoisson(torch.tensor(2.0), torch.tensor(1.0)).log_prob(torch.tensor([0.0, 2.0, 5.0])),
        dist.ZeroInflatedPoisson(torch.tensor(2.0), gate=torch.tensor(0.3)).log_prob(torch.tensor([0.0, 2.0, 5.0])),
        dist.MaskedMixture(torch.tensor([True, False, True]), dist.Normal(0.0, 1.0), dist.Gamma(2.0, 1.0)).log_prob(values),
        dist.BetaBinomial(torch.tensor(2.0), torch.tensor(3.0), 6).log_prob(torch.tensor([0.0, 3.0, 6.0])),
    ]
