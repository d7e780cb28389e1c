"""Programs written for PyTorch run on Flambeau, unchanged: `import torch` gives this library under PyTorch's names.

    python -m flambeau.torch program.py arguments
    import flambeau.torch; flambeau.torch.install()     # before the first `import torch`

Every public name of PyTorch exists. One that Flambeau does not implement raises NotImplementedError when it is called.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.torch.finder import Finder

__all__ = ["install", "is_installed", "uninstall"]

_finder: Finder | None = None


def install() -> None:
    """From now on, `import torch` and its submodules import Flambeau under PyTorch's names.

    A RuntimeError if PyTorch itself is already loaded: tensors of both would meet in one program.
    """
    global _finder
    if is_installed():
        return
    if "torch" in sys.modules:
        where = getattr(sys.modules["torch"], "__file__", None)
        raise RuntimeError(
            f"flambeau.torch: PyTorch itself is already loaded, from {where}; call flambeau.torch.install() before the first "
            "`import torch`, or run the program by `python -m flambeau.torch program.py`"
        )
    from flambeau.torch import methods
    from flambeau.torch.finder import Finder

    _finder = Finder()
    sys.meta_path.insert(0, _finder)
    methods.install()


def is_installed() -> bool:
    """Whether `import torch` imports Flambeau."""
    return _finder is not None and _finder in sys.meta_path


def uninstall() -> None:
    """Ends what `install` began; modules that are already imported keep what they have."""
    global _finder
    if _finder is None:
        return
    from flambeau.torch import methods

    sys.meta_path.remove(_finder)
    for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        del sys.modules[name]
    methods.uninstall()
    _finder = None
