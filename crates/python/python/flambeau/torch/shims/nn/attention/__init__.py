"""torch.nn.attention: implementations of attention that can be chosen; there is one here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

WARN_FOR_UNFUSED_KERNELS = False
_registered: dict[str, Callable[..., Any]] = {}
_active: list[str] = []


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., Any]) -> None:
    """Remembers a function that makes an implementation available."""
    _registered[impl] = register_fn


def list_flash_attention_impls() -> list[str]:
    """The names of those that were registered."""
    return sorted(_registered)


def activate_flash_attention_impl(impl: str) -> None:
    """Calls the function that was registered under the name."""
    if impl not in _registered:
        raise ValueError(f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}")
    _registered[impl]()
    _active.append(impl)


def restore_flash_attention_impl() -> None:
    """Ends what `activate_flash_attention_impl` began."""
    _active.clear()


def current_flash_attention_impl() -> str | None:
    """The name of the active one."""
    return _active[-1] if _active else None
