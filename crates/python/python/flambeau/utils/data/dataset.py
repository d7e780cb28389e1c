"""Data sets: samples by number, or in the order they come."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate
from types import GenericAlias

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from flambeau import Generator, Tensor


class Dataset:
    """Samples by number: a subclass has `__getitem__`, and `__len__` where it is known how many there are.

    With `__getitems__` a subclass may give all samples of a batch at once.
    """

    # `Dataset[int]` says what the samples are.
    __class_getitem__: Any = classmethod(GenericAlias)

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples in the order they come: a subclass has `__iter__`.

    Each worker of a loader has a copy that gives everything, unless it selects its part by `get_worker_info`.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class ChainDataset(IterableDataset):
    """One iterable data set after another."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        parts: list[Any] = self.datasets
        return sum(len(part) for part in parts)


class TensorDataset(Dataset):
    """Sample `i` is element `i` of each tensor."""

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset):
    """Sample `i` is sample `i` of each data set, as a tuple, or by name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output types.")
        self.datasets: Any = kwargs or args
        parts = list(kwargs.values()) or list(args)
        if any(len(part) != len(parts[0]) for part in parts):
            raise ValueError("Size mismatch between datasets")
        self._length = len(parts[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset):
    """One data set after another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        part = bisect_right(self.cumulative_sizes, index)
        if part == len(self.datasets):
            raise IndexError(f"index {index} is out of range for {len(self)} samples")
        return self.datasets[part][index - (self.cumulative_sizes[part - 1] if part > 0 else 0)]


class Subset(Dataset):
    """Some samples of a data set, by their numbers."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples of a batch."""
        chosen = [self.indices[index] for index in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)
        return [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def _counts(parts: Sequence[float], total: int) -> list[int]:
    """The lengths for fractions of 1; samples left by rounding down are added to the first parts, one each."""
    for index, part in enumerate(parts):
        if part < 0 or part > 1:
            raise ValueError(f"Fraction at index {index} is not between 0 and 1")
    counts = [math.floor(total * part) for part in parts]
    for i in range(total - sum(counts)):
        counts[i % len(counts)] += 1
    return counts


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """Splits samples at random into sets of the given lengths, which may be fractions of 1."""
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _counts(lengths, len(dataset))
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = flambeau.randperm(len(dataset), generator=generator).tolist()
    ends = list(accumulate(int(length) for length in lengths))
    return [Subset(dataset, indices[end - int(length) : end]) for end, length in zip(ends, lengths)]
