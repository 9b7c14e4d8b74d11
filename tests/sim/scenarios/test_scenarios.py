"""Owners' rows in the shipped scenarios."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from fedkme.config import Settings, load_toml, validate
from fedkme.errors import ConfigError, DataError, MissingDependencyError
from fedkme.tables.table import Table
from sim.scenarios import (
    Digits,
    Hospitals,
    Mnist,
    Scenario,
    ScenarioConfig,
    build_scenario,
    find_scenario,
)
from sim.scenarios.base import DigitSplit, cut, deal, draw, generator, locate, owner_names
from sim.scenarios.digits import jitter
from tests.places import DATA


def data(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{name} is not there: set FEDKME_DATA to the folder of the data sets")
    return path


class File(Settings):
    """A scenario file, as far as these tests care."""

    scenario: ScenarioConfig
    summary: dict[str, Any] | None = None


def tables(scenario: Scenario) -> dict[str, Table]:
    extra = {"D_v": scenario.validation, "test": scenario.test}
    return {**scenario.owners, **extra, **({"seeds": scenario.seeds} if scenario.seeds else {})}


def content(table: Table) -> list[bytes]:
    return [row.tobytes() for row in np.ascontiguousarray(table.values)]


def classes(table: Table) -> dict[int, int]:
    assert table.labels is not None
    values, counts = np.unique(table.labels, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def same(first: Scenario, second: Scenario) -> bool:
    a, b = tables(first), tables(second)
    return a.keys() == b.keys() and all(
        content(a[name]) == content(b[name])
        and np.asarray(a[name].labels).tolist() == np.asarray(b[name].labels).tolist()
        for name in a
    )


def test_digits_follow_the_paper() -> None:
    # Sarpatwar 2019, appendix G: the five groups; test rows of [3, 4] at [0.7, 0.3]; D_v is 0.25 of them.
    scenario = build_scenario(Digits(), seed=3)
    assert list(scenario.owners) == ["owner-1", "owner-2", "owner-3", "owner-4", "owner-5"]
    for owner, group in zip(scenario.owners.values(), [{0, 1}, {3, 4}, {5, 6}, {7, 8}, {9, 2}], strict=True):
        assert set(classes(owner)) == group
    counts = classes(scenario.test)
    assert set(counts) == {3, 4}
    assert counts[3] / len(scenario.test) == pytest.approx(0.7, abs=0.01)
    assert len(scenario.validation) / (len(scenario.validation) + len(scenario.test)) == pytest.approx(
        0.25, abs=0.01
    )
    assert scenario.validation.labels is None
    assert scenario.seeds is not None
    assert len(scenario.seeds) == 150
    assert len(classes(scenario.seeds)) == 10
    for name, table in tables(scenario).items():
        scenario.schema.check(table, name)
        assert table.values.dtype == np.uint8


def test_parties_of_digits_share_no_row() -> None:
    # Appendix G: "sample (and remove) from the test set"; and every row is somebody's.
    pytest.importorskip("sklearn", reason="scikit-learn has the digits")
    from sklearn.datasets import load_digits

    original = load_digits().data.astype(np.uint8)
    rows = [row for table in tables(build_scenario(Digits(), seed=0)).values() for row in content(table)]
    assert sorted(rows) == sorted(content(Table(original)))


def test_copies_of_a_digit_stay_with_its_party() -> None:
    # Digits.copies: split before augmenting, so that no copy of a test row is owned.
    plain, many = build_scenario(Digits(), seed=1), build_scenario(Digits(copies=10), seed=1)
    assert many.seeds is not None
    for name, table in tables(plain).items():
        times = 1 if name == "seeds" else 10
        assert len(tables(many)[name]) == times * len(table)
        assert content(tables(many)[name])[: len(table)] == content(table)
        many.schema.check(tables(many)[name], name)
    np.testing.assert_array_equal(many.test.labels, np.tile(np.asarray(plain.test.labels), 10))
    assert len(set(content(many.owners["owner-1"]))) == len(many.owners["owner-1"])


def test_jitter_adds_at_most_two_grey_levels() -> None:
    # jitter: -2 to 2 on each pixel, within bounds; the image itself comes first.
    images = np.array([[0] * 32 + [16] * 32, [8] * 64], np.uint8)
    variants = jitter(images, 200, generator(0, "jitter")).reshape(200, 2, 64)
    np.testing.assert_array_equal(variants[0], images)
    moves = variants[1:].astype(int) - images.astype(int)
    assert set(np.unique(moves[:, 1]).tolist()) == {-2, -1, 0, 1, 2}
    assert moves[:, 0, :32].min() == 0
    assert moves[:, 0, 32:].max() == 0
    np.testing.assert_array_equal(jitter(images, 1, generator(0, "jitter")), images)


def test_a_scenario_depends_on_its_seed_only() -> None:
    # DESIGN, decision 1: the same configuration and seed give the same run; no global random state.
    np.random.seed(1)  # noqa: NPY002
    first = build_scenario(Digits(copies=2), seed=5)
    np.random.seed(2)  # noqa: NPY002
    assert same(first, build_scenario(Digits(copies=2), seed=5))
    assert not same(first, build_scenario(Digits(copies=2), seed=6))


def test_the_schema_does_not_depend_on_rows() -> None:
    # Issue 2, item 9: scaling and one-hot come from the public schema only, never from private rows.
    digests = {build_scenario(Digits(seeds=n, groups=((n,),)), seed=n).schema.digest() for n in range(3)}
    assert len(digests) == 1


@pytest.mark.parametrize(("owners", "sizes"), [(1, 5), (3, 2), (5, 1), (12, 3), (125, 25)])
def test_number_of_owners(owners: int, sizes: int) -> None:
    # Issue 2, item 7: any number of owners, K may be 1; with more owners than groups a group is cut evenly.
    labels = np.repeat(np.arange(10), 20)
    dealt = deal(labels, np.arange(200), DigitSplit(owners=owners), generator(0, "deal"))
    assert list(dealt) == sorted(dealt) == owner_names(owners)
    assert sorted(np.concatenate(list(dealt.values())).tolist()) == list(range(200))
    groups_of = [
        {tuple(g) for g in DigitSplit().groups if set(g) & set(labels[rows])} for rows in dealt.values()
    ]
    if owners <= 5:
        assert max(map(len, groups_of)) == sizes
    else:
        assert all(len(groups) == 1 for groups in groups_of)
        per_group = [sum(groups == {g} for groups in groups_of) for g in DigitSplit().groups]
        assert max(per_group) == sizes
        assert max(per_group) - min(per_group) <= 1
        by_group = {g: [len(r) for r in dealt.values() if labels[r][0] in g] for g in DigitSplit().groups}
        assert all(max(n) - min(n) <= 1 for n in by_group.values())


def test_owners_may_have_no_rows() -> None:
    # Issue 2, item 7: owners may have different sizes.
    dealt = deal(
        np.zeros(2, int), np.arange(2), DigitSplit(groups=((0,), (1,)), owners=5), generator(0, "deal")
    )
    assert sorted(map(len, dealt.values())) == [0, 0, 0, 1, 1]
    assert owner_names(10)[0] == "owner-01"


def test_cut_keeps_the_share_of_each_class() -> None:
    # cut: the first part is `fraction` of each class.
    labels = np.repeat([3, 4], [70, 30])
    first, rest = cut(labels, np.arange(100), 0.25, generator(0, "cut"))
    assert np.bincount(labels[first])[3:].tolist() == [18, 8]
    assert sorted([*first.tolist(), *rest.tolist()]) == list(range(100))
    empty, nothing = cut(labels, np.arange(0), 0.25, generator(0, "cut"))
    assert (len(empty), len(nothing)) == (0, 0)


def test_generators_are_told_apart_by_name() -> None:
    # DESIGN, decision 1: a numpy.random.SeedSequence child per party by name.
    keys: list[tuple[int, list[str]]] = [(0, ["a"]), (0, ["b"]), (1, ["a"]), (0, ["a", "b"]), (0, ["a"])]
    draws = [generator(seed, *names).integers(0, 2**62) for seed, names in keys]
    assert draws[0] == draws[4]
    assert len(set(draws)) == 4


def test_no_seeds() -> None:
    # MATH.md section 1: default to no seed set unless the mechanism needs one.
    assert build_scenario(Digits(seeds=0), seed=0).seeds is None


BAD_SETTINGS: dict[str, dict[str, Any]] = {
    "unknown kind": {"kind": "digit"},
    "unknown key": {"kind": "digits", "sedes": 3},
    "class twice": {"kind": "digits", "groups": [[0, 1], [1, 2]]},
    "class 10": {"kind": "digits", "targets": [3, 10]},
    "ratio": {"kind": "digits", "ratio": [1]},
    "no share": {"kind": "digits", "ratio": [1, 0]},
    "no owners": {"kind": "digits", "owners": 0},
    "fraction": {"kind": "digits", "validation_fraction": 1},
    "no path": {"kind": "mnist"},
    "hospital": {"kind": "hospitals", "path": "x", "target": "boston"},
    "fractions": {"kind": "hospitals", "path": "x", "validation_fraction": 0.6, "test_fraction": 0.5},
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_wrong_settings_are_refused(case: str) -> None:
    # Issue 2, "Bad input": unknown keys in a TOML file end in one clear line with cause and remedy.
    with pytest.raises(ConfigError, match=r"file\.toml"):
        validate(File, {"scenario": BAD_SETTINGS[case]}, "file.toml")


def test_more_seeds_than_rows() -> None:
    # Issue 2, "Bad input": one clear line with cause and remedy.
    with pytest.raises(ConfigError, match=r"scenario\.seeds asks for 5000 rows"):
        build_scenario(Digits(seeds=5000), seed=0)
    assert draw(np.arange(4), 4, "rows", generator(0, "draw")).tolist() == [0, 1, 2, 3]


def test_nothing_to_match() -> None:
    # The same, for a D_v without rows.
    with pytest.raises(DataError, match="D_v has no rows"):
        build_scenario(Digits(validation_fraction=0.001), seed=0)


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    # DESIGN, Dependencies: scikit-learn is in [sim].
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingDependencyError, match=r"fedkme\[sim\]"):
        build_scenario(Digits(), seed=0)


def images(rows: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (rows, 2, 3), dtype=np.uint8), rng.integers(0, 10, rows, dtype=np.uint8)


def small_mnist(path: Path, **more: NDArray[Any]) -> Path:
    x_train, y_train = images(600, 0)
    x_test, y_test = images(400, 1)
    arrays: dict[str, Any] = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
    np.savez(path, **(arrays | more))
    return path


def check_mnist(scenario: Scenario, train: int) -> None:
    assert sum(map(len, scenario.owners.values())) == train
    for owner, group in zip(scenario.owners.values(), [{0, 1}, {3, 4}, {5, 6}, {7, 8}, {9, 2}], strict=True):
        assert set(classes(owner)) == group
        assert owner.values.dtype == np.uint8
    assert classes(scenario.test)[3] / len(scenario.test) == pytest.approx(0.7, abs=0.02)
    assert len(scenario.validation) / (len(scenario.validation) + len(scenario.test)) == pytest.approx(
        0.25, abs=0.02
    )
    assert scenario.seeds is not None
    assert not {3, 4} & set(classes(scenario.seeds))
    held = [row for name in ("D_v", "test", "seeds") for row in content(tables(scenario)[name])]
    assert len(set(held)) == len(held)


def test_mnist_layout(tmp_path: Path) -> None:
    # Appendix G on an .npz of MNIST's layout, with Fashion-MNIST's extra array, beside the scenario's file.
    small_mnist(tmp_path / "images.npz", split_exact_train=np.ones(600, bool))
    config = Mnist(path=Path("images.npz"), seeds=100)
    scenario = build_scenario(config, 0, tmp_path)
    check_mnist(scenario, 600)
    assert same(scenario, build_scenario(config, 0, tmp_path))
    assert not same(scenario, build_scenario(config, 1, tmp_path))
    part = build_scenario(config.model_copy(update={"rows": 250}), 0, tmp_path)
    assert sum(map(len, part.owners.values())) == 250
    assert content(part.test) == content(scenario.test)


@pytest.mark.parametrize("name", ["mnist.npz", "fashion_mnist.npz"])
def test_mnist_itself(name: str) -> None:
    # Issue 2, item 9: the same from an .npz path; 25 % of the test rows are D_v.
    scenario = build_scenario(Mnist(path=data(name), rows=5000), seed=0)
    check_mnist(scenario, 5000)
    assert scenario.schema.width == 784
    assert 350 <= len(scenario.validation) <= 361


BAD_MNIST: dict[str, tuple[dict[str, NDArray[Any]], str]] = {
    "labels": ({"y_test": np.full(400, 10)}, "test part: label 'class'.*rows: 400"),
    "number of labels": ({"y_train": np.zeros(3, int)}, "labels of shape"),
    "pixels": ({"x_train": np.full((600, 6), 256)}, "'pixel': outside the public bounds, rows: 600"),
    "size": ({"x_test": np.zeros((400, 7))}, r"shape \(400, 7\) and the schema has 6"),
    "no images": ({"x_train": np.zeros(600)}, "no images x_train"),
}


@pytest.mark.parametrize("case", BAD_MNIST)
def test_a_bad_mnist_file(tmp_path: Path, case: str) -> None:
    # Issue 2, "Bad input": wrong shapes, values outside the schema.
    arrays, message = BAD_MNIST[case]
    with pytest.raises(DataError, match=message):
        build_scenario(Mnist(path=small_mnist(tmp_path / "images.npz", **arrays)), seed=0)


def test_a_missing_file_names_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Issue 2, "Bad input": cause and remedy. A path of the environment starts at the current folder.
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"--set scenario\.path=FILE\.$"):
        build_scenario(Mnist(path=Path("absent.npz")), 0, tmp_path)
    monkeypatch.delenv("FEDKME_DATA", raising=False)
    with pytest.raises(ConfigError, match="variable of the environment"):
        build_scenario(Mnist(path=Path("$FEDKME_DATA/mnist.npz")), 0, tmp_path)
    (tmp_path / "mnist.npz").touch()
    monkeypatch.setenv("FEDKME_DATA", ".")
    assert locate(Path("$FEDKME_DATA/mnist.npz"), "path", Path("elsewhere")) == tmp_path / "mnist.npz"
    # Without the variable, a data folder beside the current one is looked into.
    monkeypatch.delenv("FEDKME_DATA")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mnist.npz").touch()
    assert locate(Path("$FEDKME_DATA/mnist.npz"), "path", None) == tmp_path / "data" / "mnist.npz"


def test_hospitals() -> None:
    # Issue 2, item 9: four real hospitals as owners, one of them also the target.
    path = data("heart_disease_4hospitals.parquet")
    scenario = build_scenario(Hospitals(path=path), seed=0)
    sizes = {name: len(owner) for name, owner in scenario.owners.items()}
    assert {**sizes, "hungarian": 294} == {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
    assert sizes["hungarian"] + len(scenario.validation) + len(scenario.test) == 294
    assert len(scenario.validation) == pytest.approx(294 / 4, abs=2)
    assert len(scenario.test) == pytest.approx(294 / 4, abs=2)
    assert set(classes(scenario.test)) == {0, 1}
    assert scenario.seeds is not None
    for name, table in tables(scenario).items():
        scenario.schema.check(table, name)
        encoded = scenario.schema.encode(table.values)
        assert np.isfinite(encoded).all()
        assert encoded.min() >= 0
        assert encoded.max() <= 1
    assert same(scenario, build_scenario(Hospitals(path=path), seed=0))
    assert not same(scenario, build_scenario(Hospitals(path=path), seed=1))


def test_no_patient_is_in_two_parties() -> None:
    # The target's D_v, test and owned rows come from one hospital: every row of the file is in one party.
    pandas = pytest.importorskip("pandas", reason="pandas reads the file a second time")
    path = data("heart_disease_4hospitals.parquet")
    scenario = build_scenario(Hospitals(path=path, target="va", seeds=0), seed=0)
    frame = pandas.read_parquet(path)
    ages = np.concatenate([table.values[:, 0] for table in tables(scenario).values()])
    np.testing.assert_array_equal(np.sort(ages), np.sort(frame["age"]))
    ill = sum(int(np.sum(table.labels)) for table in tables(scenario).values() if table.labels is not None)
    assert 0 <= (frame["num"] > 0).sum() - ill <= len(scenario.validation)


def test_cholesterol_of_zero_is_missing() -> None:
    # data/README.md: chol == 0 means missing (all 123 Swiss): encoded as the public stand-in.
    scenario = build_scenario(Hospitals(path=data("heart_disease_4hospitals.parquet")), seed=0)
    column = 1 + 2 + 4 + 1  # age, sex, cp, trestbps come before
    swiss = scenario.schema.encode(scenario.owners["switzerland"].values)[:, column]
    np.testing.assert_allclose(swiss, (220 - 50) / 650, rtol=1e-6)


def test_a_hospital_file_without_its_columns(tmp_path: Path) -> None:
    # Issue 2, "Bad input": one clear line with cause and remedy.
    header = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num"
    path = tmp_path / "heart.csv"
    path.write_text(f"{header}\n60,1,4,140,200,0,0,120,0,1.5,2,,7,3\n")
    with pytest.raises(DataError, match="no column 'hospital'"):
        build_scenario(Hospitals(path=path), seed=0)
    path.write_text("age,hospital\n60,va\n")
    with pytest.raises(DataError, match="no column 'ca', 'chol', 'cp' and 9 more"):
        build_scenario(Hospitals(path=path), seed=0)


@pytest.mark.parametrize("name", ["digits", "mnist", "hospitals", "csv"])
def test_shipped_files_are_valid(name: str) -> None:
    # Issue 2, item 9: scenarios are TOML, validated.
    file = validate(File, load_toml(find_scenario(name)), name)
    assert file.scenario.kind == name
    assert file.summary is not None
    assert file.summary["p"] == 100
    assert "gamma" in file.summary["kernel"]


def test_the_shipped_digits_are_the_defaults_ten_times() -> None:
    # A file that says what the code does must not drift from it.
    assert validate(File, load_toml(find_scenario("digits")), "digits").scenario == Digits(copies=10)


def test_find_scenario(tmp_path: Path) -> None:
    # DESIGN, Command line: SCENARIO is a TOML file or the name of a shipped scenario.
    mine = tmp_path / "mine.toml"
    mine.touch()
    assert find_scenario(str(mine)) == mine
    assert find_scenario("mnist").name == "mnist.toml"
    with pytest.raises(
        ConfigError, match=r"Did you mean 'digits'\? Shipped: adult, csv, digits, hospitals, mnist, states\."
    ):
        find_scenario("digit")
    with pytest.raises(ConfigError, match="neither a shipped scenario nor a file"):
        find_scenario(str(tmp_path / "absent.toml"))


def test_settings_are_frozen() -> None:
    # CONVENTIONS: small frozen config data classes.
    frozen: Any = Digits()
    with pytest.raises(ValidationError):
        frozen.seeds = 3
