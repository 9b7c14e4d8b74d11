"""Command-line arguments that several verbs share: the scenario and the place where tasks run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from sim.shipped import shipped


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
