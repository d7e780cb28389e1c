"""Which modules PyTorch has, and where Flambeau has what is in them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from flambeau.torch import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

MISSING = object()

# Modules of PyTorch whose contents are elsewhere in Flambeau, beside the module of the same path.
ELSEWHERE = {
    "torch.functional": ("flambeau",),
    "torch.random": ("flambeau",),
    "torch.storage": ("flambeau",),
    "torch._tensor": ("flambeau", "flambeau._copying"),
    "functorch": ("flambeau.func", "flambeau.torch.shims.functorch"),
    "functorch.dim": ("flambeau.torch.shims.functorch_dim",),
    "torch.nn.utils.weight_norm": ("flambeau.nn.utils.weight_normalization",),
    "torch.nn.utils.spectral_norm": ("flambeau.nn.utils.spectral_normalization",),
    "torch.optim._functional": (),
    "torch.distributed._tensor": (),
    "torch.distributed.tensor._api": (),
    "torch.utils._foreach_utils": (),
    "torch.nn.grad": ("flambeau.nn.functional",),
    "torch.nn.modules": ("flambeau.nn",),
    "torch.nn.modules.adaptive": ("flambeau.nn",),
    "torch.nn.modules.batchnorm": ("flambeau.nn.modules.normalization", "flambeau.nn"),
    "torch.nn.modules.channelshuffle": ("flambeau.nn",),
    "torch.nn.modules.distance": ("flambeau.nn",),
    "torch.nn.modules.flatten": ("flambeau.nn",),
    "torch.nn.modules.fold": ("flambeau.nn",),
    "torch.nn.modules.instancenorm": ("flambeau.nn.modules.normalization", "flambeau.nn"),
    "torch.nn.modules.lazy": ("flambeau.nn",),
    "torch.nn.modules.module": ("flambeau.nn.module", "flambeau.nn.state", "flambeau.nn"),
    "torch.nn.modules.pixelshuffle": ("flambeau.nn",),
    "torch.nn.modules.sparse": ("flambeau.nn",),
    "torch.nn.modules.upsampling": ("flambeau.nn",),
    "torch.optim.adamw": ("flambeau.optim",),
    "torch.utils.hooks": ("flambeau.nn.hooks",),
    "torch.utils.data.distributed": ("flambeau.utils.data",),
    "torch.utils.data.dataloader": ("flambeau.utils.data",),
    "torch.utils.data.dataset": ("flambeau.utils.data",),
    "torch.utils.data.sampler": ("flambeau.utils.data",),
    "torch.utils.data._utils": ("flambeau.utils.data",),
    "torch.utils.data._utils.collate": ("flambeau.utils.data.collate",),
    "torch.utils.data._utils.worker": ("flambeau.utils.data.worker",),
    "torch.utils.data._utils.fetch": ("flambeau.utils.data.fetch",),
    "torch.cuda.amp": ("flambeau.amp",),
    "torch.cpu.amp": ("flambeau.amp",),
    "torch.amp.autocast_mode": ("flambeau.amp",),
    "torch.amp.grad_scaler": ("flambeau.amp",),
    "torch.cuda.amp.autocast_mode": ("flambeau.amp",),
    "torch.cuda.amp.grad_scaler": ("flambeau.amp",),
    "torch.autograd.variable": ("flambeau.torch.shims.autograd",),
    "torch.autograd.profiler": ("flambeau.profiler",),
    "torch.nn.parallel": (),
    "torch.nn.parallel.distributed": ("flambeau.nn.distributed",),
    "torch.distributed.distributed_c10d": ("flambeau.distributed", "flambeau.distributed.groups", "flambeau.distributed.collectives"),
}

_sources: dict[str, list[ModuleType]] = {}


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _shim(path: str) -> str:
    """The module with what only programs written for PyTorch need."""
    return "flambeau.torch.shims." + ("top" if path == "torch" else path.removeprefix("torch."))


def _source_names(path: str) -> list[str]:
    if path.startswith("functorch"):
        return list(ELSEWHERE.get(path, ()))
    same = "flambeau" + path.removeprefix("torch")
    # `flambeau.torch` itself is not a source of `torch.torch`.
    found = [same] if not same.startswith("flambeau.torch") and _exists(same) else []
    shim = [_shim(path)] if _exists(_shim(path)) else []
    if path.startswith("torch.distributions.") and not found and names.is_module(path):
        found = ["flambeau.distributions", "flambeau.distributions.relaxed"]
    return [*found, *(name for name in ELSEWHERE.get(path, ()) if _exists(name)), *shim]


def sources(path: str) -> list[ModuleType]:
    """The modules of Flambeau that have what is in a module of PyTorch's, in the order of search."""
    found = _sources.get(path)
    if found is None:
        found = _sources[path] = [import_module(name) for name in _source_names(path)]
    return found


def shim(path: str) -> ModuleType | None:
    """The module with what only programs written for PyTorch need, if there is one."""
    return next((source for source in sources(path) if source.__name__ == _shim(path)), None)


def is_module(path: str) -> bool:
    """Whether PyTorch has a module of that path, or Flambeau has something for it."""
    return path == "torch" or path in ELSEWHERE or names.is_module(path) or bool(_source_names(path))


def is_submodule(path: str) -> bool:
    """The same for an attribute of a module, which is a module if nothing else has the name."""
    return is_module(path)


def is_function(path: str) -> bool:
    """Whether PyTorch has a function where it has a module of the same name, such as `torch.autograd.grad_mode`."""
    module, _, name = path.rpartition(".")
    return names.kind_of(module, name) in ("function", "class")


def kind_of(module: str, name: str) -> str | None:
    """What PyTorch has under a name: "class", "function", "value", or None where it has nothing."""
    return names.kind_of(module, name)


def public_names(path: str) -> list[str]:
    """What `from module import *` imports: the names that PyTorch exports and Flambeau's own module does."""
    exported = {name for name in names.of(path) if not name.startswith("_")}
    for source in sources(path):
        exported.update(getattr(source, "__all__", ()))
    return sorted(exported)
