"""Errors of configurations: the key by the path that its user wrote, in words that are no validator's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import ValidationError

from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from fedkme.config import Settings, load_toml, models_in, validate
from fedkme.errors import ConfigError
from fedkme.releases.settings import ReleaseSettings
from fedkme.tables.schema import Schema
from operate.descriptions import KINDS
from owner.settings import OwnerSettings
from sim.config import SimulationSettings

OWNER = {"name": "north", "curator": "-", "schema_file": "s.toml", "data": {"path": "rows.csv"}}
CONSUMER = {
    **{"curator": "-", "schema_file": "s.toml", "output": "out", "validation": "v.csv"},
    "request": {"p": 5, "target": {"mechanism": "gaussian"}},
}
CURATOR = {"directory": "runs", "schema_file": "s.toml", "seeds": "seeds.npz"}
SCENARIO = {
    "scenario": {
        **{"kind": "csv", "schema_file": "s.toml", "validation": "v.csv"},
        "owners": {"north": {"path": "north.csv", "columns": {"age": {"from": "Alter"}}}},
    },
    "summary": {"p": 5},
}
SCHEMA = {"columns": [{"kind": "numeric", "name": "age", "bounds": [0, 120]}]}
VALID: dict[type[Settings], dict[str, Any]] = {
    OwnerSettings: OWNER,
    ConsumerSettings: CONSUMER,
    CuratorSettings: CURATOR,
    SimulationSettings: SCENARIO,
    Schema: SCHEMA,
}

WRONG: list[tuple[type[Settings], str, Any, str]] = [
    (OwnerSettings, "data.seperator", ";", "'data.seperator' is not a key. Known keys: data.columns,"),
    (OwnerSettings, "data.seb", ";", "'data.seb' is not a key. Did you mean 'data.sep'?"),
    (OwnerSettings, "data.path", ..., "'data.path' is missing. Add it."),
    (OwnerSettings, "data.columns.age", {"form": "Alter"}, "'data.columns.age.form' is not a key."),
    (OwnerSettings, "data.columns.age", {"map": {"Y": 3}}, "'data.columns.age.map.Y' is wrong: it is"),
    (OwnerSettings, "data", 5, "'data' is wrong: it is no text."),
    # It was "'data' is wrong: it is no text."
    (
        OwnerSettings,
        "data",
        {"path": "a.csv", "sep": ",", "decimal": ","},
        "'sep' and 'decimal' are both ','",
    ),
    (OwnerSettings, "data", {"path": "a.npz", "na": ["?"]}, "'na' is no setting of a file such as a.npz."),
    (
        OwnerSettings,
        "data",
        {"path": "a.parquet", "skip_end": 1},
        "'skip_end' is no setting of a file such as",
    ),
    (SimulationSettings, "summary.p", True, "'summary.p' is wrong: it is true, where a number belongs."),
    (OwnerSettings, "policy", {"rows": "cooked"}, "'policy.rows' is wrong: it is none of raw, hashed, none."),
    (OwnerSettings, "policy", 3, "'policy' is wrong: it is no table of keys."),
    (OwnerSettings, "log", "jsom", "'log' is wrong: it is none of text, json. Did you mean 'json'?"),
    (ConsumerSettings, "request.p", "10", "'request.p' is wrong: it is text, where a number belongs."),
    (ConsumerSettings, "request.p", 1.5, "'request.p' is wrong: it is no whole number."),
    (ConsumerSettings, "request.target.mechanism", "gausian", "'gausian' is no mechanism"),
    (ConsumerSettings, "validation", {"path": "v.csv", "decimal": ";"}, "'validation.decimal' is wrong"),
    (CuratorSettings, "owners", "north", "'owners' is wrong: it is no list."),
    (CuratorSettings, "quota", {"row": 1}, "'quota.row' is not a key."),
    (SimulationSettings, "scenario.kind", ..., "'scenario.kind' is missing. Add it: adult, csv, digits,"),
    (SimulationSettings, "scenario.kind", "cvs", "there is no 'cvs'. Did you mean 'csv'?"),
    (SimulationSettings, "scenario", 5, "'scenario' is wrong"),
    (SimulationSettings, "scenario.sedes", 5, "Did you mean 'scenario.seeds'?"),
    (SimulationSettings, "scenario.owners.north.nan", ["?"], "'scenario.owners.north.nan' is not a key."),
    (SimulationSettings, "scenario.owners.North", "a.csv", "it has other signs than a-z, 0-9 and -. Correct"),
    (SimulationSettings, "scenario.owners", {}, "it should have at least 1 item. Correct"),
    (SimulationSettings, "summary.broadcast", {"schedule": {}}, 'It belongs to mechanism = "mwem".'),
    (SimulationSettings, "scenario.rows", 5, "The number of a summary's rows is 'p'."),
    (SimulationSettings, "columns", [{"name": "age"}], "is a schema: 'columns' is not a key here."),
    (OwnerSettings, "scenario", {"kind": "csv"}, "is a scenario: 'scenario' is not a key here."),
    # A consumer's key of a megabyte stood in the curator's log.
    (OwnerSettings, "x" * 2**20, 1, f"'{'x' * 300}' is not a key."),
    # It was "'summary' is not a key. It belongs to another kind of this table."
    (
        SimulationSettings,
        "summary.privacy",
        {"epsilonn": 3},
        "'summary.privacy.epsilonn' is not a key. Did you mean 'summary.privacy.epsilon'?",
    ),
    (SimulationSettings, "summary.privacy", {"epsilon": "x"}, "'summary.privacy.epsilon' is wrong"),
    (SimulationSettings, "policies", {"north": {"row": 1}}, "'policies.north.row' is not a key."),
    (Schema, "columns", [{"name": "age"}], "'columns.age.kind' is missing. Add it: category, date, numeric."),
    (
        Schema,
        "columns",
        [{"kind": "nummeric", "name": "age"}],
        "'columns.age.kind' is wrong: there is no 'nummeric'.",
    ),
    (Schema, "columns", [{"kind": "numeric", "name": "age"}], "'columns.age.bounds' is missing"),
    (Schema, "columns", [], "'columns' is wrong: it should have at least 1 item"),
]
JARGON = ("discriminator", "tag", "Input", "valid ", "instance", "union", "DataFile", "Settings")


@pytest.mark.parametrize("model", VALID)
def test_the_settings_of_these_tests_are_right(model: type[Settings]) -> None:
    validate(model, VALID[model], "file.toml")


def changed(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    if rest:
        return {**values, first: changed(values.get(first, {}), rest, value)}
    without = {key: value for key, value in values.items() if key != first}
    return without if value is ... else {**without, first: value}


@pytest.mark.parametrize(("model", "path", "value", "words"), WRONG, ids=lambda value: str(value)[:30])
def test_a_wrong_key_is_named_by_the_path_that_was_written(
    model: type[Settings], path: str, value: Any, words: str
) -> None:
    # Wrong keys are named by the path the user wrote, never a raw validator's text ("Unable
    # to extract tag using discriminator 'kind'").
    with pytest.raises(ConfigError) as caught:
        validate(model, changed(VALID[model], path, value), "file.toml")
    line = str(caught.value)
    assert words in line
    assert len(line) < 1000
    assert not [word for word in JARGON if word in line]


def test_a_copy_with_other_values_has_no_cached_values_of_the_original() -> None:
    # A schema computes its layout and digest once; pydantic's own copy takes them along.
    narrow = Schema.model_validate({"columns": [{"kind": "numeric", "name": "a", "bounds": [0, 1]}]})
    digest, width = narrow.digest(), narrow.encoded_width
    (first,) = narrow.columns
    wide = narrow.model_copy(update={"columns": (first, first.model_copy(update={"name": "b"}))})
    assert (wide.encoded_width, wide.digest() == digest) == (2 * width, False)
    assert (narrow.encoded_width, narrow.digest()) == (width, digest)
    assert wide == Schema.model_validate(wide.model_dump())


def test_rows_where_a_configuration_belongs_are_called_so(tmp_path: Path) -> None:
    # It was "not TOML: Expected '=' after a key (at line 1, column 4). Correct the line that it names."
    (tmp_path / "north.csv").write_text("age,smoker\n1,yes\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is a file of rows, where a"):
        load_toml(tmp_path / "north.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_configuration_is_utf_8_with_a_mark_of_byte_order_or_without(tmp_path: Path, encoding: str) -> None:
    # Of an editor that writes the mark it was "not TOML: Invalid statement (at line 1, column 1)".
    (tmp_path / "s.toml").write_bytes('a = "ü"\r\n'.encode(encoding))
    if encoding.startswith("utf-8"):
        assert load_toml(tmp_path / "s.toml") == {"a": "ü"}
        return
    with pytest.raises(ConfigError, match=r"s\.toml is not in UTF-8\. Save it in UTF-8"):
        load_toml(tmp_path / "s.toml")


def test_a_key_that_stands_twice_is_called_so(tmp_path: Path) -> None:
    # tomllib says "Cannot overwrite a value" of two owners of one name.
    (tmp_path / "s.toml").write_text('[owners]\na = "1.csv"\na = "2.csv"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"a key stands twice in a table \(at line 3"):
        load_toml(tmp_path / "s.toml")


def all_settings() -> list[type[Settings]]:
    """Settings of every kind of file, and all settings in them."""
    found = dict.fromkeys(model for model, _ in KINDS.values())
    for model in (waiting := [*found]):
        inner = {each: None for field in model.model_fields.values() for each in models_in(field)}
        waiting += [each for each in inner if each not in found]
        found |= inner
    return [*found]


def leaves(annotation: Any) -> Iterator[tuple[type, Callable[[Any], Any]]]:
    """Types of single values that a field may hold, each with a function that puts a value in its place."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        yield from ((kind, lambda value, put=put: [put(value)] * 2) for kind, put in leaves(parts[0]))
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from ((kind, lambda value, put=put: {"a": put(value)}) for kind, put in leaves(parts[1]))
    elif origin is Annotated:
        yield from leaves(parts[0])
    elif origin in (Union, UnionType):
        for part in parts:
            yield from leaves(part)
    elif origin is Literal:
        yield from ((kind, lambda value: value) for kind in {*map(type, parts)})
    else:
        yield annotation, lambda value: value


def refuses(model: type[Settings], key: str, value: Any) -> bool:
    try:
        model.model_validate({key: value})
    except ValidationError as error:
        return any(each["loc"][:1] == (key,) for each in error.errors())
    return False


@pytest.mark.parametrize("model", all_settings(), ids=lambda model: model.__name__)
def test_no_value_of_a_setting_is_made_of_another_kind_of_value(model: type[Settings]) -> None:
    # p = true was a summary of one row, "8" was 8, 1 switched a flag on, and a price could be nan.
    for name, field in model.model_fields.items():
        held = [*leaves(field.annotation)]
        kinds = {kind for kind, _ in held}
        endless = kinds & {float} and name == "epsilon" and issubclass(model, ReleaseSettings)
        for kind, put in held:
            wrong: list[Any] = []
            if kind in (int, float):
                wrong += [] if bool in kinds else [True, False]
                wrong += [] if kinds & {str, Path} else ["8", "1e3", "inf"][: 2 if endless else 3]
                wrong += [math.nan, -math.inf, *([] if endless else [math.inf])]
            if kind is bool:
                wrong += [] if kinds & {int, float} else [0, 1, 1.0]
                wrong += ["true", "yes", "on", "1"]
            taken = [each for each in wrong if not refuses(model, field.alias or name, put(each))]
            assert not taken, (name, field.annotation)


def test_a_key_is_looked_for_in_its_own_table_first() -> None:
    # "Did you mean 'budget.epsilon'?"
    values = {"name": "lab", "curator": "-", "schema_file": "s.toml", "validation": "v.csv", "output": "o"}
    with pytest.raises(ConfigError, match=r"Did you mean 'request\.privacy\.epsilon'"):
        validate(ConsumerSettings, values | {"request": {"p": 1, "epsilon": 1.0}}, "lab.toml")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "/".join(["ab"] * 1500), "\ud800"])
def test_a_path_that_no_system_can_look_up_is_a_wrong_setting(name: str) -> None:
    # Consumers ended with an unforeseen OSError, or ValueError, at the first look for a file.
    values = {
        "name": "lab",
        "curator": "-",
        "schema_file": "s.toml",
        "validation": "v.csv",
        "request": {"p": 1},
    }
    for own, key in (
        ({"output": name}, "output"),
        ({"output": "o", "validation": {"path": name}}, "validation.path"),
    ):
        with pytest.raises(ConfigError, match=f"'{key}' is wrong: a name in the path"):
            validate(ConsumerSettings, values | own, "lab.toml")
