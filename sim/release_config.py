"""Settings of a simulated release: a scenario, a method, how to run it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from curator.sums.settings import SumSettings
from fedkme.config import Settings, load_toml, override, validate
from fedkme.errors import ConfigError
from fedkme.party import OwnerName
from fedkme.releases.settings import AnyRelease, Balog1Settings, FilePoints
from owner.settings import PolicySettings
from sim.config import Engine
from sim.scenarios import ScenarioConfig, find_scenario
from sim.scenarios.base import anchored


class ReleaseSimulation(Settings):
    """Settings of `fedkme release`; release.toml of the run's folder repeats it."""

    scenario: ScenarioConfig
    release: AnyRelease
    """The method and its settings: the consumer's part."""
    pooling: SumSettings = SumSettings()
    """Trust level and quorum: the curator's part."""
    engine: Engine = "processes"
    """`processes`: real parties over loopback gRPC. `inprocess`: the same parties in one process."""
    seed: int = Field(0, ge=0)
    """Of everything random in the simulation."""
    tls: bool = True
    """Mutual TLS between the processes, with an authority made for the run."""
    policies: dict[OwnerName | Literal["all"], PolicySettings] = Field({})
    """`[policy]` of owners by name; `all` for those that are not named."""
    connect_s: float = Field(60.0, gt=0)
    """How long to wait for the parties to come up."""
    progress_s: float = Field(60.0, gt=0)
    """How long one answer of an owner may take."""


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
    values = override(values, [_placed(assignment) for assignment in assignments])
    settings = validate(ReleaseSimulation, values, path.name)
    base = path.parent if path == Path(scenario) else None
    changes = {"scenario": anchored(settings.scenario, base), "release": _anchored(settings.release, base)}
    return settings.model_copy(update=changes)


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
