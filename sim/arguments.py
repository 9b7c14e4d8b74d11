"""Arguments of several verbs: a scenario, whose names the tab key completes, and where tasks are done."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from sim.shipped import shipped


class ComparedWith(StrEnum):
    """Baselines that a run is compared with, of those that its settings name."""

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
