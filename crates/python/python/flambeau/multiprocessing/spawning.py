"""Several processes that run one function, of which the first to fail ends all."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class ProcessRaisedException(Exception):
    """A process raised an exception; the message has its traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.error_index, self.pid = error_index, error_pid


class ProcessExitedException(Exception):
    """A process ended without saying why."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int) -> None:
        super().__init__(msg)
        self.error_index, self.pid, self.exit_code = error_index, error_pid, exit_code


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        # The terminal's, which the parent gets too.
        pass
    except Exception:
        import sys
        import traceback

        errors.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes that were started."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self._errors = processes, errors

    def pids(self) -> list[int]:
        """Their numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Waits until all have ended, and says whether they have; raises what the first to fail raised."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while running := [process.sentinel for process in self.processes if process.is_alive()]:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = wait(running, left)
            self._check()
            if not ready:
                return False
        self._check()
        return True

    def _check(self) -> None:
        for index, process in enumerate(self.processes):
            if process.exitcode:
                self._end()
                self._raise(index, process)

    def _end(self) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()

    def _raise(self, index: int, process: Any) -> None:
        if self._errors[index].poll():
            text = f"\n\n-- Process {index} terminated with the following error:\n{self._errors[index].recv()}"
            raise ProcessRaisedException(text, index, process.pid)
        ending = f"signal {-process.exitcode}" if process.exitcode < 0 else f"exit code {process.exitcode}"
        raise ProcessExitedException(f"process {index} terminated with {ending}", index, process.pid, process.exitcode)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs `fn(i, *args)` in `nprocs` processes; with `join` waits for them."""
    context = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for index in range(nprocs):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, index, args, there), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        there.close()
        processes.append(process)
        errors.append(here)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    started.join()
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes`, with processes that begin anew."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
