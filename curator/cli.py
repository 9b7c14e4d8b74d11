"""`fedkme curator`: the verbs of the curator's host."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from curator.runs.queue import kind_of
from curator.server import serve as serve_runs
from curator.settings import CuratorSettings
from fedkme.config import load_toml, validate
from fedkme.errors import ConfigError
from fedkme.heads.files import export
from fedkme.ops.supervision import Supervised, run_party
from fedkme.party import resolve_paths
from fedkme.privacy.events import CURATOR
from fedkme.store.reading import read_store
from fedkme.wire.journals import RunDocument

app = typer.Typer(
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="Run the curator, which owners join and consumers call.",
)


@app.callback()
def curator() -> None:
    """Run the curator, which owners join and consumers call."""


@app.command()
def serve(
    config: Annotated[Path, typer.Argument(help="CURATOR.toml")],
    page: Annotated[str | None, typer.Option(help="HOST:PORT of a page to watch, on this machine.")] = None,
    supervised: Supervised = False,
) -> None:
    """Serve owners and consumers until told to stop.

    fedkme curator serve curator.toml --page 127.0.0.1:8080
    """

    def load() -> CuratorSettings:
        settings = _settings(config)
        return settings if page is None else settings.model_copy(update={"page": page})

    raise typer.Exit(run_party(load, supervised, serve_runs, service=True))


@app.command("page")
def page_addresses(config: Annotated[Path, typer.Argument(help="CURATOR.toml")]) -> None:
    """Print the addresses of the page to watch: the operator's own, and one to hand to each party.

    An address with a token opens one view; who has it sees that view.
    """
    settings = _settings(config)
    if settings.page is None:
        raise ConfigError(f"{config.name} has no page", "Set 'page', for example to 127.0.0.1:8080.")
    place = settings.page_address()
    place.check()
    parties = {"owner": settings.owners, "consumer": settings.consumers}
    for words in ("curator", *(f"{role}:{name}" for role, names in parties.items() for name in names)):
        typer.echo(f"{words:<24}{place.link(words)}")


@app.command()
def ledger(
    config: Annotated[Path, typer.Argument(help="CURATOR.toml")],
    out: Annotated[Path, typer.Option(help="FILE.jsonl to write.")],
) -> None:
    """Write the curator's ledger to a file, also while it serves, for `fedkme audit`."""
    typer.echo(export(_settings(config).journal, CURATOR, out))


@app.command()
def runs(config: Annotated[Path, typer.Argument(help="CURATOR.toml")]) -> None:
    """List every run, also while the curator serves: whose, how far, since when."""
    settings = _settings(config)
    with contextlib.closing(read_store(settings.journal, CURATOR)) as store:
        typer.echo(f"{'run':<24}{'consumer':<20}{'status':<12}{'kind':<12}{'rows':>8}  opened")
        for row in store.runs():
            document = RunDocument.from_bytes(row.document)
            opened = datetime.fromtimestamp(row.opened, UTC).isoformat(timespec="seconds")
            rows = "-" if kind_of(document) != "summary" else document.summary.rows
            typer.echo(
                f"{row.run:<24}{row.peer:<20}{row.status:<12}{kind_of(document):<12}{rows:>8}  {opened}"
            )


def _settings(config: Path) -> CuratorSettings:
    return resolve_paths(validate(CuratorSettings, load_toml(config), config.name), config)
