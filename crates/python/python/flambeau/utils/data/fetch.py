"""From numbers of samples to a batch: the same in a worker and without one."""

from __future__ import annotations

from flambeau.utils.data.dataset import IterableDataset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def fetcher(dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> Callable[[Any], Any]:
    """A function from a sampler's indices to a batch; at the end of an iterable data set it raises StopIteration."""
    kind = IterableFetcher if isinstance(dataset, IterableDataset) else MapFetcher
    return kind(dataset, batched, collate, drop_last)


class MapFetcher:
    """Samples by number."""

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset, self.batched, self.collate = dataset, batched, collate

    def __call__(self, index: Any) -> Any:
        if not self.batched:
            return self.collate(self.dataset[index])
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.collate(self.dataset.__getitems__(index))
        return self.collate([self.dataset[i] for i in index])


class IterableFetcher:
    """Samples of an iterable data set: only the count of the indices matters."""

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> None:
        self.samples, self.batched, self.collate, self.drop_last = iter(dataset), batched, collate, drop_last

    def __call__(self, index: Any) -> Any:
        if not self.batched:
            return self.collate(next(self.samples))
        samples = [sample for _, sample in zip(index, self.samples)]
        if not samples or (self.drop_last and len(samples) < len(index)):
            raise StopIteration
        return self.collate(samples)
