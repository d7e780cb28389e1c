"""Hooks on gradients see what the rules of calculus say, and may change it."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn


class Product(nn.Module):
    def forward(self, x, y):
        return x * y, x + y


def leaf(*values):
    return flambeau.tensor(values, requires_grad=True)


def test_hooks_see_both_sides():
    module, seen = Product(), []
    module.register_full_backward_hook(lambda *args: seen.append(args))
    x, y = leaf(2.0, 3.0), leaf(5.0, 7.0)
    product, total = module(x, y)
    (product * 10 + total).sum().backward()
    ((owner, inputs, outputs),) = seen
    assert owner is module
    assert [grad.tolist() for grad in outputs] == [[10.0, 10.0], [1.0, 1.0]]
    assert [grad.tolist() for grad in inputs] == [[51.0, 71.0], [21.0, 31.0]]
    assert x.grad.tolist() == [51.0, 71.0] and y.grad.tolist() == [21.0, 31.0]


def test_hooks_change_gradients():
    module, x, y = Product(), leaf(2.0), leaf(5.0)
    module.register_full_backward_pre_hook(lambda owner, outputs: (outputs[0] * 2, outputs[1]))
    handle = module.register_full_backward_hook(lambda owner, inputs, outputs: (inputs[0] + 100, inputs[1]))
    sum(module(x, y)).sum().backward()
    assert x.grad.tolist() == [2 * 5.0 + 1 + 100] and y.grad.tolist() == [2 * 2.0 + 1]
    handle.remove()
    x.grad = None
    sum(module(x, y)).sum().backward()
    assert x.grad.tolist() == [11.0]


def test_inputs_without_gradient():
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda owner, inputs, outputs: seen.append((inputs, outputs[0].tolist())))
    layer(flambeau.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])] and layer.weight.grad.tolist() == [[1.0, 1.0]]
    with flambeau.no_grad():
        layer(flambeau.ones(1, 2))
    assert len(seen) == 1


def test_a_gradient_is_the_modules_own():
    layer, seen = nn.Linear(1, 1, bias=False), []
    layer.weight.data.fill_(3.0)
    layer.register_full_backward_hook(lambda owner, inputs, outputs: seen.append(inputs[0].item()))
    x = leaf(2.0)
    (layer(x) + 10 * x).sum().backward()
    assert seen == [3.0] and x.grad.item() == 13.0


def test_wrong_numbers_of_gradients():
    module = Product()
    module.register_full_backward_hook(lambda owner, inputs, outputs: inputs[:1])
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 1, but expected 2"):
        sum(module(leaf(1.0), leaf(1.0))).sum().backward()
