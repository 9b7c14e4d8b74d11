"""Check of files and frames against a schema: every fault, cells that settings replace, the smallest edit.

Reports contain names of columns, line numbers and counts. Cells are private: faults show them on demand. The
edit, which is for whoever may see the rows, has names that many rows have, bounds, and words for an empty
cell that everybody uses.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedkme.config import toml_key, toml_text
from fedkme.drafts.edits import Fitted, SchemaChange, no_edit
from fedkme.drafts.fitting import fit
from fedkme.drafts.reading import RowsToCheck, much_swallowed
from fedkme.drafts.words import meanings, means_nothing
from fedkme.errors import DataError, FedkmeError
from fedkme.tables.cells import texts
from fedkme.tables.conversion import cells_are
from fedkme.tables.data_file import DataFile, needed_names
from fedkme.tables.files import ragged_remedy
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
        file: file or party that has the fault.
    """

    code: int
    column: str
    what: str
    remedy: str
    unit: str = "line"
    lines: Sequence[int] = ()
    values: Sequence[tuple[str, int]] = ()
    file: str = ""

    def __str__(self) -> str:
        column = f"column '{self.column}': " if self.column else ""
        where = f"{self.unit}{'s' if len(self.lines) > 1 else ''} {spans(self.lines)}: " if self.lines else ""
        shown = "; ".join(f"{value!r} x {count}" for value, count in self.values)
        return f"error {self.code}  {where}{column}{self.what}{f' [{shown}]' if shown else ''}. {self.remedy}"


@dataclass(frozen=True, slots=True)
class FileReport:
    """Findings of one file.

    Attributes:
        file: path of the file, or name of the frame's party.
        rows: number of rows; None if the file could not be read.
        faults: all faults.
        swallowed: cells that `missing`, `clip` and `unknown` replace: column, description, number.
        hints: settings of the file's own that the edit adds.
        left: faults that remain with the whole edit.
        unlabelled: a note where the rows have no label: it may have another name.
    """

    file: str
    rows: int | None
    faults: Sequence[FileFault]
    swallowed: Sequence[tuple[str, str, int]] = ()
    hints: Sequence[str] = field(default=())
    left: Sequence[FileFault] = ()
    unlabelled: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """Findings of all files, and the smallest edit that makes them fit.

    Attributes:
        reports: findings of each file.
        fitted: the edit, and schema and settings after it.
    """

    reports: Sequence[FileReport]
    fitted: Fitted

    @property
    def changes(self) -> Sequence[SchemaChange]:
        """Changes of the schema."""
        return list(self.fitted.edit.schema.values())

    @property
    def faulty(self) -> int:
        """Number of files with faults."""
        return sum(bool(report.faults) for report in self.reports)


def check(
    subjects: Sequence[RowsToCheck],
    values: Mapping[str, Any],
    schema: Schema,
    *,
    asked: bool = False,
    guess: bool = True,
    show_values: bool = False,
    keys: Sequence[tuple[str, Path | None]] = (),
) -> Checked:
    """Report every fault of all files and frames, with the smallest edit that makes them fit.

    Args:
        subjects: files and frames.
        values: the schema, as plain values of a schema file.
        schema: the same schema.
        asked: the edit may name any word of private cells in a file's own settings.
        guess: the edit may have columns that a translation of their names alone speaks for.
        show_values: include faulty cells, which are private.
        keys: of each subject, the key of the configuration by which hints name it, and the configuration's
            folder, which paths in hints are relative to; None: the current folder.
    """
    reports = [_report(subject, subject.file, schema, show_values=show_values) for subject in subjects]
    if not any(report.faults or _much_swallowed(report, schema) for report in reports):
        return Checked(reports, Fitted(no_edit(len(subjects)), schema, [each.file for each in subjects]))
    fitted = fit(subjects, values, asked=asked or show_values, guess=guess)
    changed = []
    for place, (subject, report) in enumerate(zip(subjects, reports, strict=True)):
        left: Sequence[FileFault] = ()
        if report.faults:
            left = _report(subject, fitted.files[place], fitted.schema, show_values=show_values).faults
        key, folder = keys[place] if keys else ("data", None)
        hints = (
            [f"this may read it: {_hint(subject, fitted, place, key, folder)}"]
            if fitted.edit.files[place]
            else []
        )
        changed.append(replace(report, hints=hints, left=left))
    return Checked(changed, fitted)


def _much_swallowed(report: FileReport, schema: Schema) -> list[str]:
    counts = {(column, what): count for column, what, count in report.swallowed}
    return much_swallowed(schema, counts, report.rows or 0)


def _hint(subject: RowsToCheck, fitted: Fitted, place: int, key: str, folder: Path | None) -> str:
    """Line of a configuration, or of Python, with the settings of a file or a frame after the edit."""
    added, guesses = fitted.edit.files[place], fitted.edit.guesses[place]
    doubt = f"  # confirm: {guessed(guesses)}" if guesses else ""
    if doubts := fitted.edit.doubts[place]:
        doubt += f"  # or day and month swapped, in {', '.join(sorted(doubts))}"
    if subject.frame is not None:
        return f"{python_line(subject, added)}{doubt}"
    file = subject.file
    path = os.path.relpath(file.path, folder) if folder else str(file.path)
    given = file.model_dump(by_alias=True, exclude_defaults=True)
    settings = {name: value for name, value in given.items() if name != "name"} | {"path": path} | added
    return f"{key} = {toml_text(settings)}{doubt}"


def python_line(subject: RowsToCheck, added: Mapping[str, Any]) -> str:
    """Line of Python with the settings of rows after the edit: north = {'frame': north, 'na': ['?']}."""
    party = subject.party
    name, which = (party, "") if party.isidentifier() else ("rows", f"  # {party}")
    if subject.frame is None:
        return f"{name} = {settings_of(subject, added)!r}{which}"
    rows = f"**{name}" if subject.has_section else f"'frame': {name}"
    return f"{name} = {{{rows}, {repr(dict(added))[1:]}{which}"


def settings_of(subject: RowsToCheck, added: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a file or a frame after the edit, as a call takes them."""
    given = subject.file.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if subject.frame is not None:
        del given["path"]
    return {**given, **added}


def guessed(guesses: Mapping[str, str]) -> str:
    """Columns that are guessed from their names."""
    return ", ".join(f"'{own}' as {name}" for name, own in guesses.items())


def _report(subject: RowsToCheck, file: DataFile, schema: Schema, *, show_values: bool) -> FileReport:
    """Report every fault of a file that is read with the given settings."""
    where = subject.party if subject.frame is not None else _shown_path(file.path)
    try:
        examined = subject.examine(schema, file)
    except FedkmeError as error:
        cause = error.cause.removeprefix(f"{subject.party}: ")
        return FileReport(where, None, [FileFault(error.code, "", cause, error.remedy, file=where)])
    faults = []
    if examined.ragged:
        remedy = ragged_remedy(examined.ragged, examined.lines)
        what = "more or fewer cells than the header has"
        faults.append(
            FileFault(DataError.code, "", what, remedy, examined.unit, list(examined.ragged), file=where)
        )
    for cells in examined.faults:
        lines = examined.lines[cells.rows].tolist()
        values = _values(subject, file, cells.column, set(lines)) if show_values else ()
        faults.append(
            FileFault(
                DataError.code, cells.column, cells.what, cells.remedy, examined.unit, lines, values, where
            )
        )
    swallowed = [(column, what, count) for (column, what), count in examined.swallowed.items()]
    unlabelled = _unlabelled(subject, file, schema) if examined.table.labels is None else ""
    return FileReport(where, len(examined.lines), faults, swallowed, unlabelled=unlabelled)


def _unlabelled(subject: RowsToCheck, file: DataFile, schema: Schema) -> str:
    """Note of rows without a label, with the columns that may be the label."""
    if schema.label is None:
        return ""
    note = f"no column '{schema.label.name}': these rows have no label"
    if file.carrier == "npz" or not (likely := _may_be_label(subject, file, schema)):
        return note
    key = f"columns.{toml_key(schema.label.name)}.from = {toml_text(likely[0])}"
    return f"{note}. Is it {' or '.join(map(repr, likely))}? Then say {key}, without it in 'ignore'"


def _may_be_label(subject: RowsToCheck, file: DataFile, schema: Schema) -> list[str]:
    """Columns that the schema does not use, in whose first rows all cells stand for classes of the label.

    Raises:
        DataError: the file cannot be read.
    """
    used = {file.column(name).source or name for name in needed_names(schema, of_persons=subject.of_persons)}
    columns = next(subject.parts(file)).columns
    likely = []
    for name in columns.keys() - used if schema.label and schema.classes else ():
        filled = set(filter(None, texts(columns[name])))
        cells = {cell for cell in filled if not means_nothing(cell, among_numbers=False)}
        stands = meanings(cells - {*schema.classes}, schema.classes, cells & {*schema.classes})
        if len({stands.get(cell, cell) for cell in cells}) > 1 and cells <= {*schema.classes, *stands}:
            likely.append(name)
    return sorted(likely)


def _shown_path(path: Path) -> str:
    """Path of a file, from the current folder where it is below."""
    near = os.path.relpath(path)
    return os.path.normpath(path) if near.startswith("..") else near


def report_lines(report: FileReport) -> Iterator[str]:
    """Lines of a report for people: a line for the file, then one for each finding."""
    rows = "not read" if report.rows is None else f"{report.rows} rows"
    number = len(report.faults)
    yield f"{report.file}: {rows}, " + (f"kinds of faults: {number}" if number else "no faults")
    yield from (f"  {fault}" for fault in report.faults)
    yield from (
        f"  note      column '{column}': {cells_are(count)} {what}"
        for column, what, count in report.swallowed
    )
    if report.unlabelled:
        yield f"  note      {report.unlabelled}"
    yield from (f"  hint      {hint}" for hint in report.hints)


def edit_lines(checked: Checked, schema_file: str) -> Iterator[str]:
    """Lines of the edit for people: changes of the schema, and what remains with the whole edit."""
    edit = checked.fitted.edit
    if edit.schema:
        yield "the smallest edit of the schema that makes all files fit, with the settings above:"
        yield from (f"  {schema_file}, {line}" for line in map(change_line, checked.changes))
    if edit.schema or any(edit.files):
        left = [fault for report in checked.reports for fault in report.left]
        yield f"read so, {'these are left:' if left else 'it has no faults'}"
        yield from (f"  {fault.file}: {fault}" for fault in left)
    for report, settings, guesses in zip(checked.reports, edit.files, edit.guesses, strict=True):
        if guesses and not any(name in settings.get("columns", {}) for name in guesses):
            yield f"{report.file}: not written, for these are guesses: {guessed(guesses)}"
    for column, units in edit.units.items():
        named = ", ".join(f"{unit} in {checked.reports[place].file}" for place, unit in units.items())
        yield f"column '{column}': {named}. Convert all to one unit, then say 'from' or 'units'"
    if edit.unseen:
        yield f"{edit.unseen} more words of cells can be named: --fix writes them, --show-values shows them"


def change_line(change: SchemaChange) -> str:
    """Line that says where a key of the schema stands, and its new value as a schema file has it."""
    where = f"column '{change.column}': " if change.column else ""
    return f"{where}{change.key} = {toml_text(change.value)}{f'  {change.remark}' if change.remark else ''}"


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


def _values(subject: RowsToCheck, file: DataFile, column: str, lines: set[int]) -> Sequence[tuple[str, int]]:
    """Most frequent cells of a column in the given lines."""
    name = file.column(column).source or column
    counts: Counter[str] = Counter()
    for part in subject.parts(file) if file.carrier != "npz" else ():
        if name in part.columns:
            pairs = zip(texts(part.columns[name]), part.lines, strict=True)
            counts.update(cell for cell, line in pairs if line in lines)
    return counts.most_common(MOST_VALUES)


def settings_seen(files: Sequence[DataFile], schema: Schema) -> list[dict[str, Any]]:
    """Settings that each file needs to match a schema as it is, by key, without any that are guesses."""
    subjects = [RowsToCheck(file.path.name, file, of_persons=False) for file in files]
    return fit(subjects, schema.model_dump(), sections_only=True, guess=False).edit.files


def line_that_reads(subject: RowsToCheck, schema: Schema, key: str) -> str:
    """Line with settings that read rows by a schema as it is; "" where none are known that read all.

    Args:
        subject: the rows.
        schema: the schema.
        key: key that names a file in a configuration; the configuration lies beside the file.
    """
    fitted = fit([subject], schema.model_dump(), sections_only=True)
    if not fitted.edit.files[0] or _report(subject, fitted.files[0], schema, show_values=False).faults:
        return ""
    return _hint(subject, fitted, 0, key, subject.file.path.parent)
