"""Carries values between PyTorch and Flambeau: tensors byte by byte with their strides, and whatever else an argument can be."""

import ctypes

import torch

import flambeau

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64]
MAX_DIMS = 64
NAMED = (torch.dtype, torch.memory_format, torch.layout)


class Outside(Exception):
    """A value that these calls do not carry over: a complex number, another layout, another device, more dimensions than tensors have here."""


def named(value):
    """Our object of the same name: a dtype, a layout, a memory format."""
    name = str(value).split(".")[-1]
    if not hasattr(flambeau, name):
        raise Outside(str(value))
    return getattr(flambeau, name)


def extent(tensor):
    """Elements from a tensor's first to its last, in memory."""
    if 0 in tensor.shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))


def tensor_here(tensor):
    """A tensor of ours with the same elements, strides and `requires_grad`."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.dtype not in DTYPES or tensor.dim() > MAX_DIMS:
        raise Outside(f"{tensor.dtype} {tensor.layout} on {tensor.device} of {tensor.dim()} dimensions")
    plain = tensor.detach().resolve_neg()
    count, dtype = extent(plain), named(plain.dtype)
    with flambeau.no_grad():
        memory = flambeau.empty((max(count, 1),), dtype=dtype)
        ctypes.memmove(memory.data_ptr(), plain.data_ptr(), count * plain.element_size())
        if count == plain.numel() and plain.is_contiguous():
            ours = flambeau.empty(tuple(plain.shape), dtype=dtype)
            ctypes.memmove(ours.data_ptr(), plain.data_ptr(), count * plain.element_size())
        else:
            ours = memory.as_strided(tuple(plain.shape), plain.stride()).detach()
    return ours.requires_grad_(True) if tensor.requires_grad else ours


def tensor_there(tensor):
    """A tensor of PyTorch with the same elements and strides; a sparse one as a dense one."""
    if tensor.layout != flambeau.strided:
        tensor = tensor.to_dense()
    dtype = getattr(torch, str(tensor.dtype).split(".")[1])
    memory = torch.empty(max(extent(tensor), 1), dtype=dtype)
    ctypes.memmove(memory.data_ptr(), tensor.data_ptr(), extent(tensor) * tensor.element_size())
    return memory.as_strided(tuple(tensor.shape), tuple(tensor.stride()))


def generator_here(generator):
    return flambeau.Generator().manual_seed(generator.initial_seed())


def here(value, seen=None):
    """An argument as ours; a tensor that occurs twice is one tensor on our side too."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            seen[id(value)] = (value, tensor_here(value))
        return seen[id(value)][1]
    if isinstance(value, torch.Size):
        return flambeau.Size(value)
    if isinstance(value, (list, tuple)):
        items = [here(item, seen) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: here(item, seen) for key, item in value.items()}
    if isinstance(value, NAMED):
        return named(value)
    if isinstance(value, torch.device):
        return flambeau.device(str(value))
    if isinstance(value, torch.Generator):
        return generator_here(value)
    if isinstance(value, complex):
        raise Outside("a complex number")
    return value


def twin(value, seen=None):
    """A copy of an argument for PyTorch itself, so that no call sees what another has written."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            plain = value.detach()
            if value.layout != torch.strided:
                raise Outside(str(value.layout))
            memory = torch.empty(max(extent(plain), 1), dtype=value.dtype, device=value.device)
            memory.copy_(plain.as_strided((max(extent(plain), 1),), (1,)) if extent(plain) else memory)
            copied = memory.as_strided(plain.shape, plain.stride()).detach()
            seen[id(value)] = (value, copied.requires_grad_(value.requires_grad))
        return seen[id(value)][1]
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, (list, tuple)):
        items = [twin(item, seen) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: twin(item, seen) for key, item in value.items()}
    return value


def tensors(value):
    """The tensors inside an argument or a result, of either library, in order."""
    if isinstance(value, (torch.Tensor, flambeau.Tensor)):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    return []
