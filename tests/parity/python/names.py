"""Which of our functions stands for an entry of PyTorch's operator database, in each of its variants."""

import operator
import types

import torch

import flambeau

# Results that depend on a draw: everything but the values is compared.
RANDOM = ("dropout", "bernoulli", "rand", "normal", "multinomial", "uniform", "exponential", "cauchy", "geometric", "rrelu",
          "empty", "resize", "fractional")


def path(name, start):
    """The attribute of a dotted name, or None."""
    for part in name.split("."):
        start = getattr(start, part, None)
        if start is None:
            return None
    return start


def rebuilt(function, module=flambeau):
    """The database's small function around an operator, with our module where it says `torch`, and no seed set each time."""
    spaces = dict(function.__globals__, torch=module, wrapper_set_seed=lambda call, *args, **kwargs: call(*args, **kwargs))
    copy = types.FunctionType(function.__code__, spaces, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def is_wrapper(function):
    return isinstance(function, types.FunctionType) and "torch.testing" in (function.__module__ or "")


def is_random(entry):
    return any(word in entry.name for word in RANDOM)


def method_of(name):
    """A call of our method of this name; of `in_place` ones and properties alike."""
    attribute = getattr(flambeau.Tensor, name, None)
    if attribute is None:
        return None
    return attribute if callable(attribute) else (lambda self: getattr(self, name))


def our_function(name):
    """The function of a dotted name; `__radd__` and its like are methods."""
    found = method_of(name) if name.startswith("__") else path(name, flambeau)
    # `cdouble` is a method and the name of a dtype.
    return method_of(name) if isinstance(found, flambeau.dtype) else found


def is_ours(entry):
    """Whether we have what the entry is about."""
    if is_wrapper(entry.op):
        names = [n for n in entry.op.__code__.co_names if n not in ("torch", "nn", "functional", "wrapper_set_seed", "Tensor", "clone", "ops", "aten")]
        known = lambda n: any(hasattr(space, n) for space in (flambeau, flambeau.Tensor, flambeau.nn.functional, flambeau.linalg))
        return bool(names) and all(known(name) for name in names) and "ops" not in entry.op.__code__.co_names
    return our_function(entry.name) is not None


def by_name(entry, sample):
    """The sample with its arguments after the first, and then that too, by PyTorch's names for them, or None."""
    packet = getattr(torch.ops.aten, entry.name.split(".")[-1], None)
    overloads = [getattr(packet, name)._schema.arguments for name in packet.overloads()] if packet is not None else []
    for arguments in overloads:
        names = [argument.name for argument in arguments]
        if len(names) <= len(sample.args) or any(name not in names for name in sample.kwargs):
            continue
        named = dict(zip(names[1:], sample.args), **sample.kwargs)
        if len(named) < len(sample.args) + len(sample.kwargs):
            continue
        first = "input" if names[0] == "self" else names[0]
        call = lambda function: lambda value, **rest: function(**{first: value}, **rest)
        try:
            call(entry.op)(sample.input, **named)
        except Exception:
            continue
        return type(sample)(sample.input, kwargs=named), call
    return None


def variants(entry):
    """(variant, theirs, ours) for all that both have, and the names of those that only PyTorch has."""
    found, missing = [], []

    def add(variant, theirs, ours, name):
        if ours is None:
            missing.append(name)
        else:
            found.append((variant, theirs, ours))

    add("function", entry.op, rebuilt(entry.op) if is_wrapper(entry.op) else our_function(entry.name), entry.name)
    for kind in ("method", "inplace"):
        theirs = getattr(entry, f"{kind}_variant")
        name = getattr(theirs, "__name__", None)
        if theirs is None or name is None or is_wrapper(theirs):
            continue
        add(kind, theirs, method_of(name), f"Tensor.{name}")
    for kind in ("operator_variant", "inplace_operator_variant"):
        theirs = getattr(entry, kind)
        if theirs is not None and getattr(operator, theirs.__name__, None) is theirs:
            found.append((kind, theirs, theirs))
    for alias in entry.aliases:
        name = alias.name.replace("torch.", "", 1) if alias.name.startswith("torch.") else alias.name
        theirs = path(name, torch)
        if theirs is not None:
            add(f"alias {name}", theirs, path(name, flambeau), name)
    return found, missing
