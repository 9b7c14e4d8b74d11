"""`fedkme consumer`: the verbs of a consumer's host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consumer.client import run
from consumer.settings import ConsumerSettings
from fedkme.config import load_toml, validate
from fedkme.party import resolve_paths
from fedkme.supervision import Supervised, run_party

app = typer.Typer(
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Ask a curator for data that match a validation set.",
)


@app.callback()
def consumer() -> None:
    """Ask a curator for data that match a validation set."""


@app.command()
def summary(
    config: Annotated[Path, typer.Argument(help="CONSUMER.toml")], supervised: Supervised = False
) -> None:
    """Ask for a summary, receive its rows, judge them."""

    def settings() -> ConsumerSettings:
        return resolve_paths(validate(ConsumerSettings, load_toml(config), config.name), config)

    raise typer.Exit(run_party(settings, supervised, run))
