"""Reading configuration: TOML to frozen, validated settings, with errors that name the key and the remedy."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from fedkme.errors import ConfigError
from fedkme.extensions import Kinds


class Settings(BaseModel):
    """Base of all settings: immutable, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


def validate(model: type[SettingsT] | Kinds[SettingsT], values: Mapping[str, Any], source: str) -> SettingsT:
    """Turn plain values of a file or a message into settings, or into those of a kind that the values name.

    Raises:
        ConfigError: names the first wrong key, what is wrong with it, and the closest known key.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        first = next((d for d in details if d["type"] == "extra_forbidden"), details[0])
        raise _explain(model, first["type"], first["loc"], first["msg"], source) from None


def _explain(
    model: type[Settings] | Kinds[Any], kind: str, location: Sequence[int | str], message: str, source: str
) -> ConfigError:
    key = ".".join(str(part) for part in location) or "(top level)"
    if kind == "extra_forbidden":
        return ConfigError(f"{source}: '{key}' is not a key", _suggestion(model, location))
    if kind == "missing":
        return ConfigError(f"{source}: '{key}' is missing", "Add it.")
    cause, _, remedy = message.partition(". ") if kind == "kind" else (message, "", "Correct the value.")
    return ConfigError(f"{source}: '{key}' is wrong: {cause.removeprefix('Value error, ')}", remedy)


def _suggestion(model: type[Settings] | Kinds[Any], location: Sequence[int | str]) -> str:
    """The key that was probably meant: one of the same table, else one of another, with its path."""
    known = sorted(set(_key_paths(model, "")))
    names = {path.rpartition(".")[2] for path in known}
    # pydantic names the member of a union in a location, which is no part of a key's path
    tables = [str(part) for part in location[:-1] if part in names]
    if ".".join([*tables, str(location[-1])]) in known:
        return "It belongs to another kind of this table."
    table = ".".join(tables)
    here = [path for path in known if path.rpartition(".")[0] == table]
    for candidates in (here, known):
        by_name = {path.rpartition(".")[2]: path for path in reversed(candidates)}
        if close := difflib.get_close_matches(str(location[-1]), by_name, n=1):
            return f"Did you mean '{by_name[close[0]]}'?"
    return f"Known keys: {', '.join(here)}."


def _key_paths(annotation: Any, prefix: str) -> Iterator[str]:
    """Dotted paths of all keys of a model and of the models inside it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield prefix + name
            for part in (field.annotation, *field.metadata):
                yield from _key_paths(part, f"{prefix}{name}.")
    else:
        parts = annotation.classes() if isinstance(annotation, Kinds) else getattr(annotation, "__args__", ())
        for part in parts:
            yield from _key_paths(part, prefix)


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
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
