"""torch.utils.data.datapipes.iter: pipes over others: what is mapped, filtered, put into batches, joined."""

from __future__ import annotations

from flambeau.torch.shims.utils.data import IterDataPipe as IterDataPipe, functional_datapipe
from flambeau.utils.data import default_collate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class IterableWrapper(IterDataPipe):
    """The items of something that can be iterated."""

    def __init__(self, iterable: Any, deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        import copy

        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return len(self.iterable)


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """A function of each item."""

    def __init__(self, datapipe: Any, fn: Any) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            yield self.fn(item)

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("collate")
class Collator(Mapper):
    """Batches as tensors."""

    def __init__(self, datapipe: Any, collate_fn: Any = default_collate) -> None:
        super().__init__(datapipe, collate_fn)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The items for which a function is true."""

    def __init__(self, datapipe: Any, filter_fn: Any) -> None:
        self.datapipe, self.filter_fn = datapipe, filter_fn

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            if self.filter_fn(item):
                yield item


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """Lists of items."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Any = list) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = datapipe, batch_size, drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("concat")
class Concater(IterDataPipe):
    """The items of several pipes, one after the other."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for datapipe in self.datapipes:
            yield from datapipe

    def __len__(self) -> int:
        return sum(len(datapipe) for datapipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """Tuples of an item of each pipe."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes)

    def __len__(self) -> int:
        return min(len(datapipe) for datapipe in self.datapipes)
