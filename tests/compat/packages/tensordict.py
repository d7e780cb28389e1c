"""tensordict: nested dictionaries of tensors, stacks, and modules over them."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

from harness import double, tensor


def nested():
    return TensorDict({"a": tensor(3, 4), "b": {"c": tensor(3, 2, seed=1)}}, batch_size=[3])


def case_operations():
    data = nested()
    stacked = torch.stack([data, data + 1], 0)
    return [stacked["b", "c"], (data * 2)["a"], data[1:]["a"], torch.cat([data, data], 0)["a"], data.reshape(3, 1)["b", "c"], data.apply(torch.exp)["a"]]


def case_modules():
    model = TensorDictSequential(
        TensorDictModule(double(torch.nn.Linear(4, 5)), in_keys=["a"], out_keys=["hidden"]),
        TensorDictModule(double(torch.nn.Linear(5, 1)), in_keys=["hidden"], out_keys=["out"]),
    )
    found = model(nested())
    found["out"].square().sum().backward()
    return [found["out"], [parameter.grad for parameter in model.parameters()]]


def case_parameters():
    model = double(torch.nn.Linear(4, 2))
    weights = TensorDict.from_module(model)
    doubled = weights.apply(lambda x: x * 2)
    with doubled.to_module(model):
        inside = model(tensor(3, 4))
    return [inside, model(tensor(3, 4))]
