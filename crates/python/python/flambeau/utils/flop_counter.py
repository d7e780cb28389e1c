"""`FlopCounterMode`: a mode that counts the multiplications and additions of matrix products, convolutions and attention."""

from __future__ import annotations

import math

import flambeau
from flambeau.utils._python_dispatch import TorchDispatchMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten: Any = flambeau.ops.aten

# The number of operations by the operator: functions of the shapes of tensors and of the other arguments, with `out_shape`.
flop_registry: dict[Any, Callable[..., int]] = {}


def _shape(value: Any) -> Any:
    if isinstance(value, flambeau.Tensor):
        return value.shape
    if isinstance(value, (list, tuple)):
        return type(value)(_shape(item) for item in value)
    return value


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A decorator of the formula of an operator or several: it gets the shapes of tensors, or with `get_raw` the tensors."""

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for target in targets if isinstance(targets, (list, tuple)) else (targets,):
            flop_registry[target] = formula if get_raw else _of_shapes(formula)
        return formula

    return register


def _of_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    def of_values(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        shapes = {name: _shape(value) for name, value in kwargs.items()}
        return formula(*_shape(args), out_shape=_shape(out_val), **shapes)

    return of_values


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """A product of two matrices."""
    (m, k), (_, n) = a_shape, b_shape
    return 2 * m * k * n


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """The same, added to a tensor, which is not counted."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """A product of two batches of matrices."""
    (b, m, k), (_, _, n) = a_shape, b_shape
    return 2 * b * m * k * n


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """The same, added to a tensor, which is not counted."""
    return bmm_flop(a_shape, b_shape)


@register_flop_formula([aten.mv, aten.dot])
def vector_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """A product with a vector."""
    return 2 * math.prod(a_shape)


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """A convolution: each weight meets each output position, or, if transposed, each input position."""
    positions = (x_shape if transposed else out_shape)[2:]
    return 2 * x_shape[0] * math.prod(w_shape) * math.prod(positions)


@register_flop_formula(aten.convolution)
def conv_flop(
    x_shape: Any, w_shape: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """A convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_shape: Any,
    x_shape: Any,
    w_shape: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Any,
    out_shape: Any = None,
) -> int:
    """The gradients of a convolution: each is as much work as the convolution."""
    once = conv_flop_count(x_shape, w_shape, grad_shape, transposed)
    return once * (int(output_mask[0]) + int(output_mask[1]))


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Attention: the products of queries and keys, and of weights and values."""
    *batch, queries, width = query_shape
    keys, value_width = key_shape[-2], value_shape[-1]
    return 2 * math.prod(batch) * queries * keys * (width + value_width)


@register_flop_formula(aten._tiled_attention)
def sdpa_flop(query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Attention."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


@register_flop_formula(aten._tiled_attention_backward)
def sdpa_backward_flop(
    grad_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Its gradients: the weights once more, and four products."""
    *batch, queries, width = query_shape
    keys, value_width = key_shape[-2], value_shape[-1]
    return 2 * math.prod(batch) * queries * keys * (3 * width + 2 * value_width)


class FlopCounterMode(TorchDispatchMode):
    """A context that counts the operations of matrix products, convolutions and attention, forward and backward.

    An operation of a module's forward also counts for the module, under its path of names; one of a backward pass counts for "Global" only.
    """

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None) -> None:
        super().__init__()
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = {}
        own = {name: f if getattr(f, "_get_raw", False) else _of_shapes(f) for name, f in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}
        self._inside: list[str] = []
        self._handles: list[Any] = []
        self._names: dict[Any, str] = {}

    def get_total_flops(self) -> int:
        """All operations."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """The operations of each module by operator, and of all as "Global"."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text."""
        depth = self.depth if depth is None else depth
        lines = [("Module", "FLOP", "% Total")]
        total = self.get_total_flops()
        for name in sorted(self.flop_counts, key=lambda name: (name != "Global", name)):
            if name != "Global" and name.count(".") >= depth:
                continue
            counts = self.flop_counts[name]
            for label, count in ((name, sum(counts.values())), *((f" - {op}", count) for op, count in counts.items())):
                lines.append((label, str(count), f"{100 * count / total if total else 0:.2f}%"))
        widths = [max(len(line[column]) for line in lines) for column in range(3)]
        return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines)

    def __enter__(self) -> FlopCounterMode:
        from flambeau.nn import module

        self.flop_counts = {"Global": {}}
        self._handles = [
            module.register_module_forward_pre_hook(self._begin),
            module.register_module_forward_hook(self._end, always_call=True),
        ]
        super().__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        for handle in self._handles:
            handle.remove()
        self._handles, self._inside = [], []
        if self.display:
            print(self.get_table(self.depth))

    def _begin(self, module: Any, inputs: Any) -> None:
        if not self._inside:
            # A module that is called by itself is the root of the names of those in it.
            self._names = {each: type(module).__name__ + (f".{name}" if name else "") for name, each in module.named_modules()}
        self._inside.append(self._names.get(module, type(module).__name__))

    def _end(self, module: Any, inputs: Any, output: Any) -> None:
        if self._inside:
            self._inside.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = func.overloadpacket
        formula = self.flop_registry.get(packet)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            for name in ("Global", *dict.fromkeys(self._inside)):
                counts = self.flop_counts.setdefault(name, {})
                counts[packet] = counts.get(packet, 0) + count
        return out
