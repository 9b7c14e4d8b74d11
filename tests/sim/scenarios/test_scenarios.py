"""Digits dealt to owners, settings of scenarios, and the shipped files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedkme.config import Settings, load_toml, validate
from fedkme.errors import ConfigError, DataError, MissingDependencyError
from fedkme.tables.table import Table
from sim.scenarios import ScenarioConfig, build_scenario, find_scenario
from sim.scenarios.base import cut, draw, generator, owner_names
from sim.scenarios.images import Digits, DigitSplit, deal, jitter
from tests.sim.scenarios.contents import classes, content, same, tables


class File(Settings):
    """A scenario file, as far as these tests care."""

    scenario: ScenarioConfig
    summary: dict[str, Any] | None = None


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
    # Scaling and one-hot come from the public schema only, never from private rows.
    digests = {build_scenario(Digits(seeds=n, groups=((n,),)), seed=n).schema.digest() for n in range(3)}
    assert len(digests) == 1


@pytest.mark.parametrize(("owners", "sizes"), [(1, 5), (3, 2), (5, 1), (12, 3), (125, 25)])
def test_number_of_owners(owners: int, sizes: int) -> None:
    # Any number of owners, K may be 1; with more owners than groups a group is cut evenly.
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
    # Owners may have different sizes.
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
    # Unknown keys in a TOML file end in one clear line with cause and remedy.
    with pytest.raises(ConfigError, match=r"file\.toml"):
        validate(File, {"scenario": BAD_SETTINGS[case]}, "file.toml")


def test_more_seeds_than_rows() -> None:
    # One clear line with cause and remedy.
    with pytest.raises(ConfigError, match=r"scenario\.seeds asks for 5000 rows"):
        build_scenario(Digits(seeds=5000), seed=0)
    assert draw(np.arange(4), 4, "rows", generator(0, "draw")).tolist() == [0, 1, 2, 3]


def test_nothing_to_match() -> None:
    # The same, for a D_v without rows.
    with pytest.raises(DataError, match="D_v has no rows"):
        build_scenario(Digits(validation_fraction=0.001), seed=0)


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    # DESIGN, Dependencies: scikit-learn is in [sim].
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingDependencyError, match=r"fedkme\[sim\]"):
        build_scenario(Digits(), seed=0)


@pytest.mark.parametrize("name", ["digits", "mnist", "hospitals", "csv"])
def test_shipped_files_are_valid(name: str) -> None:
    # Scenarios are TOML, validated.
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
