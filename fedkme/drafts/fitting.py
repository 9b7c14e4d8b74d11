"""The smallest edit of a schema and of files' own settings that makes all files fit.

What one file alone writes differently goes to its own settings, if it has any; what several files need, or a
file without settings, goes to the schema. Names are added to the schema only if many rows have them: rarer
ones become `other`, which tells nothing of them.
"""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedkme.config import validate
from fedkme.drafts.drafting import MOST_NAMES
from fedkme.drafts.edits import Fitted, SchemaChange, changed, no_edit, tables
from fedkme.drafts.numbers import widened, written_value
from fedkme.drafts.reading import (
    FEW,
    RARELY,
    ColumnNeeds,
    RowsToCheck,
    cells_seen,
    columns_seen,
    dialect_seen,
    in_another_code,
    much_swallowed,
)
from fedkme.drafts.words import same_unit, unit_of
from fedkme.drafts.writing import FROM_DATA
from fedkme.errors import ConfigError, FedkmeError, SchemaError
from fedkme.tables.conversion import MOST_CLIPPED
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import Examined
from fedkme.tables.names import Category, Label
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import schema_from

ROUNDS = 8
"""Most rounds of checks: a fault of the header hides faults of cells."""
MANY_ROWS = 10
"""Least number of rows of a name that is added to the schema: fewer may tell of a person."""
_OTHER_UNITS = 0.5
"""Share of a file's rows outside bounds or lists from which it may have other units or other codes."""
_UNREAD = 0.1
"""Largest share of a column's rows whose texts are taken as words for an empty cell."""


@dataclass(slots=True)
class _Needs:
    """Needs of one subject in one round."""

    dialect: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    guesses: dict[str, str] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    cells: dict[str, ColumnNeeds] = field(default_factory=dict)


def fit(
    subjects: Sequence[RowsToCheck],
    values: Mapping[str, Any],
    *,
    asked: bool = False,
    sections_only: bool = False,
    guess: bool = True,
) -> Fitted:
    """Find the smallest edit that makes all subjects fit.

    Args:
        subjects: files and frames to check.
        values: the schema, as plain values of a schema file.
        asked: words in private cells that mean nothing clear may be named in a file's own settings.
        sections_only: the schema stays; every file has settings of its own.
        guess: columns may be found by a translation of their names.

    Raises:
        SchemaError: the schema is inconsistent.
    """
    fitter = _Fitter(subjects, values, asked, sections_only, guess)
    for _ in range(ROUNDS):
        if not fitter.improve():
            break
    return Fitted(fitter.edit, fitter.schema, fitter.files)


@dataclass
class _Fitter:
    """Edit in the making: every round reads all files, and adds what their faults need."""

    subjects: Sequence[RowsToCheck]
    values: Mapping[str, Any]
    asked: bool
    sections_only: bool
    guess: bool

    def __post_init__(self) -> None:
        self.schema = schema_from(self.values)
        self.files = [subject.file for subject in self.subjects]
        self.rows: dict[int, int] = {}
        self.clean: set[int] = set()
        self.edit = no_edit(len(self.subjects))

    def improve(self) -> bool:
        """Add what the faults of all files need; False if nothing more helps."""
        before = (dict(self.edit.schema), [dict(own) for own in self.edit.files])
        self.edit.unseen = 0
        needs = [self._needs(place) for place in range(len(self.subjects))]
        self._units(needs)
        for place, own in enumerate(needs):
            self._say(place, own.dialect)
            for name, source in own.sources.items():
                self._say_of_column(place, name, {"from": source})
            self.edit.guesses[place].update(own.guesses)
        self._unused(needs)
        if before == (self.edit.schema, self.edit.files):  # or cells will be read in another way
            for place, own in enumerate(needs):
                for name, column in own.cells.items():
                    self._own_words(place, name, column)
            self._words(needs)
            for name in dict.fromkeys(name for own in needs for name in own.cells):
                self._column(name, needs)
        return before != (self.edit.schema, self.edit.files)

    def _needs(self, place: int) -> _Needs:
        subject, file = self.subjects[place], self.files[place]
        if place in self.clean:  # edits let more through, never less
            return _Needs()
        try:
            examined: Examined | None = subject.examine(self.schema, file)
        except FedkmeError:
            examined = None
        if examined is not None:
            self.rows[place] = len(examined.lines)
            others = much_swallowed(self.schema, examined.swallowed, len(examined.lines))
            if not (examined.faults or examined.ragged or others or self.sections_only):
                self.clean.add(place)
                return _Needs()
        cells = cells_seen(subject, file, self.schema, examined) if examined else {}
        first = self.edit.files[place].keys().isdisjoint(("sep", "decimal", "encoding", "skip"))
        if first and subject.frame is None and (dialect := dialect_seen(file)):
            unread = any(column.unread for column in cells.values()) or self.sections_only
            more = dialect.get("skip_end", 0) > file.skip_end
            if unread or more or examined is None or examined.ragged:
                return _Needs(dialect)
        if examined is not None:
            return _Needs(cells=cells)
        try:
            header = [*next(subject.parts(file)).columns]
        except FedkmeError:
            return _Needs()
        sources, guesses, unused = columns_seen(header, file, self.schema, of_persons=subject.of_persons)
        guessed = {name: sources[name] for name in sorted(guesses)}
        if guesses and not self.guess:
            return _Needs({}, {name: own for name, own in sources.items() if name not in guesses}, guessed)
        return _Needs(sources=sources, guesses=guessed, unused=unused)

    def _has_section(self, place: int) -> bool:
        """Check whether a file has, or will need, settings of its own."""
        subject = self.subjects[place]
        return self.sections_only or subject.has_section or bool(self.edit.files[place])

    def _say(self, place: int, settings: Mapping[str, Any]) -> None:
        """Add settings to a file's own, unless they contradict those it has."""
        if not settings:
            return
        added = {**self.edit.files[place], **settings}
        own = {key: added[key] for key in DataFile.model_fields if key in added}
        file = self.subjects[place].file
        given = file.model_dump(by_alias=True, exclude_defaults=True)
        with contextlib.suppress(ConfigError):
            self.files[place] = validate(type(file), {**given, **own}, str(file.path))
            self.edit.files[place] = own

    def _say_of_column(self, place: int, name: str, keys: Mapping[str, Any]) -> None:
        columns = {
            each: column.model_dump(by_alias=True, exclude_defaults=True)
            for each, column in self.files[place].columns.items()
        }
        columns[name] = {**columns.get(name, {}), **keys}
        self._say(place, {"columns": dict(sorted(columns.items()))})

    def _units(self, needs: Sequence[_Needs]) -> None:
        """Leave a column unread in files that name different units for it: no number is converted."""
        for name in self.schema.names:
            named = {}
            for place, own in enumerate(needs):
                source = (
                    {**own.guesses, **own.sources}.get(name) or self.files[place].column(name).source or ""
                )
                units = own.cells[name].units if name in own.cells else set()
                if unit := next(iter((*map(same_unit, units), unit_of(source))), ""):
                    named[place] = unit
            if len({*named.values(), unit_of(name)} - {""}) > 1:
                self.edit.units[name] = named
                for place in (place for place, unit in named.items() if unit != unit_of(name)):
                    needs[place].sources.pop(name, None)
                    needs[place].guesses.pop(name, None)
                    if name in needs[place].cells:
                        needs[place].cells[name].units = set()

    def _own_words(self, place: int, name: str, needs: ColumnNeeds) -> None:
        """Add settings of one file alone: the meaning of its names, and units."""
        own = self.files[place]
        if needs.map:
            self._say_of_column(place, name, {"map": {**own.column(name).map, **needs.map}})
        if needs.signs:
            self._say_of_column(place, name, needs.signs.model_dump(exclude_none=True, exclude_defaults=True))
        if needs.units:
            self._say(place, {"units": sorted({*own.units, *needs.units})})

    def _unused(self, needs: Sequence[_Needs]) -> None:
        counts = Counter(name for own in needs for name in own.unused)
        shared = [
            name
            for place, own in enumerate(needs)
            for name in own.unused
            if not self.sections_only and (counts[name] > 1 or not self._has_section(place))
        ]
        if shared:
            self._change("", "ignore", [*self.schema.ignore, *dict.fromkeys(shared)])
        for place, own in enumerate(needs):
            if rest := [name for name in own.unused if name not in shared]:
                self._say(place, {"ignore": sorted({*self.files[place].ignore, *rest})})

    def _column(self, name: str, needs: Sequence[_Needs]) -> None:
        """Add what the faulty cells of a column need, over all files."""
        spec = self._spec(name)
        having = {place: own.cells[name] for place, own in enumerate(needs) if name in own.cells}
        rows = sum(self.rows.values())
        hollow = {place for place, own in having.items() if own.gaps or own.words or own.codes}
        self._codes(spec, name, having)
        if isinstance(spec, Numeric):
            self._forms(spec, name, having)
            self._bounds(spec, having, rows)
        hollow |= self._unread(name, having)
        if isinstance(spec, Category) or (isinstance(spec, Label) and spec.positive_above is None):
            hollow |= self._names(spec, having)
        if hollow:
            self._gaps(spec, hollow)

    def _words(self, needs: Sequence[_Needs]) -> None:
        """Say which words mean nothing: in few columns of several files in the schema, else in each file."""
        having = {
            place: words
            for place, own in enumerate(needs)
            if (words := {name: column.words for name, column in own.cells.items() if column.words})
        }
        columns = sorted({name for words in having.values() for name in words})
        in_files = len(having) < len(columns) and all(map(self._has_section, having))
        for name in columns:
            places = [place for place, words in having.items() if name in words]
            if in_files or not self._belongs_to_schema(places):
                for place in places:
                    self._say_words(place, name, having[place][name])
            else:
                spec = self._spec(name)
                found = {word for place in places for word in having[place][name]}
                self._change(spec.name, "na", [*spec.na, *sorted(found)])

    def _codes(self, spec: Numeric | Category | Label, name: str, having: Mapping[int, ColumnNeeds]) -> None:
        with_codes = [place for place, own in having.items() if own.codes]
        if isinstance(spec, Numeric) and self._belongs_to_schema(with_codes):
            self._gaps(spec, set(with_codes))  # codes need a value in their place
            codes = sorted(
                {*spec.missing_codes, *(code for place in with_codes for code in having[place].codes)}
            )
            self._change(spec.name, "missing_codes", [written_value(spec, code) for code in codes])
            return
        for place in with_codes:
            own = self.files[place].column(name).na
            self._say_of_column(place, name, {"na": sorted({*own, *having[place].codes.values()})})

    def _say_words(self, place: int, name: str, words: set[str]) -> None:
        """Add words for nothing, of the whole file; one that is a name elsewhere, of the column alone."""
        lists = [spec.categories for spec in self.schema.columns if isinstance(spec, Category)]
        named = {word for listed in (*lists, self.schema.classes) for word in listed}
        own = self.files[place]
        if common := words - named - {*own.na}:
            self._say(place, {"na": sorted({*own.na, *common})})
        if single := words & named:
            self._say_of_column(place, name, {"na": sorted({*own.column(name).na, *single})})

    def _belongs_to_schema(self, places: Sequence[int]) -> bool:
        """Check whether a need of some files is the schema's: of several, or of one without settings."""
        if self.sections_only or not places:
            return False
        return len(places) > 1 or not self._has_section(places[0])

    def _forms(self, spec: Numeric, name: str, having: Mapping[int, ColumnNeeds]) -> None:
        with_form = [place for place, own in having.items() if own.form]
        forms = {having[place].form for place in with_form}
        if len(forms) == 1 and spec.format is None and self._belongs_to_schema(with_form):
            doubtful = any(having[place].doubtful for place in with_form)
            self._change(spec.name, "format", min(forms), "# or day and month swapped" if doubtful else "")
        else:
            for place in with_form:
                self._say_of_column(place, name, {"format": having[place].form})
                self.edit.doubts[place] |= {name} if having[place].doubtful else set()

    def _bounds(self, spec: Numeric, having: Mapping[int, ColumnNeeds], rows: int) -> None:
        """Move a few impossible values, or widen bounds and `values`; other units are left to people."""
        outside: Counter[float] = Counter()
        most = 1.0 if spec.values else MOST_CLIPPED if spec.kind == "date" or not spec.clip else _OTHER_UNITS
        for place, own in having.items():
            if own.outside.total() > most * (self.rows[place] * spec.count - own.gaps):
                return
            outside += own.outside
        if not outside or self.sections_only:
            return
        if outside.total() > max(FEW, RARELY * rows):
            for key, value in widened(spec, outside).items():
                self._change(spec.name, key, value, FROM_DATA)
        elif not spec.clip:
            self._change(spec.name, "clip", True)

    def _unread(self, name: str, having: Mapping[int, ColumnNeeds]) -> set[int]:
        """Name a few words among numbers in the own settings of the file that has them, if asked."""
        places = set()
        for place, own in having.items():
            few = own.unread.total() <= max(FEW, _UNREAD * self.rows[place])
            if own.unread and few and self._has_section(place) and not own.form:
                places |= self._named_privately(place, name, set(own.unread))
        return places

    def _named_privately(self, place: int, name: str, words: set[str]) -> set[int]:
        if not self.asked or self.sections_only:
            self.edit.unseen += len(words)
            return set()
        self._say_of_column(place, name, {"na": sorted({*self.files[place].column(name).na, *words})})
        return {place}

    def _names(self, spec: Category | Label, having: Mapping[int, ColumnNeeds]) -> set[int]:
        """Add names that many rows have; rarer ones become `other`, or are rows without a label."""
        listed = spec.categories if isinstance(spec, Category) else spec.classes
        counts: Counter[str] = Counter()
        for place, own in having.items():
            few = own.names.total() <= _OTHER_UNITS * self.rows[place]
            if not own.recoded and (few or not in_another_code(own.names, spec, self.files[place])):
                counts += own.names
        if not counts or self.sections_only:
            return set()
        often = [name for name, n in counts.items() if n >= MANY_ROWS and name.isprintable()]
        if len(listed) + len(often) > MOST_NAMES:
            often = []
        key = "categories" if isinstance(spec, Category) else "classes"
        if often:
            written = self._plain(spec.name)[key]
            self._change(spec.name, key, [*written, *sorted(often)], FROM_DATA)
        rare = {name for name in counts if name not in often}
        if not rare:
            return set()
        if isinstance(spec, Category):
            self._change(spec.name, "other", True)
            return set()
        places = set()
        for place, own in having.items():
            if (words := rare & own.names.keys()) and self._has_section(place):
                places |= self._named_privately(place, spec.name, words)
        return places

    def _gaps(self, spec: Numeric | Category | Label, places: set[int]) -> None:
        """Allow empty cells, or leave out rows without a label."""
        if isinstance(spec, Label):
            if not spec.drop_unlabelled:
                if self._belongs_to_schema(sorted(places)):
                    self._change(spec.name, "drop_unlabelled", True)
                else:
                    for place in places:
                        self._say(place, {"drop_unlabelled": True})
        elif spec.missing is None and not self.sections_only:
            if isinstance(spec, Numeric) and spec.count > 1:
                self._change(spec.name, "missing", sum(spec.bounds) / 2.0)
            else:
                self._change(spec.name, "nullable", True)

    def _spec(self, name: str) -> Numeric | Category | Label:
        """Column or label of a name."""
        label = self.schema.label
        if label is not None and label.name == name:
            return label
        return next(each for each in self.schema.columns if name in each.names)

    def _plain(self, column: str) -> Mapping[str, Any]:
        """Plain values of a column or of the label."""
        return next(values for values in tables(self.values) if values["name"] == column)

    def _change(self, column: str, key: str, value: Any, remark: str = "") -> None:
        """Change a key of the schema, unless the schema would be inconsistent."""
        values = changed(self.values, [SchemaChange(column, key, value)])
        try:
            self.schema = schema_from(values)
        except SchemaError:
            return
        self.values = values
        self.edit.schema[column, key] = SchemaChange(column, key, value, remark)
