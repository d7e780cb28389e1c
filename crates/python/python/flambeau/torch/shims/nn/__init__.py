"""torch.nn: older names, and the options that layers hand on to functions that make tensors."""

from __future__ import annotations

from flambeau.nn import Module, NLLLoss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Container(Module):
    """A module with named parts. Deprecated: every module can have parts."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        import warnings

        warnings.warn("nn.Container is deprecated. All of it's functionality is now implemented in nn.Module. Subclass that instead.", stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


class NLLLoss2d(NLLLoss):
    """`NLLLoss`, by the name that it had for pictures. Deprecated."""


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The device, dtype and memory format among the arguments of a layer."""
    if kwargs is None:
        return {}
    keys = {"device", "dtype", "memory_format"}
    unknown = kwargs.keys() - keys - {"factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for key in keys & kwargs.keys():
        if key in found:
            raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
        found[key] = kwargs[key]
    return found


