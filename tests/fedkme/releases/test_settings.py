"""Settings of releases as JSON: every mistake is one line that names the key."""

from __future__ import annotations

import ast
import inspect
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from curator.releases.method import make_method
from fedkme.config import Settings
from fedkme.errors import ConfigError, DataError
from fedkme.releases import settings as module
from fedkme.releases.settings import (
    METHODS,
    Balog1Settings,
    GivenPoints,
    ReleaseSettings,
    read_points,
    release_settings,
    settings_from_json,
    settings_to_json,
)
from fedkme.tables.files import save_table
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(columns=(Numeric(name="x", bounds=(-4.0, 4.0), count=2),))


@pytest.mark.parametrize("kind", METHODS.table())
def test_every_method_has_the_default_epsilon_and_delta(kind: str) -> None:
    settings = settings_from_json(json.dumps({"kind": kind}))
    assert (settings.epsilon, settings.delta, settings.seed, settings.rows) == (1.0, 1e-5, None, None)
    assert settings_from_json(settings_to_json(settings)) == settings


def test_an_infinite_epsilon_survives_json() -> None:
    settings = release_settings({"kind": "merf", "epsilon": math.inf})
    text = settings_to_json(settings)
    assert '"inf"' in text
    assert settings_from_json(text) == settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "not one JSON object"),
        ("[" * 100_000, "not one JSON object"),
        ("[1]", "not one JSON object"),
        ("{}", "'kind' is missing"),
        ('{"kind": "balog"}', "'balog' is no method. Did you mean 'balog2'"),
        ('{"kind": 3}', "'kind' is wrong"),
        ('{"kind": "merf", "gama": 1}', "'gama' is not a key. Did you mean 'gamma'"),
        ('{"kind": "merf", "gamma": "mean"}', "'gamma' is wrong: it is a number between"),
        ('{"kind": "merf", "gamma": -1}', "'gamma' is wrong"),
        ('{"kind": "balog1", "tolerance": 0}', "'tolerance' is wrong"),
        ('{"kind": "balog1", "epsilon": 0}', "'epsilon' is wrong"),
        ('{"kind": "balog1", "epsilon": NaN}', "'epsilon' is wrong"),
        ('{"kind": "marginals", "epsilon": 1e308}', "'epsilon' is wrong: no noise is so exact"),
        ('{"kind": "marginals", "epsilon": 1e-300}', "'epsilon' is wrong: no noise is so exact, or so large"),
        ('{"kind": "marginals", "fine": 2}', "it is none of 1, 16. Known are 1, 16."),
        ('{"kind": "balog1", "delta": 1}', "'delta' is wrong"),
        ('{"kind": "balog1", "z": {"kind": "gaussian", "scale": 0}}', "scale' is wrong"),
        ('{"kind": "balog2", "features": 3}', "'features' is wrong"),
        ('{"kind": "hermite", "epochs": 256}', "'epochs' is wrong"),
        ('{"kind": "merf", "rows": 0}', "'rows' is wrong"),
        ('{"kind": "merf", "hidden": []}', "'hidden' is wrong"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_the_key(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings_from_json(text)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_every_key_is_documented() -> None:
    tree = ast.parse(inspect.getsource(module))
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or not issubclass(getattr(module, node.name), Settings):
            continue
        keys = [(i, each) for i, each in enumerate(node.body) if isinstance(each, ast.AnnAssign)]
        for i, key in keys:
            assert isinstance(key.target, ast.Name)
            if key.target.id in ("kind", "packages"):  # the base class documents these
                continue
            text = node.body[i + 1] if i + 1 < len(node.body) else None
            documented = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            assert documented, f"{node.name}.{key.target.id}"


def test_the_consumer_reads_the_file_of_points(tmp_path: Path) -> None:
    # A curator opens no path that a consumer names.
    points = np.random.default_rng(0).uniform(-4, 4, (30, 2))
    save_table(tmp_path / "z.npz", Table(points))
    values: dict[str, Any] = {"kind": "balog1", "gamma": 1.0, "points": 20}
    settings = release_settings(values | {"z": {"kind": "file", "path": "z.npz"}})
    read = settings_from_json(settings_to_json(read_points(settings, SCHEMA, tmp_path)))
    assert isinstance(read, Balog1Settings)
    assert isinstance(read.z, GivenPoints)
    np.testing.assert_array_equal(read.z.matrix(2), points[:20])
    assert make_method(read, SCHEMA, None, 0).protocol == "balog1"
    with pytest.raises(ConfigError, match="not read"):
        make_method(settings, SCHEMA, None, 0)
    with pytest.raises(DataError, match="public points"):
        read_points(release_settings(values | {"z": {"kind": "file", "path": "no.npz"}}), SCHEMA, tmp_path)
    assert read_points(release_settings(values), SCHEMA, tmp_path) == release_settings(values)


def test_given_points_outside_the_schema_are_refused(tmp_path: Path) -> None:
    wide = Schema(columns=(Numeric(name="x", bounds=(-9.0, 9.0), count=2),))
    save_table(tmp_path / "z.npz", Table(np.full((3, 2), 8.0)))
    settings = release_settings({"kind": "balog1", "z": {"kind": "file", "path": "z.npz"}})
    with pytest.raises(DataError, match="outside the public bounds"):
        make_method(read_points(settings, wide, tmp_path), SCHEMA, None, 0)


@pytest.mark.parametrize("text", ['{"kind": "balog1", "basis": "%s"}', '{"kind": "merf", "generator": "%s"}'])
def test_an_open_run_of_0_2_0_goes_on_if_it_means_what_is_done_now(text: str) -> None:
    now = "cholesky" if "basis" in text else "table"
    assert settings_from_json(text % now) == settings_from_json(text.partition(",")[0] + "}")
    with pytest.raises(ConfigError, match="is not a key"):
        settings_from_json(text % "other")


def test_keys_that_went_may_be_in_a_file_where_they_say_what_is_done_now() -> None:
    # release.toml has every key: "repeat it" of each page failed once a key went, whatever it said.
    now = release_settings({"kind": "marginals"})
    for key, value in ReleaseSettings.retired.items():
        assert release_settings({"kind": "marginals", key: value}) == now
        with pytest.raises(ConfigError, match=f"'{key}' is not a key"):
            release_settings({"kind": "marginals", key: "other"})
