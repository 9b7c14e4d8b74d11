"""Processes that run the simulations of a sweep, each with one thread for linear algebra."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path

from fedkme.errors import PartyFailedError
from sim.config import plain
from sim.engines.children import GRACE_S
from sim.sweep.grid import SweepRun
from sim.sweep.measure import Row

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Worker:
    """A process that measures one run after another; one that dies in a run is started again for the next."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int | None:
        """Number of the process; None where there is none."""
        return None if self._process is None else self._process.pid

    def measure(self, run: SweepRun) -> Row:
        """Measure a run; a row of failure where there is no process, or it died."""
        try:
            process = self._process = self._process or _start()
        except OSError as error:
            cause = f"no process could be started for the run: {error.strerror}"
            return {"code": PartyFailedError.code, "cause": cause}
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(plain(run.settings)) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer.endswith("\n"):
            row: Row = json.loads(answer)
            return row
        self._process = None
        return {"code": PartyFailedError.code, "cause": f"the process of the run {_end(_waited(process))}"}

    def tell(self) -> None:
        """Tell the process to end, in the middle of a run too, and do not wait for it."""
        if self._process is not None:
            self._process.terminate()

    def stop(self) -> None:
        """End the process; kill it if it takes long."""
        self.tell()
        process, self._process = self._process, None
        if process is not None:
            _waited(process)


def _start() -> subprocess.Popen[str]:
    paths = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))
    environment = os.environ | dict.fromkeys(THREADS, "1")
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "sim.sweep.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,  # ctrl-C reaches the sweep alone
    )


def _waited(process: subprocess.Popen[str]) -> int:
    """Exit status of a process that ends by itself, or is killed after a while."""
    try:
        return process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _end(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def measured(runs: Sequence[SweepRun], jobs: int) -> Generator[tuple[SweepRun, Row], None, None]:
    """Measure runs, `jobs` at a time; yields each with its row when it is done.

    Who stops listening, as after ctrl-C, ends what is under way.
    """
    left: queue.SimpleQueue[SweepRun] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[SweepRun, Row]] = queue.SimpleQueue()
    workers = [Worker() for _ in range(min(jobs, len(runs)))]
    for run in runs:
        left.put(run)
    stopped = threading.Event()

    def work(worker: Worker) -> None:
        while not stopped.is_set():
            try:
                run = left.get_nowait()
            except queue.Empty:
                break
            done.put((run, worker.measure(run)))
        worker.stop()

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        for _ in runs:
            yield done.get()
    finally:
        stopped.set()
        for worker in workers:
            worker.tell()
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join(GRACE_S)
