"""Starts the ranks of a program, as torchrun does: `python -m flambeau.distributed.run --nproc-per-node 2 program.py arguments`.

Each rank gets `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`, so it calls `init_process_group()` without arguments.
When a rank fails, the others are ended, and the job is started again, at most `--max-restarts` times.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# How long a rank may take to end after SIGTERM, before it is killed.
PATIENCE = 10.0


def parser() -> argparse.ArgumentParser:
    """The options of torchrun that have an effect here."""
    parsed = argparse.ArgumentParser(prog="python -m flambeau.distributed.run", description="Starts the ranks of a program.")
    option = parsed.add_argument
    option("--nproc-per-node", "--nproc_per_node", "--nproc", default="1", help="ranks on this machine: a number, or `cpu` for the cores")
    option("--nnodes", type=int, default=1, help="machines")
    option("--node-rank", "--node_rank", type=int, default=0, help="the number of this machine")
    option("--master-addr", "--master_addr", default="127.0.0.1", help="the address of machine 0")
    option("--master-port", "--master_port", type=int, default=0, help="a free port of machine 0; with one machine 0 chooses one")
    option("--max-restarts", "--max_restarts", type=int, default=0, help="how often a job that failed is started again")
    option("--monitor-interval", "--monitor_interval", type=float, default=0.01, help="seconds between looks at the ranks")
    option("--standalone", action="store_true", help="one machine, at a free port")
    option("--rdzv-id", "--rdzv_id", default="", help="a name of the job")
    option("--log-dir", "--log_dir", help="a folder for the output of each rank; by default they share that of the launcher")
    option("-m", "--module", action="store_true", help="the program is a module")
    option("--no-python", "--no_python", action="store_true", help="the program is run as it is, not by Python")
    option("program", help="the program")
    option("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parsed


class Failure(Exception):
    """A rank has failed: its number, and its exit code, which is negative for a signal."""

    def __init__(self, rank: int, code: int) -> None:
        self.rank, self.code = rank, code
        super().__init__(f"rank {rank} ended with {_describe(code)}")


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Job:
    """The ranks of this machine."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.local = os.cpu_count() or 1 if options.nproc_per_node in ("cpu", "auto") else int(options.nproc_per_node)
        if self.local < 1 or not 0 <= options.node_rank < options.nnodes:
            raise SystemExit("error: expected at least one rank, and a --node-rank from 0 on below --nnodes")
        if options.nnodes > 1 and not options.master_port:
            raise SystemExit("error: several machines need a --master-port")
        self.id = options.rdzv_id or uuid.uuid4().hex[:8]
        self.ranks: list[subprocess.Popen[bytes]] = []

    def _environment(self, local: int, restart: int, port: int) -> dict[str, str]:
        options = self.options
        values = {
            "RANK": options.node_rank * self.local + local,
            "WORLD_SIZE": options.nnodes * self.local,
            "LOCAL_RANK": local,
            "LOCAL_WORLD_SIZE": self.local,
            "GROUP_RANK": options.node_rank,
            "MASTER_ADDR": options.master_addr,
            "MASTER_PORT": port,
            "TORCHELASTIC_RESTART_COUNT": restart,
            "TORCHELASTIC_MAX_RESTARTS": options.max_restarts,
            "TORCHELASTIC_RUN_ID": self.id,
        }
        environment = {**os.environ, **{name: str(value) for name, value in values.items()}}
        if self.local > 1:
            # Ranks that all use all cores would be slower; who wants that sets the variable.
            environment.setdefault("OMP_NUM_THREADS", "1")
        return environment

    def _command(self) -> list[str]:
        options = self.options
        python = [] if options.no_python else [sys.executable, "-u", *(["-m"] if options.module else [])]
        return [*python, options.program, *options.arguments]

    @contextlib.contextmanager
    def _output(self, local: int, restart: int) -> Iterator[int | None]:
        if self.options.log_dir is None:
            yield None
            return
        os.makedirs(self.options.log_dir, exist_ok=True)
        name = f"rank{self.options.node_rank * self.local + local}_attempt{restart}.log"
        with open(os.path.join(self.options.log_dir, name), "wb") as file:
            yield file.fileno()

    def start(self, restart: int) -> None:
        """Starts all ranks."""
        # A port of its own for each attempt: connections of the one before may still be closing.
        port = self.options.master_port or _free_port()
        for local in range(self.local):
            with self._output(local, restart) as output:
                environment = self._environment(local, restart, port)
                self.ranks.append(subprocess.Popen(self._command(), env=environment, stdout=output, stderr=output))

    def watch(self) -> None:
        """Waits until all ranks have ended; raises for the first that failed."""
        while True:
            codes = [rank.poll() for rank in self.ranks]
            first = self.options.node_rank * self.local
            failed = [(local, code) for local, code in enumerate(codes) if code]
            if failed:
                # A rank that was killed makes others fail: it is the one to name.
                local, code = min(failed, key=lambda found: (found[1] > 0, found[0]))
                raise Failure(first + local, code)
            if all(code == 0 for code in codes):
                return
            time.sleep(self.options.monitor_interval)

    def end(self) -> None:
        """Ends all ranks."""
        for rank in self.ranks:
            if rank.poll() is None:
                rank.terminate()
        deadline = time.monotonic() + PATIENCE
        for rank in self.ranks:
            try:
                rank.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                # One that is stopped takes no other signal.
                rank.kill()
                rank.wait()
        self.ranks = []


def run(options: argparse.Namespace) -> int:
    """Runs the program, and returns the exit code of the launcher."""
    job = Job(options)
    for restart in range(options.max_restarts + 1):
        try:
            job.start(restart)
            job.watch()
            return 0
        except Failure as failure:
            job.end()
            left = options.max_restarts - restart
            print(f"flambeau.distributed.run: {failure}; " + (f"{left} restarts left" if left else "no restart left"), file=sys.stderr, flush=True)
            if not left:
                return failure.code if failure.code > 0 else 128 - failure.code
        except KeyboardInterrupt:
            # The ranks have got the terminal's signal too, and may be saving.
            with contextlib.suppress(KeyboardInterrupt, Failure):
                job.watch()
            return 130
        finally:
            job.end()
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    return run(parser().parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
