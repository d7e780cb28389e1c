"""The finder that imports `torch` and its submodules."""

from __future__ import annotations

from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from flambeau.torch import layout
from flambeau.torch.module import TorchModule, own_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Finder(MetaPathFinder):
    """Finds `torch` and every submodule that PyTorch has."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The specification of a module of PyTorch's; None for others."""
        if fullname.partition(".")[0] not in ("torch", "functorch"):
            return None
        if not layout.is_module(fullname):
            return None
        # Every module may have submodules, as PyTorch's packages do.
        spec = ModuleSpec(fullname, TorchLoader(), origin=_origin(), is_package=True)
        spec.submodule_search_locations = []
        return spec


class TorchLoader(Loader):
    """Makes modules whose attributes are looked up when they are first used."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The empty module."""
        return TorchModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Copies what Flambeau's own modules have, which programs may also find in the module's dict; all else comes when it is used."""
        names: Any = own_dict(module)
        names["__file__"] = _origin()
        for source in reversed(layout.sources(module.__name__)):
            if not source.__name__.startswith("flambeau.torch."):
                found = vars(source).items()
                names.update((name, value) for name, value in found if _is_copied(name, value))
        shim = layout.shim(module.__name__)
        names.update((name, getattr(shim, name)) for name in (shim.__dict__.get("OVERRIDES", ()) if shim is not None else ()))


def _is_copied(name: str, value: object) -> bool:
    return not name.startswith("__") and name != "TYPE_CHECKING" and not isinstance(value, ModuleType)


def _origin() -> str:
    return __file__.replace("finder.py", "__init__.py")
