"""The elements of a tensor as bytes, in row-major order and the order of bytes of this machine."""

from __future__ import annotations

import ctypes

import flambeau


def to_bytes(tensor: flambeau.Tensor) -> bytes:
    """A copy of the elements."""
    rows = tensor.detach().contiguous()
    # A tensor without elements need have no address.
    return ctypes.string_at(rows.data_ptr(), rows.numel() * rows.element_size()) if rows.numel() > 0 else b""


def from_bytes(data: bytes | memoryview, shape: tuple[int, ...] | list[int], dtype: flambeau.dtype) -> flambeau.Tensor:
    """A tensor of these elements, in memory of its own."""
    made = flambeau.empty(shape, dtype=dtype)
    expected = made.numel() * made.element_size()
    if len(data) != expected:
        raise ValueError(f"expected {expected} bytes for a tensor of shape {tuple(shape)} but got {len(data)}")
    if expected > 0:
        ctypes.memmove(made.data_ptr(), bytes(data), expected)
    return made
