"""Needs of a file that does not fit a schema: its dialect, names of columns, and faulty cells by kind.

Needs are what an edit is made of (fitting.py); nothing here decides who says what.
"""

import contextlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from fedkme.drafts.dialect import bare_numbers, codes_among, detect_file, is_number, own_signs, units_of
from fedkme.drafts.layout import has_no_row_first
from fedkme.drafts.numbers import ISO, forms_of_dates, in_other_order
from fedkme.drafts.words import NO, YES, meanings, means_nothing, names_matched, plain
from fedkme.errors import FedkmeError
from fedkme.tables.axis import CODES, codes_beyond
from fedkme.tables.cells import Cells, day_of, days_of, texts
from fedkme.tables.conversion import NOT_LISTED
from fedkme.tables.csv_rows import Part
from fedkme.tables.data_file import DataFile, FileColumn, allowed_names, named, needed_names
from fedkme.tables.dates import day_in_form, day_within
from fedkme.tables.files import Examined, examine, examine_parts, load_rows, read_parts_of, rows_from_columns
from fedkme.tables.names import Category, Label
from fedkme.tables.numbers import CLIPPED, Numeric
from fedkme.tables.schema import Schema

_DIALECT = ("sep", "skip", "skip_end", "decimal", "thousands", "units", "encoding")
_OTHER = 0.1
"""Share of a column's rows from which names that are taken as `other` are looked at."""
_OWN_CODES = 8
"""Most names of a list for each of which a file may have one of its own."""
FEW, RARELY = 4, 0.01
"""Cells outside the bounds, in number or as a share of the rows, up to which they are moved to the bounds."""
_TRIED = 5
"""Cells whose forms of dates are tried, if no form fits all cells."""
_FITS = 0.9
"""Least share of a column's cells that a form of dates or a unit has."""
_PLAIN_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_CODE = re.compile(r"0\d.*")
"""Pattern of digits that are no number, such as a postal code."""
_COMMA_ZEROS = re.compile(r",0{1,2}$")
"""End of a whole number with a decimal comma: not that of 1,000."""


@dataclass(frozen=True, slots=True, repr=False)
class RowsToCheck:
    """Rows to check: a file or the columns of a frame, with settings.

    Attributes:
        party: party, or file, that the rows belong to.
        file: the file and its settings; of a frame, settings alone.
        of_persons: the rows have the schema's person column.
        frame: cells of a frame by its own names; None: the file's.
        has_section: the file has settings of its own in a configuration, to which others can be added.
    """

    party: str
    file: DataFile
    of_persons: bool = True
    frame: Mapping[str, Cells] | None = None
    has_section: bool = False

    def parts(self, file: DataFile) -> Iterator[Part]:
        """Rows in parts, read by other settings than the subject's."""
        if self.frame is None:
            return read_parts_of(file, self.party)
        rows = len(next(iter(self.frame.values()), ()))
        return iter([Part(self.frame, range(1, rows + 1), [])])

    def load(self, schema: Schema) -> Examined:
        """Read the rows by their settings, and refuse faults.

        Raises:
            DataError: the rows cannot be read or do not fit; names party, column and line, never a value.
        """
        if self.frame is None:
            return load_rows(self.file, schema, self.party, of_persons=self.of_persons)
        return rows_from_columns(self.frame, schema, self.party, of_persons=self.of_persons, file=self.file)

    def examine(self, schema: Schema, file: DataFile) -> Examined:
        """Collect every fault of the rows, read by other settings than the subject's.

        Raises:
            DataError: the file cannot be read, or has other columns than the schema.
        """
        if self.frame is None:
            return examine(file, schema, self.party, of_persons=self.of_persons)
        return examine_parts(self.parts(file), schema, file, self.party, of_persons=self.of_persons)


@dataclass(slots=True, repr=False)
class ColumnNeeds:
    """Faulty cells of a column, by their likely meaning.

    Attributes:
        gaps: number of empty cells.
        words: words for an empty cell.
        codes: codes for an empty cell, with the cells' texts.
        units: units before or behind numbers.
        signs: other signs before decimals or between thousands than the file's.
        form: form of dates that the cells have, or "".
        doubtful: another form fits as well: no day is above 12.
        map: names that cells clearly stand for.
        names: other names, with their numbers of cells.
        recoded: as many numbers as the schema lists stand there, and some are others: 1 and 2 for 0 and 1; or
            no name is one of the few that the schema lists, so the file may have its own for each.
        outside: values outside the bounds, with their numbers of cells.
        unread: other texts among numbers and days, with their numbers of cells.
    """

    gaps: int = 0
    words: set[str] = field(default_factory=set)
    codes: dict[float, str] = field(default_factory=dict)
    units: set[str] = field(default_factory=set)
    signs: FileColumn | None = None
    form: str = ""
    doubtful: bool = False
    map: dict[str, str] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)
    recoded: bool = False
    outside: Counter[float] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)


def dialect_seen(file: DataFile) -> dict[str, Any]:
    """Settings of a text file's dialect that its text speaks for, where they differ from those given."""
    if file.carrier != "text":
        return {}
    try:
        seen = detect_file(file.path)
    except FedkmeError:
        return {}
    return {key: getattr(seen, key) for key in _DIALECT if getattr(seen, key) != getattr(file, key)}


def columns_seen(
    header: Sequence[str], file: DataFile, schema: Schema, *, of_persons: bool
) -> tuple[dict[str, str], set[str], list[str]]:
    """Columns of a file that have another name, and those that nobody uses.

    Args:
        header: names of the file's columns.
        file: settings of the file.
        schema: schema that the file should match.
        of_persons: the file has the schema's person column.

    Returns:
        Names of the file by the schema's; the schema's names that are guessed, by likeness, a translation or
        as the last one left; the unused columns, none as long as a column is missing, which may be one of
        them.
    """
    label = [schema.label.name] if schema.label else []
    wanted = list(dict.fromkeys([*needed_names(schema, of_persons=of_persons), *label]))
    own = {name: file.column(name).source or name for name in wanted}
    missing = [name for name in wanted if own[name] not in header]
    taken = {*own.values(), *allowed_names(schema, file)}
    free = [name for name in header if name not in taken]
    sources, guesses = names_matched(missing, free)
    lost = [name for name in missing if name not in sources and name not in label]
    unused = [name for name in free if name not in sources.values()]
    if len(lost) == len(unused) == 1:  # the last column of each side
        sources[lost[0]] = unused[0]
        guesses |= {lost[0]}
        return sources, guesses, []
    return sources, guesses, [] if lost else unused


def cells_seen(
    subject: RowsToCheck, file: DataFile, schema: Schema, examined: Examined
) -> dict[str, ColumnNeeds]:
    """Needs of each column with faulty cells, or with many that `other` or `clip` swallows."""
    swallowed = much_swallowed(schema, examined.swallowed, len(examined.table))
    counts: dict[str, Counter[str]] = {
        name: Counter() for name in (*swallowed, *(fault.column for fault in examined.faults))
    }
    no_row: dict[str, Sequence[str]] | None = None
    for part in subject.parts(file) if file.carrier != "npz" and counts else ():
        columns = named(part.columns, schema, file, subject.party)
        if no_row is None:  # the first part
            no_row = {name: texts(cells[:1]) for name, cells in columns.items()}
            no_row = no_row if has_no_row_first(columns, partial(_reads, file)) else {}
        for name in counts.keys() & columns.keys():
            counts[name].update(texts(columns[name]))
    specs: dict[str, Numeric | Category | Label] = {
        name: spec for spec in schema.columns for name in spec.names if name in counts
    }
    if schema.label and schema.label.name in counts:
        specs[schema.label.name] = schema.label
    needs = {name: _needs(counts[name], specs[name], file, name) for name in counts if name in specs}
    for name, column in needs.items():
        for cell in (no_row or {}).get(name, ()):  # units or types below the header mean nothing nowhere
            column.words.discard(cell)
            column.names.pop(cell, None)
            column.unread.pop(cell, None)
    return needs


def _reads(file: DataFile, name: str, cell: str) -> bool:
    return is_number(cell, file.written(name).number_reader())


def much_swallowed(schema: Schema, swallowed: Mapping[tuple[str, str], int], rows: int) -> list[str]:
    """Columns with many names that are taken as `other`, or numbers that are moved to the bounds.

    The names may be words for the schema's names, and the bounds those of too few rows.
    """
    names: list[str] = []
    for spec in schema.columns:
        if isinstance(spec, Numeric):
            much = swallowed.get((spec.name, CLIPPED), 0) > max(FEW, RARELY * rows * spec.count)
        else:
            many = (
                n
                for (name, what), n in swallowed.items()
                if name == spec.name and what.startswith(NOT_LISTED)
            )
            much = spec.other and sum(many) > _OTHER * rows
        names += spec.names if much else []
    return names


def _needs(cells: Counter[str], spec: Numeric | Category | Label, file: DataFile, name: str) -> ColumnNeeds:
    own = file.column(name)
    nothing = {*spec.na, *file.na, *own.na}
    needs = ColumnNeeds(gaps=sum(cells[cell] for cell in cells if not cell or cell in nothing))
    others = Counter(
        {own.map.get(cell, cell): n for cell, n in cells.items() if cell and cell not in nothing}
    )
    if isinstance(spec, Category) or (isinstance(spec, Label) and spec.positive_above is None):
        names = spec.categories if isinstance(spec, Category) else spec.classes
        needs.words = {
            cell
            for cell in others
            if cell not in names
            and means_nothing(cell, among_numbers=False)
            and not ("+" in others and plain(cell) in NO)
        }
        strange = {cell: n for cell, n in others.items() if cell not in {*names, *needs.words}}
        needs.map = meanings(strange, names, others.keys() & {*names}) | _same_numbers(strange, names, file)
        own_names = [
            name for name in names if not isinstance(spec, Category) or name not in ("other", spec.missing)
        ]
        truth = isinstance(spec, Label) or {*map(plain, own_names)} <= YES | NO
        if truth and {plain(cell) for cell in others if cell not in needs.words} <= YES:
            return replace(needs, gaps=0, words=set())  # what is empty or - beside yes may be no
        texts_of_codes = codes_among([*own_names, *(strange.keys() - needs.map.keys())], file.number_reader())
        needs.codes = {code: cell for cell, code in texts_of_codes.items() if cell in strange}
        if not (isinstance(spec, Category) and spec.other):
            known = {*needs.map, *needs.codes.values()}
            needs.names = Counter({cell: n for cell, n in strange.items() if cell not in known})
            seen = [cell for cell in others if cell not in known | needs.words]
            strangers = not needs.map and len(own_names) <= _OWN_CODES and others.keys().isdisjoint(names)
            needs.recoded = len(seen) == len(own_names) and all(map(str.isdecimal, (*seen, *own_names)))
            needs.recoded |= strangers and 1 < len(seen) <= len(own_names)
        return needs
    day = isinstance(spec, Numeric) and spec.kind == "date"
    if day:
        assert isinstance(spec, Numeric)
        needs.form, needs.doubtful = _form(others, own.format or spec.format)
    read = (
        _day_reader(spec.bounds, own.format, spec.format, needs.form)
        if isinstance(spec, Numeric) and day
        else file.written(name).number_reader()
    )
    low, high = spec.bounds if isinstance(spec, Numeric) else (0.0, 0.0)
    anywhere = not (isinstance(spec, Numeric) and spec.values)
    bare = most = 0
    for cell, count in others.items():
        try:
            value = read(cell)
            bare += count if value else 0
        except (ValueError, OverflowError):
            if means_nothing(cell, among_numbers=True):
                needs.words.add(cell)
            else:
                needs.unread[cell] += count
            continue
        if (
            not isinstance(spec, Numeric)
            or (anywhere and low <= value <= high)
            or value in (*spec.singles, *spec.missing_codes)
        ):
            most = max(most, count)
            continue
        if codes_beyond(np.array(value), (low, high), day=day):
            needs.codes[value] = cell
        else:
            needs.outside[value] += count
    if needs.outside.keys() <= {0.0, *CODES} and min(needs.outside.values(), default=0) > max(FEW, most):
        needs.codes |= {value: cell for cell in others if (value := _number(cell, read)) in needs.outside}
        needs.outside.clear()  # 99 in many rows beside scores of 0 to 60, or 0 beside 60 to 220
    beyond = (min((low, *needs.outside)), max((high, *needs.outside)))
    if needs.outside.total() > sum(others[cell] for cell in needs.codes.values()):
        for value in [each for each in needs.codes if not codes_beyond(np.array(each), beyond, day=day)]:
            needs.outside[value] += others[needs.codes.pop(value)]  # one of many numbers there
    if not day:
        _say_signs(needs, others, bare, file, name)
        if isinstance(spec, Numeric) and not own.decimal:
            needs.signs = file.written(name).if_thousands(others, spec.bounds, spec.integer) or needs.signs
    return needs


def _number(cell: str, read: Callable[[str], float]) -> float:
    """Number of a cell; NaN for any other text."""
    try:
        return read(cell)
    except (ValueError, OverflowError):
        return math.nan


def _say_signs(needs: ColumnNeeds, cells: Iterable[str], bare: int, file: DataFile, name: str) -> None:
    """Move numbers that cannot be read for their units or signs from the unread texts to these needs.

    `bare` numbers of the column's cells are read.
    """
    needs.units = units_of(needs.unread, bare)
    numbers, _ = bare_numbers([*cells])
    needs.signs = None if file.column(name).decimal else own_signs(numbers, file.written(name))
    if needs.units or needs.signs:
        columns = {**file.columns, name: needs.signs or file.column(name)}
        units = (*file.units, *needs.units)
        read = file.model_copy(update={"units": units, "columns": columns}).written(name).number_reader()
        needs.unread = Counter({cell: n for cell, n in needs.unread.items() if not is_number(cell, read)})


def in_another_code(names: Counter[str], spec: Category | Label, file: DataFile) -> bool:
    """Check whether a file's own names are classes, or numbers for the schema's words: `map` says which."""
    read = file.number_reader()
    listed = spec.categories if isinstance(spec, Category) else spec.classes
    numbers = 2 * sum(count for name, count in names.items() if is_number(name, read)) > names.total()
    return isinstance(spec, Label) or numbers != (
        2 * sum(is_number(name, read) for name in listed) > len(listed)
    )


def _same_numbers(cells: Iterable[str], names: Iterable[str], file: DataFile) -> dict[str, str]:
    """Names that are the same numbers as cells, which the file writes in its own way: "1,0" for "1"."""
    by_number: dict[float, list[str]] = {}
    for name in names:
        if _PLAIN_NUMBER.fullmatch(name):
            by_number.setdefault(float(name), []).append(name)
    read, same = file.number_reader(), dict[str, str]()
    for cell in cells if by_number else ():
        if not _CODE.fullmatch(cell):
            with contextlib.suppress(ValueError):
                listed = by_number.get(read(_COMMA_ZEROS.sub("", cell)), [])
                same |= {cell: listed[0]} if len(listed) == 1 else {}
    return same


def _form(cells: Counter[str], given: str | None) -> tuple[str, bool]:
    """Form that nearly all days have which are not in ISO form, and whether months may stand before days."""
    dates = Counter({cell: n for cell, n in cells.items() if not _fits(cell, ISO) and re.search(r"\d", cell)})
    dates = Counter({cell: n for cell, n in dates.items() if not means_nothing(cell, among_numbers=True)})
    fitting = forms_of_dates(dates)
    if not fitting:  # a few other cells may be wrong
        likely = {form for cell, _ in dates.most_common(_TRIED) for form in forms_of_dates([cell])}
        counts = {form: sum(n for cell, n in dates.items() if _fits(cell, form)) for form in sorted(likely)}
        fitting = [form for form, n in counts.items() if n >= _FITS * dates.total()]
    fitting = [form for form in fitting if form not in (ISO, given)]
    return (fitting[0], in_other_order(fitting[0], fitting) is not None) if fitting else ("", False)


def _fits(cell: str, form: str) -> bool:
    try:
        _day(cell, form)
    except ValueError:
        return False
    return True


def _day(cell: str, form: str) -> float:
    return day_of(cell) if form == ISO else days_of(day_in_form(cell, form))


def _day_reader(bounds: tuple[float, float], *forms: str | None) -> Callable[[str], float]:
    def read(cell: str) -> float:
        for form in (*forms, ISO):
            if form and _fits(cell, form):
                return day_of(cell) if form == ISO else day_within(day_in_form(cell, form), form, bounds)
        raise ValueError

    return read
