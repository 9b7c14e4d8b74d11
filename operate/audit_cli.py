"""`fedkme audit`: verifies ledgers and states their cost."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedkme.errors import FedkmeError, LedgerError, NotVerifiedError, on_disk
from fedkme.heads.files import SUFFIX
from fedkme.inputs import SMALL, read_bytes
from fedkme.ledgers.discovery import following_once, locate
from fedkme.ledgers.figures import METRICS, check_figures, differs
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.reconcile import Verdict, verify, verify_files
from fedkme.ledgers.statements import statements
from fedkme.ledgers.witnesses import are_signed, check_files
from fedkme.pki.files import certificates_in
from fedkme.privacy.accountants import Published, paid
from fedkme.privacy.accounting import ONE_ROW, PrivacyStatement
from fedkme.privacy.events import Disclosure, MwemCall, PrivAuction, leaves
from fedkme.verbs import AsJson, Verbs, console, print_json, table_of
from sim.config import load_simulation
from sim.engines.run_folder import AUTHORITY, read_record
from sim.evaluation.metrics import published_variant
from sim.report.write import REPORT, fault_of_report, read_object

app = Verbs("Check ledgers; attack the mechanisms.", place="audit")


@app.verb(
    "fedkme audit verify runs/digits-1",
    "fedkme audit verify curator.jsonl north.jsonl north.heads --authority authority.pem --partial",
    json="an object: verdicts (word, about, fault, lines, note, absent, empty), faults, lines, absent (whose "
    "ledgers were not given), signatures (whether they were verified)",
    name="verify",
)
def verify_runs(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of runs, with ledgers or heads stored elsewhere; or ledgers and heads alone."
        ),
    ],
    authority: Annotated[
        Path | None,
        typer.Option(help="authority.pem, by which heads must be signed; default: a folder's own."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Verify the given files; missing files are no failure.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check every chain, the curator's ledger against each owner's and the consumer's, heads and figures.

    Each line begins with OK, 'nothing to verify' (nothing was written), 'not given', or FAULT. The exit
    status is 0 if all files are given and agree (with --partial: if the given files agree), 61 if a file is
    missing or nothing was ever written, 50 at a fault.
    """
    heads = [path for path in paths if path.suffix == SUFFIX]
    files = [path for path in paths if path.is_file() and path not in heads]
    folders = [path for path in paths if not path.is_file()]
    follow = following_once()
    verdicts = [verdict for folder in folders for verdict in verify(folder, files, follow)]
    whole = not any(verdict.fault for verdict in verdicts)
    verdicts += [verdict for folder in folders if whole for verdict in _figures(folder)]
    absent: list[str] = []
    if not folders:
        verdicts, absent = verify_files(files, follow)
    ledgers = sorted({*files, *(path for folder in folders for _, path in locate(folder, follow))})
    trusted = (
        [authority] if authority else [file for folder in folders if (file := folder / AUTHORITY).is_file()]
    )
    with on_disk(f"{trusted[0] if trusted else ''} cannot be read", "Give the authority's certificate."):
        pem = b"".join(certificates_in(read_bytes(path, SMALL)) for path in trusted)
    verdicts += check_files(ledgers, heads, pem or None, follow)
    absent = sorted({*absent, *(verdict.absent for verdict in verdicts if verdict.absent)})
    unsigned = not pem and are_signed(ledgers, heads)
    faults = sum(bool(verdict.fault) for verdict in verdicts)
    lines = {verdict.about: verdict.lines for verdict in verdicts if verdict.lines is not None}
    if as_json:
        answer = {
            "verdicts": [{"word": verdict.word, **asdict(verdict)} for verdict in verdicts],
            "faults": faults,
        }
        print_json({**answer, "lines": sum(lines.values()), "absent": absent, "signatures": not unsigned})
    else:
        for verdict in verdicts:
            noted = f": {verdict.fault}" if verdict.fault else f"; {verdict.note}" if verdict.note else ""
            colon = ":" if " " in verdict.word else ""
            typer.echo(f"{verdict.word + colon:<5} {verdict.about}{noted}")
    if faults:
        cause = f"ledgers have {faults} faults" if faults > 1 else "a ledger has a fault"
        raise LedgerError(cause, "Read the lines above; keep the files as they are.")
    gaps = [f"not given, hence not compared: {', '.join(absent)}"] if absent else []
    gaps += ["signatures of heads not verified, for want of --authority"] if unsigned else []
    remedy = "Give what is missing, or --partial to verify a part."
    if count := sum(map(bool, lines.values())):
        what = "1 ledger is whole" if count == 1 else f"{count} ledgers agree"
        end = [f"{what}, {sum(lines.values())} lines", *gaps]
    else:
        remedy = (
            remedy if gaps else "Verify once a run has disclosed anything; --partial accepts empty ledgers."
        )
        end = gaps = ["nothing to verify: no ledger that was given has a line", *gaps]
    if authority is None and trusted:
        end = [*end, f"heads are signed by {', '.join(map(str, trusted))}, which nobody vouches for"]
    if not as_json:
        typer.echo("; ".join(end))
    if gaps and not partial:
        raise NotVerifiedError("; ".join(gaps), remedy)


def _figures(folder: Path) -> list[Verdict]:
    """Verdicts on other privacy figures in a folder: metrics, cards, the page."""
    verdicts = check_figures(folder)
    if verdicts and not verdicts[0].fault:
        verdicts += [*_published(folder), *_report(folder)]
    return verdicts


def _report(folder: Path) -> Iterator[Verdict]:
    if (page := folder / REPORT).is_file():
        fault, absent = fault_of_report(folder)
        yield Verdict(str(page), fault, absent=absent)


def _published(folder: Path) -> Iterator[Verdict]:
    """Verdict on the published variant's claim in metrics.json, if any, recomputed from settings."""
    metrics, record = read_object(folder / METRICS), read_record(folder) or {}
    if stated := metrics.get("privacy_published"):
        try:
            settings = load_simulation(str(folder / "run.toml")).chosen(record)
        except FedkmeError:
            yield Verdict(f"{folder / METRICS}, the variant as published", absent="settings that can be read")
            return
        true = published_variant(settings.summary, len(record.get("owner_rows", ())))
        fault = differs(stated, [each.to_json() for each in true])
        yield Verdict(f"{folder / METRICS}, the variant as published", fault)


@app.verb(
    "fedkme audit ledger runs/digits-1",
    "fedkme audit ledger north.jsonl --delta 1e-6 --person 3 --json",
    json="a list of statements, as `privacy` of metrics.json",
)
def ledger(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders of runs, or ledgers, such as a party's lifetime ledger.")
    ],
    delta: Annotated[float, typer.Option(help="Delta of the stated epsilons.")] = 1e-5,
    run: Annotated[str | None, typer.Option(help="Name of a single run to state.")] = None,
    person: Annotated[
        int | None, typer.Option(metavar="ROWS", min=1, help="Rows of one person, if no record says.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what each observer can learn of each data set: epsilon by both accountants, and rows seen.

    All runs in the ledgers are composed: the cost of an owner's rows, or a consumer's D_v, over their
    lifetime. With several consumers, one line has what they learn if they share everything.
    """
    books = read_ledgers(paths)
    if run is not None:
        books = books.of(run)
    if person is not None:
        books = replace(books, group=person)
    stated = statements(books, delta)
    if as_json:
        print_json([each.to_json() for each in stated])
        return
    out = console()
    out.print(_title(books.runs))
    notes = list(dict.fromkeys(each.reason for each in stated if math.isinf(each.epsilon)))
    out.print(as_table(stated, delta, notes))
    for number, note in enumerate(notes, start=1):
        out.print(f"note {number}: {note}")
    for (protected, observer), cell in _published_cells(books.disclosures()).items():
        out.print(f"published arithmetic for {protected}, seen by {observer}:")
        for line in Published().steps(paid(cell), delta):
            out.print(f"  {line}", soft_wrap=True)


def as_table(stated: Sequence[PrivacyStatement], delta: float, notes: Sequence[str]) -> Table:
    """Make the matrix: a line per data set and observer, with reasons for no bound numbered as in `notes`."""
    relations = sorted({each.neighbouring for each in stated} - {"any"})
    title = f"epsilon at delta = {delta:g}, {', '.join(relations)}; only 'sound' is proven; -: no claim"
    header = ("protected", "observer", ">sound", ">published", ">raw rows", "how")
    table = table_of(header, title=title, ruled=True)
    before = ""
    for (protected, observer, unit), pair in groupby(
        stated, lambda each: (each.protected, each.observer, each.unit)
    ):
        by_name = {each.accountant: each for each in pair}
        proven, claimed = by_name["sound"], by_name.get("published")
        if before != observer:
            table.add_section()
        infinite = math.isinf(proven.epsilon)
        how = f"note {notes.index(proven.reason) + 1}" if infinite else proven.reason
        table.add_row(
            protected if unit == ONE_ROW else f"  {unit}",
            observer,
            _number(proven.epsilon),
            "-" if claimed is None else _number(claimed.epsilon),
            str(proven.raw_points),
            how if len(relations) < 2 else f"{how}, {proven.neighbouring}",
        )
        before = observer
    return table


def _title(runs: list[str]) -> str:
    if not runs:
        return "no run: the ledgers are empty"
    return f"run {runs[0]}" if len(runs) == 1 else f"{len(runs)} runs together: {runs[0]} to {runs[-1]}"


def _number(epsilon: float) -> str:
    return "inf" if math.isinf(epsilon) else f"{epsilon:.4g}"


def _published_cells(disclosures: list[Disclosure]) -> dict[tuple[str, str], list[Disclosure]]:
    """Disclosures with published arithmetic, by pair of data set and observer."""
    cells: dict[tuple[str, str], list[Disclosure]] = {}
    for about in disclosures:
        if any(isinstance(event, MwemCall | PrivAuction) for event in leaves([about.event])):
            cells.setdefault((about.protected, about.observer), []).append(about)
    return cells
