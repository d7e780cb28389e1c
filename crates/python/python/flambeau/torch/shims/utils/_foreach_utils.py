"""torch.utils._foreach_utils: lists of tensors by device and dtype."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _group_tensors_by_device_and_dtype(tensorlistlist: Any, with_indices: bool = False) -> dict[Any, Any]:
    """For each device and dtype of the first list, the tensors of all lists at those indices, and the indices."""
    found: dict[Any, Any] = {}
    for index, first in enumerate(tensorlistlist[0]):
        lists, indices = found.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        indices.append(index)
        for own, given in zip(lists, tensorlistlist):
            if given:
                own.append(given[index])
    return found


def _get_foreach_kernels_supported_devices() -> list[str]:
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    return []


def _device_has_foreach_support(device: Any) -> bool:
    return False
