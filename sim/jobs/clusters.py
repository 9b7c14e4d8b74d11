"""Tasks on a cluster: as arrays of Slurm, through submitit, or on Ray, one CPU each."""

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkme.errors import ConfigError, MissingDependencyError
from sim.cluster.session import connected
from sim.jobs.tasks import LostTask, Results, Task, perform

LONGEST_ARRAY = 1000
"""Most tasks of one array: Slurm's default MaxArraySize is 1001."""
MINUTES = 24 * 60
"""Time limit of a task in minutes; SBATCH_TIMELIMIT overrides it."""
POLL_S = 10.0
"""Seconds between two checks for finished tasks."""


def on_slurm(tasks: Sequence[Task], folder: Path) -> Results:
    """Run tasks as arrays; sbatch's own variables (SBATCH_PARTITION, SBATCH_ACCOUNT, ...) choose the place.

    The tasks' logs go to `folder`, which must be on a file system that all nodes share.

    Raises:
        MissingDependencyError: submitit is not installed.
        ConfigError: there is no Slurm on this machine.
    """
    try:
        import submitit
    except ImportError:
        cause = "submitit is not installed"
        raise MissingDependencyError(cause, "Run: pip install 'fedkme[cluster]'.") from None
    if shutil.which("sbatch") is None:
        raise ConfigError("there is no sbatch on this machine", "Run it on a login node of the cluster.")
    executor = submitit.SlurmExecutor(folder=folder)
    executor.update_parameters(job_name="fedkme", cpus_per_task=1, time=MINUTES)
    yield from submitted(tasks, executor, POLL_S)


def submitted(tasks: Sequence[Task], executor: Any, poll_s: float) -> Results:
    """Run tasks by an executor of submitit; check every `poll_s` seconds for finished tasks."""
    from submitit.helpers import as_completed

    places: dict[Any, int] = {}
    try:
        for start in range(0, len(tasks), LONGEST_ARRAY):
            part = tasks[start : start + LONGEST_ARRAY]
            jobs = executor.map_array(perform, [t.function for t in part], [t.argument for t in part])
            places |= dict(zip(jobs, itertools.count(start), strict=False))
        for job in as_completed(list(places), poll_frequency=poll_s):
            yield places.pop(job), _result(job)
    finally:
        for job in places:
            job.cancel()


def _result(job: Any) -> Any:
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        return job.result()
    except FailedJobError:  # the task raised
        return LostTask(f"it raised; see {job.paths.stderr}")
    except UncompletedJobError:
        return LostTask(f"its job or node was lost; see {job.paths.stderr}")


RETRIES = 1
"""Times that Ray repeats a task whose worker or node was lost. It is finite: a task may kill its worker."""


def on_ray(tasks: Sequence[Task], address: str | None) -> Results:
    """Run as many tasks at a time as the cluster has CPUs; its nodes have this package and the tasks' files.

    Raises:
        MissingDependencyError: Ray is not installed.
        ConnectionFailedError: there is no such cluster.
    """
    with connected(address) as ray:
        remote = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(perform)
        running = {
            remote.options(name=task.name).remote(task.function, task.argument): place
            for place, task in enumerate(tasks)
        }
        try:
            while running:
                for reference in ray.wait(list(running))[0]:
                    yield running.pop(reference), _ray_result(ray, reference)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _ray_result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return LostTask(f"it raised {type(error.cause).__name__}")
    except ray.exceptions.RayError as error:
        return LostTask(f"its worker or node was lost ({type(error).__name__})")
