"""`fedkme bench answers`: coverage of intervals, as a table and a csv file."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkme.durable import replace
from fedkme.errors import ConfigError
from fedkme.verbs import AsJson, console, print_json

COPIES = "copies"
Releases = Annotated[int, typer.Option(min=1, help="Releases of each method and kind of tables.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of rows and noise.")]
Methods = Annotated[str, typer.Option(help="Methods by comma; default: all.")]
Kinds = Annotated[str, typer.Option(help="Kinds of tables by comma; default: all.")]
Jobs = Annotated[int, typer.Option(min=1, help="Processes.")]
Out = Annotated[
    Path | None,
    typer.Option(help="Csv file, a line for each form of question; other methods in it are kept."),
]
BesideRows = Annotated[
    int, typer.Option(min=0, help="Rows of releases whose answers are held against their synthetic ones.")
]
JSON = (
    "a list: method, kind, question, target, releases, tight, held, noise, noise_held, sampling, "
    "sampling_held, bounded, bounded_held, none, width; with --beside-rows: question, releases, ratio, low"
)


def answers(
    releases: Releases = 100,
    seed: Seed = 0,
    methods: Methods = "",
    kinds: Kinds = "",
    jobs: Jobs = 1,
    out: Out = None,
    beside_rows: BesideRows = 0,
    as_json: AsJson = False,
) -> None:
    """Measure how often the 95 % intervals of `fedkme ask` hold, by the methods' own code and noise."""
    if beside_rows:
        _show_beside_rows(beside_rows, range(seed, seed + releases), as_json)
        return
    from lab.bench.answers.copies import covered_by_copies
    from lab.bench.answers.coverage import METHODS, Tallies, covered, in_parts
    from lab.bench.answers.populations import KINDS, PEOPLE

    names = _chosen(methods, [*METHODS, COPIES], "method")
    tables = _chosen(kinds, list(KINDS), "kind of tables")
    lines = [line for line in _kept(out) if line["method"] not in names or line["kind"] not in tables]
    screen = console(for_people=not as_json)
    for name, kind in itertools.product(names, tables):
        if name == COPIES and kind != PEOPLE:
            continue
        measure: Callable[[range], Tallies] = partial(covered, METHODS.get(name, {}), kind, seed=seed)
        if name == COPIES:
            measure = partial(covered_by_copies, seed=seed)
        own: list[dict[str, Any]] = []
        for count, tallies in in_parts(measure, range(releases), jobs):
            screen.print(f"{name}, {kind}: {count} of {releases} releases")
            about = {"method": name, "kind": kind}
            own = [
                {**about, "question": question, "target": target, "releases": count, **tally.line()}
                for (question, target), tally in tallies.items()
            ]
            if out is not None:
                replace(out, csv_of([*lines, *own]).encode())
        lines += own
    _show(summaries(lines), screen)
    if as_json:
        print_json(lines)


def _show_beside_rows(rows: int, seeds: range, as_json: bool) -> None:
    from lab.bench.answers.beside_rows import people, ratios_beside_rows

    lines = ratios_beside_rows(people(rows), seeds)
    cells = [tuple(f"{value}" for value in line.values()) for line in lines]
    _show([("question", "releases", "RMSE over the rows'", "2.5 %"), *cells], console(for_people=not as_json))
    if as_json:
        print_json(lines)


def _chosen(named: str, allowed: list[str], what: str) -> list[str]:
    chosen = [name.strip() for name in named.split(",")] if named else allowed
    if strange := [name for name in chosen if name not in allowed]:
        raise ConfigError(f"there is no {what} '{strange[0]}'", f"There are: {', '.join(allowed)}.")
    return chosen


def csv_of(lines: Sequence[Mapping[str, Any]]) -> str:
    """Lines as csv."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def summaries(lines: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Table of coverage: a column for each method, a row for each kind of tables.

    A cell has the coverage of all intervals, then the lowest coverage of a form of question. Forms with fewer
    than LEAST intervals count only in the first figure.

    Args:
        lines: lines as `fedkme bench answers` writes them; numbers may be text.
    """
    methods = list(dict.fromkeys(line["method"] for line in lines))
    table = [("tables", *methods)]
    for kind in dict.fromkeys(line["kind"] for line in lines):
        cells = [_cell([e for e in lines if (e["method"], e["kind"]) == (m, kind)]) for m in methods]
        table.append((kind, *cells))
    return table


LEAST = 40


def _cell(lines: Sequence[Mapping[str, Any]]) -> str:
    counts = [[sum(int(e[key]) for key in keys) for keys in _HELD] for e in lines]
    covered, total = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    if not total:
        return "-"
    forms = [part / whole for part, whole in counts if whole >= LEAST]
    lowest = f", {min(forms):.0%}" if forms else ""
    return f"{covered / total:.1%}{lowest} of {total}"


_HELD = (("held", "bounded_held"), ("tight", "bounded"))


def _kept(out: Path | None) -> list[dict[str, Any]]:
    if out is None or not out.exists():
        return []
    with out.open(encoding="utf-8") as text:
        return list(csv.DictReader(text))


def _show(rows: Sequence[tuple[str, ...]], screen: Any) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(*rows[0], box=SIMPLE)
    for row in rows[1:]:
        table.add_row(*row)
    screen.print(table)
