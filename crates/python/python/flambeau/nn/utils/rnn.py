"""Sequences of different lengths as one tensor: padded with a value, or packed step by step."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence(tuple[Tensor, Tensor, "Tensor | None", "Tensor | None"]):
    """Sequences sorted by length, longest first: the elements of all first steps, then of all second steps, and so on.

    `batch_sizes` says how many sequences have each step. `sorted_indices` is the order of the sequences, and `unsorted_indices`
    its inverse; both are None where they were sorted already.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            raise TypeError("PackedSequence: expected batch_sizes")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, (data, batch_sizes, sorted_indices, unsorted_indices))

    data = property(lambda self: self[0])
    batch_sizes = property(lambda self: self[1])
    sorted_indices = property(lambda self: self[2])
    unsorted_indices = property(lambda self: self[3])
    _fields = ("data", "batch_sizes", "sorted_indices", "unsorted_indices")

    def _replace(self, **changed: Any) -> PackedSequence:
        parts: Any = [changed.get(name, value) for name, value in zip(self._fields, self)]
        return PackedSequence(*parts)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With elements of another dtype, or on another device."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._replace(data=data)

    def float(self) -> PackedSequence:
        """With elements of float32."""
        return self.to(flambeau.float32)

    def double(self) -> PackedSequence:
        """With elements of float64."""
        return self.to(flambeau.float64)

    def half(self) -> PackedSequence:
        """With elements of float16."""
        return self.to(flambeau.float16)

    def cpu(self) -> PackedSequence:
        """On the CPU."""
        return self.to("cpu")

    def pin_memory(self) -> PackedSequence:
        """The sequence itself."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a CUDA device."""
        return bool(self.data.is_cuda)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of an order; None of None."""
    if permutation is None:
        return None
    made = flambeau.empty_like(permutation)
    made[permutation] = flambeau.arange(permutation.numel(), device=permutation.device)
    return made


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs padded sequences of these lengths: `[steps, sequences, ...]`, or with `batch_first` `[sequences, steps, ...]`."""
    counts = flambeau.as_tensor(lengths, dtype=flambeau.int64).cpu()
    order: Tensor | None = None
    if not enforce_sorted:
        counts, order = counts.sort(descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    steps = input.transpose(0, 1) if batch_first else input
    listed: list[int] = counts.tolist()
    if len(listed) != steps.shape[1]:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(listed)} (batch_size={steps.shape[1]})")
    if not listed or listed[-1] <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if any(longer < shorter for longer, shorter in zip(listed, listed[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` "
            "to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability."
        )
    if listed[0] > steps.shape[0]:
        raise RuntimeError(f"expected lengths of at most {steps.shape[0]} but got {listed[0]}")
    sizes = [sum(1 for length in listed if length > step) for step in range(listed[0])]
    data = flambeau.cat([steps[step, :size] for step, size in enumerate(sizes)])
    return PackedSequence(data, flambeau.tensor(sizes, dtype=flambeau.int64), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded sequences, in their original order, and their lengths."""
    sizes: list[int] = sequence.batch_sizes.tolist()
    length = len(sizes)
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                f"Expected total_length to be at least the length of the longest sequence in input, but got total_length="
                f"{total_length} and max sequence length being {length}"
            )
        length = total_length
    rows = []
    for part in sequence.data.split(sizes):
        missing = sizes[0] - part.shape[0]
        rows.append(flambeau.cat([part, part.new_full((missing, *part.shape[1:]), padding_value)]) if missing else part)
    rows += [sequence.data.new_full((sizes[0], *sequence.data.shape[1:]), padding_value)] * (length - len(sizes))
    padded = flambeau.stack(rows, 1 if batch_first else 0)
    counts = flambeau.tensor([sum(1 for size in sizes if size > index) for index in range(sizes[0])], dtype=flambeau.int64)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        counts = counts[sequence.unsorted_indices.cpu()]
    return padded, counts


def pad_sequence(
    sequences: Tensor | Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """One tensor of sequences, padded to the longest."""
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    items = list(sequences.unbind(0)) if isinstance(sequences, Tensor) else list(sequences)
    if not items:
        raise RuntimeError("received an empty list of sequences")
    longest = max(item.shape[0] for item in items)
    rows = []
    for item in items:
        padding = item.new_full((longest - item.shape[0], *item.shape[1:]), padding_value)
        rows.append(flambeau.cat([item, padding] if padding_side == "right" else [padding, item]))
    return flambeau.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences without their padding."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows.unbind(0), lengths.tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs a list of sequences."""
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed one."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
