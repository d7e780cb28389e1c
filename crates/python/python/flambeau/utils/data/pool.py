"""The worker processes of a loader: started, given tasks, and ended."""

from __future__ import annotations

import os
import time
from weakref import WeakSet

from flambeau.utils.data import transfer
from flambeau.utils.data.worker import Setup, Task, work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.utils.data.dataloader import DataLoader

# Seconds that workers have to end by themselves before they are made to.
JOIN_TIMEOUT = 5.0
# Seconds between checks whether workers are alive. A closed pipe shows it at once, unless a child of the worker holds its end.
WATCH_INTERVAL = 1.0
# This process's ends of pipes. Children must close them, or a worker would not notice that this process has ended.
_ends: WeakSet[Any] = WeakSet()


def _close_ends() -> None:
    for end in list(_ends):
        end.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_ends)


class Pool:
    """Workers, each with a pipe of its own."""

    def __init__(self, loader: DataLoader) -> None:
        self.owner = os.getpid()
        self.timeout = loader.timeout
        self.runs = 0
        self.processes: list[Any] = []
        self.pipes: list[Any] = []
        context = loader.multiprocessing_context
        if context is None or isinstance(context, str):
            import multiprocessing

            context = multiprocessing.get_context(context)
        try:
            for worker in range(loader.num_workers):
                self._start(loader, context, worker)
        except BaseException:
            self.close(at_once=True)
            raise

    def _start(self, loader: DataLoader, context: Any, worker: int) -> None:
        here, there = context.Pipe(duplex=True)
        _ends.add(here)
        self.pipes.append(here)
        setup = Setup(
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
            loader.worker_init_fn,
            worker,
            loader.num_workers,
        )
        process = context.Process(target=work, args=(setup, there), daemon=True)
        process.start()
        self.processes.append(process)
        there.close()

    def send(self, worker: int, task: Task) -> None:
        """Gives a worker a task."""
        try:
            self.pipes[worker].send_bytes(transfer.dumps(task))
        except (BrokenPipeError, ConnectionResetError):
            self._died(worker)

    def receive(self) -> list[tuple[int, tuple[int, int, Any]]]:
        """Batches that have arrived, with their workers; waits for one."""
        return [(worker, self._read(worker)) for worker in self._wait()]

    def _wait(self) -> list[int]:
        """Workers that have sent something, or have died."""
        from multiprocessing.connection import wait

        begin = time.monotonic()
        while True:
            left = self.timeout - (time.monotonic() - begin) if self.timeout > 0 else WATCH_INTERVAL
            ready = wait(self.pipes, max(0.0, min(left, WATCH_INTERVAL)))
            if ready:
                return [self.pipes.index(pipe) for pipe in ready]
            for worker, process in enumerate(self.processes):
                if not process.is_alive() and not self.pipes[worker].poll():
                    self._died(worker)
            if left <= 0:
                raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")

    def _read(self, worker: int) -> tuple[int, int, Any]:
        try:
            data = self.pipes[worker].recv_bytes()
        except (EOFError, OSError):
            self._died(worker)
        return transfer.loads(data)

    def _died(self, worker: int) -> None:
        process = self.processes[worker]
        process.join(JOIN_TIMEOUT)
        raise RuntimeError(f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly: {_ending(process.exitcode)}")

    def close(self, at_once: bool = False) -> None:
        """Ends all workers and waits until they have ended; after some seconds, or at once, they are made to."""
        if os.getpid() != self.owner:
            return
        for pipe in self.pipes:
            try:
                pipe.send_bytes(transfer.dumps(None))
            except OSError:
                # It has ended already.
                pass
            pipe.close()
        deadline = time.monotonic() + (0 if at_once else JOIN_TIMEOUT)
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            for end in (process.terminate, process.kill):
                if process.is_alive():
                    end()
                    process.join(JOIN_TIMEOUT)
        self.pipes, self.processes = [], []

    def __del__(self) -> None:
        if hasattr(self, "processes"):
            self.close()


def _ending(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "it closed its pipe but is still running"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
