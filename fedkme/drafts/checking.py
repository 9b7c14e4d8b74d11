"""Check of files against a schema: every fault with its lines, and what the schema swallows.

What is reported are names of columns, lines and counts. Cells are private: they are read only on demand.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedkme.config import toml_text
from fedkme.drafts.dialect import DATE_FORMS, detect_file, form_of_dates, words_for_nothing
from fedkme.errors import DataError, FedkmeError
from fedkme.tables.columns import Category, Numeric
from fedkme.tables.conversion import needed_names, texts
from fedkme.tables.data_file import DataFile, Source, as_file
from fedkme.tables.files import examine, read_parts_of
from fedkme.tables.schema import Schema

MOST_VALUES = 10
"""Different cells that are shown of a fault, where they are."""


@dataclass(frozen=True, slots=True)
class FileFault:
    """Fault of a file.

    Attributes:
        code: number of docs/errors.md.
        column: that has it; "" for a fault of the file.
        what: what is wrong.
        remedy: what to do.
        unit: what `lines` count: line or row.
        lines: all that have it.
        values: the cells, each with how often it stands there; empty unless asked for.
    """

    code: int
    column: str
    what: str
    remedy: str
    unit: str = "line"
    lines: Sequence[int] = ()
    values: Sequence[tuple[str, int]] = ()

    def __str__(self) -> str:
        column = f"column '{self.column}': " if self.column else ""
        where = f"{self.unit}{'s' if len(self.lines) > 1 else ''} {spans(self.lines)}: " if self.lines else ""
        shown = "; ".join(f"{value!r} x {count}" for value, count in self.values)
        return f"error {self.code}  {where}{column}{self.what}{f' [{shown}]' if shown else ''}. {self.remedy}"


@dataclass(frozen=True, slots=True)
class FileReport:
    """Findings of one file.

    Attributes:
        file: its path.
        rows: that it has; None if it could not be read.
        faults: all of them.
        swallowed: cells that `missing`, `clip` and `unknown` replace: column, what they are, how many.
        hints: settings by which the file would be read, as far as can be seen.
    """

    file: str
    rows: int | None
    faults: Sequence[FileFault]
    swallowed: Sequence[tuple[str, str, int]] = ()
    hints: Sequence[str] = field(default=())


def check_file(
    source: Source, schema: Schema, party: str, *, of_persons: bool, show_values: bool = False
) -> FileReport:
    """Find every fault of a file; a file that cannot be read has one."""
    file = as_file(source)
    try:
        found = examine(source, schema, party, of_persons=of_persons)
    except FedkmeError as error:
        fault = FileFault(error.code, "", error.cause.removeprefix(f"{party}: "), error.remedy)
        return FileReport(str(file.path), None, [fault], (), [*_hints(file, schema)])
    faults = []
    if found.ragged:
        remedy = "Put a cell that holds the separator in double quotes."
        what = "more or fewer cells than the header has"
        faults.append(FileFault(DataError.code, "", what, remedy, found.unit, list(found.ragged)))
    for cells in found.faults:
        lines = found.lines[cells.rows].tolist()
        values = _values(file, cells.column, set(lines)) if show_values else ()
        faults.append(
            FileFault(DataError.code, cells.column, cells.what, cells.remedy, found.unit, lines, values)
        )
    swallowed = [(column, what, count) for (column, what), count in found.swallowed.items()]
    return FileReport(
        str(file.path), len(found.lines), faults, swallowed, [*_hints(file, schema)] if faults else ()
    )


def report_lines(report: FileReport) -> Iterator[str]:
    """A report for people: a line for the file, then one for each finding."""
    rows = "not read" if report.rows is None else f"{report.rows} rows"
    number = len(report.faults)
    yield f"{report.file}: {rows}, " + (f"kinds of faults: {number}" if number else "no faults")
    yield from (f"  {fault}" for fault in report.faults)
    yield from (
        f"  note      column '{column}': {count} cells are {what}" for column, what, count in report.swallowed
    )
    yield from (f"  hint      {hint}" for hint in report.hints)


def spans(numbers: Sequence[int], most: int = 8) -> str:
    """Ascending numbers with neighbours drawn together: 3, 7 to 9 and 5 more."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1][1:] = [number]
        else:
            groups.append([number])
    shown = ", ".join(" to ".join(map(str, group)) for group in groups[:most])
    left = len(numbers) - sum(group[-1] - group[0] + 1 for group in groups[:most])
    return f"{shown} and {left} more" if left else shown


def _values(file: DataFile, column: str, lines: set[int]) -> Sequence[tuple[str, int]]:
    """The most frequent cells of a column in some lines."""
    name = file.column(column).source or column
    counts: Counter[str] = Counter()
    for part in read_parts_of(file, file.path.name) if file.path.suffix != ".npz" else ():
        if name in part.columns:
            pairs = zip(texts(part.columns[name]), part.lines, strict=True)
            counts.update(cell for cell, line in pairs if line in lines)
    return counts.most_common(MOST_VALUES)


def _hints(file: DataFile, schema: Schema) -> Iterator[str]:
    """Settings that would make a difference to how a .csv is read, by its text: public words alone."""
    if file.path.suffix != ".csv":
        return
    try:
        found = _settings_seen(file, schema)
    except FedkmeError:
        return
    if found:
        yield f"this may read it: data = {toml_text({'path': str(file.path), **found})}"


def _settings_seen(file: DataFile, schema: Schema) -> dict[str, Any]:
    seen = detect_file(file.path)
    found: dict[str, Any] = {
        key: getattr(seen, key)
        for key in ("sep", "decimal", "encoding")
        if getattr(seen, key) != getattr(file, key)
    }
    counts: dict[str, Counter[str]] = {}
    for part in read_parts_of(seen, file.path.name):
        for name, cells in part.columns.items():
            counts.setdefault(name, Counter()).update(texts(cells))
    names = {name: _name_in(counts, name, file) for name in needed_names(schema, of_persons=False)}
    listed = {each for spec in schema.columns if isinstance(spec, Category) for each in spec.categories}
    words = {word for name in names.values() for word in words_for_nothing(counts.get(name, Counter()))}
    if words := words - listed - set(file.na):
        found["na"] = sorted(words)
    columns: dict[str, dict[str, str]] = {
        name: {"from": own} for name, own in names.items() if own not in (name, file.column(name).source)
    }
    for spec in schema.columns:
        if isinstance(spec, Numeric) and spec.kind == "date":
            cells = [cell for cell in counts.get(names[spec.name], ()) if cell and cell not in words]
            form = form_of_dates(cells)
            if form not in (None, DATE_FORMS[0], file.column(spec.name).format):
                columns.setdefault(spec.name, {})["format"] = str(form)
    return {**found, **({"columns": columns} if columns else {})}


def _name_in(header: Iterable[str], name: str, file: DataFile) -> str:
    """Name that a file gives a column: that of its settings, its own, or one that is much like it."""
    own = file.column(name).source or name
    plain = {each.lower(): each for each in header}
    if own in plain.values():
        return own
    close = difflib.get_close_matches(own.lower(), plain, n=1, cutoff=0.8)
    return plain[close[0]] if close else name
