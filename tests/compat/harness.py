"""What the programs of `packages/` share: weights that are the same in every library, a training step, and the numbers to compare.

Everything is computed in double precision where a package allows it, so that results agree to many digits whatever the order of sums is.
"""

import math

import numpy
import torch

# How many elements of a tensor are printed.
SAMPLES = 6


def tensor(*sizes, seed=0, dtype=None, scale=1.0):
    """Normal numbers of NumPy's legacy generator, whose sequence never changes."""
    numbers = numpy.random.RandomState(seed).standard_normal(sizes) * scale
    return torch.from_numpy(numpy.ascontiguousarray(numbers)).to(dtype or torch.get_default_dtype())


def uniform(*sizes, seed=0, low=0.0, high=1.0):
    """Numbers between two bounds."""
    numbers = numpy.random.RandomState(seed).uniform(low, high, sizes)
    return torch.from_numpy(numpy.ascontiguousarray(numbers)).to(torch.get_default_dtype())


def integers(*sizes, below, seed=0):
    """Integers from 0 up to `below`."""
    return torch.from_numpy(numpy.random.RandomState(seed).randint(0, below, sizes)).to(torch.int64)


def fill(module, seed=0, gain=1.0):
    """Sets every parameter, in order: matrices by their fan-in, vectors of weights near 1 and of biases near 0."""
    generator = numpy.random.RandomState(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            numbers = generator.standard_normal(tuple(parameter.shape))
            if parameter.dim() > 1:
                numbers = numbers * gain / math.sqrt(max(parameter[0].numel(), 1))
            elif "weight" in name or "gamma" in name or "scale" in name:
                numbers = 1 + 0.1 * numbers
            else:
                numbers = 0.1 * numbers
            parameter.copy_(torch.from_numpy(numpy.asarray(numbers)).to(parameter.dtype))
    return module


def double(module, seed=0):
    """The module in double precision with the weights of `fill`, and without randomness of its own."""
    fill(module.double(), seed)
    for part in module.modules():
        if isinstance(part, (torch.nn.Dropout, torch.nn.Dropout2d, torch.nn.AlphaDropout)):
            part.p = 0.0
    return module


def tensors(value):
    """All tensors in a nest of lists, dicts and objects with attributes."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from tensors(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif hasattr(value, "__dict__"):
        yield from tensors(vars(value))


def pattern(x):
    """Weights for a sum over the elements of a tensor that depends on each of them."""
    return torch.cos(torch.arange(x.numel(), dtype=torch.float64) * 0.7 + 0.3).reshape(x.shape).to(x.dtype)


def scalar(value):
    """One differentiable number of all floating point tensors in a value."""
    found = [x for x in tensors(value) if x.is_floating_point() and x.requires_grad]
    return sum(((x * pattern(x)).sum() / math.sqrt(x.numel()) for x in found), torch.zeros(()))


def summary(value):
    """What is compared of a value: of tensors the sizes, the norm, a weighted sum and a few elements."""
    if isinstance(value, torch.Tensor):
        x = value.detach()
        if x.is_complex():
            x = torch.view_as_real(x)
        kind = str(value.dtype).split(".")[-1]
        x = x.to(torch.float64).contiguous()
        flat = x.reshape(-1)
        some = flat[:: max(flat.numel() // SAMPLES, 1)][:SAMPLES].tolist()
        return {"dtype": kind, "sizes": list(value.shape), "numbers": [float(x.norm()), float((x * pattern(x)).sum()), *some]}
    if isinstance(value, dict):
        return {str(key): summary(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [summary(item) for item in value]
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return summary(torch.as_tensor(numpy.asarray(value)))
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    return summary(list(tensors(value)))


def gradients(module, count=8):
    """The norms of the gradients of some parameters, and of all together."""
    found = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    norms = [float(grad.double().norm()) for grad in found]
    some = norms[:: max(len(norms) // count, 1)][:count]
    return {"count": len(norms), "norm": math.sqrt(sum(norm * norm for norm in norms)), "some": some}


def train(module, *inputs, loss=None, rate=1e-3, **named):
    """A forward pass, a backward pass and a step: the result, the loss, gradients, and the loss after the step."""
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)

    def measured():
        result = module(*inputs, **named)
        return result, scalar(result) if loss is None else loss(result)

    result, value = measured()
    value.backward()
    found = {"result": list(tensors(result))[:4], "loss": float(value), "gradients": gradients(module)}
    optimizer.step()
    found["after"] = float(measured()[1])
    return found
