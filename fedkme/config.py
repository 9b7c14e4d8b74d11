"""Reading configuration: TOML to frozen, validated settings, with errors that name the key and the remedy."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

import typing_extensions
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from fedkme.errors import ConfigError
from fedkme.extensions import Registry


class Settings(BaseModel):
    """Base of all settings: immutable, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @typing_extensions.override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Make a copy with other values, without what was computed of these and kept."""
        copy = super().model_copy(update=update, deep=deep)
        for kept in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[kept]
        return copy


SettingsT = TypeVar("SettingsT", bound=Settings)


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: the file is missing, unreadable or not TOML.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}", "Check the path.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "Check its permissions.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", "Correct the line that it names.") from None


def load_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds one object.

    Raises:
        ConfigError: the file is missing, unreadable or not such.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "Check the path.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not JSON: {error}", "Correct the line that it names.") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds no object", "Put its keys between braces.")
    return values


def validate(
    model: type[SettingsT] | Registry[SettingsT], values: Mapping[str, Any], source: str
) -> SettingsT:
    """Turn plain values of a file or a message into settings, or into those of a kind that the values name.

    Raises:
        ConfigError: names the first wrong key, what is wrong with it, and the closest known key.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _explain(model, values, error.errors(include_url=False), source) from None


_PLAIN: Mapping[str, str] = {
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "it is no table of keys"),
    **dict.fromkeys(("tuple_type", "list_type"), "it is no list"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "it is no whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "it is no number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "it is neither true nor false"),
    **dict.fromkeys(("string_type", "path_type"), "it is no text"),
    "finite_number": "it is not finite",
}
"""Words for what a validator finds, by its types of errors; for others its own sentence about "it"."""


def _explain(
    model: type[Settings] | Registry[Any],
    values: Mapping[str, Any],
    details: Sequence[ErrorDetails],
    source: str,
) -> ConfigError:
    """The error that tells most: a key that is none, else what is found deepest inside what was written."""
    here = [each for each in details if each["loc"][:1] == details[0]["loc"][:1]]
    found = next(
        (each for each in details if each["type"] == "extra_forbidden"),
        max(here, key=lambda each: len(_written(values, each["loc"], each["type"] == "missing"))),
    )
    kind, message, context = found["type"], found["msg"], found.get("ctx", {})
    path = _written(values, found["loc"], kind == "missing")
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        path.append(str(context["discriminator"]).strip("'"))
        listed = sorted(_kinds_at(model, path))
        if kind == "union_tag_not_found":
            return ConfigError(f"{source}: '{'.'.join(path)}' is missing", f"Add it: {', '.join(listed)}.")
        cause = f"{source}: '{'.'.join(path)}' is wrong: there is no {str(context['tag'])[:40]!r}"
        return ConfigError(cause, _did_you_mean(str(context["tag"]), listed))
    key = ".".join(path) or "(top level)"
    if kind == "extra_forbidden":
        return ConfigError(f"{source}: '{key}' is not a key", _suggestion(model, path))
    if kind == "missing":
        return ConfigError(f"{source}: '{key}' is missing", "Add it.")
    if kind == "literal_error":
        listed = re.findall(r"'([^']*)'", str(context["expected"]))
        cause = f"{source}: '{key}' is wrong: it is none of {', '.join(listed)}"
        return ConfigError(cause, _did_you_mean(str(found["input"]), listed))
    cause, _, remedy = message.partition(". ") if kind == "kind" else (message, "", "Correct the value.")
    cause = _PLAIN.get(kind, re.sub(r"^(Input|String|List|Tuple|Dictionary) ", "it ", cause))
    return ConfigError(f"{source}: '{key}' is wrong: {cause.removeprefix('Value error, ')}", remedy)


def _written(values: Any, location: Sequence[int | str], missing: bool) -> list[str]:
    """A location as the path that the user wrote; names of members of unions are no part of it.

    An element of a list is called by its name, where it has one; `missing`: the last part was not written.
    """
    path: list[str] = []
    for place, part in enumerate(location):
        if isinstance(values, Mapping) and isinstance(part, int) and part < len(values):
            part = list(values)[part]  # a list was made of a table
        if isinstance(values, Mapping) and part in values:
            path.append(str(part))
            values = values[part]
        elif isinstance(values, Sequence) and isinstance(part, int) and part < len(values):
            values = values[part]
            name = values.get("name") if isinstance(values, Mapping) else None
            path.append(name if isinstance(name, str) and name else str(part))
        elif missing and place == len(location) - 1:
            path.append(str(part))
    return path


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean '{close[0]}'?" if close else f"Known are {', '.join(known)}."


def _suggestion(model: type[Settings] | Registry[Any], written: Sequence[str]) -> str:
    """The key that was probably meant: one of the same table, else one of another, with its path."""
    known = sorted(set(_key_paths(model, "")))
    names = {path.rpartition(".")[2] for path in known}
    tables = [part for part in written[:-1] if part in names]  # names of elements are no part of a key's path
    if ".".join([*tables, written[-1]]) in known:
        return "It belongs to another kind of this table."
    table = ".".join(tables)
    here = [path for path in known if path.rpartition(".")[0] == table]
    for candidates, likeness in ((here, 0.6), (known, 0.65)):
        last = sorted({path.rpartition(".")[2] for path in candidates})
        for close in difflib.get_close_matches(written[-1], last, n=1, cutoff=likeness):
            meant = [path for path in candidates if path.rpartition(".")[2] == close]
            return "Did you mean {}?".format(" or ".join(f"'{path}'" for path in meant))
    return f"Known keys: {', '.join(here)}."


def _kinds_at(model: type[Settings] | Registry[Any], path: Sequence[str]) -> set[str]:
    """Values that the last key of a path, which names a kind, may have."""
    models = {model} if isinstance(model, type) else set(model.classes())
    for part in path[:-1]:
        fields = [each.model_fields[part] for each in models if part in each.model_fields]
        if fields:  # else the name of an element
            models = {each for field in fields for each in models_in(field)}
    found = [each.model_fields[path[-1]] for each in models if path[-1] in each.model_fields]
    return {kind for field in found for kind in get_args(field.annotation)}


def models_in(annotation: Any) -> Iterator[type[Settings]]:
    """The classes of settings that a field, or a part of its type, may hold."""
    if isinstance(annotation, FieldInfo):
        for part in (annotation.annotation, *annotation.metadata):
            yield from models_in(part)
    elif isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    else:
        for part in annotation.classes() if isinstance(annotation, Registry) else get_args(annotation):
            yield from models_in(part)


def _key_paths(annotation: Any, prefix: str) -> Iterator[str]:
    """Dotted paths of all keys of a model and of the models inside it."""
    for model in models_in(annotation):
        for name, field in model.model_fields.items():
            key = field.alias or name
            yield prefix + key
            yield from _key_paths(field, f"{prefix}{key}.")


def override(values: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Apply `--set key.path=value` assignments to a nested dictionary and return the result.

    The value is read as TOML where it parses as TOML, else as a string.

    Raises:
        ConfigError: an assignment has no '=' or goes through a value that is not a table.
    """
    result: dict[str, Any] = _copy(values)
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator or not path.strip():
            raise ConfigError(f"--set {assignment}: there is no '='", "Write --set key=value.")
        table = result
        *parents, last = path.strip().split(".")
        for part in parents:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigError(f"--set {path}: '{part}' is not a table", "Check the path of the key.")
        table[last] = _toml_value(text.strip())
    return result


def assignments_of(values: Mapping[str, Any]) -> list[str]:
    """Write nested values as `override` takes them: {"kernel": {"gamma": 2.0}} is `kernel.gamma=2.0`."""
    found: list[str] = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found += [f"{key}.{inner}" for inner in assignments_of(value)]
        else:
            found.append(f"{key}={toml_text(value)}")
    return found


def _copy(values: Any) -> Any:
    return {key: _copy(value) for key, value in values.items()} if isinstance(values, dict) else values


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def dump_toml(values: Mapping[str, Any]) -> str:
    """Write nested plain values as TOML that `load_toml` reads back; None is left out."""
    lines: list[str] = []
    _dump_table(values, (), lines)
    return "\n".join(lines).strip() + "\n"


def _dump_table(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    plain = {k: v for k, v in table.items() if not _is_table(v) and v is not None}
    if path and (plain or not table):
        lines.append(f"\n[{'.'.join(path)}]")
    lines.extend(f"{_toml_key(key)} = {toml_text(value)}" for key, value in plain.items())
    for key, value in table.items():
        if isinstance(value, Mapping):
            _dump_table(value, (*path, _toml_key(key)), lines)
        elif _is_table(value):
            for item in value:
                lines.append(f"\n[[{'.'.join((*path, _toml_key(key)))}]]")
                lines.extend(f"{_toml_key(k)} = {toml_text(v)}" for k, v in item.items() if v is not None)


def _is_table(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _toml_key(key: str) -> str:
    plain = key.replace("-", "").replace("_", "").isalnum() and key.isascii()
    return key if plain else toml_text(key)


def toml_text(value: Any) -> str:
    """A plain value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_text(item) for item in value) + "]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_toml_key(k)} = {toml_text(v)}" for k, v in value.items() if v is not None)
        return "{" + inner + "}"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{text}"'
