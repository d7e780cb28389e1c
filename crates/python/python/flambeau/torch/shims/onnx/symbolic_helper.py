"""torch.onnx.symbolic_helper: decorators for functions that an exporter would call."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parse_args(*arg_descriptors: Any) -> Any:
    """A decorator that gives back the function."""
    return lambda function: function


def quantized_args(*arg_q_descriptors: Any, **options: Any) -> Any:
    """A decorator that gives back the function."""
    return lambda function: function
