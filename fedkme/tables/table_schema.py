"""Table Schemas of Frictionless, specs.frictionlessdata.io/table-schema, as the keys of a schema file."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, Field

from fedkme.config import Settings, validate
from fedkme.errors import ConfigError, SchemaError

_NUMBERS: Mapping[str, Literal["numeric", "date"]] = {
    **dict.fromkeys(("integer", "year", "number"), "numeric"),
    **dict.fromkeys(("date", "datetime"), "date"),
}
_WITHOUT_BOUNDS = "Add 'minimum' and 'maximum', or an 'enum', to its constraints, or leave the field out."


class _Part(Settings):
    """Part of a descriptor, whose other keys say nothing of a domain."""

    model_config = ConfigDict(extra="ignore")


class _Constraints(_Part):
    """Limits of a field; a number may be written as text."""

    required: bool = False
    unique: bool = False
    minimum: int | float | str | None = None
    maximum: int | float | str | None = None
    enum: list[str | int | float | bool] | None = Field(None, min_length=1)


class _TableField(_Part):
    """Column of a table."""

    name: str
    type: str = "string"
    constraints: _Constraints = _Constraints()
    false: list[str] = Field(["false"], alias="falseValues", min_length=1)
    true: list[str] = Field(["true"], alias="trueValues", min_length=1)


class _TableSchema(_Part):
    """Descriptor of a table."""

    fields_: list[_TableField] = Field(alias="fields", min_length=1)
    key: str | list[str] = Field([], alias="primaryKey")
    missing: list[Any] = Field([], alias="missingValues")


def from_table_schema(values: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a Table Schema to the keys of a schema file; its primary key is ignored.

    The domain of a field is taken from its type, `constraints.minimum`, `maximum`, `enum`, `required`, and
    `missingValues`.

    Args:
        values: the parsed descriptor; a key that is null is none.

    Raises:
        SchemaError: the descriptor is malformed, or a field has a type or a domain that a schema cannot hold.
    """
    try:
        table = validate(_TableSchema, _given(values), "the Table Schema")
    except ConfigError as error:
        raise SchemaError(error.cause, error.remedy) from None
    ignored = [table.key] if isinstance(table.key, str) else table.key
    codes = [float(code) for code in table.missing if _is_number(code)]
    columns = [_column(field, codes) for field in table.fields_ if field.name not in ignored]
    return {"columns": columns, **({"ignore": ignored} if ignored else {})}


def _given(values: Any) -> Any:
    """Values without keys that are null."""
    if isinstance(values, Mapping):
        return {key: _given(value) for key, value in values.items() if value is not None}
    return [*map(_given, values)] if isinstance(values, list) else values


def _column(field: _TableField, codes: list[float]) -> dict[str, Any]:
    name, kind, limits = field.name, field.type, field.constraints
    nullable = {} if limits.required or limits.unique else {"nullable": True}
    if kind == "boolean":
        return {"kind": "category", "name": name, "categories": [field.false[0], field.true[0]], **nullable}
    if limits.enum is not None:
        return {"kind": "category", "name": name, "categories": [*map(str, limits.enum)], **nullable}
    if kind not in _NUMBERS:
        cause = f"field '{name}' of the Table Schema is of type {kind}, without an 'enum'"
        raise SchemaError(cause, _WITHOUT_BOUNDS)
    if limits.minimum is None or limits.maximum is None:
        raise SchemaError(f"field '{name}' of the Table Schema has no bounds", _WITHOUT_BOUNDS)
    bounds = [limits.minimum, limits.maximum]
    column = {"kind": _NUMBERS[kind], "name": name, "bounds": bounds, **nullable}
    if column["kind"] == "date":
        return column
    column["bounds"] = low, high = [_number(bound, name) for bound in bounds]
    if kind in ("integer", "year"):
        column["integer"] = True
    outside = [code for code in codes if not low <= code <= high]
    return column | ({"missing_codes": outside} if nullable and outside else {})


def _number(bound: float | str, name: str) -> float:
    if not _is_number(bound):
        cause = f"field '{name}' of the Table Schema has a bound that is no number"
        raise SchemaError(cause, "Correct it.")
    return float(bound) if isinstance(bound, str) else bound


def _is_number(code: object) -> bool:
    with suppress(ValueError):
        return bool(np.isfinite(float(str(code))))  # "NaN" is an empty cell anyway
    return False
