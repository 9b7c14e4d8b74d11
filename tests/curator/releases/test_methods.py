"""Releases from settings to files, over owners in memory (issue 5: "each a service of the curator")."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from audit.contracts import OwnersInMemory, ReleaseContract
from curator.releases.joint import JointRelease
from curator.releases.method import Finished, Method, make_method
from curator.releases.methods.base import EmbeddingMethod
from curator.sums.owner_sums import _checked
from fedkme.errors import ConfigError, DataError, MissingDependencyError
from fedkme.privacy.sums import PooledRelease
from fedkme.releases.file import from_bytes
from fedkme.releases.settings import ReleaseSettings, release_settings
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector, weighted
from fedkme.tables.cells import columns_of
from fedkme.tables.files import load_table, table_from_columns
from fedkme.tables.schema import Category, Label, Numeric, Schema, schema_from
from fedkme.tables.table import Table

NUMBERS = Schema(columns=(Numeric(name="x", bounds=(-4.0, 4.0), count=2),))
MIXED = Schema(
    columns=(
        Numeric(name="age", bounds=(17, 90), integer=True),
        Category(name="work", categories=("self, own", "state", "?")),
        Numeric(name="share", bounds=(-1, 1)),
    ),
    label=Label(name="income", classes=("<=50K", ">50K")),
)
IMAGES = Schema(
    columns=(Numeric(name="pixel", bounds=(0.0, 1.0), count=64),),
    label=Label(name="kind", classes=("dark", "bright")),
)
ROWS = 2000
_NETWORK = {"hidden": [16], "batch": 64, "steps": 20, "rows": 300}
_SEARCH = {"restarts": 1, "steps": 20, "candidates": 32, "climbs": 10, "points": 20}
SETTINGS: Mapping[str, tuple[Schema, dict[str, Any]]] = {
    "balog1": (NUMBERS, {"kind": "balog1", "points": 60, "gamma": 8.0, "weights": "simplex", "rows": 50}),
    "balog1-mixed": (MIXED, {"kind": "balog1", "points": 40, "z": {"kind": "gaussian", "scale": 0.4}}),
    "balog2": (NUMBERS, {"kind": "balog2", "features": 200, "gamma": 0.5, "units": "table", **_SEARCH}),
    "balog2-mixed": (MIXED, {"kind": "balog2", "features": 200, "rows": 40, **_SEARCH}),
    "merf": (MIXED, {"kind": "merf", "features": 100, "scales": {"age": 2.0}, **_NETWORK}),
    "merf-fourier": (NUMBERS, {"kind": "merf", "features": 100, **_NETWORK}),
    "hermite": (MIXED, {"kind": "hermite", "epochs": 3, "sum_order": 10, **_NETWORK}),
    "moments": (MIXED, {"kind": "moments", "rows": 300}),
    "moments-numbers": (NUMBERS, {"kind": "moments", "rows": 50}),
    "moments-edges": (IMAGES, {"kind": "moments", "rows": 50, "edges": True}),
}


def rows(schema: Schema, count: int = ROWS, seed: int = 0) -> Table:
    generator = np.random.default_rng(seed)
    if schema is IMAGES:
        kinds = generator.integers(0, 2, count)
        return Table(0.6 * generator.random((count, 64)) + 0.4 * kinds[:, None], kinds)
    if schema is NUMBERS:
        centres = np.array([[-2.0, 0.0], [1.0, 2.0], [2.0, -1.0]])
        blobs = centres[generator.integers(0, 3, count)] + 0.5 * generator.standard_normal((count, 2))
        return Table(np.clip(blobs, -4, 4))
    age, work = generator.integers(17, 91, count), generator.choice(3, count, p=[0.6, 0.3, 0.1])
    share = np.clip(0.3 * generator.standard_normal(count) + 0.4, -1, 1)
    return Table(np.stack([age, work, share], axis=1), (age > 60).astype(np.int64))


def method_of(name: str, **changes: Any) -> tuple[Method, Schema]:
    schema, values = SETTINGS[name]
    return make_method(release_settings(values | changes), schema, rows(schema, 80, seed=9), 7), schema


@cache
def released(name: str, owners: int = 5) -> bytes:
    method, schema = method_of(name)
    return asyncio.run(method.ask(OwnersInMemory(rows(schema), schema, owners)))


@cache
def finished(name: str) -> tuple[Finished, tuple[tuple[str, str, float], ...]]:
    reports: list[tuple[str, str, float]] = []
    method, _ = method_of(name)
    return method.finish(released(name), lambda *report: reports.append(report)), tuple(reports)


def saved(name: str, folder: Path) -> Path:
    """A finished release as a consumer's folder."""
    for file, data in finished(name)[0].files.items():
        (folder / file).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("schema", "settings"),
    [(schema, release_settings(values)) for schema, values in SETTINGS.values()],
    ids=list(SETTINGS),
)
class TestEveryMethod(ReleaseContract):
    @override
    def test_the_same_release_gives_the_same_files(self, settings: ReleaseSettings, schema: Schema) -> None:
        if settings.kind == "hermite" or (settings.kind == "merf" and schema is NUMBERS):
            pytest.skip("training is dear; that of merf stands for all")
        (name,) = (
            each
            for each, (of, values) in SETTINGS.items()
            if (of, release_settings(values)) == (schema, settings)
        )
        method, _ = method_of(name)
        assert dict(method.finish(released(name), lambda *_: None).files) == dict(finished(name)[0].files)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_release_ends_in_files_of_the_schema_with_a_card(name: str, tmp_path: Path) -> None:
    # "gets a data set in the original columns and units"; "with a data card".
    schema, values = SETTINGS[name]
    release_files, reports = finished(name)
    files = release_files.files
    folder = saved(name, tmp_path)
    assert files["release.npz"] == released(name)
    if "rows" in values:
        for suffix in ("npz", "csv", "parquet"):
            table = load_table(folder / f"synthetic.{suffix}", schema, "reader")
            assert len(table) == values["rows"] == release_files.rows
            assert (table.labels is not None) == (
                not values["kind"].startswith("balog") and bool(schema.label)
            )
    balog = values["kind"].startswith("balog")
    assert ("weighted.npz" in files) == balog
    card = json.loads(files["weighted.card.json" if balog else "synthetic.card.json"])
    assert card["source_rows"] == ROWS
    assert card["owners"] == 5
    assert card["privacy"]["relation"] == "replace-one"
    assert card["privacy"]["epsilon"]["sound"]["epsilon"] == pytest.approx(1.0, rel=1e-5)
    assert card["utility"]["distance to the released embedding"] >= 0
    assert card["utility"]["length of the noise in it"] > 0
    trained = values["kind"] in ("merf", "hermite")  # whose last stage begins once training is over
    fractions = [fraction for _, _, fraction in (reports[:-1] if trained else reports)]
    assert fractions[-1] == 1.0
    assert fractions == sorted(fractions)
    if trained:
        assert list(dict.fromkeys(stage for stage, _, _ in reports)) == ["compiling", "training", "sampling"]
        early = [line for stage, line, _ in reports if stage == "training" and "from the release" in line]
        assert len(early) > 4
        assert all("objective" in line for line in early)


@pytest.mark.parametrize("name", ["balog1", "balog1-mixed", "balog2", "balog2-mixed"])
def test_weighted_points_are_rows_of_the_schema(name: str, tmp_path: Path) -> None:
    # "points inverse-transformed to schema units, with weights": what is written is what was fitted.
    schema, values = SETTINGS[name]
    folder = saved(name, tmp_path)
    with np.load(folder / "weighted.npz") as archive:
        x, weight, gamma = archive["x"], archive["weight"], float(archive["gamma"])
    schema.check(Table(x), "weighted points")
    assert x.shape == (len(weight), schema.width)
    assert gamma > 0
    again = load_table(
        folder / "weighted.csv", schema.model_copy(update={"ignore": ("weight",)}), "weighted points"
    )
    np.testing.assert_array_equal(again.values, x)
    if values["kind"] == "balog2" or values.get("weights") == "simplex":
        assert np.abs(weight).sum() <= 1 + 1e-9
    stored = from_bytes(released(name))
    card = json.loads((folder / "weighted.card.json").read_text())
    distance = card["utility"]["distance to the released embedding"]
    assert distance < np.linalg.norm(stored.embeddings[0].mean)  # nearer than nothing at all


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_embedding_that_is_not_finite_is_refused(value: float) -> None:
    # "a non-finite embedding ... typed errors".
    method, schema = method_of("merf")

    class Broken(OwnersInMemory):
        async def joint(self, query: SumQuery, release: PooledRelease | None) -> JointRelease:
            answer = await super().joint(query, release)
            mean = answer.embeddings[0].mean.copy()
            mean[3, 1] = value
            return replace(answer, embeddings=(replace(answer.embeddings[0], mean=mean),))

    with pytest.raises(DataError, match="not finite"):
        asyncio.run(method.ask(Broken(rows(schema), schema)))


def test_a_release_of_another_method_is_not_finished() -> None:
    method, _ = method_of("merf")
    with pytest.raises(DataError, match="is not one of merf"):
        method.finish(released("hermite"), lambda *_: None)
    with pytest.raises(DataError, match="in this schema"):
        make_method(release_settings({"kind": "balog2"}), MIXED, None, 0).finish(
            released("balog2"), lambda *_: None
        )
    with pytest.raises(DataError, match="archive"):
        method.finish(b"nothing", lambda *_: None)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("merf", {"scales": {"agee": 2.0}}, "scales.agee"),
        ("hermite", {"product_columns": 3, "product_order": 1000}, "numbers|larger"),
        ("balog1-mixed", {"units": "table"}, "category"),
        ("balog1", {"z": {"kind": "file", "path": "/etc/passwd"}}, "was not read"),
        ("balog1", {"z": {"kind": "given", "values": "AAAA"}}, "z.values"),
    ],
)
def test_settings_that_do_not_go_with_the_schema(name: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        method_of(name, **changes)


def test_seed_points_need_seed_rows() -> None:
    settings = release_settings({"kind": "balog1"})
    with pytest.raises(ConfigError, match="curator has none") as raised:
        make_method(settings, NUMBERS, None, 0)
    assert "gaussian" in raised.value.remedy


@pytest.mark.parametrize("name", ["balog2", "merf", "hermite"])
def test_a_missing_package_is_reported_before_an_owner_is_asked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curator.releases.method.importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="jax"):
        method_of(name)


def test_public_seed_rows_may_have_gaps() -> None:
    # The curator had opened the noisy sums, and could not read a release with NaN among its public points.
    keys = {"kind": "numeric", "name": "a", "bounds": [0, 9], "nullable": True}
    schema = schema_from({"columns": [keys, {"kind": "numeric", "name": "b", "bounds": [0, 1]}]})
    cells = {"a": [None if row % 3 else 5.0 for row in range(60)], "b": [row / 60 for row in range(60)]}
    table = table_from_columns(columns_of(cells, "north"), schema, "north")
    method = make_method(release_settings({"kind": "balog1", "points": 9, "epsilon": 9.0}), schema, table, 7)
    release = asyncio.run(method.ask(OwnersInMemory(table, schema, 3)))
    files = method.finish(release, lambda *_: None).files
    assert files["weighted.csv"].splitlines()[1].split(b",")[0] == b"5.0"
    assert files["weighted.csv"].splitlines()[2].startswith(b",")


def test_the_curator_draws_a_seed_that_settings_leave_out() -> None:
    method, schema = method_of("merf")
    stored = from_bytes(released("merf"))
    assert stored.settings["seed"] == 7
    assert isinstance(stored.settings["gamma"], float)  # the median heuristic, of public rows
    other, _ = method_of("merf", seed=8)
    again = from_bytes(asyncio.run(other.ask(OwnersInMemory(rows(schema), schema))))
    assert again.embeddings[0].map_spec != stored.embeddings[0].map_spec
    assert method.protocol == "merf"


def test_a_compressed_archive_is_no_release() -> None:
    # A small file that unpacks to any size is refused before it is unpacked.
    out = io.BytesIO()
    np.savez_compressed(out, about=np.zeros(1000, dtype=np.uint8))
    with pytest.raises(DataError, match="archive"):
        from_bytes(out.getvalue())


def test_a_damaged_release_is_a_data_error() -> None:
    data = released("merf")
    middle = len(data) // 2
    inside = data.index(b"NUMPY") + 200  # of the first array: bytes of zip's own headers may change nothing
    flipped = data[:inside] + bytes(255 - byte for byte in data[inside : inside + 8]) + data[inside + 8 :]
    for damaged in (b"", data[:-10], data[:middle], flipped):
        with pytest.raises(DataError):
            from_bytes(damaged)


_FAR: Mapping[str, Mapping[str, Any]] = {
    "balog1": {"points": 12, "units": "table"},
    "balog2": {"features": 20, "units": "table"},
    "merf": {"features": 20},
    "hermite": {"epochs": 1, "sum_order": 5},
    "moments": {},
}


@pytest.mark.parametrize(
    "bounds", [(1e8 - 1e-3, 1e8 + 1e-3), (1e15, 1e15 + 8), (-1e-100, 1e-100), (-1e9, 1e9)]
)
@pytest.mark.parametrize("name", _FAR)
def test_a_table_far_from_0_moves_sums_by_what_is_declared(name: str, bounds: tuple[float, float]) -> None:
    # balog1 in the table's units once had 6.5 times its sensitivity. By brute force: all pairs
    # of rows at corners, at the public points and next to them, of either class.
    schema = Schema(
        columns=(Numeric(name="x", bounds=bounds, count=2),), label=Label(name="y", classes=("no", "yes"))
    )
    random = np.random.default_rng(0)
    seeds = Table(random.uniform(*bounds, (40, 2)), random.integers(0, 2, 40))
    near = np.nextafter(seeds.values, bounds[1])
    ends = np.array(list(itertools.product(bounds, repeat=2)))
    values = np.concatenate([ends, seeds.values, near, ends, ends])
    labels = np.concatenate([np.zeros(len(values) - 4, np.int64), np.ones(4, np.int64)])
    method = make_method(release_settings({"kind": name, **_FAR[name]}), schema, seeds, 7)
    assert isinstance(method, EmbeddingMethod)
    question = method.question(10_000, 1.0)
    assert question.release is not None
    query = weighted(_checked(question.query), schema, question.release)
    vector = SumVector(query, schema, question.maps)
    vectors = [
        vector.of(Table(values[i : i + 1], labels[i : i + 1])).astype(np.float64) for i in range(len(values))
    ]
    assert max(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(vectors, 2)) <= vector.diameter
