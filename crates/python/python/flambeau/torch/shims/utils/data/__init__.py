"""Modules of torch.utils.data."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def functional_datapipe(name: str, enable_df_api_tracing: bool = False) -> Any:
    """A decorator that gives back the class: there are no chains of pipes by these names."""
    return lambda cls: cls


def non_deterministic(*args: Any) -> Any:
    """A decorator that gives back the class."""
    return lambda cls: cls
