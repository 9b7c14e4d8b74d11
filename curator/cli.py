"""`fedkme curator`: the verbs of the curator's host."""

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from curator.runs.queue import kind_of
from curator.server import serve as serve_runs
from curator.settings import CuratorSettings
from fedkme.errors import ConfigError
from fedkme.heads.files import export
from fedkme.ops.supervision import Supervised, run_party
from fedkme.party import load_settings
from fedkme.privacy.events import CURATOR
from fedkme.store.base import RunRow
from fedkme.store.reading import read_store
from fedkme.verbs import AsJson, LedgerFile, Verbs, print_json, print_result
from fedkme.wire.journals import run_document_from_bytes

app = Verbs("Run the curator, which owners join and consumers call.")

Config = Annotated[Path, typer.Argument(help="CURATOR.toml")]


@app.verb("fedkme curator serve curator.toml", "fedkme curator serve curator.toml --page 127.0.0.1:8080")
def serve(
    config: Config,
    page: Annotated[str | None, typer.Option(help="HOST:PORT of a page to watch, on this machine.")] = None,
    supervised: Supervised = False,
) -> None:
    """Serve owners and consumers until the process is told to stop."""

    def load() -> CuratorSettings:
        settings = load_settings(CuratorSettings, config)
        return settings if page is None else settings.model_copy(update={"page": page})

    raise typer.Exit(run_party(load, supervised, serve_runs, service=True))


@app.verb("fedkme curator page curator.toml --json", json="an object: address of each view", name="page")
def page_addresses(config: Config, as_json: AsJson = False) -> None:
    """Print the addresses of the page to watch: the operator's own, and one to hand to each party.

    An address with a token opens one view: whoever has the address sees the view.
    """
    settings = load_settings(CuratorSettings, config)
    if settings.page is None:
        raise ConfigError(f"{config.name} has no page", "Set 'page', for example to 127.0.0.1:8080.")
    place = settings.page_address()
    place.check()
    parties = {"owner": settings.owners, "consumer": settings.consumers}
    views = ("curator", *(f"{role}:{name}" for role, names in parties.items() for name in names))
    links = {view: place.link(view) for view in views}
    if as_json:
        print_json(links)
        return
    for view, link in links.items():
        typer.echo(f"{view:<24}{link}")


@app.verb("fedkme curator ledger curator.toml --out curator.jsonl", json="an object: file, party, lines")
def ledger(config: Config, out: LedgerFile, as_json: AsJson = False) -> None:
    """Write the curator's ledger to a file, also while it serves, for `fedkme audit`."""
    print_result(export(load_settings(CuratorSettings, config).journal, CURATOR, out), as_json)


@app.verb(
    "fedkme curator runs curator.toml --latest 20 --json",
    json="a list of objects: run, consumer, status, kind, rows (null for a release), opened",
)
def runs(
    config: Config,
    latest: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the N latest runs.")] = None,
    as_json: AsJson = False,
) -> None:
    """List every run with its consumer, its status and its start, also while the curator serves."""
    settings = load_settings(CuratorSettings, config)
    with contextlib.closing(read_store(settings.journal, CURATOR)) as store:
        entries = [_entry(row) for row in store.runs(latest=latest)]
    if as_json:
        print_json(entries)
        return
    typer.echo(f"{'run':<24}{'consumer':<20}{'status':<12}{'kind':<12}{'rows':>8}  opened")
    for entry in entries:
        rows = "-" if entry["rows"] is None else entry["rows"]
        typer.echo(
            f"{entry['run']:<24}{entry['consumer']:<20}{entry['status']:<12}{entry['kind']:<12}{rows:>8}  "
            f"{entry['opened']}"
        )


def _entry(row: RunRow) -> dict[str, Any]:
    document = run_document_from_bytes(row.document)
    kind = kind_of(document)
    return {
        "run": row.run,
        "consumer": row.peer,
        "status": row.status,
        "kind": kind,
        "rows": document.summary.rows if kind == "summary" else None,
        "opened": datetime.fromtimestamp(row.opened, UTC).isoformat(timespec="seconds"),
    }
