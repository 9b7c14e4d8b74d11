"""Check of files against a schema: every fault with its lines, and the cells that settings replace.

Reports contain names of columns, line numbers and counts. Cells are private: they are shown only on demand.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedkme.config import toml_text, validate
from fedkme.drafts.reading import settings_seen
from fedkme.errors import DataError, FedkmeError
from fedkme.tables.conversion import texts
from fedkme.tables.data_file import DataFile, Source, as_file
from fedkme.tables.files import examine, read_parts_of
from fedkme.tables.schema import Schema

MOST_VALUES = 10
"""Distinct cells that a fault shows, at most, if cells are shown."""


@dataclass(frozen=True, slots=True)
class FileFault:
    """Fault of a file.

    Attributes:
        code: number of the error in docs/errors.md.
        column: name of the faulty column; "" for a fault of the file.
        what: description of the fault.
        remedy: remedy.
        unit: unit of `lines`: line or row.
        lines: numbers of all faulty lines.
        values: distinct cells with their counts; empty unless requested.
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
        file: path of the file.
        rows: number of rows; None if the file could not be read.
        faults: all faults.
        swallowed: cells that `missing`, `clip` and `unknown` replace: column, description, number.
        hints: settings that may make the file readable.
        left: faults that remain with these settings.
    """

    file: str
    rows: int | None
    faults: Sequence[FileFault]
    swallowed: Sequence[tuple[str, str, int]] = ()
    hints: Sequence[str] = field(default=())
    left: Sequence[FileFault] = ()


def check_file(
    source: Source,
    schema: Schema,
    party: str,
    *,
    of_persons: bool,
    show_values: bool = False,
    beside: Path | None = None,
    key: str = "data",
) -> FileReport:
    """Report every fault of a file; an unreadable file has one fault.

    Args:
        source: the file, and its settings.
        schema: schema that the file should match.
        party: party that the file belongs to, for errors.
        of_persons: whether the file has the schema's person column.
        show_values: include faulty cells, which are private.
        beside: folder of the configuration that names the file: paths in hints are relative to it; None: the
            current folder.
        key: key of the configuration by which hints name the file.
    """
    file = as_file(source)
    report = _checked(file, schema, party, of_persons=of_persons, show_values=show_values)
    hinted = settings_seen(file, schema) if report.faults else {}
    if not hinted:
        return report
    own_settings = file.model_dump(by_alias=True, exclude_unset=True)
    read = validate(type(file), own_settings | hinted, str(file.path))
    remaining = _checked(read, schema, party, of_persons=of_persons, show_values=show_values).faults
    path = os.path.relpath(file.path, beside) if beside else str(file.path)
    settings = (
        {name: value for name, value in own_settings.items() if name != "name"} | {"path": path} | hinted
    )
    hint = f"this may read it: {key} = {toml_text(settings)}"
    return replace(report, hints=[hint], left=remaining)


def _checked(
    file: DataFile, schema: Schema, party: str, *, of_persons: bool, show_values: bool
) -> FileReport:
    """Report every fault of a file that is read with the given settings."""
    try:
        examined = examine(file, schema, party, of_persons=of_persons)
    except FedkmeError as error:
        fault = FileFault(error.code, "", error.cause.removeprefix(f"{party}: "), error.remedy)
        return FileReport(os.path.normpath(file.path), None, [fault])
    faults = []
    if examined.ragged:
        remedy = "Put a cell that holds the separator in double quotes."
        what = "more or fewer cells than the header has"
        faults.append(FileFault(DataError.code, "", what, remedy, examined.unit, list(examined.ragged)))
    for cells in examined.faults:
        lines = examined.lines[cells.rows].tolist()
        values = _values(file, cells.column, set(lines)) if show_values else ()
        faults.append(
            FileFault(DataError.code, cells.column, cells.what, cells.remedy, examined.unit, lines, values)
        )
    swallowed = [(column, what, count) for (column, what), count in examined.swallowed.items()]
    return FileReport(os.path.normpath(file.path), len(examined.lines), faults, swallowed)


def report_lines(report: FileReport) -> Iterator[str]:
    """Lines of a report for people: a line for the file, then one for each finding."""
    rows = "not read" if report.rows is None else f"{report.rows} rows"
    number = len(report.faults)
    yield f"{report.file}: {rows}, " + (f"kinds of faults: {number}" if number else "no faults")
    yield from (f"  {fault}" for fault in report.faults)
    yield from (
        f"  note      column '{column}': {count} cells are {what}" for column, what, count in report.swallowed
    )
    yield from (f"  hint      {hint}" for hint in report.hints)
    if report.hints:
        yield f"  read so, {'these are left:' if report.left else 'it has no faults'}"
        yield from (f"    {fault}" for fault in report.left)


def spans(numbers: Sequence[int], most: int = 8) -> str:
    """Ascending numbers as text, with consecutive ones joined: 3, 7 to 9 and 5 more."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1][1:] = [number]
        else:
            groups.append([number])
    shown = ", ".join(" to ".join(map(str, group)) for group in groups[:most])
    remaining = len(numbers) - sum(group[-1] - group[0] + 1 for group in groups[:most])
    return f"{shown} and {remaining} more" if remaining else shown


def _values(file: DataFile, column: str, lines: set[int]) -> Sequence[tuple[str, int]]:
    """Most frequent cells of a column in the given lines."""
    name = file.column(column).source or column
    counts: Counter[str] = Counter()
    for part in read_parts_of(file, file.path.name) if file.path.suffix != ".npz" else ():
        if name in part.columns:
            pairs = zip(texts(part.columns[name]), part.lines, strict=True)
            counts.update(cell for cell, line in pairs if line in lines)
    return counts.most_common(MOST_VALUES)
