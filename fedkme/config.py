"""Reading of configuration: TOML to frozen, validated settings; errors name the key and the remedy."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, cast, get_args

import typing_extensions
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError
from pydantic_core.core_schema import no_info_before_validator_function

from fedkme.durable import key_of_no_path
from fedkme.errors import ConfigError
from fedkme.extensions import Registry
from fedkme.inputs import SMALL, read_text


def no_text(value: object) -> object:
    """Refuse what the validator would make a number of: true is not 1, nor is "1"."""
    if isinstance(value, bool | str | bytes):
        word = toml_text(value) if isinstance(value, bool) else "text"
        raise PydanticCustomError("number_type", "it is {word}, where a number belongs", {"word": word})
    return value


def _exact(schema: Any) -> Any:
    """Change a validator, and those in it: numbers come of numbers, and true and false of no number."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_exact, schema))
    if not isinstance(schema, Mapping):
        return schema
    kind = schema.get("type")
    numbers = kind == "literal" and not {*map(type, schema["expected"])} <= {str, bool}
    if numbers or kind in ("int", "float"):
        return no_info_before_validator_function(no_text, cast(CoreSchema, schema))
    if kind == "function-before" and schema["function"]["function"] is no_text:
        return schema  # of settings in these settings
    inner = {key: each if key in _NO_SCHEMAS else _exact(each) for key, each in schema.items()}
    return inner | {"strict": True} if kind == "bool" else inner


_NO_SCHEMAS = ("cls", "config", "default", "expected", "function", "metadata", "ref", "serialization")


class Settings(BaseModel):
    """Base of all settings: immutable; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    retired: ClassVar[Mapping[str, Any]] = {}
    """Keys that earlier releases wrote, each with the value that means what happens now: left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_retired(cls, values: Any) -> Any:
        if not (cls.retired and isinstance(values, dict)):
            return values
        return {k: value for k, value in values.items() if k not in cls.retired or value != cls.retired[k]}

    @classmethod
    @typing_extensions.override
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return cast(CoreSchema, _exact(handler(source)))

    @typing_extensions.override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Make a copy with other values, without the old values' cached properties."""
        copy = super().model_copy(update=update, deep=deep)
        for key in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[key]
        return copy


SettingsT = TypeVar("SettingsT", bound=Settings)
_OF_ROWS = (".csv", ".tsv", ".txt", ".parquet", ".npz", ".xlsx")
_FILES = {"columns": "a schema", "scenario": "a scenario", "policy": "an owner's configuration"}
_FILES |= {"request": "a consumer's configuration", "label": "a schema"}
"""Kinds of files by tables that no other kind has."""
UTF_8 = "utf-8-sig"
"""Encoding of files of settings, which some editors begin with a mark of byte order."""


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: the file is missing, unreadable or not TOML.
    """
    try:
        return tomllib.loads(read_text(path, UTF_8, most=SMALL))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}", "Check the path.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "Check its permissions.") from None
    except (ValueError, RecursionError) as error:
        raise _malformed(path, "TOML", error) from None


def load_json(path: Path, most: int | None = SMALL) -> dict[str, Any]:
    """Read a JSON file that holds one object, of `most` bytes.

    Raises:
        ConfigError: the file is missing, unreadable, or holds no JSON object.
    """
    try:
        values = json.loads(read_text(path, UTF_8, most=most))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "Check the path.") from None
    except (ValueError, RecursionError) as error:
        raise _malformed(path, "JSON", error) from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds no object", "Put its keys between braces.")
    return values


def _malformed(path: Path, language: str, error: Exception) -> ConfigError:
    if isinstance(error, RecursionError):
        return ConfigError(f"{path} nests lists or tables too deeply", "Write them flat.")
    if path.name.lower().removesuffix(".gz").endswith(_OF_ROWS):
        return ConfigError(f"{path} is a file of rows, where a .toml file belongs", "`fedkme new` makes one.")
    if isinstance(error, UnicodeDecodeError):
        return ConfigError(f"{path} is not in UTF-8", "Save it in UTF-8.")
    if isinstance(error, tomllib.TOMLDecodeError | json.JSONDecodeError):
        reason = str(error).replace("Cannot overwrite a value", "a key stands twice in a table")
        return ConfigError(f"{path} is not {language}: {reason}", "Correct the line that it names.")
    return ConfigError(f"{path} has a number of thousands of digits", "Correct it.")


def validate(
    model: type[SettingsT] | Registry[SettingsT], values: Mapping[str, Any], source: str
) -> SettingsT:
    """Turn plain values of a file or a message into settings of a class, or of the kind that the values name.

    Raises:
        ConfigError: names the first wrong key, its fault, and the closest known key.
    """
    try:
        settings = model.model_validate(values)
    except ValidationError as error:
        raise _explain(model, values, error.errors(include_url=False), source) from None
    if key := key_of_no_path(settings):
        cause = f"{source}: '{key}' is wrong: a name in the path is too long, or has the sign NUL"
        raise ConfigError(cause, "Correct the path.")
    return settings


_KEY = 300  # letters of a key in a message: a peer may send any
_PLAIN: Mapping[str, str] = {
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "it is no table of keys"),
    **dict.fromkeys(("tuple_type", "list_type"), "it is no list"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "it is no whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "it is no number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "it is neither true nor false"),
    **dict.fromkeys(("string_type", "path_type"), "it is no text"),
    "finite_number": "it is not finite",
}
"""Messages by the validator's types of errors; other types keep the validator's own sentence about "it"."""


def _explain(
    model: type[Settings] | Registry[Any],
    values: Mapping[str, Any],
    details: Sequence[ErrorDetails],
    source: str,
) -> ConfigError:
    """Choose the most informative error: an unknown key, else the error deepest inside the user's values."""
    siblings = [detail for detail in details if detail["loc"][:1] == details[0]["loc"][:1]]
    fault = next(
        (detail for detail in details if detail["type"] == "extra_forbidden"),
        max(siblings, key=lambda detail: _weight(values, detail)),
    )
    kind, message, context = fault["type"], fault["msg"], fault.get("ctx", {})
    path = _written(values, fault["loc"], kind == "missing")
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        path.append(str(context["discriminator"]).strip("'"))
        listed = sorted(_kinds_at(model, path))
        if kind == "union_tag_not_found":
            return ConfigError(f"{source}: '{'.'.join(path)}' is missing", f"Add it: {', '.join(listed)}.")
        cause = f"{source}: '{'.'.join(path)}' is wrong: there is no {str(context['tag'])[:40]!r}"
        return ConfigError(cause, _did_you_mean(str(context["tag"]), listed))
    key = ".".join(path)[:_KEY] or "(top level)"
    if kind == "extra_forbidden":
        if len(path) == 1 and isinstance(values[path[0]], Mapping | list) and key in _FILES:
            cause = f"{source} is {_FILES[key]}: '{key}' is not a key here"
            return ConfigError(cause, "Give the other file.")
        return ConfigError(f"{source}: '{key}' is not a key", _suggestion(model, path))
    if kind == "missing":
        return ConfigError(f"{source}: '{key}' is missing", "Add it.")
    if kind == "literal_error":
        listed = [word or number for word, number in re.findall(r"'([^']*)'|(\d+)", str(context["expected"]))]
        cause = f"{source}: '{key}' is wrong: it is none of {', '.join(listed)}"
        return ConfigError(cause, _did_you_mean(str(fault["input"]), listed))
    cause, _, remedy = message.partition(". ")
    cause = _PLAIN.get(kind, re.sub(r"^(Input|String|List|Tuple|Dictionary) ", "it ", cause))
    cause = re.sub(r" after validation, not \d+$", "", cause)
    if kind == "string_pattern_mismatch" and (signs := re.fullmatch(r"\^\[(.*)\]\+\$", context["pattern"])):
        cause = f"it has other signs than {signs[1].replace('a-z0-9-', 'a-z, 0-9 and -')}"
    bound = _bound(context)
    if bound is not None:
        cause = re.sub(r"[^ ]+$", f"{bound:g}", cause)
    if bound is not None and path and path == [*fault["loc"][: len(path)]] != [*fault["loc"]]:
        inner = ".".join(map(str, fault["loc"][len(path) :]))
        cause = f"'{inner}', which follows from its keys, {cause.removeprefix('it ')}"
    cause = cause.removeprefix("Value error, ")
    return ConfigError(f"{source}: '{key}' is wrong: {cause}", remedy or "Correct the value.")


def _weight(values: Mapping[str, Any], fault: ErrorDetails) -> tuple[int, bool]:
    """Depth of an error inside the user's values; at one depth, another kind of value says least."""
    path = _written(values, fault["loc"], fault["type"] == "missing")
    return len(path), not fault["type"].endswith("_type")


def _bound(context: Mapping[str, Any]) -> float | None:
    """A limit that is no whole number, which the validator's sentence writes with all its digits."""
    limits = [context[name] for name in ("gt", "ge", "lt", "le") if name in context]
    return limits[0] if limits and isinstance(limits[0], float) else None


def _written(values: Any, location: Sequence[int | str], missing: bool) -> list[str]:
    """Translate a location to the path that the user wrote, without names of union members.

    An element of a list appears by its name, if it has one. With `missing`, the last part was not written.
    """
    path: list[str] = []
    for place, part in enumerate(location):
        if isinstance(values, Mapping) and isinstance(part, int) and part < len(values):
            part = list(values)[part]  # the validator turned a table into a list
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


def _did_you_mean(word: str, words: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, words, n=1)
    return f"Did you mean '{close[0]}'?" if close else f"Known are {', '.join(words)}."


def _suggestion(model: type[Settings] | Registry[Any], written: Sequence[str]) -> str:
    """Suggest the key that was probably meant: a key of the same table, else of another, with its path."""
    paths = sorted(set(key_paths(model, "")))
    names = {path.rpartition(".")[2] for path in paths}
    tables = [part for part in written[:-1] if part in names]  # a key's path has no names of elements
    if ".".join([*tables, written[-1]]) in paths:
        kinds = sorted(_kinds_with(model, tables, written[-1]))
        hint = f"It belongs to {' or '.join(kinds) or 'another kind of this table'}."
        return hint if written[-1] != "rows" else f"{hint} The number of a summary's rows is 'p'."
    table = ".".join(tables)
    siblings = [path for path in paths if path.rpartition(".")[0] == table]
    inside = [path for path in paths if path.startswith(f"{table}.")]
    for candidates, likeness in ((siblings, 0.6), (inside, 0.65), (paths, 0.65)):
        last = sorted({path.rpartition(".")[2] for path in candidates})
        begin = written[-1] if len(written[-1]) > 2 else "."  # `eps` of `epsilon`
        if short := [path for path in candidates if path.rpartition(".")[2].startswith(begin)]:
            depth = min(path.count(".") for path in short)
            meant = [path for path in short if path.count(".") == depth]
            return "Did you mean {}?".format(" or ".join(f"'{path}'" for path in meant))
        for close in difflib.get_close_matches(written[-1], last, n=1, cutoff=likeness):
            meant = [path for path in candidates if path.rpartition(".")[2] == close]
            return "Did you mean {}?".format(" or ".join(f"'{path}'" for path in meant))
    return f"Known keys: {', '.join(siblings)}."


def _kinds_at(model: type[Settings] | Registry[Any], path: Sequence[str]) -> set[str]:
    """Possible values of the last key of a path, which names a kind."""
    models = {model} if isinstance(model, type) else set(model.classes())
    for part in path[:-1]:
        fields = [each.model_fields[part] for each in models if part in each.model_fields]
        if fields:  # otherwise the part is the name of an element
            models = {each for field in fields for each in models_in(field)}
    fields = [each.model_fields[path[-1]] for each in models if path[-1] in each.model_fields]
    return {kind for field in fields for kind in get_args(field.annotation)}


def _kinds_with(model: type[Settings] | Registry[Any], tables: Sequence[str], key: str) -> Iterator[str]:
    """Kinds of a table that have a key, as the table names them: `mechanism = "mwem"`."""
    models = set(models_in(model))
    for part in tables:
        models = {each for own in models if (of := own.model_fields.get(part)) for each in models_in(of)}
    for each in models:
        if key in each.model_fields:
            for name, field in each.model_fields.items():
                if get_args(field.annotation) == (field.default,):  # the literal that names the kind
                    yield f'{name} = "{field.default}"'


def models_in(annotation: Any) -> Iterator[type[Settings]]:
    """Classes of settings that a field, or a part of its type, may hold."""
    if isinstance(annotation, FieldInfo):
        for part in (annotation.annotation, *annotation.metadata):
            yield from models_in(part)
    elif isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    else:
        for part in annotation.classes() if isinstance(annotation, Registry) else get_args(annotation):
            yield from models_in(part)


def key_paths(annotation: Any, prefix: str) -> Iterator[str]:
    """Dotted paths of all keys of a model and of the models inside it."""
    for model in models_in(annotation):
        for name, field in model.model_fields.items():
            key = field.alias or name
            yield prefix + key
            yield from key_paths(field, f"{prefix}{key}.")


def override(values: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Apply `--set key.path=value` assignments to a copy of a nested dictionary.

    A value that does not parse as TOML is taken as a string.

    Raises:
        ConfigError: an assignment has no '=' or goes through a value that is not a table.
    """
    result: dict[str, Any] = _copy(values)
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator or not path.strip():
            raise ConfigError(f"--set '{assignment}' has no '='", "Write --set KEY=VALUE.")
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
    except (ValueError, RecursionError):
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
    lines.extend(f"{toml_key(key)} = {toml_text(value)}" for key, value in plain.items())
    for key, value in table.items():
        if isinstance(value, Mapping):
            _dump_table(value, (*path, toml_key(key)), lines)
        elif _is_table(value):
            for item in value:
                lines.append(f"\n[[{'.'.join((*path, toml_key(key)))}]]")
                lines.extend(f"{toml_key(k)} = {toml_text(v)}" for k, v in item.items() if v is not None)


def _is_table(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(v, Mapping) for v in value)


def toml_key(key: str) -> str:
    """TOML text of a key, in quotes where it needs them."""
    plain = key.replace("-", "").replace("_", "").isalnum() and key.isascii()
    return key if plain else toml_text(key)


def toml_text(value: Any) -> str:
    """TOML text of a plain value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_text(item) for item in value) + "]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{toml_key(k)} = {toml_text(v)}" for k, v in value.items() if v is not None)
        return "{" + inner + "}"
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
