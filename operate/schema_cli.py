"""`fedkme schema`: drafts a public schema from csv files, and checks files against a schema."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedkme import durable
from fedkme.answers.rules import RowRules, dummies
from fedkme.arrays import FloatArray
from fedkme.config import UTF_8, dump_toml, toml_text
from fedkme.drafts.checking import Checked, edit_lines, report_lines
from fedkme.drafts.checking import check as check_all
from fedkme.drafts.dictionary import draft_files
from fedkme.drafts.edits import Change, Place, edited, place_of, plain_schema, section_changes
from fedkme.drafts.numbers import outwards
from fedkme.drafts.reading import RowsToCheck
from fedkme.drafts.writing import remark_lines, text_of
from fedkme.durable import create
from fedkme.errors import ConfigError, DataError, FedkmeError
from fedkme.inputs import read_text
from fedkme.tables.data_file import DataFile, as_file
from fedkme.tables.files import load_table
from fedkme.tables.schema import Schema, load_schema, schema_from
from fedkme.tables.table import Table
from fedkme.tables.text import csv_text, dummy_columns
from fedkme.verbs import AsJson, Verbs, print_json
from operate.proposed_rules import functions_in, orders_in, sums_in, whole_columns

_CLOSE = 0.25
"""Most range of the days between two dates, for the range of the first, of which a column is proposed."""

app = Verbs("Draft a public schema, check files against it, make random rows for a rehearsal.")

Schemas = Annotated[Path, typer.Argument(metavar="SCHEMA", help="Schema file, or Table Schema (.json).")]
Out = Annotated[Path | None, typer.Option(help="File to write; none: print.")]


@app.verb("fedkme schema draft sample.csv --label ill --out schema.toml")
def draft(
    samples: Annotated[list[Path], typer.Argument(help="PUBLIC rows, or a data dictionary.")],
    label: Annotated[str | None, typer.Option(help="Column that a model learns to predict.")] = None,
    gaps: Annotated[
        bool, typer.Option("--gaps", help="Any column may have empty cells in other files.")
    ] = False,
    out: Out = None,
) -> None:
    """Draft a schema from public rows or a data dictionary, with remarks on what to look at.

    The verb detects separator, decimal sign, encoding, dates, words for missing values, categories, and
    columns that identify rows. Bounds and names seen in rows are marked: replace them if the rows are
    private.
    """
    drafted = draft_files(samples, label, gaps=gaps)
    for line in remark_lines(drafted) if out else ():
        typer.echo(line, err=True)
    schema, tables = drafted.schema(), list[Table]()
    with contextlib.suppress(FedkmeError):
        tables = [load_table(file, schema, "the sample") for file in drafted.files if drafted.from_data]
    whole = whole_columns(schema, tables) if tables else {}
    head, columns, rest = text_of(drafted).partition("[[columns]]")
    order = ""
    if orders := orders_in(schema, whole) if whole else []:
        order = "# These dates are in order in all rows of the sample. If always:\n"
        order += f"# order = {toml_text(orders)}\n\n"
    proposed = (*_functions(schema, whole), *_days_between(orders, whole)) if whole else ()
    functions = "".join(f"{line}\n" for line in proposed)
    _put(head + order + columns + rest + functions, out)


def _functions(schema: Schema, whole: Mapping[str, FloatArray]) -> Iterator[str]:
    """Lines of a draft that propose derived columns, by the samples' rows."""
    for name, derived in {**functions_in(schema, whole), **sums_in(schema, whole)}.items():
        sources = "', '".join(derived.sources)
        yield f"\n# '{name}' follows from '{sources}' in all rows of the sample. If always:"
        text = dump_toml({"derived": {name: derived.model_dump(exclude_defaults=True)}})
        yield from (f"# {line}" for line in text.splitlines() if line)


def _days_between(orders: Iterable[tuple[str, str]], whole: Mapping[str, FloatArray]) -> Iterator[str]:
    """Lines of a draft that propose a column of the days between two dates which are close in the samples."""
    days = {(first, last): whole[last] - whole[first] for first, last in orders}
    sums = dict[str, str]()
    for (first, last), between in sorted(days.items(), key=lambda each: float(np.ptp(each[1]))):
        close = np.ptp(between) <= _CLOSE * np.ptp(whole[first])
        if close and first not in sums and last not in {*sums, *sums.values()}:
            sums[last], name = first, f"days_to_{last}"
            bounds = [0, int(outwards(0.0, float(between.max()))[1])]
            column = {"kind": "numeric", "name": name, "bounds": bounds, "clip": True, "integer": True}
            rule = {"columns": [column], "derived": {last: {"sum_of": [first, name]}}}
            yield f"\n# '{last}' is soon after '{first}': made rows keep the days if these are a column,"
            yield "# which files may lack. To have it:"
            yield from (f"# {line}" for line in dump_toml(rule).splitlines() if line)


@app.verb(
    "fedkme schema check schema.toml north.csv south.csv",
    "fedkme schema check schema.toml study/scenario.toml --fix",
    "fedkme schema check schema.toml owner.toml --json",
    json="an object: files (name, rows, faults with lines, swallowed cells), edit (schema, files), rules",
)
def check(
    schema_file: Schemas,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files of rows; or OWNER.toml, CONSUMER.toml or a scenario, for the files that it names."
        ),
    ],
    as_json: AsJson = False,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Print faulty cells. They are private: for your eyes alone.")
    ] = False,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Write the edit into the schema and the configurations; remarks stay."),
    ] = False,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="With --fix: columns matched by a translation of their names, too."),
    ] = False,
) -> None:
    """Find every fault of every file, and the smallest edit that makes all fit; nothing leaves this host.

    The edit changes the schema where several files need it, and a file's own settings where one does. It is
    for whoever may see the rows: it has names that at least ten rows have, and bounds, as the rows have them.
    Each is marked FROM DATA where the schema, which all parties see, would disclose it; replace it if it is
    private. Lines, columns and counts are printed; cells only with --show-values.

    The verb also counts cells that the schema's `missing` and `clip`, and names outside lists, swallow, and
    rows that break the schema's rules: these are no faults.
    """
    checked, named, written = _checked(schema_file, files, fix, confirm, show_values)
    broken = _broken(checked, named)
    if as_json:
        edit = {"schema": checked.changes, "files": checked.fitted.edit.files, "written": written}
        print_json({"files": checked.reports, "edit": edit, "rules": broken})
    else:
        for report in checked.reports:
            typer.echo("\n".join(report_lines(report)))
            for text, count in broken.get(report.file, {}).items():
                typer.echo(f"  note      {count} rows break '{text}': counted as they are; made rows obey")
        typer.echo("".join(f"{line}\n" for line in edit_lines(checked, schema_file.name)), nl=False)
        typer.echo("".join(f"written: {path}\n" for path in written), nl=False, err=True)
    if left := _left(checked, named, fix):
        what = f"{left} of {len(named)} files do not fit the schema"
        remedy = "Correct what the lines above name."
        if fix and any(checked.fitted.edit.guesses) and not confirm:
            remedy = "Look at the guessed names of columns: --fix --confirm writes them."
        elif not fix and not any(report.left for report in checked.reports):
            remedy = "Paste the lines above, or let --fix write them."
        raise DataError(what, remedy)
    if not as_json:
        typer.echo(f"fit {schema_file.name}: {len(named)} of {len(named)} files")


def checked_files(schema_file: Path, files: Sequence[Path], *, fix: bool) -> tuple[list[str], int]:
    """Check files as the verb does; returns its lines, and the number of files that do not fit."""
    checked, named, _ = _checked(schema_file, files, fix, confirm=False, show_values=False)
    lines = [line for report in checked.reports for line in report_lines(report)]
    if not fix:
        lines += edit_lines(checked, schema_file.name)
    return lines, _left(checked, named, fix)


def _checked(
    schema_file: Path, files: Sequence[Path], fix: bool, confirm: bool, show_values: bool
) -> tuple[Checked, list[_Named], list[Path]]:
    """Check files; with `fix` write the edit. Returns findings, checked files, and written paths."""
    values = plain_schema(schema_file)
    named = [each for path in files for each in _subjects(path)]
    checked = check_all(
        [each.subject for each in named],
        values,
        schema_from(values, str(schema_file)),
        asked=fix,
        guess=confirm or not fix,
        show_values=show_values,
        keys=[(each.key, each.config.parent if each.config else None) for each in named],
    )
    return checked, named, list(_fix(checked, schema_file, values, named)) if fix else []


def _broken(checked: Checked, named: Sequence[_Named]) -> dict[str, dict[str, int]]:
    """Number of rows that break each rule of the schema, for the files without faults.

    Raises:
        SchemaError: a rule names what is not there.
    """
    schema, counts = checked.fitted.schema, dict[str, dict[str, int]]()
    if not schema.has_rules:
        return counts
    rules = RowRules(schema)
    for report, each in zip(checked.reports, named, strict=True):
        if not report.faults:
            table = load_table(each.subject.file, schema, report.file, of_persons=each.subject.of_persons)
            counts[report.file] = {text: count for text, count in rules.counts(table).items() if count}
    return counts


@dataclass(frozen=True, slots=True)
class _Named:
    """File of rows that a command line names, itself or by a configuration.

    Attributes:
        subject: the file.
        key: key of the configuration by which hints name it.
        config: the configuration; None: the file itself was named.
        place: keys in the configuration that lead to the file.
    """

    subject: RowsToCheck
    key: str = "data"
    config: Path | None = None
    place: Place = ()


def _subjects(path: Path) -> Iterator[_Named]:
    """Files of rows that a path names; rows are private unless a configuration says otherwise."""
    if path.suffix != ".toml":
        yield _Named(RowsToCheck(path.name, DataFile(path=path)))
        return
    from operate.configuration import files_of_rows  # it imports every role

    for source, party, place in files_of_rows(path):
        of_persons = party not in ("seeds", "test rows")
        subject = RowsToCheck(party, as_file(source), of_persons=of_persons, has_section=True)
        yield _Named(subject, str(place[-1] if isinstance(place[-1], str) else party), path, place)


def _left(checked: Checked, named: Sequence[_Named], fix: bool) -> int:
    """Count the files that do not fit, or still do not after what could be written."""
    if not fix:
        return checked.faulty
    return sum(_still_faulty(checked, each, place) for place, each in enumerate(named))


def _still_faulty(checked: Checked, named: _Named, place: int) -> bool:
    """Check whether a file has faults after what could be written."""
    unwritten = bool(checked.fitted.edit.files[place]) and named.config is None
    return bool(checked.reports[place].faults) and (bool(checked.reports[place].left) or unwritten)


def _fix(
    checked: Checked, schema_file: Path, values: Mapping[str, Any], named: Sequence[_Named]
) -> Iterator[Path]:
    """Write the edit; yield the files that changed.

    Raises:
        ConfigError: a file cannot be edited or written.
    """
    edits: dict[Path, list[Change]] = {}
    if checked.changes:
        if schema_file.suffix != ".toml":
            cause = f"{schema_file} is no TOML, and is not edited"
            raise ConfigError(cause, "Make the printed changes by hand.")
        edits[schema_file] = [
            Change((*place_of(values, each.column), each.key), each.value, each.remark)
            for each in checked.changes
        ]
    for place, each in enumerate(named):
        settings = checked.fitted.edit.files[place]
        if settings and each.config is not None:
            edits.setdefault(each.config, []).extend(section_changes(each.config, each.place, settings))
    texts = {path: edited(read_text(path, encoding=UTF_8), edits[path], str(path)) for path in edits}
    for path, text in texts.items():
        durable.replace(path, text.encode(), mode=path.stat().st_mode & 0o777)
        yield path


@app.verb("fedkme schema dummy schema.toml --rows 500 --out rehearsal.csv")
def dummy(
    schema_file: Schemas,
    rows: Annotated[int, typer.Option(min=0, help="Number of rows.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random rows.")] = 0,
    out: Out = None,
) -> None:
    """Write random rows of the schema's domain as csv, for a rehearsal; no real row is in them."""
    schema = load_schema(schema_file)
    _put(csv_text(dummy_columns(schema, dummies(schema, rows, np.random.default_rng(seed)))), out)


@app.verb("fedkme schema cuts runs/marginals-adult-1 --pieces 16 --out schema.toml")
def cuts(
    release: Annotated[Path, typer.Argument(help="Folder of a release of marginals.")],
    pieces: Annotated[int, typer.Option(min=2, max=4096, help="Bins of each number.")] = 16,
    out: Out = None,
) -> None:
    """Write the schema of a release with cuts of its numbers at noisy quantiles; no row is read.

    The release has cost its epsilon, for which `--set mechanism=independent` measures single columns alone.
    """
    from fedkme.answers.counts import CountEvidence  # these import scipy
    from fedkme.answers.folder import AskedFolder
    from operate.cuts import with_cuts

    evidence = AskedFolder(release).evidence
    if not isinstance(evidence, CountEvidence):
        cause = f"{release} is not a release of marginals"
        raise DataError(cause, "Make a release of marginals: it counts numbers by bins.")
    _put(with_cuts(evidence, pieces).to_toml(), out)


@app.verb("fedkme schema json owner --out owner.schema.json", name="json")
def json_of(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Kind of file; --help lists them.")],
    out: Out = None,
) -> None:
    """Print the JSON Schema of a kind of file; editors complete and check files with it.

    Kinds: schema, owner, curator, consumer, consumer-release, scenario, release-scenario.
    """
    from operate.descriptions import KINDS, json_schema  # it imports every role

    if kind not in KINDS:
        raise ConfigError(f"there is no kind of file '{kind}'", f"Kinds are {', '.join(KINDS)}.")
    _put(json.dumps(json_schema(kind), indent=1) + "\n", out)


def _put(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        create(out, text.encode())
        typer.echo(f"written: {out}", err=True)
    except FileExistsError:
        raise ConfigError(f"{out} exists already", "Choose another name: nothing is overwritten.") from None
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error.strerror}", "Check the folder.") from None
