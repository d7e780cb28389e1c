"""torch.fx.passes.shape_prop: runs a graph, and stores with each node what sizes its result has."""

from __future__ import annotations

from collections import namedtuple

from flambeau import Tensor
from flambeau.torch.shims.fx.interpreter import Interpreter
from flambeau.torch.shims.fx.node import map_aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.torch.shims.fx.node import Node

__all__ = ["ShapeProp", "TensorMetadata"]

TensorMetadata = namedtuple("TensorMetadata", "shape dtype requires_grad stride memory_format is_quantized qparams")


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """What is stored of a tensor."""
    import flambeau

    formats = (flambeau.contiguous_format, flambeau.channels_last)
    fits = [kind for kind in formats if include_contiguity and (kind is formats[0] or result.dim() == 4) and result.is_contiguous(memory_format=kind)]
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), fits[0] if fits else None, False, {})


class ShapeProp(Interpreter):
    """Runs a graph; afterwards each node has `meta["tensor_meta"]` and `meta["type"]`."""

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """The result of a node, whose sizes are stored."""
        result = super().run_node(n)
        found: list[Tensor] = []

        def extracted(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            found.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, extracted)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """The same as `run`."""
        return self.run(*args)
