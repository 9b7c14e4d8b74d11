"""Table Schema of Frictionless (specs.frictionlessdata.io/table-schema) as the keys of a schema file.

The domain of a field is taken from its type, `constraints.minimum`, `maximum`, `enum`, `required`, and from
`missingValues`. A field without a bounded domain is an error that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedkme.errors import SchemaError

_NUMBERS = {"integer": "numeric", "year": "numeric", "number": "numeric", "date": "date", "datetime": "date"}
_WITHOUT_BOUNDS = "Add 'minimum' and 'maximum', or an 'enum', to its constraints, or leave the field out."


def from_table_schema(values: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a Table Schema to the keys of a schema file; its primary key, which names rows, is ignored.

    Args:
        values: the parsed descriptor.

    Raises:
        SchemaError: the descriptor is malformed, or a field has a type or a domain that a schema cannot hold.
    """
    fields = values["fields"]
    if not isinstance(fields, list) or not all(isinstance(each, dict) and "name" in each for each in fields):
        raise SchemaError("'fields' of the Table Schema is no list of fields with names", "Correct it.")
    key = values.get("primaryKey", [])
    ignored = [key] if isinstance(key, str) else list(key)
    codes = [float(code) for code in values.get("missingValues", []) if _is_number(code)]
    columns = [_column(field, codes) for field in fields if field["name"] not in ignored]
    return {"columns": columns, **({"ignore": ignored} if ignored else {})}


def _column(field: Mapping[str, Any], codes: list[float]) -> dict[str, Any]:
    name, kind, limits = field["name"], field.get("type", "string"), field.get("constraints", {})
    nullable = {} if limits.get("required") or limits.get("unique") else {"nullable": True}
    if kind == "boolean":
        listed = [str((field.get(f"{word}Values") or [word])[0]) for word in ("false", "true")]
        return {"kind": "category", "name": name, "categories": listed, **nullable}
    if "enum" in limits:
        return {"kind": "category", "name": name, "categories": list(map(str, limits["enum"])), **nullable}
    if kind not in _NUMBERS:
        raise SchemaError(
            f"field '{name}' of the Table Schema is a {kind} without an 'enum'", _WITHOUT_BOUNDS
        )
    if not {"minimum", "maximum"} <= set(limits):
        raise SchemaError(f"field '{name}' of the Table Schema has no bounds", _WITHOUT_BOUNDS)
    column = {
        "kind": _NUMBERS[kind],
        "name": name,
        "bounds": [limits["minimum"], limits["maximum"]],
        **nullable,
    }
    if kind in ("integer", "year"):
        column["integer"] = True
    low, high = column["bounds"]
    outside = [code for code in codes if kind != "date" and not low <= code <= high]
    return column | ({"missing_codes": outside} if nullable and outside else {})


def _is_number(code: object) -> bool:
    try:
        float(str(code))
    except ValueError:
        return False
    return True
