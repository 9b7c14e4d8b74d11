"""Detection of the settings that a .csv in another dialect needs, from its text.

Only public words appear in them: words of the schema and of the header, and words for empty, yes and no.
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
    """Detect settings that change how a .csv is read; none for other files and unreadable files.

    Args:
        file: the file, with its current settings.
        schema: schema that the file should match.

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
    settings: dict[str, Any] = {
        key: getattr(seen, key)
        for key in ("sep", "decimal", "thousands", "units", "encoding")
        if getattr(seen, key) != getattr(file, key)
    }
    counts = _counts(seen)
    lists = _lists(schema)
    names = {name: _name_in(counts, name, file) for name in (*needed_names(schema, of_persons=False), *lists)}
    cells = {name: counts.get(own, Counter()) for name, own in names.items()}
    listed = {word_list for own in lists.values() for word_list in own}
    read = seen.number_reader()
    words = {word for word_list in cells.values() for word in words_for_nothing(word_list, read)} - listed
    if words - set(file.na):
        settings["na"] = sorted(words | set(file.na))
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
    if unused and set(names.values()) <= set(
        counts
    ):  # otherwise an unused column may be a missing one under another name
        settings["ignore"] = sorted({*file.ignore, *unused})
    if columns:
        own_columns = {
            name: column.model_dump(by_alias=True, exclude_unset=True)
            for name, column in file.columns.items()
        }
        settings["columns"] = own_columns | {
            name: own_columns.get(name, {}) | own for name, own in sorted(columns.items())
        }
    return settings


def _codes(cells: Iterable[str], spec: Numeric, read: Callable[[str], float]) -> set[str]:
    """Cells outside the bounds that are usual codes for an empty cell, such as -9 and 999."""
    if spec.missing is None:  # the schema would refuse a gap, while `clip` may accept the number
        return set()
    low, high = spec.bounds
    codes = set()
    for cell in cells:
        try:
            number = read(cell)
        except ValueError:
            continue
        if not low <= number <= high and number in CODES and number not in (*spec.missing_codes, *spec.atoms):
            codes.add(cell)
    return codes


def meanings(cells: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Match cells to names: the same word in other case, or words for yes and no.

    Args:
        cells: distinct cells of a column; none is a name.
        names: categories or classes of the schema.

    Returns:
        Names by cell, for cells that clearly stand for a name. Words for yes and no are matched only if all
        other cells are such words: 1 and 2 may mean anything.
    """
    by_word = {name.lower(): name for name in names}
    by_cell = {cell: by_word[cell.lower()] for cell in sorted(cells) if cell.lower() in by_word}
    others = {cell: cell.lower() for cell in sorted(cells) if cell not in by_cell}
    yes, no = ([name for word, name in by_word.items() if word in words] for words in (YES, NO))
    if len(yes) == len(no) == 1 and set(others.values()) <= YES | NO:
        by_cell |= {cell: yes[0] if word in YES else no[0] for cell, word in others.items()}
    return by_cell


def _counts(file: DataFile) -> Mapping[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for part in read_parts_of(file, file.path.name):
        for name, cells in part.columns.items():
            counts.setdefault(name, Counter()).update(texts(cells))
    return counts


def _lists(schema: Schema) -> Mapping[str, tuple[str, ...]]:
    """Categories by column, and the label's classes."""
    lists = {
        spec.name: spec.categories
        for spec in schema.columns
        if isinstance(spec, Category) and spec.gaps_of is None
    }
    return lists | ({schema.label.name: schema.label.classes} if schema.label else {})


def _name_in(header: Iterable[str], name: str, file: DataFile) -> str:
    """Name of a schema's column in a file: from the file's settings, the same name, or a similar one."""
    own = file.column(name).source or name
    plain = {each.lower(): each for each in header}
    if own in plain.values():
        return own
    close = difflib.get_close_matches(own.lower(), plain, n=1, cutoff=0.8)
    return plain[close[0]] if close else name
