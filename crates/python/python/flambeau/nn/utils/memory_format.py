"""Weights of convolutions with their channels last."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Any, kinds: Any, memory_format: flambeau.memory_format) -> Any:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight = type(part.weight)(part.weight.detach().contiguous(memory_format=memory_format), part.weight.requires_grad)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: flambeau.memory_format) -> Any:
    """Gives the weights of all convolutions of images the memory format."""
    from flambeau.nn import Conv2d, ConvTranspose2d

    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: flambeau.memory_format) -> Any:
    """Gives the weights of all convolutions of volumes the memory format."""
    from flambeau.nn import Conv3d, ConvTranspose3d

    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
