"""Methods of `Tensor` that are a line of Python on top of others."""

from ._flambeau import _register


def __init__(self, *_data, **_named):
    """What `Tensor.__new__` made is the object that its tensor comes back as, from `grad`, from hooks."""
    _register(self)


def get_device(self):
    """The number of the device; -1 stands for the CPU."""
    return -1 if self.device.index is None else self.device.index


def __reversed__(self):
    return self.flip(0) if self.dim() else self


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A new tensor with a copy of `data`, of this tensor's type and device unless others are asked for."""
    from ._flambeau import tensor

    dtype, device = dtype or self.dtype, device or self.device
    return tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


def type_(self, dtype=None, non_blocking=False):
    """With elements of `dtype`; without one, the name of the type there is."""
    return str(self.dtype) if dtype is None else self.to(dtype, non_blocking)


# Other names, as NumPy has them.
ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2",
    "clip": "clamp",
    "divide": "div",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
}


def install(tensor):
    """Puts the methods on the class."""
    for method in (__init__, __reversed__, get_device, new_tensor):
        setattr(tensor, method.__name__, method)
    for alias, name in ALIASES.items():
        setattr(tensor, alias, getattr(tensor, name))
        if hasattr(tensor, name + "_"):
            setattr(tensor, alias + "_", getattr(tensor, name + "_"))
    tensor.type = type_
    tensor.__array_priority__ = 1000
