"""Tasks in processes of this machine, each with one thread for linear algebra."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim.engines.children import GRACE_S, how_ended
from sim.jobs.tasks import LostTask, Results, Task

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Worker:
    """Runs one task after another in a process; after a death a new process starts for the next task."""

    def __init__(self) -> None:
        self._process: _Process | None = None

    @property
    def pid(self) -> int | None:
        """Number of the process; None if no process runs."""
        return None if self._process is None else self._process.pid

    def perform(self, task: Task) -> Any:
        """Run a task; it is lost if no process can start, or if the process dies."""
        try:
            process = self._process = self._process or _Process()
        except OSError as error:
            return LostTask(f"no process could be started for the task: {error.strerror}")
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps([task.function, task.argument]) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except (BrokenPipeError, ValueError):  # it is gone, or was told to end
            answer = ""
        if answer.endswith("\n"):
            return json.loads(answer)
        self._process = None
        return LostTask(f"its process {how_ended(_waited(process))}")

    def tell(self) -> None:
        """Tell the process to end, even in the middle of a task, and do not wait for its end."""
        if (process := self._process) is not None:
            assert process.stdin is not None
            process.terminate()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()  # after a task that ends in its own way the process would await another

    def stop(self) -> None:
        """End the process; kill it after GRACE_S."""
        self.tell()
        process, self._process = self._process, None
        if process is not None:
            _waited(process)


class _Process(subprocess.Popen[str]):
    """Process of a worker, with a folder for temporary files that is removed after its end, however it ends.

    Such files hold owners' rows and keys. The process cannot promise to remove them: it may be killed, or
    told to end in the middle of removing.
    """

    def __init__(self) -> None:
        self.scratch = tempfile.TemporaryDirectory(prefix="fedkme-jobs-", ignore_cleanup_errors=True)
        paths = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))
        environment = os.environ | dict.fromkeys(THREADS, "1") | {"TMPDIR": self.scratch.name}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        super().__init__(
            [sys.executable, "-P", "-m", "sim.jobs.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            start_new_session=True,  # ctrl-C reaches only the process that waits for this one
        )


def _waited(process: _Process) -> int:
    """Wait for a process, kill it after GRACE_S, remove its files, and return its exit status."""
    try:
        status = process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    process.scratch.cleanup()
    return status


def on_this_machine(tasks: Sequence[Task], jobs: int) -> Results:
    """Run tasks, `jobs` at a time."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    results: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    workers = [Worker() for _ in range(min(jobs, len(tasks)))]
    for place in range(len(tasks)):
        waiting.put(place)
    stopped = threading.Event()

    def work(worker: Worker) -> None:
        while not stopped.is_set():
            try:
                place = waiting.get_nowait()
            except queue.Empty:
                break
            results.put((place, worker.perform(tasks[place])))
        worker.stop()

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        for _ in tasks:
            yield results.get()
    finally:
        stopped.set()
        for worker in workers:
            worker.tell()
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join(GRACE_S)
