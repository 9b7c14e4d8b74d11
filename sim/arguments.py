"""Command-line arguments that several verbs share: the scenario and the place where tasks run."""

import importlib
from enum import StrEnum
from typing import Annotated

import typer

from sim.shipped import shipped


def completed_keys(settings: str, table: str, incomplete: str) -> list[str]:
    """Keys that `--set` takes, as a shell completes them: `module:Class` of settings, the default table."""
    from fedkme.config import key_paths  # the tab key alone needs settings

    module, _, name = settings.partition(":")
    paths = set(key_paths(getattr(importlib.import_module(module), name), ""))
    short = {path.removeprefix(table) for path in paths if path.startswith(table)}
    return sorted(f"{key}=" for key in paths | short if key.startswith(incomplete))


def _of_scenario(incomplete: str) -> list[str]:
    return completed_keys("sim.config:SimulationSettings", "summary.", incomplete)


def _of_release(incomplete: str) -> list[str]:
    return completed_keys("sim.release_config:ReleaseSimulation", "release.", incomplete)


ScenarioKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a key of the scenario.", autocompletion=_of_scenario
    ),
]
MethodKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a key of the method.", autocompletion=_of_release
    ),
]


class ComparedWith(StrEnum):
    """Choice among the baselines that a run's settings name."""

    QUICK = "quick"
    NONE = "none"


ScenarioName = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help=f"A shipped scenario ({', '.join(shipped())}) or a TOML file.",
        autocompletion=lambda: list(shipped()),
    ),
]
JobsText = Annotated[
    str,
    typer.Option(
        metavar="N|ray|slurm",
        help="Runs at a time, each in a process of one thread; or ray, ray://HOST:PORT, slurm.",
    ),
]
