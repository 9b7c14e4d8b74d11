"""Settings of a simulation: a scenario, a summary, how to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from curator.sums.settings import SecuritySettings
from fedkme.config import Settings, load_toml, override, validate
from fedkme.exchange import SummaryChoice
from fedkme.party import OwnerName
from owner.settings import PolicySettings
from sim.arguments import ComparedWith
from sim.scenarios import SCENARIO_KEYS, ScenarioConfig, find_scenario
from sim.scenarios.base import anchored

Engine = Literal["processes", "inprocess", "ray"]
Baseline = Literal[
    "greedy",
    "exact_greedy",
    "uniform",
    "uniform_pruned",
    "uniform_5p_pruned",
    "winner_only",
    "ask_everyone",
    "uniform_weighted",
]


class SummaryTable(SummarySettings, RequestSettings):
    """The [summary] table: what the curator and the consumer decide, in one place."""

    def curator_part(self) -> SummarySettings:
        """Settings that the curator's configuration has."""
        return SummarySettings(**{name: getattr(self, name) for name in SummarySettings.model_fields})

    def consumer_part(self) -> RequestSettings:
        """Settings that the consumer's configuration has."""
        return RequestSettings(**{name: getattr(self, name) for name in RequestSettings.model_fields})


class ClusterSettings(Settings):
    """The [cluster] table: which cluster, and how owners are spread over it."""

    address: str | None = None
    """`HOST:PORT` of a Ray cluster, or `ray://HOST:PORT` from outside of it; none: the one of RAY_ADDRESS or
    of this machine, else one that is started for the run."""
    owners_per_actor: int = Field(100, ge=1)
    """Owners that an actor has at least, if there are so many; more make fewer processes and calls."""


class LaunchSettings(Settings):
    """Settings of any simulation: a scenario, and how its parties are run."""

    scenario: ScenarioConfig
    """Rows of every party."""
    name: str = Field("", pattern="^[^/]*$")
    """Name of the scenario in outputs. Default: its file's, or its folder's where that is `scenario.toml`."""
    engine: Engine = "processes"
    """`processes`: real parties over loopback gRPC. `inprocess`: the same parties in one process. `ray`: the
    curator in this process, owners in actors of a cluster (docs/scaling.md)."""
    cluster: ClusterSettings = ClusterSettings()
    """The cluster of engine `ray`."""
    seed: int = Field(0, ge=0)
    """Seed of everything random in the simulation."""
    noise: Literal["seeded", "secure"] = "seeded"
    """`seeded`: parties' noise follows from `seed`, repeats and protects nobody. `secure`: it comes from the
    operating system, as in a deployment: for rows that are somebody's. Then nothing is compared with owners'
    rows without noise: no baselines, no utility of a release."""
    tls: bool = True
    """Mutual TLS between the processes, with an authority made for the run."""
    policies: dict[OwnerName | Literal["all"], PolicySettings] = Field({})
    """`[policy]` of owners by name; `all` for those that are not named."""
    connect_s: float = Field(60.0, gt=0)
    """Time to wait for the parties to come up."""
    progress_s: float = Field(60.0, gt=0)
    """Time that one answer of an owner may take."""

    @property
    def title(self) -> str:
        """Name of the scenario; where a program brought its rows, their kind."""
        return self.name or self.scenario.kind

    @property
    def noise_seed(self) -> int | None:
        """Seed of every party's private randomness; None where the operating system gives it."""
        return None if self.noise == "secure" else self.seed


class SimulationSettings(LaunchSettings):
    """A scenario file."""

    summary: SummaryTable
    security: SecuritySettings | None = None
    """Secure aggregation of owners' sums, of which a summary by cells makes its code book; none: by trust."""
    baselines: tuple[Baseline, ...] = (
        *("greedy", "exact_greedy", "uniform", "uniform_pruned", "uniform_5p_pruned"),
        *("winner_only", "ask_everyone", "uniform_weighted"),
    )
    """Baselines to compare the summary with."""
    downstream: bool = True
    """Train models on the summary and on each baseline, where there are labels."""

    def chosen(self, record: Mapping[str, Any]) -> Self:
        """Settings of the run that a record tells of, with its plan's choice made."""
        if (plan := record.get("plan")) is None:
            return self
        choice = SummaryChoice(**{**plan, "relative_mmd2": tuple(plan["relative_mmd2"])})
        return self.model_copy(update={"summary": self.summary.resolved(choice)})


EVERY_ROUND: tuple[Baseline, ...] = ("greedy", "winner_only", "ask_everyone")
"""Baselines that ask every owner in every round: with many owners they take far longer than the run."""


def compared_with(settings: SimulationSettings, baselines: ComparedWith) -> SimulationSettings:
    """Leave out all baselines, or those that ask every owner in every round."""
    quick = baselines is ComparedWith.QUICK
    kept = tuple(name for name in settings.baselines if quick and name not in EVERY_ROUND)
    return settings.model_copy(update={"baselines": kept})


def load_simulation(scenario: str, assignments: Sequence[str] = ()) -> SimulationSettings:
    """Settings of a shipped scenario or a file, with `--set` applied and its files spelled out.

    Relative paths start at the folder of a user's own scenario, and at the current folder for a shipped one.

    Raises:
        ConfigError: no such scenario, or a key or value is wrong.
    """
    path = find_scenario(scenario)
    values = load_toml(path)
    values.pop("release", None)  # what suits `fedkme release`
    settings = simulation_of(values, assignments, path.name)
    return settings.model_copy(update=placed(settings, path, scenario))


def placed(settings: LaunchSettings, path: Path, given: str) -> dict[str, Any]:
    """Spell out what settings leave to the place of their file: the scenario's name, and where its files are.

    Args:
        settings: of the file.
        path: of it.
        given: what was asked for, a shipped scenario's name or this path.
    """
    file = path.absolute()
    name = settings.name or (file.parent.name if file.stem == "scenario" else file.stem)
    return {"name": name, "scenario": anchored(settings.scenario, folder_of(path, given))}


def folder_of(path: Path, given: str) -> Path | None:
    """Folder in which paths of a scenario's file start; None of a shipped one: the current folder."""
    return path.parent if path == Path(given) else None


def simulation_of(values: dict[str, Any], assignments: Sequence[str], source: str) -> SimulationSettings:
    """Settings of plain values with `--set` applied; `source` says in an error whose they are.

    Raises:
        ConfigError: a key or value is wrong.
    """
    changed = override(values, [_placed(assignment) for assignment in assignments])
    return validate(SimulationSettings, changed, source)


def _placed(assignment: str) -> str:
    """Spell out a key of a table: `protocol` is `summary.protocol`, `owners` is `scenario.owners`.

    A key that both [summary] and [scenario] may have, such as `target`, is that of [summary].
    """
    first = assignment.partition("=")[0].strip().split(".")[0]
    if first in SimulationSettings.model_fields:
        return assignment
    if first in SummaryTable.model_fields:
        return f"summary.{assignment}"
    return f"scenario.{assignment}" if first in SCENARIO_KEYS else assignment


def plain(settings: Settings) -> dict[str, Any]:
    """Settings as plain values for a TOML file."""
    return settings.model_dump(mode="json")
