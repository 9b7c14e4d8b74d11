"""Settings of a simulation: its scenario, its summary, and how to run both."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from curator.sums.settings import SecuritySettings
from fedkme.config import Settings, load_toml, override, toml_text, validate
from fedkme.errors import ConfigError
from fedkme.exchange import SummaryChoice
from fedkme.party import CollectorUrl, OwnerName
from fedkme.protocols import AUTO, TARGET
from owner.settings import PolicySettings
from sim.arguments import ComparedWith
from sim.data.folder import place
from sim.scenarios import SCENARIO_KEYS, ScenarioConfig, find_scenario
from sim.scenarios.base import anchored
from sim.scenarios.stand_ins import stand_in_line

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
    """The [summary] table: the settings of the curator and of the consumer in one place.

    `protocol = "target"` is short for `real_rows = false`: there is no such protocol at a curator, which is
    asked for a release.
    """

    @model_validator(mode="before")
    @classmethod
    def _as_target(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("protocol") == TARGET:
            return {**values, "protocol": AUTO, "real_rows": False}
        return values

    @model_validator(mode="after")
    def _check_real_rows(self) -> Self:
        if not self.real_rows and self.protocol != AUTO:
            raise ValueError(
                f"protocol: {self.protocol} asks owners for real rows, and real_rows = false for none; leave "
                "one of them out"
            )
        return self

    def curator_part(self) -> SummarySettings:
        """Settings that belong into the curator's configuration."""
        settings = SummarySettings(**{name: getattr(self, name) for name in SummarySettings.model_fields})
        return settings.placed(Path.absolute)

    def consumer_part(self) -> RequestSettings:
        """Settings that belong into the consumer's configuration."""
        return RequestSettings(**{name: getattr(self, name) for name in RequestSettings.model_fields})


class ClusterSettings(Settings):
    """The [cluster] table: the cluster's address, and how owners are spread over its actors."""

    address: str | None = None
    """`HOST:PORT` of a Ray cluster, or `ray://HOST:PORT` from outside the cluster. None: the cluster of
    RAY_ADDRESS or of this machine; without such a cluster, one is started for the run."""
    owners_per_actor: int = Field(100, ge=1)
    """Least number of owners in an actor, if there are as many. More owners an actor make fewer processes
    and calls."""


class LaunchSettings(Settings):
    """Settings of any simulation: its scenario, and how to run the parties."""

    scenario: ScenarioConfig
    """Rows of every party."""
    name: str = Field("", pattern="^[^/]*$")
    """Name of the scenario in outputs. Default: the name of its file, or of the file's folder where the file
    is `scenario.toml`."""
    engine: Engine = "processes"
    """`processes`: real parties over loopback gRPC. `inprocess`: the same parties in one process. `ray`: the
    curator in this process, owners in actors of a cluster (docs/scaling.md)."""
    cluster: ClusterSettings = ClusterSettings()
    """The cluster of engine `ray`."""
    seed: int = Field(0, ge=0)
    """Seed of everything random in the simulation."""
    noise: Literal["seeded", "secure"] = "seeded"
    """`seeded`: parties' noise follows from `seed`; it repeats and protects nobody. `secure`: noise comes
    from the operating system, as in a deployment; take it for rows of real people. With `secure` nothing is
    compared with owners' rows without noise: there are no baselines and no utility of a release."""
    tls: bool = True
    """Mutual TLS between the processes, with an authority made for the run."""
    policies: dict[OwnerName | Literal["all"], PolicySettings] = Field({})
    """`[policy]` of owners by name; `all` is for owners that are not named."""
    traces: CollectorUrl | None = None
    """http[s]://HOST:PORT of an OpenTelemetry collector in your network that takes the spans of the parties
    (engine `processes`; extra `otel`); none: no traces."""
    connect_s: float = Field(60.0, gt=0)
    """Time to wait for the parties to come up."""
    progress_s: float = Field(60.0, gt=0)
    """Time that one answer of an owner may take."""

    @property
    def title(self) -> str:
        """Name of the scenario, or its kind where a program gave the rows."""
        return self.name or self.scenario.kind

    @property
    def stand_in(self) -> str:
        """Warning that the rows are invented; "" where they are not."""
        return stand_in_line(self.scenario)

    @property
    def named(self) -> dict[str, str]:
        """Name of the scenario for metrics.json, and that its rows are invented where they are."""
        return {"scenario": self.title, **({"stand_in": self.stand_in} if self.stand_in else {})}

    @property
    def noise_seed(self) -> int | None:
        """Seed of every party's private randomness; None where the operating system gives it."""
        return None if self.noise == "secure" else self.seed


class SimulationSettings(LaunchSettings):
    """A scenario file."""

    summary: SummaryTable
    security: SecuritySettings | None = None
    """Secure aggregation of the owners' sums from which a summary by cells makes its code book. None: the
    curator is trusted with each owner's sums."""
    baselines: tuple[Baseline, ...] = (
        *("greedy", "exact_greedy", "uniform", "uniform_pruned", "uniform_5p_pruned"),
        *("winner_only", "ask_everyone", "uniform_weighted"),
    )
    """Baselines to compare the summary with."""
    downstream: bool = True
    """Train models on the summary and on each baseline, if the rows have labels."""

    def chosen(self, record: Mapping[str, Any]) -> Self:
        """Settings of the run in a record, with the choice of its plan filled in."""
        if (plan := record.get("plan")) is None:
            return self
        choice = SummaryChoice(**{**plan, "relative_mmd2": tuple(plan["relative_mmd2"])})
        return self.model_copy(update={"summary": self.summary.resolved(choice)})


EVERY_ROUND: tuple[Baseline, ...] = ("greedy", "winner_only", "ask_everyone")
"""Baselines that ask every owner in every round: with many owners they take far longer than the run."""


def compared_with(settings: SimulationSettings, baselines: ComparedWith) -> SimulationSettings:
    """Leave out all baselines, or the baselines that ask every owner in every round."""
    quick = baselines is ComparedWith.QUICK
    remaining = tuple(name for name in settings.baselines if quick and name not in EVERY_ROUND)
    return settings.model_copy(update={"baselines": remaining})


def load_simulation(scenario: str, assignments: Sequence[str] = ()) -> SimulationSettings:
    """Load the settings of a shipped scenario or a file, apply `--set` and make its paths absolute.

    Relative paths start at the folder of a user's own scenario, and at the current folder for a shipped
    scenario.

    Raises:
        ConfigError: no such scenario, or a key or value is wrong.
    """
    path = find_scenario(scenario)
    values = load_toml(path)
    values.pop("release", None)  # keys for `fedkme release` alone
    settings = simulation_of(values, assignments, path.name)
    table = settings.summary.placed(lambda folder: place(folder, folder_of(path, scenario)))
    return settings.model_copy(update={"summary": table, **placed(settings, path, scenario)})


def placed(settings: LaunchSettings, path: Path, given: str) -> dict[str, Any]:
    """Fill in the settings that depend on the place of their file: the scenario's name and its files' paths.

    Args:
        settings: read from the file.
        path: path of the file.
        given: the user's words for the scenario: its shipped name, or this path.
    """
    file = path.absolute()
    name = file.parent.name if file.stem == "scenario" else file.stem
    scenario = anchored(settings.scenario, folder_of(path, given))
    invented = "-stand-in" if stand_in_line(scenario) else ""
    return {"name": settings.name or f"{name}{invented}", "scenario": scenario}


def folder_of(path: Path, given: str) -> Path | None:
    """Folder in which a scenario file's paths start; None for a shipped scenario: the current folder."""
    return path.parent if path == Path(given) else None


def simulation_of(values: dict[str, Any], assignments: Sequence[str], source: str) -> SimulationSettings:
    """Settings from plain values with `--set` applied; errors name `source`.

    Raises:
        ConfigError: a key or value is wrong.
    """
    with in_words_of(assignments, _placed):
        changed = override(values, [_placed(assignment) for assignment in assignments])
        return validate(SimulationSettings, changed, source)


def _placed(assignment: str) -> str:
    """Expand a key to its table: `protocol` to `summary.protocol`, `owners` to `scenario.owners`.

    A key that both [summary] and [scenario] have, such as `target`, belongs to [summary].
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


@contextlib.contextmanager
def in_words_of(assignments: Sequence[str], placed: Callable[[str], str]) -> Iterator[None]:
    """Name keys in errors as the assignments do: `p`, although `placed` made `summary.p` of it.

    An error about a key that was assigned does not name the file, which may not have it.
    """
    names = {placed(each).partition("=")[0].strip(): each.partition("=")[0].strip() for each in assignments}

    def written(match: re.Match[str]) -> str:
        key = match[1]
        for full, short in names.items():
            if full != short and (key == full or key.startswith(f"{full}.")):
                return f"'{short}{key.removeprefix(full)}'"
        return match[0]

    try:
        yield
    except ConfigError as error:
        cause = re.sub(r"'([\w.-]+)'", written, error.cause)
        if (key := re.match(r"[\w.-]+: '([\w.-]+)' is ", cause)) and key[1] in names.values():
            cause = cause.partition(": ")[2]
        raise ConfigError(cause, error.remedy) from None


def assignments_of(values: Mapping[str, Any]) -> list[str]:
    """Write nested values as assignments for `override`: {"kernel": {"gamma": 2.0}} is `kernel.gamma=2.0`."""
    assignments: list[str] = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            assignments += [f"{key}.{inner}" for inner in assignments_of(value)]
        else:
            assignments.append(f"{key}={toml_text(value)}")
    return assignments
