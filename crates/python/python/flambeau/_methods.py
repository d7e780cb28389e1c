"""Methods of `Tensor` that are a line of Python on top of others."""


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


def install(tensor):
    """Puts the methods on the class."""
    for method in (get_device, __reversed__, new_tensor):
        setattr(tensor, method.__name__, method)
    tensor.type = type_
    tensor.__array_priority__ = 1000
