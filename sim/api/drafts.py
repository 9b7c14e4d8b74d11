"""Drafted schemas that a program or a notebook reads and edits: `schema["age"].nullable = True`."""

from __future__ import annotations

import difflib
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from fedkme.config import Settings, dump_toml, toml_text
from fedkme.drafts.drafting import draft
from fedkme.drafts.edits import Change, Place, edited, place_of, remarks_of, removed
from fedkme.drafts.writing import FROM_DATA, text_of
from fedkme.errors import ConfigError, FedkmeWarning
from fedkme.pages.html import plain_table
from fedkme.tables.names import Category, Label
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import Schema, schema_from

_HALVES = ["low", "high"]
"""Classes of a label that is a number."""


class ColumnDraft:
    """Column or label of a draft: every key of a schema file is an attribute that can be read and set.

    A key that is set to None is taken out. Values are checked when the schema is used.
    """

    def __init__(self, schema: SchemaDraft, name: str) -> None:
        object.__setattr__(self, "_schema", schema)
        object.__setattr__(self, "_name", name)

    _schema: SchemaDraft
    _name: str

    @property
    def _keys(self) -> dict[str, Any]:
        return self._schema._table(self._name)

    @property
    def _model(self) -> type[Settings]:
        if self._schema._place(self._name) == ("label",):
            return Label
        return Category if self._keys.get("kind") == "category" else Numeric

    def __getattr__(self, key: str) -> Any:
        """Value of a key, or its default.

        Raises:
            AttributeError: a column of this kind has no such key.
        """
        fields = {} if key.startswith("_") else self._model.model_fields
        if key not in fields:
            raise AttributeError(f"column '{self._name}' has no key '{key}'{_meant(key, fields)}")
        return self._keys.get(key, fields[key].default)

    def __setattr__(self, key: str, value: object) -> None:
        """Set a key; None takes it out.

        Raises:
            ConfigError: a column of this kind has no such key.
        """
        fields = self._model.model_fields
        if key not in fields:
            hint = f"Known are {', '.join(fields)}."
            raise ConfigError(
                f"column '{self._name}': '{key}' is not a key", _meant(key, fields).strip() or hint
            )
        self._schema._set(self._name, key, _plain(value))

    def __dir__(self) -> list[str]:
        return sorted(self._model.model_fields)

    def __repr__(self) -> str:
        return ": ".join(filter(None, (self._name, *self._schema._cells(self._name)[1:])))


class SchemaDraft:
    """Schema with remarks that can be edited; every verb that takes a schema takes it.

    `schema["age"]` is a column, `del schema["age"]` takes it out, `schema["age"] = {...}` puts one in, and
    `schema.label = "ill"` makes a column what a model learns. `schema.schema()` checks it, and gives the
    `fk.Schema` that it writes.

    Examples:
        >>> import fedkme as fk
        >>> schema = fk.draft_schema({"age": [20, 31, 47], "sex": ["f", "m", "f"]})
        >>> schema.label = "sex"
        >>> schema.names, schema.label
        (('age',), ...)
    """

    def __init__(self, text: str) -> None:
        """Make a draft of the text of a schema file."""
        self._text = text

    @classmethod
    def of(cls, schema: Schema | Mapping[str, Any]) -> SchemaDraft:
        """Draft with the columns of a schema, without remarks."""
        if isinstance(schema, Mapping):
            return cls(dump_toml(schema))
        values = schema.model_dump(exclude_unset=True)
        columns = [
            {"kind": column.kind, **{key: value for key, value in each.items() if value != ()}}
            for column, each in zip(schema.columns, values["columns"], strict=True)
            if not isinstance(column, Category) or column.gaps_of is None
        ]
        return cls(dump_toml({**values, "columns": columns}))

    def schema(self) -> Schema:
        """The schema that this draft writes.

        Raises:
            SchemaError: a column is inconsistent; names it and the key.
        """
        return schema_from(self.values(), "the draft")

    def values(self) -> dict[str, Any]:
        """Plain values, as a schema file has them."""
        return tomllib.loads(self._text)

    def to_toml(self) -> str:
        """Text of a schema file, with the draft's remarks."""
        return self._text

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that rows are compared by; a nullable number has another for its gaps."""
        return self.schema().names

    @property
    def columns(self) -> tuple[Numeric | Category, ...]:
        """Columns that rows are compared by, checked."""
        return self.schema().columns

    @property
    def ignore(self) -> tuple[str, ...]:
        """Columns that are not used."""
        return tuple(self.values().get("ignore", ()))

    @ignore.setter
    def ignore(self, names: Sequence[str]) -> None:
        self._ignored(names)

    @property
    def label(self) -> ColumnDraft | None:
        """Column that a model learns to predict; set it to a column's name, or to None."""
        own = self.values().get("label")
        return ColumnDraft(self, own["name"]) if own else None

    @label.setter
    def label(self, name: str | None) -> None:
        old = self.values().get("label")
        if old and old["name"] == name:
            return
        keys = None if name is None else _label_keys(self._table(name))
        if old:
            self._text = removed(self._text, ("label",))
            if "positive_above" in old:
                self._ignored([*self.ignore, old["name"]])
            else:
                self[old["name"]] = {"kind": "category", "categories": old["classes"]}
        if keys is not None:
            self._text = removed(self._text, self._place(keys["name"]))
            self._text += "\n" + dump_toml({"label": keys})

    def __getitem__(self, name: str) -> ColumnDraft:
        """Column or label of a name.

        Raises:
            ConfigError: there is none.
        """
        self._table(name := str(name))  # names of a frame's columns may be numbers
        return ColumnDraft(self, name)

    def __setitem__(self, name: str, keys: Mapping[str, Any]) -> None:
        """Put a column in, in place of one of its name."""
        name = str(name)
        if name in self:
            self._text = removed(self._text, self._place(name))
        elif name in self.ignore:
            self._ignored([each for each in self.ignore if each != name])
        column = {"kind": "numeric", "name": name, **{key: _plain(value) for key, value in keys.items()}}
        self._text += "\n" + dump_toml({"columns": [column]})

    def __delitem__(self, name: str) -> None:
        """Take a column out: files may have it, and it is not used."""
        self._table(name := str(name))
        self._text = removed(self._text, self._place(name))
        self._ignored([*self.ignore, name])

    def __contains__(self, name: object) -> bool:
        return any(each == str(name) for each in self)

    def __iter__(self) -> Iterator[str]:
        values = self.values()
        yield from (each["name"] for each in values.get("columns", ()))
        yield from (own["name"] for own in (values.get("label"),) if own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SchemaDraft):
            return self.schema() == other.schema()
        return self.schema() == other if isinstance(other, Schema) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rows = [self._cells(name) for name in self]
        widths = [max((len(row[place]) for row in rows), default=0) for place in range(3)]
        lines = [
            "  ".join(
                (*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), *row[3:])
            ).rstrip()
            for row in rows
        ]
        lines += [f"not used: {name}{f' ({why})' if why else ''}" for name, why in self._unused()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells = [self._cells(name) for name in self] + [
            (name, "not used", "", why) for name, why in self._unused()
        ]
        return plain_table(("column", "kind", "values", "remarks"), cells)

    def _unused(self) -> Iterator[tuple[str, str]]:
        for name in self.ignore:
            start = toml_text(name)
            lines = (line.strip() for line in self._text.splitlines())
            yield name, next((line.partition("# ")[2] for line in lines if line.startswith(start)), "")

    def _cells(self, name: str) -> tuple[str, str, str, str]:
        """Name, kind, values and remarks of a column, for people."""
        keys, place = self._table(name), self._place(name)
        kind = "label" if place == ("label",) else str(keys.get("kind", "numeric"))
        listed = keys.get("categories") or keys.get("classes")
        shown = (
            ", ".join(listed[:6]) + (f" and {len(listed) - 6} more" if len(listed) > 6 else "")
            if listed
            else ""
        )
        if "bounds" in keys:
            shown = " to ".join(map(str, keys["bounds"]))
        others = [key for key in keys if key not in ("kind", "name", "bounds", "categories", "classes")]
        words = [
            key if keys[key] is True else f"{key} {_shown(keys[key])}"
            for key in others
            if keys[key] is not False
        ]
        remarks = remarks_of(self._text)
        own = {text for at, text in remarks.items() if at[: len(place)] == place and text}
        mark = FROM_DATA.removeprefix("# ")
        notes = sorted(text for text in own if text != mark)
        return (
            name,
            kind,
            "; ".join(filter(None, (shown, *words))),
            "; ".join([*notes, *([mark] if mark in own else [])]),
        )

    def _table(self, name: str) -> dict[str, Any]:
        values = self.values()
        if name not in self:
            unused = " It is not used: put it in by schema[name] = {...}." if name in self.ignore else ""
            remedy = (_meant(name, list(self)) + unused).strip() or "Check the name."
            raise ConfigError(f"the schema has no column '{name}'", remedy)
        table: Any = values
        for key in self._place(name):
            table = table[key]
        return dict(table)

    def _place(self, name: str) -> Place:
        return place_of(self.values(), name)

    def _set(self, name: str, key: str, value: Any) -> None:
        place = (*self._place(name), key)
        if value is not None:
            self._text = edited(self._text, [Change(place, value, fresh=True)], "the draft")
        elif key in self._table(name):
            self._text = removed(self._text, place)

    def _ignored(self, names: Sequence[str]) -> None:
        self._text = edited(self._text, [Change(("ignore",), list(names))], "the draft")


def draft_schema(rows: Any, label: str | None = None, *, gaps: bool = False) -> SchemaDraft:
    """Draft a schema from public rows: a data frame, columns by name, or files; edit it before its use.

    Bounds are rounded outwards, and names are taken from the rows; both disclose the rows, so give public
    rows. A `FedkmeWarning` names the columns that the schema leaves out, with reasons.

    Examples:
        >>> schema = draft_schema({"age": [20, 31, 47], "sex": ["f", "m", "f"]})
        >>> schema["age"].bounds = [0, 120]
        >>> schema["age"]
        age: numeric: 0 to 120; clip; integer

    Args:
        rows: the sample; a frame, columns by name or the path of a file, or a sequence of samples.
        label: column that a model learns to predict; it is left out of model space.
        gaps: any column may have empty cells in other files, whether the sample has any or not.

    Raises:
        DataError: there are no rows, no column can be used, or a file cannot be read.
    """
    made = draft(rows, None if label is None else str(label), gaps=gaps)
    if ignored := [f"{name} ({why})" for name, why in made.left_out.items()]:
        warnings.warn(f"columns that the schema ignores: {', '.join(ignored)}", FedkmeWarning, stacklevel=2)
    made.schema()
    return SchemaDraft(text_of(made))


def _label_keys(column: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of [label] of a column.

    Raises:
        ConfigError: the column is a date.
    """
    name, na = column["name"], {"na": column["na"]} if "na" in column else {}
    dropped = {"drop_unlabelled": True} if column.get("nullable") else {}
    if column.get("kind") == "category":
        return {"name": name, "classes": column["categories"], **na, **dropped}
    if column.get("kind") == "date":
        raise ConfigError(f"column '{name}' is a date and cannot be the label", "Name another.")
    return {"name": name, "classes": _HALVES, "positive_above": sum(column["bounds"]) / 2.0, **na, **dropped}


def _plain(value: Any) -> Any:
    """Plain value of TOML: numpy's numbers, timestamps, tuples and arrays as Python's own."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if hasattr(value, "tolist"):  # numpy's scalars and arrays, pandas's series
        value = value.tolist()
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime().date()
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | date) else str(value)


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _meant(word: str, words: Any) -> str:
    close = difflib.get_close_matches(word, list(words), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""
