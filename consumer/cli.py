"""`fedkme consumer`: the verbs of a consumer's host."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from consumer.releases.client import attaching, load_release_settings
from consumer.releases.client import run as run_release
from consumer.requests import Requests
from consumer.runs import AnyConsumer, AnyWork, Work, cancelling, listing, watching
from consumer.settings import ConsumerSettings
from consumer.summary.client import run
from consumer.summary.received import load_validation
from fedkme.config import load_toml, validate
from fedkme.heads.files import export
from fedkme.ledgers.data_files import units_of
from fedkme.ops.supervision import Supervised, run_party
from fedkme.party import resolve_paths
from fedkme.store import open_store
from fedkme.tables.schema import load_schema

Config = Annotated[Path, typer.Argument(help="CONSUMER.toml")]
GoesOn = Annotated[bool, typer.Option("--goes-on", help="It may share rows with some earlier D_v.")]

app = typer.Typer(
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="Ask a curator for data.",
)


@app.callback()
def consumer() -> None:
    """Ask a curator for data."""


@app.command()
def summary(config: Config, supervised: Supervised = False) -> None:
    """Ask for a summary, receive its rows, judge them; after a failure, go on with the same request."""
    _do(config, run, supervised)


@app.command()
def runs(config: Config, json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """List this consumer's runs at its curator."""
    _do_any(config, listing(json))


@app.command()
def watch(config: Config, name: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """Follow a run to its end, write its rows and judge them, also of one that has ended."""
    _do(config, watching(name))


@app.command()
def cancel(config: Config, name: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """End a run; what it has cost stays counted."""
    _do_any(config, cancelling(name))


@app.command()
def ledger(config: Config, out: Annotated[Path, typer.Option(help="FILE.jsonl to write.")]) -> None:
    """Write this consumer's ledger to a file, for `fedkme audit verify` and `fedkme audit ledger`."""
    settings = _settings(config)
    typer.echo(export(settings.journal, settings.name, out))


@app.command("new-data")
def new_data(config: Config, goes_on: GoesOn = False) -> None:
    """Begin the budget anew for a D_v that shares no row with those of which something left."""
    settings = _settings(config)
    schema = load_schema(settings.schema_file)
    units = units_of(load_validation(settings, schema), schema)
    with contextlib.closing(open_store(settings.journal, settings.name, settings.durability)) as store:
        requests = Requests(settings.name, store)
        apart = requests.files.begin_anew(settings.name, units, requests.used_files, goes_on)
    typer.echo(f"the budget of {settings.name} counts no request over {apart} earlier files; lines stay")


@app.command()
def release(
    config: Config,
    attach: Annotated[
        str | None, typer.Option(metavar="RUN", help="Follow a run that was asked for.")
    ] = None,
    supervised: Supervised = False,
) -> None:
    """Ask for synthetic data, receive its files; after a failure, go on with the same request."""
    work = run_release if attach is None else attaching(attach)
    raise typer.Exit(run_party(lambda: load_release_settings(config), supervised, work))


def _do(config: Path, work: Work, supervised: bool = False) -> NoReturn:
    raise typer.Exit(run_party(lambda: _settings(config), supervised, work))


def _do_any(config: Path, work: AnyWork) -> NoReturn:
    """Do work under the configuration of a summary or of a release: both kinds are listed and cancelled."""

    def settings() -> AnyConsumer:
        return load_release_settings(config) if "release" in load_toml(config) else _settings(config)

    raise typer.Exit(run_party(settings, False, work))


def _settings(config: Path) -> ConsumerSettings:
    return resolve_paths(validate(ConsumerSettings, load_toml(config), config.name), config)
