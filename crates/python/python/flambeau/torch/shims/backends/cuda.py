"""torch.backends.cuda: not available; its settings are stored and change nothing."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

from flambeau.torch.shims.backends.settings import is_available as is_available, is_built as is_built

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

matmul: Any = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
cufft_plan_cache: Any = SimpleNamespace(size=0, max_size=0)
_enabled = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def sdp_kernel(*args: Any, **kwargs: Any) -> Any:
    """A context that does nothing: there is one kernel of attention."""
    return nullcontext()


def flash_sdp_enabled() -> bool:
    """What was set."""
    return _enabled["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Stores the setting."""
    _enabled["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """What was set."""
    return _enabled["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Stores the setting."""
    _enabled["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """What was set."""
    return _enabled["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Stores the setting."""
    _enabled["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """What was set."""
    return _enabled["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Stores the setting."""
    _enabled["cudnn"] = enabled


def is_flash_attention_available() -> bool:
    """False."""
    return False


def preferred_linalg_library(backend: Any = None) -> str:
    """The CPU's."""
    return "default"
