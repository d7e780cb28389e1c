"""nflows: the likelihood of flows and its gradient."""

from nflows import distributions, flows, transforms

from harness import double, tensor, train


def likelihood(*parts):
    flow = double(flows.Flow(transforms.CompositeTransform(list(parts)), distributions.StandardNormal([3])))
    flow.forward = lambda x: -flow.log_prob(x).mean()
    return train(flow, tensor(6, 3))


def case_autoregressive():
    return likelihood(transforms.MaskedAffineAutoregressiveTransform(3, 8), transforms.ReversePermutation(3))


def case_splines():
    return likelihood(transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(3, 8, num_bins=4, tails="linear", tail_bound=3.0))


def case_linear():
    return likelihood(transforms.LULinear(3), transforms.HouseholderSequence(3, 2))
