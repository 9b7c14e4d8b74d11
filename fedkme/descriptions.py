"""Descriptions of settings: JSON Schema with docstrings as descriptions, and lines for people."""

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from fedkme.config import Settings, toml_text

Table = dict[str, Any]
"""JSON Schema of one table."""

UNITS = {"_s": "seconds", "days": "days", "most_rows": "rows", "most_rows_per_run": "rows"}
"""Units of numbers, by the end of the key's name."""


class DescribedSchema(GenerateJsonSchema):
    """Generator of JSON Schema with the docstrings of attributes as descriptions of properties."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Description of a class of settings."""
        description = super().model_schema(schema)
        meanings = meanings_of(schema["cls"])
        for name, field in schema["cls"].model_fields.items():
            entry = description.get("properties", {}).get(field.alias or name)
            if entry is not None and name in meanings:
                entry["description"] = meanings[name]
        return description

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Description of a table whose key names its kind: the key is required."""
        return {**super().tagged_union_schema(schema), "required": [str(schema["discriminator"])]}


def meanings_of(model: type[Settings]) -> Mapping[str, str]:
    """Docstring of each attribute of a class of settings, by name; a subclass overrides its bases."""
    meanings: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if cls is not Settings and issubclass(cls, Settings):
            meanings.update(_docstrings(cls))
    return meanings


def keys_of(model: type[Settings]) -> list[str]:
    """Return a line for each key of a class of settings, for the help of a verb."""
    described = TypeAdapter(model).json_schema(by_alias=True, schema_generator=DescribedSchema)
    tables = {title_of(name): table for name, table in described.get("$defs", {}).items()}
    links = re.sub(r"\[([^]]*)\]\(#[^)]*\)", r"\1", keys_text(described, tables))
    return [" ".join(line.split()) for line in re.split(r"\n(?=- )", links)]


@functools.cache
def _docstrings(model: type[Settings]) -> Mapping[str, str]:
    docstrings = {}
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    for statement, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                docstrings[statement.target.id] = inspect.cleandoc(text.value).replace("\n", " ")
    return docstrings


def about(table: Table) -> str:
    """The first line of the docstring of a table's class."""
    return str(table.get("description", "")).partition("\n")[0]


def keys_text(table: Table, tables: Mapping[str, Table]) -> str:
    """Return a line for each key of a table.

    Args:
        table: JSON Schema of the table.
        tables: JSON Schema of the tables that it names, by title.
    """
    needed = table.get("required", [])
    keys = table.get("properties", {}).items()
    return "\n".join(_key(name, entry, name in needed, tables) for name, entry in keys)


def _key(name: str, entry: Table, needed: bool, tables: Mapping[str, Table]) -> str:
    unit = next((f", {unit}" for end, unit in UNITS.items() if name.endswith(end)), "")
    default = "" if "default" not in entry or _is_table(entry["default"]) else _plain(entry["default"])
    state = "needed" if needed else f"default {default}" if default else "optional"
    meaning = entry.get("description", "")
    if name in ("kind", "mechanism") and not meaning:
        meaning = "Name of the kind."
    if not meaning and "$ref" in entry:
        meaning = about(tables[title_of(entry["$ref"].rpartition("/")[2])])
    return wrapped(f"- `{name}` ({_type(entry)}{unit}; {state}). {meaning}".rstrip(), "  ")


def _is_table(default: Any) -> bool:
    return isinstance(default, dict) and bool(default)


def _plain(default: Any) -> str:
    return "none" if default is None else f"`{toml_text(default)}`"


def _type(entry: Table) -> str:
    if "$ref" in entry:
        title = title_of(entry["$ref"].rpartition("/")[2])
        return f"table [{title}](#{title.lower().replace(' ', '-')})"
    for union in ("anyOf", "oneOf"):
        if union in entry:
            return " or ".join(dict.fromkeys(_type(member) for member in entry[union]))
    if "const" in entry or "enum" in entry:
        return ", ".join(f"`{toml_text(member)}`" for member in entry.get("enum", [entry.get("const")]))
    match entry.get("type"):
        case "array":
            return f"list of {_type(entry.get('items') or {'type': 'value'})}"
        case "object":
            inside = entry.get("additionalProperties")
            return f"table of {_type(inside)} by name" if isinstance(inside, dict) else "table"
        case "null":
            return "none"
        case "string" if entry.get("format") == "path":
            return "path"
        case kind:
            return f"{_TYPES.get(str(kind), 'value')}{_limits(entry)}"


_TYPES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
_LIMITS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
    "multipleOf": "multiple of",
}


def _limits(entry: Table) -> str:
    limits = [f"{sign} {entry[key]:g}" for key, sign in _LIMITS.items() if key in entry]
    return f" {' and '.join(limits)}" if limits else ""


def title_of(name: str) -> str:
    """Heading of a table: the name of its class, without the word Settings."""
    last = name.rpartition("__")[2].removesuffix("Settings")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", last)


def wrapped(text: str, indent: str = "") -> str:
    """Break a text into lines of 120 columns."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
