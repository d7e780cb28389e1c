"""torch.onnx: there is no exporter; packages that describe operators to one can be imported."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_in_onnx_export() -> bool:
    """False."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Registers nothing."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Registers nothing."""


def is_onnxrt_backend_supported() -> bool:
    """False."""
    return False
