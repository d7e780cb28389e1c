"""One run over a data set with workers: tasks are distributed round-robin, and batches are returned in their order."""

from __future__ import annotations

from flambeau.utils.data.worker import Failure, Finished, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.utils.data.dataloader import DataLoader
    from flambeau.utils.data.pool import Pool


class Run:
    """An iterator over batches. Workers that stay for the next run may still be at work on one before; what they send for it is
    dropped."""

    def __init__(self, loader: DataLoader, pool: Pool, seed: int) -> None:
        pool.runs += 1
        self.loader, self.pool, self.number = loader, pool, pool.runs
        self.indices = iter(loader._index_sampler)
        self.seeds: list[int | None] = [seed + worker for worker in range(loader.num_workers)]
        self.active = [True] * loader.num_workers
        self.waiting = [0] * loader.num_workers
        # How many tasks were sent and how many batches returned; the worker of the next task; and batches that have arrived.
        self.sent = self.given = self.next_worker = 0
        self.arrived: dict[int, Any] = {}
        self.closed = False
        try:
            for _ in range(loader._prefetch * loader.num_workers):
                self._send_task()
        except BaseException:
            self.close(broken=True)
            raise

    def __iter__(self) -> Run:
        return self

    def __next__(self) -> Any:
        if self.closed:
            raise StopIteration
        try:
            result = self._next()
        except BaseException:
            self.close(broken=True)
            raise
        if isinstance(result, Failure):
            # The data set may have more, so the run goes on if anyone wants it to.
            result.raise_here()
        if isinstance(result, Finished):
            self.close()
            raise StopIteration
        return result

    def _next(self) -> Any:
        """The next batch, or the failure to make it; `Finished` where there is none."""
        while self.given < self.sent:
            number = self._ready()
            if number is None:
                self._take()
                continue
            result = self.arrived.pop(number)
            self.given += 1
            if not isinstance(result, Finished):
                self._send_task()
                return result
        return Finished()

    def _ready(self) -> int | None:
        """The number of a batch that can be given."""
        if self.loader.in_order:
            return self.given if self.given in self.arrived else None
        return next(iter(self.arrived), None)

    def _take(self) -> None:
        """Waits for batches."""
        if self.pool.runs != self.number:
            raise RuntimeError("the workers are at work for a newer iterator of the same DataLoader")
        for worker, (run, number, result) in self.pool.receive():
            if run != self.number:
                continue
            self.waiting[worker] -= 1
            self.arrived[number] = result
            if isinstance(result, Finished) and self.active[worker]:
                self.active[worker] = False
                self._send_task()

    def _send_task(self) -> None:
        """Gives the next task to the next worker, if there is one of each."""
        worker = self._next_worker()
        index = None if worker is None else next(self.indices, _NOTHING)
        if worker is None or index is _NOTHING:
            return
        self.pool.send(worker, Task(self.number, self.sent, index, self.seeds[worker]))
        self.seeds[worker] = None
        self.waiting[worker] += 1
        self.sent += 1
        self.next_worker = (worker + 1) % len(self.active)

    def _next_worker(self) -> int | None:
        """The next active worker, round-robin; or without `in_order` the active worker with the fewest tasks."""
        workers = [worker % len(self.active) for worker in range(self.next_worker, self.next_worker + len(self.active))]
        workers = [worker for worker in workers if self.active[worker]]
        if not workers or self.loader.in_order:
            return workers[0] if workers else None
        return min(workers, key=self.waiting.__getitem__)

    def __len__(self) -> int:
        return len(self.loader)

    def close(self, broken: bool = False) -> None:
        """The run is over: workers end, unless they stay for the next."""
        if self.closed:
            return
        self.closed = True
        if self.pool.runs != self.number:
            return
        if broken or not self.loader.persistent_workers:
            self.pool.close(at_once=broken)
            self.loader._forget(self.pool)

    def __del__(self) -> None:
        if hasattr(self, "closed"):
            self.close()


_NOTHING = object()
