"""Settings by which a .csv that is written another way would be read, by what its text shows.

Only public words are named: of the schema and of the header, and words for nothing, for yes and for no.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedkme.drafts.dialect import CODES, DATE_FORMS, detect_file, form_of_dates, words_for_nothing
from fedkme.errors import FedkmeError
from fedkme.tables.columns import Category, Numeric
from fedkme.tables.conversion import allowed_names, needed_names, texts
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import read_parts_of
from fedkme.tables.schema import Schema

YES = frozenset(("yes", "y", "true", "t", "1", "ja", "j", "oui", "si", "sí", "sim"))
"""Words for yes, in small letters."""
NO = frozenset(("no", "n", "false", "f", "0", "nein", "non", "nao", "não"))
"""Words for no."""


def settings_seen(file: DataFile, schema: Schema) -> dict[str, Any]:
    """Settings that would make a difference to how a .csv is read; none for other files and unreadable ones.

    Args:
        file: it, with the settings that it has already.
        schema: what its columns are to be.

    Returns:
        Keys of `DataFile`, without the path.
    """
    if file.path.suffix != ".csv":
        return {}
    try:
        return _seen(file, schema)
    except FedkmeError:
        return {}


def _seen(file: DataFile, schema: Schema) -> dict[str, Any]:
    seen = detect_file(file.path)
    found: dict[str, Any] = {
        key: getattr(seen, key)
        for key in ("sep", "decimal", "thousands", "units", "encoding")
        if getattr(seen, key) != getattr(file, key)
    }
    counts = _counts(seen)
    lists = _lists(schema)
    names = {name: _name_in(counts, name, file) for name in (*needed_names(schema, of_persons=False), *lists)}
    cells = {name: counts.get(own, Counter()) for name, own in names.items()}
    listed = {each for own in lists.values() for each in own}
    read = seen.number_reader()
    words = {word for each in cells.values() for word in words_for_nothing(each, read)} - listed
    if words - set(file.na):
        found["na"] = sorted(words | set(file.na))
    columns: dict[str, dict[str, Any]] = {
        name: {"from": own} for name, own in names.items() if own not in (name, file.column(name).source)
    }
    for spec in schema.columns:
        if isinstance(spec, Numeric) and spec.kind == "date":
            form = form_of_dates(cell for cell in cells[spec.name] if cell and cell not in words)
            if form not in (None, DATE_FORMS[0], file.column(spec.name).format):
                columns.setdefault(spec.name, {})["format"] = form
        elif isinstance(spec, Numeric) and (codes := _codes(cells[spec.name], spec, read)):
            columns.setdefault(spec.name, {})["na"] = sorted({*file.column(spec.name).na, *codes})
    for name, own_list in lists.items():
        column = file.column(name)
        unknown = set(cells[name]) - words - {*column.map, *column.na, *own_list, ""}
        if meant := meanings(unknown, own_list):
            columns.setdefault(name, {})["map"] = {**column.map, **meant}
    unused = set(counts) - {*names.values(), *allowed_names(schema), *file.ignore}
    if unused and set(names.values()) <= set(counts):  # else one of them may be a column under another name
        found["ignore"] = sorted({*file.ignore, *unused})
    if columns:
        said = {
            name: column.model_dump(by_alias=True, exclude_unset=True)
            for name, column in file.columns.items()
        }
        found["columns"] = said | {name: said.get(name, {}) | own for name, own in sorted(columns.items())}
    return found


def _codes(cells: Iterable[str], spec: Numeric, read: Callable[[str], float]) -> set[str]:
    """Cells that are outside the bounds and usual codes for nothing, such as -9 and 999."""
    if spec.missing is None:  # a gap would be refused where `clip` may take the number
        return set()
    low, high = spec.bounds
    found = set()
    for cell in cells:
        try:
            number = read(cell)
        except ValueError:
            continue
        if not low <= number <= high and number in CODES and number not in (*spec.missing_codes, *spec.atoms):
            found.add(cell)
    return found


def meanings(cells: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Say which names cells stand for: the same word in other letters; or each is a word for yes or no.

    Args:
        cells: different cells of a column, none of which is a name.
        names: categories or classes of the schema.

    Returns:
        Names by cell, of the cells that plainly stand for one. A column with yes, no and other words is
        left alone: 1 and 2 may be any two things.
    """
    by_word = {name.lower(): name for name in names}
    found = {cell: by_word[cell.lower()] for cell in sorted(cells) if cell.lower() in by_word}
    others = {cell: cell.lower() for cell in sorted(cells) if cell not in found}
    yes, no = ([name for word, name in by_word.items() if word in words] for words in (YES, NO))
    if len(yes) == len(no) == 1 and set(others.values()) <= YES | NO:
        found |= {cell: yes[0] if word in YES else no[0] for cell, word in others.items()}
    return found


def _counts(file: DataFile) -> Mapping[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for part in read_parts_of(file, file.path.name):
        for name, cells in part.columns.items():
            counts.setdefault(name, Counter()).update(texts(cells))
    return counts


def _lists(schema: Schema) -> Mapping[str, tuple[str, ...]]:
    """Names that cells of a column may have, by column; the label, too."""
    lists = {
        spec.name: spec.categories
        for spec in schema.columns
        if isinstance(spec, Category) and spec.gaps_of is None
    }
    return lists | ({schema.label.name: schema.label.classes} if schema.label else {})


def _name_in(header: Iterable[str], name: str, file: DataFile) -> str:
    """Name that a file gives a column: that of its settings, its own, or one that is much like it."""
    own = file.column(name).source or name
    plain = {each.lower(): each for each in header}
    if own in plain.values():
        return own
    close = difflib.get_close_matches(own.lower(), plain, n=1, cutoff=0.8)
    return plain[close[0]] if close else name
