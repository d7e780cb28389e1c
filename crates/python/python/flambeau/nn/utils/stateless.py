"""Modules as functions of their parameters, by the older name of `func.functional_call`."""

from __future__ import annotations

from flambeau.func.modules import functional_call

__all__ = ["functional_call"]
