"""Padding: numbers around a tensor, constant or taken from inside it."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau import Tensor

_nn = flambeau._nn


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Adds `pad[0]` and `pad[1]` elements before and after the last dimension, `pad[2]` and `pad[3]` to the one before, ..."""
    pad = list(pad)
    if len(pad) % 2 != 0:
        raise RuntimeError(f"Padding length must be divisible by 2, got {len(pad)}")
    if mode == "constant":
        return flambeau.constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in SOURCE_INDICES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if not len(pad) // 2 in (1, 2, 3) or input.ndim not in (len(pad) // 2 + 1, len(pad) // 2 + 2):
        raise NotImplementedError(
            f"Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: got padding of length "
            f"{len(pad)} for an input of {input.ndim} dimensions"
        )
    padded = [(i, *pad[2 * i : 2 * i + 2]) for i in range(len(pad) // 2) if any(pad[2 * i : 2 * i + 2])]
    for i, before, after in padded:
        _check(mode, before, after, input.shape[-1 - i], input.ndim - 1 - i)
    if padded and mode in OPERATORS and 0 not in input.shape:
        return OPERATORS[mode][len(pad) // 2 - 1](input, pad)
    for i, before, after in padded:
        input = input.index_select(input.ndim - 1 - i, SOURCE_INDICES[mode](before, after, input.shape[-1 - i]))
    return input


def _check(mode: str, before: int, after: int, size: int, dim: int) -> None:
    if mode == "reflect" and max(before, after) >= size:
        raise RuntimeError(
            f"Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) "
            f"at dimension {dim} of size {size}"
        )
    if mode == "circular" and max(before, after) > size:
        raise RuntimeError("Padding value causes wrapping around more than once.")
    # Negative padding crops first: the cropped elements are not wrapped around.
    kept = size + min(before, 0) + min(after, 0) if mode == "circular" else size
    if kept <= 0 or size + before + after <= 0:
        raise RuntimeError(f"padding ({before}, {after}) leaves nothing of dimension {dim} of size {size}")
    if max(abs(before), abs(after), size + before + after) >= 2**63:
        raise RuntimeError(f"padding ({before}, {after}) of dimension {dim} of size {size} is beyond 63 bits")


def _reflected(before: int, after: int, size: int) -> Tensor:
    return (size - 1) - ((size - 1) - flambeau.arange(-before, size + after).abs()).abs()


def _replicated(before: int, after: int, size: int) -> Tensor:
    return flambeau.arange(-before, size + after).clamp(0, size - 1)


def _wrapped(before: int, after: int, size: int) -> Tensor:
    first, kept = max(-before, 0), size + min(before, 0) + min(after, 0)
    return flambeau.arange(-max(before, 0), kept + max(after, 0)) % kept + first


# The operators that pad one, two and three dimensions.
OPERATORS = {
    "reflect": (_nn.reflection_pad1d, _nn.reflection_pad2d, _nn.reflection_pad3d),
    "replicate": (_nn.replication_pad1d, _nn.replication_pad2d, _nn.replication_pad3d),
}

# The source index of each index of a padded dimension, as a tensor: without memory for it there is an error.
SOURCE_INDICES = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}
