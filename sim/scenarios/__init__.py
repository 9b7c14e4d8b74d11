"""Scenarios: the rows of owners and of the consumer, built from the [scenario] table."""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from fedkme.errors import ConfigError, DataError
from sim.scenarios.adult import Adult
from sim.scenarios.base import Frames, Scenario
from sim.scenarios.hospitals import Hospitals
from sim.scenarios.images import Digits, Mnist
from sim.scenarios.states import States
from sim.scenarios.tables import Csv
from sim.shipped import shipped

_Kind: TypeAlias = Digits | Mnist | Hospitals | Adult | States | Csv | Frames
ScenarioConfig = Annotated[_Kind, Field(discriminator="kind")]
SCENARIO_KEYS = frozenset(key for kind in get_args(_Kind) for key in kind.model_fields)
"""Keys that the [scenario] table of any kind has."""


def build_scenario(config: ScenarioConfig, seed: int, at_once: bool = True) -> Scenario:
    """Give every party its rows; equal seeds give equal rows.

    Args:
        config: the [scenario] table; relative paths start at the current folder (`anchored`).
        seed: seed of everything random in the scenario.
        at_once: make all owners' tables now, so that a wrong table is reported before the run; otherwise each
            table is made at its first use, if the kind of scenario allows it.

    Raises:
        ConfigError: a file is missing, or more rows are asked for than there are.
        DataError: rows do not fit the schema, or there is nothing to match.
        MissingDependencyError: an optional package is missing.
    """
    scenario = config.build(seed)
    if not len(scenario.validation) and not (isinstance(config, Csv) and config.validation is None):
        cause = f"scenario {scenario.name}: the validation set D_v has no rows"
        raise DataError(cause, "Give it rows, or a larger share of the target's.")
    return replace(scenario, owners=dict(scenario.owners)) if at_once else scenario


def check_target(scenario: Scenario) -> None:
    """Refuse a summary without D_v: only a release works without `validation`.

    Raises:
        ConfigError: D_v has no rows.
    """
    if not len(scenario.validation):
        cause = "scenario.validation is missing, the rows that a summary is to match"
        raise ConfigError(cause, "Name their file; a release needs none: fedkme release auto.")


def find_scenario(name_or_path: str) -> Path:
    """Find the file of a shipped scenario by name, or check a path.

    Raises:
        ConfigError: the text is neither a name nor a file; lists the names.
    """
    files = shipped()
    if name_or_path in files:
        return files[name_or_path]
    path = Path(name_or_path)
    if path.is_file():
        return path
    if path.is_dir():
        inside = path / "scenario.toml"
        remedy = f"Give {inside}." if inside.is_file() else "Give the file of a scenario."
        raise ConfigError(f"{path} is a folder", remedy)
    close = difflib.get_close_matches(path.stem, files, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    cause = f"'{name_or_path}' is neither a shipped scenario nor a file"
    raise ConfigError(cause, f"{hint}Shipped: {', '.join(files)}.")
