"""Methods of tensors that only programs written for PyTorch call: of layouts that other tensors have, and older names."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What the methods were replaced by that PyTorch removed.
REMOVED = {
    "eig": "linalg.eig",
    "lstsq": "linalg.lstsq",
    "solve": "linalg.solve",
    "symeig": "linalg.eigh",
}


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the one with the largest stride to that with the smallest."""
    strides = self.stride()
    return tuple(sorted(range(self.dim()), key=lambda dim: -strides[dim]))


def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, for reading."""
    return self.data_ptr()


def is_nonzero(self: Tensor) -> bool:
    """Whether the one element is not 0."""
    return flambeau.is_nonzero(self)


def is_distributed(self: Tensor) -> bool:
    """False: there is one process."""
    return False


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same view of the same storage."""
    same = self.untyped_storage() == tensor.untyped_storage()
    return same and (self.storage_offset(), self.shape, self.stride()) == (tensor.storage_offset(), tensor.shape, tensor.stride())


def dequantize(self: Tensor) -> Tensor:
    """The tensor itself, in single precision."""
    return self.to(flambeau.float32)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replaces each element by a function of it and of those of two other tensors."""
    rows = zip(*(t.expand_as(self).reshape(-1).tolist() for t in (self, x, y)))
    return self.copy_(flambeau.tensor([callable(*row) for row in rows], dtype=self.dtype).reshape(self.shape))


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What `load_state_dict` makes of a parameter and the tensor of the state dict, where parameters are swapped."""
    if not assign:
        return self.detach().copy_(other.detach())
    return other if other.requires_grad == self.requires_grad else other.detach().requires_grad_(self.requires_grad)


def reinforce(self: Tensor, reward: Any) -> None:
    """NotImplementedError, as in PyTorch: distributions have log probabilities."""
    raise NotImplementedError(
        "reinforce() was removed. Use torch.distributions instead. See https://pytorch.org/docs/main/distributions.html"
    )


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """A view with other sizes and as many elements. Deprecated."""
    import warnings

    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    shape = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return self.view(*shape)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """A view with the sizes of another tensor. Deprecated."""
    import warnings

    warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
    return self.view(tensor.shape)


def slice_inverse(self: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    """A view of the storage of this tensor with the geometry of `src`, of which this one is a slice."""
    return self.as_strided(src.shape, src.stride(), src.storage_offset())


def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """Exchanges two dimensions of this tensor."""
    return self.transpose_(axis0, axis1)


def swapdims_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchanges two dimensions of this tensor."""
    return self.transpose_(dim0, dim1)


def lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """The factors of an LU decomposition and its pivots. `linalg.lu_factor` is the newer name."""
    factors, pivots, info = flambeau.linalg.lu_factor_ex(self, pivot=pivot)
    return (factors, pivots, info) if get_infos else (factors, pivots)


def lu_solve(self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """The solution of linear equations by the factors of their matrix."""
    return flambeau.linalg.lu_solve(LU_data, LU_pivots, self)


def xpu(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """RuntimeError: there is no such device."""
    raise RuntimeError("there are no devices of Intel's")


def ipu(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """RuntimeError: there is no such device."""
    raise RuntimeError("there are no devices of this kind")


mtia = ipu


def _removed(name: str) -> Any:
    def missing(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"This function was deprecated since version 1.9 and is now removed. `torch.{name}` is deprecated in favor of `torch.{REMOVED[name]}`."
        )

    missing.__name__, missing.__doc__ = name, f"RuntimeError, as in PyTorch: `{REMOVED[name]}` has replaced it."
    return missing


def _volatile(self: Tensor) -> bool:
    """False: `no_grad` has replaced it."""
    return False


def _grad_dtype(self: Tensor) -> Any:
    """The dtype of the gradient of a leaf: its own."""
    return self.dtype if self.is_leaf else None


def methods() -> dict[str, Any]:
    """The methods and attributes by name."""
    plain = (
        dim_order, const_data_ptr, is_nonzero, is_distributed, is_set_to, dequantize, map2_, module_load,
        reinforce, resize, resize_as, slice_inverse, swapaxes_, swapdims_, lu, lu_solve, xpu, ipu, mtia,
    )
    found: dict[str, Any] = {method.__name__: method for method in plain}
    found["mtia"] = mtia
    found.update({name: _removed(name) for name in REMOVED})
    found.update(volatile=property(_volatile), grad_dtype=property(_grad_dtype), is_vulkan=property(_volatile), name=None)
    return found
