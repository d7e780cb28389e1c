"""The same arguments in double precision, whose results tell which of two roundings is nearer."""

import torch
from torch.utils._pytree import tree_map


def wide(dtype):
    """The type of the same kind with 64 bits a number."""
    return torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else dtype


def in_double(values):
    """The same arguments in memory of their own, contiguous where they are dense, with every number that is not an integer in 64 bits."""
    def one(v):
        if isinstance(v, torch.dtype):
            return wide(v)
        if not isinstance(v, torch.Tensor):
            return v
        order = torch.contiguous_format if v.layout == torch.strided else torch.preserve_format
        return v.detach().to(wide(v.dtype), copy=True, memory_format=order).requires_grad_(v.requires_grad)
    return tree_map(one, values)
