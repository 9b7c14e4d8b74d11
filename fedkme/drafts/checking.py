"""Check of files against a schema: every fault with its lines, and what the schema swallows.

What is reported are names of columns, lines and counts. Cells are private: they are read only on demand.
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
        left: faults that are left where the file is read by these settings.
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
    """Find every fault of a file; a file that cannot be read has one.

    Args:
        source: the file, and how to read it.
        schema: what its columns are to be.
        party: whose it is, for errors.
        of_persons: whether it has the schema's column of persons.
        show_values: keep faulty cells, which are private.
        beside: folder at which the paths of hints start, that of the configuration which names the file;
            none: the current one.
        key: of the configuration, by which hints name the file.
    """
    file = as_file(source)
    report = _checked(file, schema, party, of_persons=of_persons, show_values=show_values)
    found = settings_seen(file, schema) if report.faults else {}
    if not found:
        return report
    said = file.model_dump(by_alias=True, exclude_unset=True)
    read = validate(type(file), said | found, str(file.path))
    left = _checked(read, schema, party, of_persons=of_persons, show_values=show_values).faults
    path = os.path.relpath(file.path, beside) if beside else str(file.path)
    settings = {name: value for name, value in said.items() if name != "name"} | {"path": path} | found
    hint = f"this may read it: {key} = {toml_text(settings)}"
    return replace(report, hints=[hint], left=left)


def _checked(
    file: DataFile, schema: Schema, party: str, *, of_persons: bool, show_values: bool
) -> FileReport:
    """Find every fault of a file as it is read by its settings."""
    try:
        found = examine(file, schema, party, of_persons=of_persons)
    except FedkmeError as error:
        fault = FileFault(error.code, "", error.cause.removeprefix(f"{party}: "), error.remedy)
        return FileReport(os.path.normpath(file.path), None, [fault])
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
    return FileReport(os.path.normpath(file.path), len(found.lines), faults, swallowed)


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
    if report.hints:
        yield f"  read so, {'these are left:' if report.left else 'it has no faults'}"
        yield from (f"    {fault}" for fault in report.left)


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
