"""zuko: the likelihood of flows and its gradient."""

import zuko

from harness import double, tensor, train


def likelihood(flow):
    flow = double(flow)
    forward = flow.forward
    flow.forward = lambda x: -forward().log_prob(x).mean()
    return train(flow, tensor(6, 3))


def case_maf():
    return likelihood(zuko.flows.MAF(3, transforms=2, hidden_features=(8, 8)))


def case_nsf():
    return likelihood(zuko.flows.NSF(3, transforms=2, hidden_features=(8, 8)))


def case_unaf():
    return likelihood(zuko.flows.UNAF(3, transforms=1, hidden_features=(8, 8)))


def case_mixture():
    return likelihood(zuko.flows.GMM(3, components=2))
