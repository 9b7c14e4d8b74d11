"""Choice of the place where tasks run: `--jobs` of the command line and the setting of that name."""

import contextlib
import fcntl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt

from fedkme.errors import ConfigError, on_disk
from sim.jobs.tasks import Results, Task

Jobs = PositiveInt | Annotated[str, Field(pattern=r"^(ray|ray://\S+|slurm)$")]
"""Number of processes here; `ray`: the cluster of RAY_ADDRESS or of this machine; `ray://HOST:PORT`; or
`slurm`."""


def parse_jobs(text: str) -> int | str:
    """Read the text of `--jobs`.

    Raises:
        ConfigError: the text names no place to run.
    """
    if text.isdecimal() and int(text):
        return int(text)
    if text in ("ray", "slurm") or (text.startswith("ray://") and len(text) > len("ray://")):
        return text
    raise ConfigError(f"--jobs {text}: no place to run", "Give a number, ray, ray://HOST:PORT or slurm.")


def carry_out(tasks: Sequence[Task], jobs: int | str, folder: Path) -> Results:
    """Run tasks at the place that `jobs` names; a cluster's logs go to `folder`.

    Raises:
        FedkmeError: there is no cluster, or a package for it is missing.
    """
    if not tasks:
        return
    if isinstance(jobs, int):
        from sim.jobs.processes import on_this_machine

        yield from on_this_machine(tasks, jobs)
    elif jobs == "slurm":
        from sim.jobs.clusters import on_slurm

        yield from on_slurm(tasks, folder / "slurm")
    else:
        from sim.jobs.clusters import on_ray

        yield from on_ray(tasks, None if jobs == "ray" else jobs)


@contextlib.contextmanager
def held(folder: Path, what: str) -> Iterator[Path]:
    """Lock a folder for one caller, a sweep or an audit.

    Raises:
        ConfigError: the folder cannot be written, or another caller holds it.
    """
    with on_disk(f"{folder} cannot be written", "Choose another --out."):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            cause = f"another {what} writes to {folder}"
            raise ConfigError(cause, "Wait for its end, or choose another --out.") from None
        yield folder
