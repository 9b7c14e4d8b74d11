"""Conversion of a file's cells to a table: names become indices, dates numbers; every fault is collected."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedkme.arrays import FloatArray
from fedkme.tables.axis import CODES, FLOAT32, codes_apart, equal_to
from fedkme.tables.cells import TRUTH, Cells, distinct, foreign, normal, plain_numbers, texts
from fedkme.tables.data_file import PLAIN, DataFile, perhaps_thousands, some
from fedkme.tables.dates import HALF_SWAPPED, date_reader, half_swapped
from fedkme.tables.names import GAPS, Category, Label
from fedkme.tables.numbers import CLIPPED, FILL_GAPS, Numeric
from fedkme.tables.schema import Schema
from fedkme.tables.table import FaultyCells, Table, joined

NOBODY = "Fill the empty cells: a row of nobody could be anybody's."
"""Remedy for rows without a person."""

UNLABELLED = "rows without a label, left out"
"""Description of rows that `drop_unlabelled` leaves out."""
CODED = "like a code for a missing value, taken as a number: list it under 'na' if it means nothing"
ROUNDED = "not whole, rounded, as the schema has 'integer'"
NOT_LISTED = "a name not in the schema"
"""Beginning of the description of cells that are neither empty nor in a list."""
MOST_CLIPPED, LEAST_CLIPPED = 0.9, 10
"""Share of a column's numbers that `clip` may move, and the moved cells from which this limit holds."""
_UNITS = "Give the column in the units of the schema, agree on other bounds, or list it under 'ignore'."
TINY, _TINY = (
    "tiny beside the bounds, as all numbers of the column: in other units, or shares for percent?",
    0.02,
)
_IN_TWO_UNITS = (
    "numbers with a unit and numbers without it, or with another, are far apart, as in two units",
    "Give all numbers of the column in the schema's unit.",
)
_THOUSANDS = (
    "a number whose sign may stand between thousands",
    "Say 'thousands', or the column's 'decimal', beside the file's path.",
)
_OFTEN = 4
"""Cells up to which a usual code for nothing may be a number as any other."""
_SEVERAL, _APART = 5, 20.0
"""Numbers of a unit, at least, and factor between the medians of two units."""
_EMPTY = "an empty cell"
_SIGNS_OF_NUMBERS = "0123456789.,'+-() \u00a0\u202f\u2019\u2212"
_NOTHING, _STRANGE, _FOREIGN = -1, -2, -3
"""Places of cells that are empty, that have a name beyond the list, or that hold no name at all."""
_REMOVE = (
    "Set 'drop_unlabelled = true', beside the file's path or in the schema's [label], to leave them out, or "
    "say with the column's 'map', as '\"\" = \"no\"', which class they are."
)
_CORRECT = "Correct these rows; leave a cell empty where the value is missing."


@dataclass(frozen=True, eq=False, slots=True)
class Converted:
    """Rows of a file, or of a part of a file, converted through the schema.

    Attributes:
        table: the rows; a faulty cell holds some value of the domain.
        faults: cells that do not fit.
        unknown: cells with unlisted names that were taken as the missing category.
        swallowed: number of cells that `missing` and `clip` replace, by column and description.
    """

    table: Table
    faults: Sequence[FaultyCells]
    unknown: Sequence[FaultyCells]
    swallowed: Counter[tuple[str, str]]


@dataclass(slots=True)
class _Findings:
    """Faults and unknown names collected from the cells of a part."""

    faults: list[FaultyCells] = field(default_factory=list)
    unknown: list[FaultyCells] = field(default_factory=list)
    swallowed: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, column: str, what: str, remedy: str, rows: ArrayLike, *, harmless: bool = False) -> None:
        cells = FaultyCells(column, what, remedy, np.asarray(rows, dtype=np.int64))
        if len(cells.rows):
            (self.unknown if harmless else self.faults).append(cells)


def convert(
    columns: Mapping[str, Cells], schema: Schema, file: DataFile = PLAIN, *, of_persons: bool = False
) -> Converted:
    """Convert the complete columns of a file to rows; the dtype is the narrowest common one.

    Args:
        columns: cells by the schema's names, see `named`.
        schema: schema of the rows.
        file: settings of the file.
        of_persons: a row without a person is a fault, if the schema has a person column.
    """
    findings = _Findings()
    parts: list[NDArray[Any]] = []
    columns = {**columns, **_differences(columns, schema, file)}
    for spec in schema.columns:
        for name in spec.names:
            if isinstance(spec, Numeric):
                parts.append(
                    _inside(_numbers(columns[name], name, file, spec, findings), name, spec, findings)
                )
            elif name in columns or spec.gaps_of is None:
                parts.append(_categories(columns[name], spec, file, findings))
            else:
                parts.append(_gaps(parts[schema.names.index(spec.gaps_of)], spec, schema))
    values = np.empty((len(parts[0]), schema.width), dtype=np.result_type(*parts))
    for position, part in enumerate(parts):
        values[:, position] = part
    labels = None
    if schema.label and schema.label.name in columns:
        labels = _labels(columns[schema.label.name], schema.label, file, findings)
    if schema.person and of_persons:
        persons = texts(columns[schema.person.column])
        nobody = [row for row, person in enumerate(persons) if not person or foreign(person)]
        findings.add(schema.person.column, "an empty cell, which does not tell whose it is", NOBODY, nobody)
    return _converted(Table(values, labels), schema, findings)


def of_arrays(table: Table, schema: Schema) -> Converted:
    """Convert the rows of an archive of arrays, which are numbers and indices already."""
    findings, values = _Findings(), table.values
    whole = [each for each in schema.columns if isinstance(each, Numeric) and each.integer]
    if whole and values.dtype.kind == "f":
        values = values.copy()
        for spec, first in ((each, schema.names.index(each.names[0])) for each in whole):
            block = slice(first, first + spec.count)
            values[:, block] = _inside(values[:, block], spec.name, spec, findings)
    return _converted(Table(values, table.labels), schema, findings)


def _converted(table: Table, schema: Schema, findings: _Findings) -> Converted:
    faults, swallowed = schema.faults(table.values), findings.swallowed + schema.swallowed(table.values)
    return Converted(table, [*findings.faults, *faults], findings.unknown, swallowed)


def joined_parts(parts: Sequence[Converted], schema: Schema, unknown: float) -> Converted:
    """Join the parts of a file; too many unknown names or clipped cells in a column are faults."""
    table = parts[0].table if len(parts) == 1 else joined([part.table for part in parts])
    starts = np.cumsum([0, *(len(part.table) for part in parts)]).tolist()
    faults = _merged((part.faults for part in parts), starts)
    strange = _merged((part.unknown for part in parts), starts)
    few = [cells for cells in strange if len(cells.rows) <= unknown * len(table)]
    swallowed: Counter[tuple[str, str]] = Counter(
        {(cells.column, cells.what): len(cells.rows) for cells in few}
    )
    for part in parts:
        swallowed.update(part.swallowed)
    many = [cells for cells in strange if cells not in few]
    _count_codes(swallowed, schema, table)
    return Converted(table, [*faults, *many, *_in_other_units(swallowed, schema, table)], few, swallowed)


def _count_codes(counts: Counter[tuple[str, str]], schema: Schema, table: Table) -> None:
    """Count usual codes for nothing inside the bounds, at an end, that are most frequent by far."""
    for place, (column, _) in enumerate((each, name) for each in schema.columns for name in each.names):
        if isinstance(column, Numeric) and column.kind == "numeric" and column.count == 1:
            values = table.values[:, place][np.isfinite(table.values[:, place])].astype(np.float64)
            for end in {values.min(), values.max()} & CODES - {*column.singles} if len(values) else ():
                others = np.unique(values[values != end], return_counts=True)[1]
                if (often := int((values == end).sum())) > max(_OFTEN, 3 * others.max(initial=0)):
                    counts[column.name, CODED] += often


def _in_other_units(counts: Counter[tuple[str, str]], schema: Schema, table: Table) -> Iterable[FaultyCells]:
    """Faults of columns in other units: `clip` would move nearly all numbers. Tiny numbers are counted."""
    for column in (each for each in schema.columns if isinstance(each, Numeric)):
        first = schema.names.index(column.names[0])
        values, clipped = table.values[:, first : first + column.count], counts.get((column.name, CLIPPED), 0)
        even, most = column.kind == "numeric" and column.scale != "log", max(map(abs, column.bounds))
        if not clipped and not column.missing_codes and values.max(initial=0) > _TINY * most:
            continue  # images cost no copy
        block = values.astype(np.float64)
        gaps = column.gaps(block)
        if clipped > MOST_CLIPPED * (~gaps).sum() and clipped >= LEAST_CLIPPED:
            what = "nearly all outside the bounds, to which 'clip' would move them"
            yield FaultyCells(column.name, what, _UNITS, np.flatnonzero(~gaps.all(axis=1)))
        sizes = np.abs(block[~gaps & (block != 0.0)])
        if even and len(sizes) >= LEAST_CLIPPED and sizes.max() <= _TINY * most:
            counts[column.name, TINY] += len(sizes)


def _merged(parts: Iterable[Sequence[FaultyCells]], starts: Sequence[int]) -> list[FaultyCells]:
    """Join faults of the same kind, with row numbers over all parts."""
    rows: dict[tuple[str, str, str], list[NDArray[np.int64]]] = {}
    for faults, start in zip(parts, starts, strict=False):
        for fault in faults:
            rows.setdefault((fault.column, fault.what, fault.remedy), []).append(fault.rows + start)
    return [FaultyCells(*kind, np.concatenate(places)) for kind, places in rows.items()]


def labelled_rows(
    columns: dict[str, Cells], schema: Schema, file: DataFile
) -> tuple[dict[str, Cells], NDArray[np.int64] | slice]:
    """Leave out rows without a label where file or schema say so; with the places of the rows that stay."""
    label = schema.label
    if label is None or label.name not in columns or not (file.drop_unlabelled or label.drop_unlabelled):
        return columns, slice(None)
    findings = _Findings()
    _labels(columns[label.name], label, file, findings)
    empty = [fault.rows for fault in findings.faults if fault.what == _EMPTY]
    if not empty:
        return columns, slice(None)
    places = np.delete(np.arange(len(columns[label.name])), empty[0])
    return {name: _taken(cells, places) for name, cells in columns.items()}, places


def _taken(cells: Cells, places: NDArray[np.int64]) -> Cells:
    return cells[places] if isinstance(cells, np.ndarray) else [cells[place] for place in places.tolist()]


def _words(name: str, file: DataFile, na: Iterable[str]) -> dict[str, str]:
    """Words of a file and of the schema with their meanings; "" means nothing."""
    own = file.column(name)
    return {**dict.fromkeys([*na, *file.na, *own.na], ""), **own.map}


def _differences(columns: Mapping[str, Cells], schema: Schema, file: DataFile) -> dict[str, FloatArray]:
    """Last parts of sums that a file lacks: the sum less its other parts, NaN where one is empty."""
    specs = {each.name: each for each in schema.columns if isinstance(each, Numeric)}

    def read(name: str) -> FloatArray:
        numbers = _numbers(columns[name], name, file, specs[name], _Findings()).astype(np.float64)
        return np.where(specs[name].gaps(numbers), math.nan, numbers)

    return {
        name: read(total) - sum(map(read, others))
        for name, (total, others) in schema.differences.items()
        if name not in columns and {name, total, *others} <= specs.keys()
    }


def _inside(numbers: NDArray[Any], name: str, spec: Numeric, findings: _Findings) -> NDArray[Any]:
    """Numbers with a bound in place of faulty text, so that a cell has one fault; whole if the column is."""
    for fault in findings.faults:
        if fault.column == name:
            numbers[fault.rows] = spec.bounds[0]
    if not spec.integer or numbers.dtype.kind != "f":
        return numbers
    whole = np.where(spec.gaps(numbers) | (spec.levels_of(numbers) > 0), numbers, np.rint(numbers))
    with np.errstate(invalid="ignore"):  # of infinities
        findings.swallowed[name, ROUNDED] += int((np.abs(numbers - whole) > FLOAT32 * np.abs(whole)).sum())
    return whole.astype(numbers.dtype)


def _numbers(
    cells: Cells, name: str, file: DataFile, spec: Numeric | Label, findings: _Findings
) -> NDArray[Any]:
    words, file = _words(name, file, spec.na), file.written(name)
    date = spec if isinstance(spec, Numeric) and spec.kind == "date" else None
    own = file.column(name).format
    read = date_reader(own, date.format, date.bounds) if date else file.number_reader()
    codes: dict[float, float] = {}
    for word, meaning in words.items() if date is None else ():
        with suppress(ValueError):
            codes[read(word)] = read(meaning)
    if isinstance(cells, np.ndarray) and date is None:
        return _recoded(cells.astype(np.uint8) if cells.dtype == np.bool_ else cells, codes)
    listed = texts(cells)
    signs = np.array(
        [cell.strip(_SIGNS_OF_NUMBERS) for cell in listed] if file.units and date is None else []
    )
    if isinstance(spec, Numeric) and date is None and file.column(name).decimal is None:
        doubtful = perhaps_thousands(listed, file, spec.bounds, whole=spec.integer)
        findings.add(name, *_THOUSANDS, [row for row, text in enumerate(listed) if text in doubtful])
    for unit in file.units:
        if dressed := int((signs == unit).sum()):
            findings.swallowed[name, f"with '{unit}', which is left away: no number is converted"] += dressed
    if date is None and file.plain_numbers and "" not in words:
        with suppress(ValueError):
            return _recoded(plain_numbers(listed), codes)
    wrong: dict[str, str] = {}

    def value(text: str) -> float:
        try:
            if text in words:
                return read(words[text])
            number = read(TRUTH.get(normal(text), text) if date is None and text.isalpha() else text)
            return codes.get(number, number)
        except (ValueError, OverflowError):
            number = date is not None and text.isdecimal()
            wrong[text] = foreign(text) or ("a number" if number else "text")
            return math.nan

    numbers = np.fromiter(map(cache(value), listed), np.float64, len(listed))
    findings.add(name, *_IN_TWO_UNITS, _in_another_unit(numbers, signs))
    findings.add(name, *HALF_SWAPPED, half_swapped(listed, own, date.format) if date else ())
    for kind in sorted(set(wrong.values())):
        rows = [row for row, text in enumerate(listed) if wrong.get(text) == kind]
        findings.add(name, f"{kind} where {'a date' if date else 'a number'} belongs", _CORRECT, rows)
    return numbers


def _in_another_unit(numbers: FloatArray, signs: NDArray[np.str_]) -> NDArray[np.int64]:
    """Rows of the rarer of two units, or of none, by which most numbers are far smaller or larger."""
    sized = [
        np.flatnonzero((signs == sign) & np.isfinite(numbers) & (numbers != 0)) for sign in {*signs.tolist()}
    ]
    several = sorted((rows for rows in sized if len(rows) >= _SEVERAL), key=len)
    middles = [float(np.median(np.abs(numbers[rows]))) for rows in several]
    apart = bool(middles) and max(middles) >= _APART * min(middles)
    return several[0] if apart else np.empty(0, np.int64)


def _recoded(numbers: NDArray[Any], codes: Mapping[float, float]) -> NDArray[Any]:
    """Numbers with the meanings of codes in their place."""
    masks = [(equal_to(numbers, code), meaning) for code, meaning in codes.items()]
    if any(mask.any() for mask, _ in masks):
        numbers = numbers.astype(np.result_type(numbers, np.float32))
        for mask, meaning in masks:
            numbers[mask] = meaning
    return numbers


def _categories(
    cells: Cells, spec: Category, file: DataFile, findings: _Findings, gaps: str = FILL_GAPS
) -> NDArray[Any]:
    """Indices of (m,) names; unlisted names are taken as the missing category, and counted.

    `gaps` is the remedy for empty cells if there is no missing category.
    """
    words, read = _words(spec.name, file, spec.na), file.number_reader()
    index = {name: place for place, name in enumerate(spec.categories)}
    default = None if spec.missing is None else index[spec.missing]
    names = {normal(name): place for name, place in index.items()} | index | {"": -1}
    plain_words = {normal(word, read): meaning for word, meaning in words.items()} | words

    def place(text: str) -> int:
        plain = normal(text, read)
        word = plain_words.get(text, plain_words.get(plain, text))
        name = normal(word, read)
        indices = [names[each] for each in (word, name, TRUTH.get(name, name)) if each in names]
        return indices[0] if indices else _FOREIGN if foreign(text) else _STRANGE

    if isinstance(cells, np.ndarray):
        different, inverse = distinct(cells)
        places = np.array(list(map(place, different)), np.int64)[inverse]
    else:
        places = np.fromiter(map(cache(place), cells), np.int64, len(cells))
    empty, strange = np.flatnonzero(places == _NOTHING), np.flatnonzero(places == _STRANGE)
    no_names = np.flatnonzero(places == _FOREIGN).tolist()
    for kind in sorted({foreign(cells[row]) for row in no_names}):
        rows = [row for row in no_names if foreign(cells[row]) == kind]
        findings.add(spec.name, f"{kind} where a name belongs", _CORRECT, rows)
    listed = f"The names are {some(list(spec.categories))}; say with 'map' which of them a cell stands for"
    if spec.other:
        if len(strange):
            findings.swallowed[spec.name, f"{NOT_LISTED}, taken as 'other'"] += len(strange)
    elif default is None:
        remedy = f"{listed}, correct the rows, extend the schema, or list the column under its 'ignore'."
        findings.add(spec.name, NOT_LISTED, remedy, strange)
    else:
        what = f"{NOT_LISTED}, taken as '{spec.missing}'"
        remedy = f"{listed}, with 'na' that it means an empty one, or allow more with 'unknown'."
        findings.add(spec.name, what, remedy, strange, harmless=True)
    if default is None:
        findings.add(spec.name, _EMPTY, gaps, empty)
    elif len(empty) and not spec.nullable:
        findings.swallowed[spec.name, "empty, taken as the public 'missing'"] += len(empty)
    if spec.other:
        places[strange] = index["other"]
    places[places < 0] = default or 0
    return places.astype(np.min_scalar_type(len(spec.categories)))


def _gaps(numbers: NDArray[Any], mark: Category, schema: Schema) -> NDArray[Any]:
    """Indices of the categories that mark the gaps of a nullable number."""
    spec, values = schema.number_of(mark), numbers.astype(np.float64)
    kinds = spec.gaps(values).astype(np.uint8)
    for kind, code in enumerate(spec.missing_codes if mark.categories != GAPS else (), 2):
        kinds[equal_to(values, code)] = kind
    return kinds


def _labels(cells: Cells, label: Label, file: DataFile, findings: _Findings) -> NDArray[np.int64]:
    if label.positive_above is None:
        spec = Category(name=label.name, categories=label.classes, na=label.na)
        return _categories(cells, spec, file, findings, _REMOVE).astype(np.int64)
    numbers = _numbers(cells, label.name, file, label, findings)
    wrong = {row for fault in findings.faults if fault.column == label.name for row in fault.rows}
    empty = [row for row in np.flatnonzero(~np.isfinite(numbers)).tolist() if row not in wrong]
    findings.add(label.name, _EMPTY, _REMOVE, empty)
    findings.swallowed[label.name, CODED] += int(codes_apart(numbers).sum())
    return (numbers > label.positive_above).astype(np.int64)


def cells_are(count: int) -> str:
    """Begin of a sentence about so many cells."""
    return "1 cell is" if count == 1 else f"{count} cells are"
