"""`fedkme consumer`: the verbs of a consumer's host."""

import contextlib
import json
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from consumer.releases.client import ReleaseConsumerSettings, attaching, is_of_release, load_release_settings
from consumer.releases.client import run as run_release
from consumer.requests import Requests
from consumer.results import CSV, EVALUATION, SUMMARY, alone, lost_owners, place_of
from consumer.runs import AnyConsumer, AnyWork, Work, cancelling, listing, watching
from consumer.settings import ConsumerSettings
from consumer.summary.received import load_validation
from consumer.target.client import run
from consumer.target.matching import AUDIENCE
from fedkme.config import load_toml
from fedkme.directives import one_line
from fedkme.errors import IncompleteSummaryError, NotJudgedError, typed
from fedkme.heads.files import export
from fedkme.inputs import read_text
from fedkme.ledgers.data_files import units_of
from fedkme.ops.supervision import Supervised, run_party
from fedkme.party import load_settings
from fedkme.store import open_store
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import load_schema
from fedkme.verbs import AsJson, LedgerFile, Verbs, print_json, print_result
from fedkme.verdict import GRADES, USES, lines_of


def received_summary(settings: ConsumerSettings) -> dict[str, Any]:
    """Describe the summary in the output folder: `output`, `rows`, `files`, and the verdict or None."""
    output = settings.output
    judged = place_of(output, EVALUATION)
    evaluation = json.loads(read_text(judged)) if judged.exists() else {}
    return {
        "output": output,
        "rows": len(read_arrays(place_of(output, SUMMARY), settings.name)["x"]),
        "files": sorted(path.name for path in output.iterdir() if path.suffix in (".npz", ".csv", ".json")),
        "verdict": evaluation.get("verdict"),
        "lost": next(iter(lost_owners(output)), None),
    }


def received_release(settings: ReleaseConsumerSettings) -> dict[str, Any]:
    """Describe the release in the output folder: `output`, `files`, and the card's verdict or None."""
    names = filter(is_of_release, sorted(path.name for path in settings.output.iterdir()))
    verdicts = map(_verdict_in, sorted(settings.output.glob("*.card.json")))
    return {
        "output": settings.output,
        "files": [*names],
        "verdict": next(verdicts, None),
        "lost": next(iter(lost_owners(settings.output)), None),
    }


def _verdict_in(card: Path) -> dict[str, Any] | None:
    """Read the verdict in a curator's data card, which fits a terminal; None if there is none."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        plain = json.loads(read_text(card))["verdict"]
        grades, reasons = (dict(plain.get(key) or {}) for key in ("grades", "reasons"))
        if plain["grade"] in GRADES and {*grades.values()} <= {*GRADES}:
            return {
                "grade": plain["grade"],
                "sentence": one_line(plain["sentence"]),
                "advice": one_line(plain["advice"]),
                "grades": {use: grades[use] for use in USES if use in grades},
                "reasons": {use: one_line(reasons[use]) for use in USES if use in reasons},
                "doubts": [one_line(doubt) for doubt in plain.get("doubts") or ()],
            }
    return None


def print_received(received: Mapping[str, Any], config: Path, as_json: bool) -> None:
    """Print the description: as JSON for programs, or as lines for a person."""
    if as_json:
        print_json(received)
        return
    output = received["output"]
    for name in (CSV, alone(CSV)):
        if name in received["files"]:
            whose = "" if name == CSV else f" {AUDIENCE}"
            typer.echo(f"{received['rows']} rows{whose}, with names and weights: {output / name}")
    typer.echo(f"files: {output} ({', '.join(received['files'])})")
    if lost := received.get("lost"):
        typer.echo(f"owners: {lost}")
    for line in lines_of(received.get("verdict"), doubts=False):  # no number about D_v: output goes to a log
        typer.echo(line)
    typer.echo(f"report as a page: fedkme report {typed(config)}")


Config = Annotated[Path, typer.Argument(help="CONSUMER.toml")]
GoesOn = Annotated[bool, typer.Option("--goes-on", help="The new D_v may share rows with an earlier one.")]

app = Verbs("Ask a curator for data.")


_RECEIVED = (
    "an object: output, rows, files, verdict (null if nothing was judged), lost (owners; null if none)"
)


@app.verb(
    "fedkme consumer summary consumer.toml", "fedkme consumer summary consumer.toml --json", json=_RECEIVED
)
def summary(config: Config, supervised: Supervised = False, as_json: AsJson = False) -> None:
    """Ask for a summary, receive its rows, judge them; after a failure, go on with the same request."""
    _do(config, run, supervised, as_json)


@app.verb(
    "fedkme consumer runs consumer.toml --json",
    json="a list of objects: run, kind, status, rows, selected, opened, ahead",
)
def runs(config: Config, as_json: AsJson = False) -> None:
    """List this consumer's runs at its curator."""
    _do_any(config, listing(as_json))


@app.verb("fedkme consumer watch consumer.toml run-1", json=_RECEIVED)
def watch(
    config: Config, name: Annotated[str, typer.Argument(metavar="RUN")], as_json: AsJson = False
) -> None:
    """Follow a run to its end, or take one that has ended; write its rows and judge them."""
    _do(config, watching(name), as_json=as_json)


@app.verb("fedkme consumer cancel consumer.toml run-1")
def cancel(config: Config, name: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """End a run; what it has cost stays counted."""
    _do_any(config, cancelling(name))


@app.verb("fedkme consumer ledger consumer.toml --out lab.jsonl", json="an object: file, party, lines")
def ledger(config: Config, out: LedgerFile, as_json: AsJson = False) -> None:
    """Write this consumer's ledger to a file, for `fedkme audit verify` and `fedkme audit ledger`."""
    settings = load_settings(ConsumerSettings, config)
    print_result(export(settings.journal, settings.name, out), as_json)


@app.verb(
    "fedkme consumer new-data consumer.toml",
    json="an object: name, earlier (how many files)",
    name="new-data",
)
def new_data(config: Config, goes_on: GoesOn = False, as_json: AsJson = False) -> None:
    """Begin the budget anew for a D_v that shares no row with any D_v used before."""
    settings = load_settings(ConsumerSettings, config)
    schema = load_schema(settings.schema_file)
    units = units_of(load_validation(settings, schema), schema)
    with contextlib.closing(open_store(settings.journal, settings.name, settings.durability)) as store:
        requests = Requests(settings.name, store)
        apart = requests.files.begin_anew(settings.name, units, requests.used_files, goes_on)
    if as_json:
        print_json({"name": settings.name, "earlier": apart})
        return
    typer.echo(f"the budget of {settings.name} counts no request over {apart} earlier files; lines stay")


@app.verb(
    "fedkme consumer release consumer.toml",
    "fedkme consumer release consumer.toml --attach run-1 --json",
    json="an object: output, files, verdict (null if the card has none), lost (owners; null if none)",
)
def release(
    config: Config,
    attach: Annotated[
        str | None, typer.Option(metavar="RUN", help="Follow a run that was requested before.")
    ] = None,
    supervised: Supervised = False,
    as_json: AsJson = False,
) -> None:
    """Ask for synthetic data, receive its files; after a failure, go on with the same request."""
    work = run_release if attach is None else attaching(attach)
    load = cache(partial(load_release_settings, config))
    code = run_party(load, supervised, work)
    if code == 0 and not supervised:
        print_received(received_release(load()), config, as_json)
    raise typer.Exit(code)


def _do(config: Path, work: Work, supervised: bool = False, as_json: bool = False) -> NoReturn:
    # Read once: the file may have changed when the work is done.
    load = cache(partial(load_settings, ConsumerSettings, config))
    code = run_party(load, supervised, work)
    judged_codes = (0, IncompleteSummaryError.code, NotJudgedError.code) if as_json else (0,)
    if code in judged_codes and not supervised:  # an error says itself where the rows are
        print_received(received_summary(load()), config, as_json)
    raise typer.Exit(code)


def _do_any(config: Path, work: AnyWork) -> NoReturn:
    """Do work under the configuration of a summary or of a release: both kinds are listed and cancelled."""

    def settings() -> AnyConsumer:
        if "release" in load_toml(config):
            return load_release_settings(config)
        return load_settings(ConsumerSettings, config)

    raise typer.Exit(run_party(settings, False, work))
