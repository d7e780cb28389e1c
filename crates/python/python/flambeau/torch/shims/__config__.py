"""torch.__config__: how the library was built."""

from __future__ import annotations


def show() -> str:
    """A line that names the library."""
    import flambeau

    return f"Flambeau {flambeau.__version__} (the names of PyTorch 2.15; CPU)"


def parallel_info() -> str:
    """How many threads there are."""
    import flambeau

    return f"at::get_num_threads() : {flambeau.get_num_threads()}"
