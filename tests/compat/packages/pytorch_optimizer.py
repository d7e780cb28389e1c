"""pytorch-optimizer: steps of its optimisers."""

import pytorch_optimizer
import torch

from harness import double, tensor

PLAIN = "adabelief adabound adamp adan adamod aggmo apollo avagrad came diffgrad fromage lamb lars lion madgrad nero novograd padam pid prodigy qhadam ranger21 sgdp sm3 swats tiger yogi".split()


def network():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def steps(name, network=network):
    model = double(network())
    options = {"num_iterations": 10} if name == "ranger21" else {}
    optimizer = pytorch_optimizer.load_optimizer(name)(model.parameters(), lr=1e-2, **options)
    for _ in range(4):
        optimizer.zero_grad()
        model(tensor(5, 3)).square().sum().backward()
        optimizer.step()
    return list(model.parameters())


def case_plain():
    return {name: steps(name) for name in PLAIN}


def square():
    # Gradients of full rank: the eigenvectors of other matrices are not unique.
    return torch.nn.Linear(3, 3)


def case_shampoo():
    return steps("shampoo", square)


def case_soap():
    return steps("soap", square)
