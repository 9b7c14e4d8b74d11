"""Edits of schemas and configurations, as values and in the text of a TOML file.

In a text single keys change, and remarks, order and blank lines stay. Every edit is parsed again and compared
with the values that it should give, so a form of TOML that the edit does not know is refused, never damaged.
"""

import contextlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedkme.config import load_json, load_toml, toml_key, toml_text
from fedkme.errors import ConfigError
from fedkme.tables.data_file import DataFile
from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.table_schema import from_table_schema

Place = tuple[str | int, ...]
"""Keys from the top of a file to a value; a number is the place in a list."""


@dataclass(frozen=True, slots=True)
class Change:
    """New value of a key.

    Attributes:
        place: keys that lead to the value.
        value: the plain value.
        remark: remark behind the value, with its `#`; "" for none.
        fresh: a remark that stands behind the old value goes.
    """

    place: Place
    value: Any
    remark: str = ""
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """New value of a key of the schema.

    Attributes:
        column: column or label; "" for a key of the schema itself.
        key: the key.
        value: its value, as a schema file has it.
        remark: remark that belongs beside it.
    """

    column: str
    key: str
    value: Any
    remark: str = ""


@dataclass(slots=True)
class Edit:
    """Changes of a schema and of files' settings.

    Attributes:
        schema: changes of the schema, by column and key.
        files: settings to add, by subject.
        guesses: names of the file by the schema's that are guessed alone, by subject.
        doubts: dates whose days and months may be swapped, by subject.
        units: units by subject of columns that subjects have in different ones, by column; unread there.
        unseen: number of words in private cells that an edit could name, and that were not asked for.
    """

    schema: dict[tuple[str, str], SchemaChange]
    files: list[dict[str, Any]]
    guesses: list[dict[str, str]]
    doubts: list[set[str]]
    units: dict[str, dict[int, str]] = field(default_factory=dict)
    unseen: int = 0


@dataclass(frozen=True, slots=True)
class Fitted:
    """Schema and settings after an edit.

    Attributes:
        edit: the edit.
        schema: the schema.
        files: settings of each subject.
    """

    edit: Edit
    schema: Schema
    files: Sequence[DataFile]


def no_edit(subjects: int) -> Edit:
    """Edit of so many subjects that changes nothing."""
    each = range(subjects)
    return Edit({}, [{} for _ in each], [{} for _ in each], [set() for _ in each])


@dataclass(frozen=True, slots=True)
class _Statement:
    """A header, or a key with its value, at the lines [start, end)."""

    start: int
    end: int
    place: Place
    header: bool = False


def edited(text: str, changes: Sequence[Change], source: str) -> str:
    """Text of a TOML file after changes in their order; `source` names it in errors.

    Raises:
        ConfigError: the file is no TOML, or written in a way that cannot be edited.
    """
    for change in changes:
        text = _changed(text, change, source)
    return text


def removed(text: str, place: Place) -> str:
    """Text of a TOML file without a key or a table, and the remarks in it.

    Raises:
        ConfigError: the key cannot be taken out.
    """
    lines = text.splitlines(keepends=True)
    statements = _statements(lines)
    gone = [each for each in statements if each.place[: len(place)] == place]
    if gone:
        start, end = gone[0].start, gone[-1].end
        after = next((each.start for each in statements if each.start >= end), len(lines))
        while gone[0].header and end < after and lines[end].strip():
            end += 1
        new = "".join([*lines[:start], *lines[end:]])
        if _parses(new) and tomllib.loads(new) == _without(tomllib.loads(text), place):
            return new
    raise ConfigError(f"'{'.'.join(map(str, place))}' cannot be taken out", "Edit the text: to_toml().")


def _without(values: Any, place: Place) -> Any:
    first, rest = place[0], place[1:]
    if isinstance(values, list):
        each = enumerate(values)
        return [_without(own, rest) if i == first else own for i, own in each if rest or i != first]
    if not rest:
        return {key: own for key, own in values.items() if key != first}
    return {**values, first: _without(values[first], rest)}


def remarks_of(text: str) -> dict[Place, str]:
    """Remarks behind the headers and values of a TOML file, without their `#`."""
    lines = text.splitlines(keepends=True)
    remarks: dict[Place, str] = {}
    for each in _statements(lines):
        statement = "".join(lines[each.start : each.end])
        remark = statement.partition("]")[2].rpartition("]")[2] if each.header else _split(statement)[2]
        remarks[each.place] = remark.strip().removeprefix("#").strip()
    return remarks


def _changed(text: str, change: Change, source: str) -> str:
    for attempt in (_extended, _set):
        with contextlib.suppress(tomllib.TOMLDecodeError, KeyError, IndexError, TypeError, StopIteration):
            new = attempt(text, change)
            if new and tomllib.loads(new) == _put(tomllib.loads(text), change.place, change.value):
                return new
    key = ".".join(map(str, change.place))
    raise ConfigError(f"{source}: '{key}' cannot be written into the file", "Paste the printed lines.")


def _put(values: Any, place: Place, value: Any) -> Any:
    """Copy of nested values with another value at a place; missing tables are made."""
    if not place:
        return _plain(value)
    first, rest = place[0], place[1:]
    if isinstance(values, list):
        assert isinstance(first, int)
        changed_element = _put(values[first], rest, value)
        return [changed_element if i == first else each for i, each in enumerate(values)]
    return {**values, first: _put(values.get(first, {}), rest, value)}


def _value_at(text: str, place: Place) -> Any:
    value: Any = tomllib.loads(text)
    for key in place:
        value = value[key]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _statements(lines: Sequence[str]) -> list[_Statement]:
    """Headers and keys of a file, with their places.

    Raises:
        TOMLDecodeError: a statement does not end.
    """
    statements: list[_Statement] = []
    table: Place = ()
    counts: dict[Place, int] = {}
    at = 0
    while at < len(lines):
        start, line = at, lines[at].strip()
        at += 1
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            table = _table_of(line, counts)
            statements.append(_Statement(start, at, table, header=True))
            continue
        while not _parses("".join(lines[start:at])):
            if at == len(lines):
                raise tomllib.TOMLDecodeError
            at += 1
        statements.append(_Statement(start, at, table + _split("".join(lines[start:at]))[0]))
    return statements


def _table_of(header: str, counts: dict[Place, int]) -> Place:
    """Place of the table that a header opens; elements of lists are counted in `counts`."""
    values: Any = tomllib.loads(header)
    place: Place = ()
    while values:
        ((key, values),) = values.items()
        place += (key,)
        if isinstance(values, list):
            counts[place] = counts.get(place, 0) + 1
            values = values[0]
        if place in counts:
            place += (counts[place] - 1,)
    return place


def _parses(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _split(statement: str) -> tuple[tuple[str, ...], str, str]:
    """Keys of a statement, the text before its value, and its remark with the spaces before."""
    equals = next(i for i, sign in enumerate(statement) if sign == "=" and _parses(f"{statement[:i]}= 0"))
    values: Any = tomllib.loads(f"{statement[:equals]}= 0")
    keys: tuple[str, ...] = ()
    while isinstance(values, dict):
        ((key, values),) = values.items()
        keys += (key,)
    last = statement.rstrip("\r\n").rfind("\n") + 1
    ends = [i for i, sign in enumerate(statement) if sign == "#" and i >= last and i > equals]
    end = next((i for i in ends if _parses(statement[:i])), len(statement))
    value = statement[equals + 1 : end]
    remark = value[len(value.rstrip()) :] + statement[end:]
    return keys, statement[: equals + 1], remark.rstrip()


def _extended(text: str, change: Change) -> str | None:
    """Text in which a list of several lines has further elements before its end; None if it is not so."""
    lines = text.splitlines(keepends=True)
    whole = next((s for s in _statements(lines) if s.place == change.place and not s.header), None)
    if whole is None or whole.end - whole.start < 2 or not isinstance(change.value, list | tuple):
        return None
    old, end = _value_at(text, change.place), whole.end - 1
    if old != _plain(change.value)[: len(old)]:
        return None
    statement = "".join(lines[whole.start : end])
    bracket = next(
        i for i, sign in enumerate(lines[end]) if sign == "]" and _parses(statement + lines[end][: i + 1])
    )
    remark = f"  {change.remark}" if change.remark else ""
    added = "".join(f"    {toml_text(each)},{remark}\n" for each in _plain(change.value)[len(old) :])
    head, tail = lines[end][:bracket].rstrip(), lines[end][bracket:]
    # the last element may stand beside the bracket, and may have no comma behind it
    starts = (f"{head}\n", f"{head},\n") if head else ("", "    ,\n")
    for start in starts:
        if _parses(statement + start + added + tail):
            return "".join([*lines[:end], start, added, tail, *lines[end + 1 :]])
    return None


def _set(text: str, change: Change) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    statements = _statements(lines)
    for each in statements:
        depth = len(each.place)
        if not each.header and each.place == change.place[:depth]:
            old = _value_at(text, each.place)
            lines[each.start : each.end] = [
                _line(
                    "".join(lines[each.start : each.end]),
                    _put(old, change.place[depth:], change.value),
                    change.remark,
                    change.fresh,
                )
            ]
            return "".join(lines)
    tables = [each for each in statements if each.header and each.place == change.place[: len(each.place)]]
    opened = max(tables, key=lambda each: len(each.place), default=None)
    depth = len(opened.place) if opened else 0
    keys = ".".join(toml_key(str(key)) for key in change.place[depth:])
    remark = f"  {change.remark}" if change.remark else ""
    line = f"{keys} = {toml_text(change.value)}{remark}\n"
    lines.insert(_end_of(opened, statements, lines), line)
    return "".join(lines)


def _line(statement: str, value: Any, remark: str, fresh: bool) -> str:
    """Statement with another value; its own remark stays, unless the value is a fresh one."""
    _, key, own = _split(statement)
    own = "" if fresh else own
    added = f"{'' if own else ' '} {remark}" if remark and remark not in own else ""
    return f"{key} {toml_text(value)}{own}{added}\n"


def _end_of(opened: _Statement | None, statements: Sequence[_Statement], lines: Sequence[str]) -> int:
    """Line at which a table's next key belongs: behind the table's last key."""
    after = statements if opened is None else statements[statements.index(opened) + 1 :]
    end = 0 if opened is None else opened.end
    for each in after:
        if each.header:
            break
        end = each.end
    if end == 0 and after:  # no key stands before the first header: stay below the file's first remarks
        end = after[0].start
        while end and lines[end - 1].strip():
            end -= 1
    return end or (0 if after else len(lines))


def tables(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Tables of a schema's columns and label, in plain values."""
    yield from values["columns"]
    if values.get("label"):
        yield values["label"]


def place_of(values: Mapping[str, Any], column: str) -> tuple[str | int, ...]:
    """Keys that lead to a column's table in a schema's plain values; to the label's, if it has the name."""
    if not column:
        return ()
    if column == (values.get("label") or {}).get("name"):
        return ("label",)
    return ("columns", next(i for i, each in enumerate(values["columns"]) if each["name"] == column))


def changed(values: Mapping[str, Any], changes: Sequence[SchemaChange]) -> dict[str, Any]:
    """Plain values of a schema after changes."""
    new = {**values, "columns": [{**each} for each in values["columns"]]}
    if values.get("label"):
        new["label"] = {**values["label"]}
    for change in changes:
        table: Any = new
        for key in place_of(new, change.column):
            table = table[key]
        table[change.key] = change.value
    return new


def plain_schema(path: Path) -> dict[str, Any]:
    """Plain values of a schema file, which may be a Table Schema.

    Raises:
        ConfigError: the file is missing, or neither TOML nor JSON.
        SchemaError: the schema is inconsistent.
    """
    values = load_json(path) if path.suffix == ".json" else load_toml(path)
    schema_from(values, str(path))
    return from_table_schema(values) if "fields" in values else values


def section_changes(config: Path, place: Place, settings: Mapping[str, Any]) -> Iterator[Change]:
    """Changes of a configuration that add settings to the file of rows at a place."""
    written: Any = load_toml(config)
    for key in place:
        written = written[key]
    if isinstance(written, str):
        yield Change(place, {"path": written, **settings})
        return
    for key, value in settings.items():
        if key != "columns":
            yield Change((*place, key), value)
            continue
        for name, column in value.items():
            for each, own in column.items():
                if written.get("columns", {}).get(name, {}).get(each) != own:
                    yield Change((*place, key, name, each), own)
