"""What a worker process of a loader does: it reads tasks from a pipe and writes batches to it.

A pipe belongs to one worker, so a worker that is killed can hold no lock that others wait for. A thread of the worker reads
the tasks, so the loader can always write one; it also sees that the loader has gone, and then ends the process whatever the
data set is doing.
"""

from __future__ import annotations

from flambeau.utils.data.fetch import fetcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection
    from queue import SimpleQueue
    from typing import Any, Callable

# Seconds between checks whether the loader's process is alive. Its end of the pipe closes with it, unless another child of it
# holds that end as well.
WATCH_INTERVAL = 1.0


class WorkerInfo:
    """What a worker knows of itself: its number, of how many, its seed, and its copy of the data set."""

    __slots__ = ("dataset", "id", "num_workers", "seed")

    def __init__(self, id: int, num_workers: int, seed: int, dataset: Any) -> None:
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed}, dataset={self.dataset!r})"


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker what it knows of itself; elsewhere None."""
    return _info


class _Text(str):
    """A text that KeyError, which shows the repr of its key, shows line by line."""

    def __repr__(self) -> str:
        return str(self)


class Finished:
    """Sent instead of a batch: the worker's iterable data set has no more."""


class Failure:
    """Sent instead of a batch: an exception, as text, which any process can read."""

    def __init__(self, error: BaseException, where: str) -> None:
        import traceback

        self.kind, self.where = type(error), where
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))

    def raise_here(self) -> None:
        """Raises it again, with where it came from."""
        message = _Text(f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}")
        try:
            error = self.kind(message)
        except Exception:
            # An exception that is not made from a text.
            raise RuntimeError(message) from None
        raise error


class Task:
    """A batch to make: its number, and that of the run over the data set; a seed where a new run begins."""

    __slots__ = ("index", "number", "run", "seed")

    def __init__(self, run: int, number: int, index: Any, seed: int | None = None) -> None:
        self.run, self.number, self.index, self.seed = run, number, index, seed


class Setup:
    """What a worker is started with."""

    def __init__(
        self,
        dataset: Any,
        batched: bool,
        collate: Callable[[Any], Any],
        drop_last: bool,
        init: Callable[[int], None] | None,
        worker: int,
        workers: int,
    ) -> None:
        self.dataset, self.batched, self.collate, self.drop_last = dataset, batched, collate, drop_last
        self.init, self.worker, self.workers = init, worker, workers


def work(setup: Setup, pipe: Connection) -> None:
    """The life of a worker."""
    import os
    import signal
    import threading
    from queue import SimpleQueue

    import flambeau

    # Ctrl-C is sent to all processes of a terminal; the loader's process handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    flambeau.set_num_threads(1)
    tasks: SimpleQueue[Task | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, tasks, os.getppid()), daemon=True).start()
    try:
        _serve(setup, pipe, tasks)
    except (BrokenPipeError, ConnectionResetError):
        # The loader has gone and wants no batch.
        pass


def _listen(pipe: Connection, tasks: SimpleQueue[Task | None], parent: int) -> None:
    """Forwards tasks; ends the process when the loader's has ended."""
    import os

    from flambeau.utils.data import transfer

    try:
        while True:
            while not pipe.poll(WATCH_INTERVAL):
                if os.getppid() != parent:
                    os._exit(1)
            task = transfer.loads(pipe.recv_bytes())
            tasks.put(task)
            if task is None:
                return
    except (EOFError, OSError):
        os._exit(1)


def _serve(setup: Setup, pipe: Connection, tasks: SimpleQueue[Task | None]) -> None:
    """Makes batches until there are no more tasks."""
    make: Any = None
    while True:
        task = tasks.get()
        if task is None:
            return
        where = f"in DataLoader worker process {setup.worker}"
        try:
            if task.seed is not None:
                make = _begin(setup, task.seed)
            result = make if isinstance(make, Failure) else make(task.index)
        except StopIteration:
            result = Finished()
        except Exception as error:
            result = Failure(error, where)
            # A worker that could not begin says so for every task.
            make = result if task.seed is not None and make is None else make
        pipe.send_bytes(_packed(task, result, setup.worker))


def _begin(setup: Setup, seed: int) -> Callable[[Any], Any]:
    """Starts a run over the data set; the first time it sets the worker up."""
    global _info
    if _info is None:
        _seed_everything(seed)
        _info = WorkerInfo(setup.worker, setup.workers, seed, setup.dataset)
        if setup.init is not None:
            setup.init(setup.worker)
    return fetcher(setup.dataset, setup.batched, setup.collate, setup.drop_last)


def _seed_everything(seed: int) -> None:
    """The generators of Python, of this library, and of NumPy where it is in use."""
    import random
    import sys

    import flambeau

    random.seed(seed)
    flambeau.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def _packed(task: Task, result: Any, worker: int) -> memoryview:
    """A result as bytes, or the failure to make bytes of it."""
    from flambeau.utils.data import transfer

    try:
        return transfer.dumps((task.run, task.number, result))
    except Exception as error:
        if isinstance(result, Failure):
            # An exception of a class that other processes cannot find.
            result.kind = RuntimeError
        else:
            result = Failure(error, f"while sending a batch from DataLoader worker process {worker}")
        return transfer.dumps((task.run, task.number, result))
