"""`fedkme bench answers`: coverage of intervals, as a table and a csv file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkme.durable import replace
from fedkme.errors import ConfigError
from fedkme.verbs import AsJson, console, print_json

COPIES = "copies"
Releases = Annotated[int, typer.Option(min=1, help="Releases of each method, of fresh rows.")]
Rows = Annotated[int, typer.Option(min=100, help="Rows of a release.")]
Epsilon = Annotated[float, typer.Option(min=0.01, help="Of a release.")]
Seed = Annotated[int, typer.Option(min=0, help="Of rows and noise.")]
First = Annotated[
    int, typer.Option(min=0, help="Release to go on from: --out has those before it, by the same options.")
]
Methods = Annotated[str, typer.Option(help="Methods by comma; default: all.")]
Jobs = Annotated[int, typer.Option(min=1, help="Processes.")]
Out = Annotated[
    Path | None, typer.Option(help="Csv file, a line for each question; other methods in it are kept.")
]
JSON = (
    "a list: method, question, target, releases, tight, held, noise, noise_held, sampling, sampling_held, "
    "bounded, bounded_held, none, width"
)


def answers(
    releases: Releases = 500,
    rows: Rows = 20_000,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
    first: First = 0,
    methods: Methods = "",
    jobs: Jobs = 1,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how often the 95 % intervals of `fedkme ask` hold, by the methods' own code and noise."""
    from sim.bench.answers.copies import covered_by_copies
    from sim.bench.answers.coverage import METHODS, Tallies, covered, in_parts

    known = [*METHODS, COPIES]
    names = [name.strip() for name in methods.split(",")] if methods else known
    if strange := [name for name in names if name not in known]:
        raise ConfigError(f"there is no method '{strange[0]}'", f"Methods: {', '.join(known)}.")
    kept = _kept(out)
    lines = [each for each in kept if each["method"] not in names]
    screen = console(for_people=not as_json)
    for name in names:
        measure: Callable[[range], Tallies] = partial(
            covered, METHODS.get(name, {}), rows, epsilon, seed=seed
        )
        if name == COPIES:
            measure = partial(covered_by_copies, rows, epsilon, seed=seed)
        own: list[dict[str, Any]] = []
        before = {(each["question"], each["target"]): each for each in kept if each["method"] == name}
        if first and {int(each["releases"]) for each in before.values()} != {first}:
            raise ConfigError(f"--out has not the first {first} releases of {name}", "Leave --first out.")
        for done, tallies in in_parts(measure, range(first, releases), jobs):
            screen.print(f"{name}: {done} of {releases} releases")
            own = [
                {
                    "method": name,
                    "question": question,
                    "target": target,
                    "releases": done,
                    **(added(before[question, target], tally.line()) if first else tally.line()),
                }
                for (question, target), tally in tallies.items()
            ]
            if out is not None:
                replace(out, csv_of([*lines, *own]).encode())
        lines += own
        _show(summaries(lines, [name]), screen)
    if as_json:
        print_json(lines)


def added(before: Mapping[str, Any], further: Mapping[str, int | float]) -> dict[str, int | float]:
    """Counts of a line of the file and of further releases; of widths, the mean of both medians."""
    total = {key: int(before[key]) + int(further[key]) for key in (*COUNTED, "none")}
    intervals = [int(line["tight"]) + int(line["bounded"]) for line in (before, further)]
    medians = [
        float(line["width"]) if n else 0.0 for line, n in zip((before, further), intervals, strict=True)
    ]
    mean = sum(n * width for n, width in zip(intervals, medians, strict=True)) / (sum(intervals) or math.nan)
    return {**total, "width": float(f"{mean:.4g}")}


def csv_of(lines: Sequence[Mapping[str, Any]]) -> str:
    """Lines as csv."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def summaries(lines: Iterable[Mapping[str, Any]], methods: Sequence[str]) -> list[tuple[str, ...]]:
    """Coverage of each method over all its questions, as cells.

    Args:
        lines: as `fedkme bench answers` writes them; numbers may be text.
        methods: in order.
    """
    found: list[tuple[str, ...]] = []
    for method in methods:
        own = [each for each in lines if each["method"] == method]
        total = {key: sum(int(each[key]) for each in own) for key in COUNTED}
        shares = [
            int(each["held"]) / n for each in own if (n := int(each["tight"])) > int(each["releases"]) / 2
        ]
        found.append(
            (
                method,
                str(own[0]["releases"]),
                _share(total["held"], total["tight"]),
                f"{min(shares):.1%} to {max(shares):.1%}" if shares else "-",
                str(len(shares)),
                _share(total["noise_held"], total["noise"]),
                _share(total["sampling_held"], total["sampling"]),
                _share(total["bounded_held"], total["bounded"]),
                str(sum(1 for each in own if int(each["none"]) > int(each["releases"]) / 2)),
            )
        )
    return found


HEADER = (
    "method",
    "releases",
    "hold",
    "by question",
    "questions",
    "noise alone",
    "sampling alone",
    "bounded hold",
    "not in the span",
)
COUNTED = ("tight", "held", "noise", "noise_held", "sampling", "sampling_held", "bounded", "bounded_held")


def _kept(out: Path | None) -> list[dict[str, Any]]:
    if out is None or not out.exists():
        return []
    with out.open(encoding="utf-8") as text:
        return list(csv.DictReader(text))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _show(rows: Sequence[tuple[str, ...]], screen: Any) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(*HEADER, box=SIMPLE)
    for row in rows:
        table.add_row(*row)
    screen.print(table)
