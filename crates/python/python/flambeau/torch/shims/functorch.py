"""functorch: classes of modules as functions, which packages name."""

from __future__ import annotations


class FunctionalModule:
    """A module as a function of its parameters; `func.functional_call` is what there is."""


class FunctionalModuleWithBuffers:
    """Likewise, with buffers."""
