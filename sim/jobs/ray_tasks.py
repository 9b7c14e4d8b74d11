"""Tasks on a Ray cluster, one CPU each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.cluster.session import connected
from sim.jobs.tasks import LostTask, Results, Task, perform

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
                    yield running.pop(reference), _result(ray, reference)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return LostTask(f"it raised {type(error.cause).__name__}")
    except ray.exceptions.RayError as error:
        return LostTask(f"its worker or node was lost ({type(error).__name__})")
