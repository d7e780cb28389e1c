"""Batches of a data set, made in this process or by workers."""

from __future__ import annotations

import flambeau
from flambeau.utils.data.collate import default_collate, default_convert
from flambeau.utils.data.dataset import IterableDataset
from flambeau.utils.data.fetch import fetcher
from flambeau.utils.data.pinning import pinned
from flambeau.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, random_seed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable

    from flambeau import Generator
    from flambeau.utils.data.pool import Pool

FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _Endless:
    """The sampler of an iterable data set: endless indices, which are not used."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader:
    """Batches of a data set, in an order that a sampler says.

    With `num_workers` processes make them ahead of time, `prefetch_factor` each. An exception in a worker is raised here with
    its traceback; a worker that is killed is an error; no worker outlives the loader or this process.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        self._pins = pin_memory and flambeau.cuda.is_available()
        if pin_memory and not self._pins:
            import warnings

            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
                stacklevel=2,
            )
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers > 0 else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.generator, self.persistent_workers, self.in_order = generator, persistent_workers, in_order
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = _Endless() if iterable else self._sampler(bool(shuffle))
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self._pool: Pool | None = None
        self._made = True

    def _sampler(self, shuffle: bool) -> Iterable[int]:
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Iterable[Any]:
        return self.batch_sampler if self.batch_sampler is not None else self.sampler

    @property
    def _prefetch(self) -> int:
        return self.prefetch_factor or 1

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and getattr(self, "_made", False):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        object.__setattr__(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        # One number from the generator for each run, whether there are workers to seed with it or not.
        seed = random_seed(self.generator)
        batches = self._batches() if self.num_workers == 0 else self._run(seed)
        return map(pinned, batches) if self._pins else batches

    def _run(self, seed: int) -> Iterator[Any]:
        """The batches, made by workers."""
        from flambeau.utils.data.pool import Pool
        from flambeau.utils.data.run import Run

        pool = self._pool or Pool(self)
        if self.persistent_workers:
            self._pool = pool
        return Run(self, pool, seed)

    def _batches(self) -> Iterator[Any]:
        """The batches, made here."""
        fetch = fetcher(self.dataset, self._auto_collation, self.collate_fn, self.drop_last)
        for index in self._index_sampler:
            try:
                batch = fetch(index)
            except StopIteration:
                return
            yield batch

    def _forget(self, pool: Pool) -> None:
        """The pool has ended."""
        if self._pool is pool:
            self._pool = None

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)  # type: ignore[arg-type]
        count = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def _check_workers(workers: int, timeout: float, prefetch: int | None, persistent: bool, context: Any) -> None:
    if workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if workers == 0 and prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable multiprocessing, "
            "otherwise set prefetch_factor to None."
        )
    if prefetch is not None and prefetch < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if context is not None and workers == 0:
        raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0)")


def _check_iterable(shuffle: bool | None, sampler: Any, batch_sampler: Any) -> None:
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}")
