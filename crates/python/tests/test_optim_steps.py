"""Optimisers beside their formulas in NumPy's float64, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim

STEPS = 25


def there(tensor):
    return np.array(tensor.tolist())


def gradient(x):
    """The gradient of a valley that is steep in one direction and flat in the other, with a wave in it."""
    return np.array([3.0, 0.2, -1.0]) * x + 0.5 * np.cos(3 * x)


def sgd(lr=0.1, momentum=0.0, dampening=0.0, decay=0.0, nesterov=False):
    velocity = None

    def step(x, g):
        nonlocal velocity
        g = g + decay * x
        if momentum:
            velocity = g.copy() if velocity is None else momentum * velocity + (1 - dampening) * g
            g = g + momentum * velocity if nesterov else velocity
        return x - lr * g

    return step


def adam(lr=0.01, betas=(0.9, 0.999), eps=1e-8, decay=0.0, decoupled=False, amsgrad=False):
    mean = square = largest = 0.0
    count = 0

    def step(x, g):
        nonlocal mean, square, largest, count
        count += 1
        x, g = (x * (1 - lr * decay), g) if decoupled else (x, g + decay * x)
        mean = betas[0] * mean + (1 - betas[0]) * g
        square = betas[1] * square + (1 - betas[1]) * g * g
        largest = np.maximum(largest, square)
        corrected = (largest if amsgrad else square) / (1 - betas[1] ** count)
        return x - lr * mean / (1 - betas[0] ** count) / (np.sqrt(corrected) + eps)

    return step


def rmsprop(lr=0.01, alpha=0.99, eps=1e-8, decay=0.0, momentum=0.0, centered=False):
    square = mean = velocity = 0.0

    def step(x, g):
        nonlocal square, mean, velocity
        g = g + decay * x
        square = alpha * square + (1 - alpha) * g * g
        mean = alpha * mean + (1 - alpha) * g
        move = g / (np.sqrt(square - mean**2 if centered else square) + eps)
        velocity = momentum * velocity + move
        return x - lr * velocity

    return step


def adagrad(lr=0.1, lr_decay=0.0, decay=0.0, start=0.0, eps=1e-10):
    total, count = start, 0

    def step(x, g):
        nonlocal total, count
        g = g + decay * x
        total = total + g * g
        count += 1
        return x - lr / (1 + (count - 1) * lr_decay) * g / (np.sqrt(total) + eps)

    return step


CASES = {
    "sgd": (optim.SGD, {"lr": 0.1}, lambda: sgd()),
    "momentum": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.05}, 
                 lambda: sgd(momentum=0.9, dampening=0.2, decay=0.05)),
    "nesterov": (optim.SGD, {"lr": 0.1, "momentum": 0.8, "nesterov": True}, lambda: sgd(momentum=0.8, nesterov=True)),
    "adam": (optim.Adam, {"lr": 0.01}, lambda: adam()),
    "adam_decay": (optim.Adam, {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.95)}, 
                   lambda: adam(lr=0.02, decay=0.1, betas=(0.8, 0.95))),
    "amsgrad": (optim.Adam, {"lr": 0.05, "amsgrad": True, "eps": 1e-3}, lambda: adam(lr=0.05, amsgrad=True, eps=1e-3)),
    "adamw": (optim.AdamW, {"lr": 0.01, "weight_decay": 0.3}, lambda: adam(decay=0.3, decoupled=True)),
    "rmsprop": (optim.RMSprop, {"lr": 0.01}, lambda: rmsprop()),
    "centered": (optim.RMSprop, {"lr": 0.01, "centered": True, "momentum": 0.5, "weight_decay": 0.1, "alpha": 0.9}, 
                 lambda: rmsprop(centered=True, momentum=0.5, decay=0.1, alpha=0.9)),
    "adagrad": (optim.Adagrad, {"lr": 0.1}, lambda: adagrad()),
    "adagrad_decay": (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}, 
                      lambda: adagrad(lr_decay=0.1, decay=0.1, start=0.5)),
}


def start():
    return np.array([1.0, -2.0, 0.5])


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_steps(name, maximize):
    kind, options, make = CASES[name]
    reference = make()
    param, expected = nn.Parameter(flambeau.tensor(start().tolist(), dtype=flambeau.float64)), start()
    optimizer = kind([param], **options, maximize=maximize)
    for _ in range(STEPS):
        g = gradient(there(param))
        param.grad = flambeau.tensor((-g if maximize else g).tolist(), dtype=flambeau.float64)
        expected = reference(expected, gradient(expected))
        optimizer.step()
        np.testing.assert_allclose(there(param), expected, rtol=1e-11, atol=1e-13)


def one(shape=(2,)):
    return nn.Parameter(flambeau.ones(shape))


def test_groups_have_options_of_their_own():
    first, second = one(), one()
    optimizer = optim.SGD([{"params": [first]}, {"params": second, "lr": 0.5}], lr=0.1)
    for param in (first, second):
        param.grad = flambeau.ones(2)
    optimizer.step()
    np.testing.assert_allclose(there(first), [0.9, 0.9], rtol=1e-6)
    np.testing.assert_allclose(there(second), [0.5, 0.5], rtol=1e-6)
    third = one()
    optimizer.add_param_group({"params": third, "lr": 1.0})
    third.grad = flambeau.ones(2)
    optimizer.step()
    assert there(third).tolist() == [0.0, 0.0] and len(optimizer.param_groups) == 3


def test_parameters_without_gradient_stay():
    with_grad, without = one(), one()
    with_grad.grad = flambeau.ones(2)
    optimizer = optim.Adam([with_grad, without])
    optimizer.step()
    assert there(without).tolist() == [1.0, 1.0] and without not in optimizer.state and with_grad in optimizer.state


def test_what_is_refused():
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([], lr=0.1)
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts"):
        optim.SGD(one(), lr=0.1)
    with pytest.raises(TypeError, match="can only optimize Tensors"):
        optim.SGD([1], lr=0.1)
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([one() * 2], lr=0.1)
    param = one()
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD([{"params": [param]}, {"params": [param]}], lr=0.1)
    with pytest.raises(TypeError, match="ordered collections"):
        optim.SGD([{"params": {param}}], lr=0.1)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([param, param], lr=0.1)
    for options, message in (({"lr": -1.0}, "Invalid learning rate: -1.0"), ({"momentum": -1}, "Invalid momentum value"),
                             ({"nesterov": True}, "Nesterov momentum requires")):
        with pytest.raises(ValueError, match=message):
            optim.SGD([param], **options)
    with pytest.raises(ValueError, match="Invalid beta parameter at index 1: 1.0"):
        optim.Adam([param], betas=(0.9, 1.0))
    with pytest.raises(NotImplementedError, match="capturable=False"):
        optim.Adam([param], capturable=True)


def test_closures():
    param, calls = one(), []
    optimizer = optim.SGD([param], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (param * param).sum()
        loss.backward()
        calls.append(loss.item())
        return loss

    assert optimizer.step(closure).item() == 2.0 and calls == [2.0]
    np.testing.assert_allclose(there(param), [0.8, 0.8], rtol=1e-6)


def test_gradients_are_cleared():
    param = one()
    optimizer = optim.SGD([param], lr=0.1)
    (param * 2).sum().backward()
    kept = param.grad
    optimizer.zero_grad(set_to_none=False)
    assert param.grad is kept and there(kept).tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert param.grad is None


@pytest.mark.parametrize("name", CASES)
def test_a_saved_run_goes_on_to_the_same_bits(name):
    kind, options, _ = CASES[name]

    def run(optimizer, param, steps):
        for _ in range(steps):
            param.grad = flambeau.tensor(gradient(there(param)).tolist())
            optimizer.step()

    param = nn.Parameter(flambeau.tensor(start().tolist()))
    optimizer = kind([param], **options)
    run(optimizer, param, 7)
    other = nn.Parameter(param.detach().clone())
    resumed = kind([other], **options)
    state = optimizer.state_dict()
    resumed.load_state_dict(state)
    run(optimizer, param, 7)
    run(resumed, other, 7)
    assert param.tolist() == other.tolist()
    assert resumed.param_groups[0]["params"][0] is other


DTYPES = [flambeau.float16, flambeau.bfloat16, flambeau.float32, flambeau.float64]
ADAM_OPTIONS = [
    {},
    {"weight_decay": 0.1},
    {"weight_decay": 0.1, "decoupled_weight_decay": True},
    {"maximize": True, "betas": (0.5, 0.9)},
    {"maximize": True, "weight_decay": 1, "eps": 1e-3},
]


@pytest.mark.parametrize("options", ADAM_OPTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_step_of_adam_in_one_pass_has_the_bits_of_operators(dtype, options, monkeypatch):
    def run():
        values = flambeau.arange(150, dtype=flambeau.float64).sin().reshape(10, 15).to(dtype)
        params = [nn.Parameter(part) for part in (values.clone(), values.t().contiguous().t(), values[0, :1].clone(), values[1, 3])]
        optimizer = optim.Adam(params, lr=0.01, **options)
        for step in range(4):
            for param in params:
                param.grad = (param.detach() * (step - 1) + 0.25).contiguous()
            optimizer.step()
        states = [optimizer.state[param][name] for param in params for name in ("exp_avg", "exp_avg_sq")]
        # As text, in which NaN is equal to itself: where a gradient is 0, so is what f16 divides by.
        return [str(tensor.detach().tolist()) for tensor in (*params, *states)]

    in_one_pass = run()
    monkeypatch.setattr("flambeau.optim.adam._is_updated_in_one_pass", lambda *_: False)
    assert in_one_pass == run()


def test_a_step_of_adam_in_one_pass_is_known_to_saved_tensors():
    param = nn.Parameter(flambeau.ones(3))
    optimizer = optim.Adam([param], lr=0.1)
    loss = (param * param).sum()
    param.grad = flambeau.ones(3)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with pytest.raises(RuntimeError):
        flambeau._adam_step_(param, *(flambeau.ones(3) for _ in range(3)), 0.1, 0.9, 0.99, 1e-8, 1.0, 1.0, 0.0, False)


def test_modes_see_the_operators_of_a_step_of_adam():
    from flambeau.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    param = nn.Parameter(flambeau.ones(3))
    param.grad = flambeau.ones(3)
    optimizer = optim.Adam([param], lr=0.1)
    with Log():
        optimizer.step()
    assert any("addcdiv_" in name for name in seen) and not any("_adam_step_" in name for name in seen)


def test_states_have_pytorchs_layout():
    params = [one(), one((3,))]
    optimizer = optim.Adam(params, lr=0.5, amsgrad=True)
    params[1].grad = flambeau.ones(3)
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"] and list(state["state"]) == [1]
    assert list(state["state"][1]) == ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    assert state["state"][1]["step"].item() == 1.0 and state["state"][1]["step"].dtype == flambeau.float32
    group = state["param_groups"][0]
    assert group["params"] == [0, 1] and group["lr"] == 0.5 and group["betas"] == (0.9, 0.999)


def test_states_that_do_not_fit():
    state = optim.SGD([one(), one()], lr=0.1).state_dict()
    with pytest.raises(ValueError, match="doesn't match the size"):
        optim.SGD([one()], lr=0.1).load_state_dict(state)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.SGD([{"params": one()}, {"params": one()}], lr=0.1).load_state_dict(state)


def test_loaded_state_takes_the_parameters_type():
    param = one()
    param.grad = flambeau.ones(2)
    optimizer = optim.Adam([param])
    optimizer.step()
    double = nn.Parameter(flambeau.ones(2, dtype=flambeau.float64))
    loaded = optim.Adam([double])
    loaded.load_state_dict(optimizer.state_dict())
    assert loaded.state[double]["exp_avg"].dtype == flambeau.float64
    assert loaded.state[double]["step"].dtype == flambeau.float32
    optimizer.state[param]["exp_avg"].fill_(9)
    assert loaded.state[double]["exp_avg"].tolist() != [9.0, 9.0]


def test_hooks():
    param, seen = one(), []
    optimizer = optim.SGD([param], lr=0.1)
    handles = [
        optimizer.register_step_pre_hook(lambda *args: seen.append("before")),
        optimizer.register_step_post_hook(lambda *args: seen.append("after")),
        optimizer.register_state_dict_post_hook(lambda optimizer, state: {**state, "more": 1}),
    ]
    optimizer.step()
    assert seen == ["before", "after"] and optimizer.state_dict()["more"] == 1
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert seen == ["before", "after"] and "more" not in optimizer.state_dict()


def test_text():
    text = repr(optim.SGD([one()], lr=0.25))
    assert text.startswith("SGD (\nParameter Group 0\n") and "    lr: 0.25\n" in text and text.endswith(")")


def test_optimisers_of_ones_own():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            with flambeau.no_grad():
                for group in self.param_groups:
                    for param in group["params"]:
                        param.sub_(param.grad.sign(), alpha=group["lr"])

    param = one()
    param.grad = flambeau.tensor([3.0, -2.0])
    Sign([param], lr=0.5).step()
    assert there(param).tolist() == [0.5, 1.5]


def test_training_reaches_the_solution():
    """Least squares have one: what the normal equations say."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 5)), rng.normal(size=(64, 1))
    layer = nn.Linear(5, 1).double()
    optimizer = optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    inputs, targets = (flambeau.tensor(a.tolist(), dtype=flambeau.float64) for a in (x, y))
    for _ in range(1000):
        optimizer.zero_grad()
        nn.functional.mse_loss(layer(inputs), targets).backward()
        optimizer.step()
    solution = np.linalg.lstsq(np.c_[x, np.ones(64)], y, rcond=None)[0].ravel()
    np.testing.assert_allclose([*there(layer.weight).ravel(), there(layer.bias)[0]], solution, rtol=1e-8)
