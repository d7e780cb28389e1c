"""A leaf that is given another geometry after it was used: its gradient is refused, never that of other elements."""

import itertools

import pytest

import flambeau as fl

CHANGES = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "as_strided_ to others": lambda x: x.as_strided_((3,), (1,), 1),
    "as_strided_ to the same sizes": lambda x: x.as_strided_((2, 3), (1, 2), 0),
    "set_": lambda x: x.set_(x.detach(), 0, (3, 2), (2, 1)),
}
USES = {
    "product": lambda x: (x * fl.arange(6.0).reshape(2, 3)).sum(),
    "square": lambda x: (x * x).sum(),
    "sum": lambda x: x.sum(),
    "exponential": lambda x: x.exp().sum(),
    "matmul": lambda x: (x @ fl.ones(3, 2)).sum(),
}


def leaf():
    return fl.arange(6.0).reshape(2, 3).clone().requires_grad_()


@pytest.mark.parametrize("change, use", list(itertools.product(CHANGES, USES)))
def test_the_gradient_is_refused(change, use):
    x = leaf()
    y = USES[use](x)
    with fl.no_grad():
        CHANGES[change](x)
    with pytest.raises(RuntimeError, match="inplace operation"):
        y.backward()
    assert x.grad is None


@pytest.mark.parametrize("change, use", list(itertools.product(CHANGES, USES)))
def test_a_graph_recorded_afterwards_is_right(change, use):
    x = leaf()
    USES[use](x)
    with fl.no_grad():
        CHANGES[change](x)
    if x.shape != (2, 3):
        with fl.no_grad():
            x.as_strided_((2, 3), (1, 2), 0)
    fresh = x.detach().clone().requires_grad_()
    USES[use](fresh).backward()
    USES[use](x).backward()
    assert x.grad.tolist() == fresh.grad.tolist()


def test_there_and_back():
    x = leaf()
    y = x.sum()
    with fl.no_grad():
        x.t_()
        x.t_()
    y.backward()
    assert x.grad.tolist() == fl.ones(2, 3).tolist()


def test_aliases_keep_their_geometry():
    x = leaf()
    y = x * 2
    z = (y * y).sum()
    y.detach().t_()
    z.backward()
    assert x.grad.tolist() == (8 * x.detach()).tolist()
