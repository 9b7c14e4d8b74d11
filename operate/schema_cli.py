"""`fedkme schema`: drafts a public schema from csv files, and checks files against a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedkme.drafts.checking import check_file, report_lines
from fedkme.drafts.dictionary import draft_files
from fedkme.drafts.dummies import dummy_columns
from fedkme.drafts.writing import text_of
from fedkme.durable import create
from fedkme.errors import ConfigError, DataError
from fedkme.tables.data_file import Source
from fedkme.tables.schema import load_schema
from fedkme.tables.text import csv_text
from fedkme.verbs import AsJson, Verbs, print_json

app = Verbs("Draft a public schema, check files against it, make random rows for a rehearsal.")

Schemas = Annotated[Path, typer.Argument(metavar="SCHEMA", help="Schema file, or Table Schema (.json).")]
_KEYS = {"rows": "data", "D_v": "validation", "test rows": "test"}
"""Key of a configuration by the kind of its rows; a scenario's owner has its own name as key."""
Out = Annotated[Path | None, typer.Option(help="File to write; none: print.")]


@app.verb("fedkme schema draft sample.csv --label ill --out schema.toml")
def draft(
    samples: Annotated[list[Path], typer.Argument(help="PUBLIC rows, or a data dictionary.")],
    label: Annotated[str | None, typer.Option(help="Column that a model learns to predict.")] = None,
    out: Out = None,
) -> None:
    """Draft a schema from public rows or a data dictionary, with remarks on what to look at.

    The verb detects separator, decimal sign, encoding, dates, words for missing values, categories, and
    columns that identify rows. Bounds and names seen in rows are marked: replace them if the rows are
    private.
    """
    _put(text_of(draft_files(samples, label)), out)


@app.verb(
    "fedkme schema check schema.toml north.csv south.csv",
    "fedkme schema check schema.toml owner.toml --json",
    json="an object: files (name, rows, faults with lines, swallowed cells)",
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
) -> None:
    """Find every fault of every file, with line numbers, in one pass; nothing leaves this host.

    It also counts cells that the schema's `missing` and `clip`, and names outside lists, swallow.
    """
    loaded = load_schema(schema_file)
    reports = [
        check_file(
            source,
            loaded,
            party,
            of_persons=private,
            show_values=show_values,
            beside=path.parent if path.suffix == ".toml" else None,
            key=_KEYS.get(party, party if path.suffix == ".toml" else "data"),
        )
        for path in files
        for source, party, private in _sources(path)
    ]
    if as_json:
        print_json({"files": reports})
    else:
        for report in reports:
            typer.echo("\n".join(report_lines(report)))
    if faulty := sum(bool(report.faults) for report in reports):
        what = f"{faulty} of {len(reports)} files do not fit the schema"
        raise DataError(what, "Correct what the lines above name.")


@app.verb("fedkme schema dummy schema.toml --rows 500 --out rehearsal.csv")
def dummy(
    schema_file: Schemas,
    rows: Annotated[int, typer.Option(min=0, help="Number of rows.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random rows.")] = 0,
    out: Out = None,
) -> None:
    """Write random rows of the schema's domain as csv, for a rehearsal; no real row is in them."""
    _put(csv_text(dummy_columns(load_schema(schema_file), rows, np.random.default_rng(seed))), out)


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
        raise DataError(
            f"{release} is not a release of marginals",
            "Make a release of marginals: it counts numbers by bins.",
        )
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


def _sources(path: Path) -> Iterator[tuple[Source, str, bool]]:
    """Yield the files of rows that a path names, with the party or kind, and True for private rows."""
    if path.suffix != ".toml":
        yield path, path.name, True
        return
    from operate.configuration import files_of_rows  # it imports every role

    yield from files_of_rows(path)


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
