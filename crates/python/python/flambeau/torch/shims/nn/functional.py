"""torch.nn.functional: names of PyTorch's own module beside its functions."""

from __future__ import annotations

from enum import Enum

import flambeau
from flambeau.nn import functional as F
from flambeau.torch.shims.overrides import handle_torch_function as handle_torch_function, has_torch_function as has_torch_function
from flambeau.torch.shims.overrides import has_torch_function_unary as has_torch_function_unary
from flambeau.torch.shims.overrides import has_torch_function_variadic as has_torch_function_variadic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

Tensor = flambeau.Tensor
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
# Paragraphs that PyTorch puts into the texts of its functions.
reproducibility_notes = {"forward_reproducibility_note": "", "backward_reproducibility_note": "", "cudnn_reproducibility_note": ""}
tf32_notes = {"tf32_note": ""}
sparse_support_notes = {"sparse_beta_warning": ""}


class _BroadcastingList:
    """In annotations: a list of numbers, or one number for all of them."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()


class ScalingType(Enum):
    """How the factors of a product of scaled matrices are arranged."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """In which order the factors are stored."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """AssertionError unless it is a number or two."""
    assert isinstance(arg, int) or len(arg) == 2, message.format(arg_name)


def boolean_dispatch(arg_name: str, arg_index: int, default: bool, if_true: Any, if_false: Any, module_name: str, func_name: str) -> Any:
    """A function that is one of two, by an argument that is a truth value."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    chosen.__name__, chosen.__module__ = func_name, module_name
    return chosen


def _with_indices(name: str) -> Callable[..., Any]:
    """A pooling function that gives the positions of the largest elements too."""
    function = getattr(F, name)

    def pooled(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{**kwargs, "return_indices": True})

    pooled.__name__, pooled.__doc__ = f"{name}_with_indices", f"`{name}`, with the positions of the largest elements."
    return pooled


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`channel_shuffle`."""
    return F.channel_shuffle(input, groups)


POOLS = tuple(f"{kind}{dims}d" for kind in ("max_pool", "adaptive_max_pool", "fractional_max_pool") for dims in (1, 2, 3))


def __getattr__(name: str) -> Any:
    """Pooling functions with indices."""
    if name.endswith("_with_indices") and name.removesuffix("_with_indices") in POOLS and hasattr(F, name.removesuffix("_with_indices")):
        return _with_indices(name.removesuffix("_with_indices"))
    if name == "TYPE_CHECKING":
        return False
    raise AttributeError(f"module 'torch.nn.functional' has no attribute '{name}'")
