"""normflows: flows of several kinds, with the gradient of the likelihood."""

import normflows as nf
import torch

from harness import double, tensor, train

REASONS = {"autoregressive": "x.data = y is refused where another tensor shares the memory of y: a tensor never changes its storage"}
QUICK = ["coupling"]


def likelihood(flows, size=2):
    model = double(nf.NormalizingFlow(nf.distributions.DiagGaussian(size, trainable=False), flows))
    model.forward = model.forward_kld
    return train(model, tensor(6, size))


def case_coupling():
    parts = [nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2])) for _ in range(3)]
    return likelihood([flow for part in parts for flow in (part, nf.flows.Permute(2, mode="swap"))])


def case_splines():
    return likelihood([nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8), nf.flows.LULinearPermute(2)])


def case_autoregressive():
    return likelihood([nf.flows.MaskedAffineAutoregressive(2, 8), nf.flows.ActNorm(2)])
