"""Settings of a simulated release: a scenario, a method, how to run it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curator.sums.settings import SumSettings
from fedkme.config import load_toml, override, validate
from fedkme.errors import ConfigError
from fedkme.releases.settings import AnyRelease, Balog1Settings, FilePoints
from sim.config import LaunchSettings
from sim.scenarios import find_scenario
from sim.scenarios.base import anchored


class ReleaseSimulation(LaunchSettings):
    """Settings of `fedkme release`; release.toml of the run's folder repeats it."""

    release: AnyRelease
    """The method and its settings: the consumer's part."""
    pooling: SumSettings = SumSettings()
    """Trust level and quorum: the curator's part."""


def load_release(method: str, scenario: str, assignments: Sequence[str] = ()) -> ReleaseSimulation:
    """Settings of a method on a shipped scenario or a file, with `--set` applied and files spelled out.

    A scenario may say in [release.METHOD] what suits it; its [summary] is not used. A file of points is named
    from the folder of the scenario's file, or from here.

    Raises:
        ConfigError: no such scenario, or a key or value is wrong.
    """
    path = find_scenario(scenario)
    values = load_toml(path)
    values.pop("summary", None)
    written = values.pop("release", {})
    for unused in ("baselines", "downstream"):
        values.pop(unused, None)
    if isinstance(written, dict) and "kind" in written:  # release.toml of a run's folder
        if written["kind"] != method:
            raise ConfigError(
                f"{path.name} is of a release by {written['kind']!r}",
                f"Run: fedkme release {written['kind']}",
            )
        values["release"] = written
    else:
        values["release"] = {"kind": method, **(written.get(method) or {})}
    settings = release_of(values, assignments, path.name)
    base = path.parent if path == Path(scenario) else None
    changes = {"scenario": anchored(settings.scenario, base), "release": _anchored(settings.release, base)}
    return settings.model_copy(update=changes)


def release_of(values: dict[str, Any], assignments: Sequence[str], source: str) -> ReleaseSimulation:
    """Settings of plain values with `--set` applied; `source` says in an error whose they are.

    Raises:
        ConfigError: a key or value is wrong.
    """
    changed = override(values, [_placed(assignment) for assignment in assignments])
    return validate(ReleaseSimulation, changed, source)


def _anchored(release: AnyRelease, base: Path | None) -> AnyRelease:
    """Make the path of points absolute, so that it is the same for every process."""
    if not isinstance(release, Balog1Settings) or not isinstance(release.z, FilePoints):
        return release
    path = ((base or Path()) / release.z.path).absolute()
    return release.model_copy(update={"z": FilePoints(path=str(path))})


def _placed(assignment: str) -> str:
    """`rows=500` is short for `release.rows=500`; keys of the simulation and their tables are as they are."""
    first = assignment.partition("=")[0].strip().split(".")[0]
    return assignment if first in ReleaseSimulation.model_fields else f"release.{assignment}"
