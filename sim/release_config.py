"""Settings of a simulated release: its scenario, its method, and how to run the parties."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from curator.planning.releases import ReleaseFacts, ReleasePlan, plan_release
from curator.sums.settings import SumSettings
from fedkme.config import load_toml, override, validate
from fedkme.errors import ConfigError
from fedkme.releases.choice import Task
from fedkme.releases.settings import AnyRelease, Balog1Settings, FilePoints, ReleaseSettings
from sim.config import LaunchSettings, folder_of, in_words_of, placed
from sim.scenarios import build_scenario, find_scenario
from sim.scenarios.base import Scenario, anchored


class ReleaseSimulation(LaunchSettings):
    """Settings of `fedkme release`; release.toml in the run's folder repeats the run."""

    release: AnyRelease
    """The method and its settings: the consumer's part."""
    pooling: SumSettings = SumSettings()
    """Trust level and quorum: the curator's part."""


def load_release(method: str, scenario: str, assignments: Sequence[str] = ()) -> ReleaseSimulation:
    """Load the settings of a method on a shipped scenario or a file, apply `--set`, make paths absolute.

    A scenario may have keys for a method in [release.METHOD]; its [summary] is not used. The path of a file
    of points starts at the folder of the scenario's file, or at the current folder for a shipped scenario.

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
            cause = f"{path.name} is of a release by {written['kind']!r}"
            raise ConfigError(cause, f"Run: fedkme release {written['kind']}")
        values["release"] = written
    else:
        values["release"] = {"kind": method, **(written.get(method) or {})}
    settings = release_of(values, assignments, path.name)
    changes = {
        **placed(settings, path, scenario),
        "release": _anchored(settings.release, folder_of(path, scenario)),
    }
    return settings.model_copy(update=changes)


def release_of(values: dict[str, Any], assignments: Sequence[str], source: str) -> ReleaseSimulation:
    """Settings from plain values with `--set` applied; errors name `source`.

    Raises:
        ConfigError: a key or value is wrong.
    """
    with in_words_of(assignments, _placed):
        changed = override(values, [_placed(assignment) for assignment in assignments])
        return validate(ReleaseSimulation, changed, source)


def load_planned(
    scenario: str, assignments: Sequence[str], task: Task
) -> tuple[ReleaseSimulation, Scenario, ReleasePlan]:
    """Settings of the method that `auto` takes on a shipped scenario or a file, the rows, and the plan.

    Raises:
        ConfigError: see `load_release`.
        DataError: rows do not fit the schema.
    """
    path = find_scenario(scenario)
    values = {key: value for key, value in load_toml(path).items() if key in LaunchSettings.model_fields}
    drafted = _drafted(values, assignments, path.name)
    parties = build_scenario(anchored(drafted.scenario, folder_of(path, scenario)), drafted.seed)
    plan = plan_for(values, assignments, parties, task)
    return load_release(plan.method, scenario, assignments), parties, plan


def plan_for(
    values: Mapping[str, Any], assignments: Sequence[str], parties: Scenario, task: Task
) -> ReleasePlan:
    """Plan a release of these parties' rows; ignores keys that only some methods have.

    Raises:
        ConfigError: a key or value is wrong.
    """
    drafted = _drafted(values, assignments, "fedkme.release")
    owners, security = len(parties.owners), drafted.pooling.security
    honest = owners if security is None else security.terms(owners).honest(owners)
    return plan_release(
        ReleaseFacts(
            parties.schema,
            max(1, sum(map(len, parties.owners.values()))),
            drafted.release.of_row,
            drafted.release.delta,
            math.sqrt(owners / max(1, honest)),
            task,
        )
    )


def _drafted(values: Mapping[str, Any], assignments: Sequence[str], source: str) -> ReleaseSimulation:
    """Settings with only the keys that every method has."""
    common = [f"release.{key}" for key in ReleaseSettings.model_fields]
    placed = [_placed(assignment) for assignment in assignments]
    shared = [
        change
        for change in placed
        if not change.startswith("release.") or change.partition("=")[0].strip() in common
    ]
    release = {**values.get("release", {}), "kind": "moments"}
    return release_of({**values, "release": release}, shared, source)


def _anchored(release: AnyRelease, base: Path | None) -> AnyRelease:
    """Make the path of points absolute, so that every process opens the same file."""
    if not isinstance(release, Balog1Settings) or not isinstance(release.z, FilePoints):
        return release
    path = ((base or Path()) / release.z.path).absolute()
    return release.model_copy(update={"z": FilePoints(path=str(path))})


def _placed(assignment: str) -> str:
    """Expand `rows=500` to `release.rows=500`; keys of the simulation itself stay as they are."""
    first = assignment.partition("=")[0].strip().split(".")[0]
    return assignment if first in ReleaseSimulation.model_fields else f"release.{assignment}"
