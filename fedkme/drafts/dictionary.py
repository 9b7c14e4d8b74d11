"""Drafts from data dictionaries: a .csv with a line for each column (code book, REDCap), or a Table Schema.

A dictionary describes possible values without rows: no part of its draft comes from data.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkme.config import load_json
from fedkme.drafts.dialect import detect_file
from fedkme.drafts.drafting import Draft, DraftColumn, draft
from fedkme.errors import DataError
from fedkme.tables.cells import texts
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import read_columns
from fedkme.tables.table_schema import from_table_schema

_WORDS = {
    "name": ("name", "variable", "column", "field", "variable / field name", "variable name", "field name"),
    "type": ("type", "data type", "datatype", "field type", "text validation type or show slider number"),
    "low": ("min", "minimum", "lower", "low", "text validation min"),
    "high": ("max", "maximum", "upper", "high", "text validation max"),
    "values": (
        *("values", "categories", "choices", "levels", "codes", "enum", "allowed values"),
        "choices, calculations, or slider labels",
    ),
}
_NEEDED = "Give least and greatest values of numbers and dates, and the values of names."
_WHOLE = ("integer", "int", "count", "year")


def keys_of(header: Sequence[str]) -> dict[str, str]:
    """Columns of a dictionary by their meaning; empty if the header belongs to a file of rows."""
    plain = {name.lower().strip(): name for name in header}
    keys = {what: plain[word] for what, words in _WORDS.items() for word in words if word in plain}
    is_dictionary = "name" in keys and ({"low", "high"} <= set(keys) or "values" in keys)
    return keys if is_dictionary else {}


def draft_of_dictionary(columns: Mapping[str, Sequence[str]], file: DataFile, label: str) -> Draft:
    """Draft of a schema from the columns of a dictionary."""
    keys = keys_of(list(columns))
    rows = zip(*(columns[name] for name in keys.values()), strict=True)
    described = [_column(dict(zip(keys, row, strict=True))) for row in rows]
    if not any(each.spec for each in described if each.name):
        reason = described[0].why if described else "it has no line below the first"
        raise DataError(f"no column of the dictionary {file.path} can be used: {reason}", _NEEDED)
    return Draft(tuple(each for each in described if each.name), (DataFile(path=file.path),), label, False)


def draft_of_table_schema(values: Mapping[str, Any], file: DataFile, label: str) -> Draft:
    """Draft of a schema from a Table Schema of Frictionless."""
    schema = from_table_schema(values)
    columns = [DraftColumn(str(spec["name"]), spec) for spec in schema["columns"]]
    columns += [DraftColumn(name, {}, "the primary key") for name in schema.get("ignore", [])]
    return Draft(tuple(columns), (file,), label, False)


def draft_files(paths: Sequence[Path], label: str | None = None, *, gaps: bool = False) -> Draft:
    """Draft a schema from a data dictionary if the only path leads to one, else from files of rows.

    Raises:
        DataError: see `draft`.
        ConfigError: a .json file is no JSON.
        SchemaError: the Table Schema is malformed, or a schema cannot hold it.
    """
    first = paths[0]
    if first.suffix == ".json":
        return draft_of_table_schema(load_json(first), DataFile(path=first), label or "")
    file = detect_file(first)
    if len(paths) == 1 and file.carrier == "text":
        columns = {name: texts(cells) for name, cells in read_columns(file, first.name).items()}
        if keys_of(list(columns)):
            return draft_of_dictionary(columns, file, label or "")
    return draft(paths, label, gaps=gaps)


def _column(entry: Mapping[str, str]) -> DraftColumn:
    name = entry["name"]
    low, high = (re.sub(r",(\d{1,2})$", r".\1", entry.get(end, "")) for end in ("low", "high"))
    kind = entry.get("type", "").lower()
    if "date" in kind and low and high:
        return DraftColumn(name, {"kind": "date", "name": name, "bounds": [low, high]})
    if _is_number(low) and _is_number(high):
        whole = any(word in kind for word in _WHOLE) and float(low).is_integer() and float(high).is_integer()
        bounds = [int(low), int(high)] if whole else [float(low), float(high)]
        spec = {"kind": "numeric", "name": name, "bounds": bounds}
        return DraftColumn(name, {**spec, **({"integer": True} if whole else {})})
    listed = _choices(entry.get("values", ""))
    if "yes" in kind or "bool" in kind:
        listed = listed or ["0", "1"]
    if listed:
        return DraftColumn(name, {"kind": "category", "name": name, "categories": listed})
    return DraftColumn(name, {}, "the dictionary gives neither bounds nor values")


def _choices(text: str) -> list[str]:
    """Codes in `1, male | 2, female`, or in names between semicolons, bars or commas."""
    parts = re.split(r"[|;\n]", text) if re.search(r"[|;\n]", text) else text.split(",")
    codes = [re.split(r"\s*[=,]\s*", part.strip(), maxsplit=1)[0] for part in parts]
    return list(dict.fromkeys(code for code in codes if code))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+(\.\d+)?", text) is not None
