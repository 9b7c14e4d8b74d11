"""`fedkme match` and `fk.match`: rows for a target from a release, on the consumer's own machine."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from sklearn.ensemble import HistGradientBoostingClassifier

import fedkme as fk
from audit.in_memory import OwnersInMemory
from consumer.results import ALONE
from consumer.summary.judging import cross_validated
from consumer.target.choosing import PoolChoice
from consumer.target.matching import drawn_for, independent_columns, match_rows
from consumer.target.training import CONTROL, FOLDS, RELEASE, TARGET, candidates, fitted_models, train_on_what
from consumer.target.training import _folds as folds
from curator.releases.method import make_method
from fedkme.embeddings.kernels import domain_gamma
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.errors import DataError
from fedkme.ops.threads import one_thread
from fedkme.releases.settings import release_settings
from fedkme.tables.files import load_table, read_arrays, save_table
from fedkme.tables.npz import npz_bytes
from fedkme.tables.schema import Category, Label, Numeric, Person, Schema
from fedkme.tables.table import Table
from operate.cli import main
from sim.api.frames import frame_of, rows_to_check
from sim.evaluation.classifiers import boosted_score
from sim.match.run import load_target, target_rows

SCHEMA = Schema(
    columns=(
        Numeric(name="age", bounds=(0, 100), integer=True),
        Numeric(name="dose", bounds=(0, 2)),
        Category(name="ward", categories=("a", "b", "c")),
    ),
    label=Label(name="well", classes=("no", "yes")),
)
GAMMA = domain_gamma(SCHEMA.mean_squared_distance)


def people(count: int, seed: int, older: float = 0.0, flipped: bool = False) -> Table:
    """Patients whose dose follows age, and whose label follows both; `older` ones are a target."""
    random = np.random.default_rng(seed)
    age = np.clip(np.rint(random.normal(45 + older, 14, count)), 0, 100)
    dose = np.clip(0.02 * age + 0.15 * random.standard_normal(count), 0, 2)
    ward = (random.random(count) < age / 100).astype(float) + (random.random(count) < 0.2)
    well = (dose - 1.0 + 0.15 * random.standard_normal(count) > older / 60) != flipped
    return Table(np.stack([age, dose, ward], axis=1), well.astype(np.int64))


@cache
def release_of(kind: str) -> dict[str, bytes]:
    """Files of a release of 6,000 patients at one owner."""
    more = {"points": 60, "gamma": 10.0} if kind == "balog1" else {}
    method = make_method(release_settings({"kind": kind, **more}), SCHEMA, people(100, 9), 1)
    data = asyncio.run(method.ask(OwnersInMemory(people(6_000, 0), SCHEMA, owners=1)))
    return dict(method.finish(data, lambda *_: None).files)


def folder_of(path: Path, kind: str = "moments") -> Path:
    path.mkdir()
    for name, data in release_of(kind).items():
        (path / name).write_bytes(data)
    return path


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "release")


def ran(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: Any) -> tuple[int, str]:
    monkeypatch.setattr("sys.argv", ["fedkme", "match", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    out = capsys.readouterr()
    return int(end.value.code or 0), out.out + (out.err if end.value.code else "")


def test_rows_for_a_target_say_everywhere_that_they_are_for_the_consumer_alone(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_table(tmp_path / "mine.npz", people(80, 1, older=15))
    out = tmp_path / "out"
    words = (release, tmp_path / "mine.npz", "--out", out, "--rows", 20, "--draw", 2_000)
    code, text = ran(capsys, monkeypatch, *words, "--json")
    assert code == 0
    value = json.loads(text)
    metrics = value["metrics"]
    assert metrics["points_accessed"] == {"total": 0}
    assert (metrics["rows"], metrics["drawn"]) == (20, 2_000)
    assert metrics["mmd2"]["summary_weighted"] < metrics["mmd2"]["control"]
    assert set(value["files"]) == {path.name for path in out.iterdir()} - {"schema.toml"}
    assert all(name.startswith(ALONE) for name in value["files"])
    for name in ("card.md", "report.html"):
        assert "or the consumer alone" in (out / f"{ALONE}{name}").read_text(encoding="utf-8")
    own = [each for each in metrics["privacy"] if each["protected"] == "D_v"]
    assert own
    assert all(each["epsilon"] == 0.0 and each["raw_points"] == 0 for each in own)
    assert f"{ALONE}train.csv" in value["files"]
    before = (out / f"{ALONE}weighted.npz").read_bytes()
    code, text = ran(capsys, monkeypatch, *words, "--no-train")
    assert code == 0
    assert "for the consumer alone" in text
    assert (out / f"{ALONE}weighted.npz").read_bytes() == before
    assert not (out / f"{ALONE}train.csv").exists()  # an earlier result's file says nothing of this one


def test_what_cannot_be_matched_is_refused_in_a_line(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, out = tmp_path / "mine.npz", tmp_path / "out"
    save_table(mine, people(30, 1))
    (tmp_path / "other.csv").write_text("height,weight\n1,2\n")
    (tmp_path / "short.csv").write_text("age,dose\n40,1\n")
    save_table(tmp_path / "none.npz", people(30, 1).take(np.arange(0)))
    (tmp_path / "wide.npz").write_bytes(npz_bytes({"x": np.zeros((3, 7)), "y": np.zeros(3, np.int64)}))
    points = folder_of(tmp_path / "points", "balog1")
    for words, code, cause in (
        ((release, tmp_path / "other.csv", "--out", out), 12, "column"),
        ((release, tmp_path / "short.csv", "--out", out), 12, "ward"),
        ((release, tmp_path / "wide.npz", "--out", out), 12, "7"),
        ((release, tmp_path / "none.npz", "--out", out), 10, "the validation set has no rows"),
        ((release, mine, "--out", release), 10, "is the release's own folder"),
        ((release, mine, "--out", out, "--rows", 300, "--draw", 200), 10, "300 rows cannot be chosen"),
        ((points, mine, "--out", out), 10, "a release of balog1 holds weighted points"),
        ((tmp_path, mine, "--out", out), 12, "release.npz cannot be read"),
    ):
        ended, text = ran(capsys, monkeypatch, *words)
        error = [line for line in text.splitlines() if line.startswith("error ")]
        assert ended == code, text
        assert len(error) == 1, text
        assert cause in error[0]
        assert not out.exists() or not any(out.glob(f"{ALONE}*"))


def test_a_program_gets_a_summary_and_what_to_train_on(release: Path, tmp_path: Path) -> None:
    mine = people(100, 2, older=15)
    save_table(tmp_path / "mine.npz", mine)
    save_table(tmp_path / "real.npz", people(60, 3, older=15))
    ours = fk.match(
        release,
        tmp_path / "mine.npz",
        15,
        draw=1_500,
        real_rows=tmp_path / "real.npz",
        out=tmp_path / "out",
        progress=False,
    )
    again = fk.load(tmp_path / "out")
    assert isinstance(again, fk.SummaryResult)
    assert again.rows.equals(ours.rows)
    assert len(ours.rows) == 15
    assert ours.training["name"].is_unique
    assert {"real rows", "D_v", "the release", CONTROL} <= set(ours.training["name"])
    assert ours.training["name"][0] != CONTROL
    assert ((ours.training["low"] <= ours.training["accuracy"]) & ours.training["accuracy"].le(1)).all()
    assert ours.train.columns[-1] == "weight"
    assert ours.train["weight"].mean() == pytest.approx(1.0)
    assert ours.verdict is not None
    assert ".train, " in ours.verdict.advice
    with pytest.raises(DataError, match="schema"):
        fk.match(release, tmp_path / "nowhere.csv", out=tmp_path / "out2")


def test_only_labels_of_the_target_help_where_classes_flip() -> None:
    pool = people(1_500, 4)
    separate = independent_columns(pool, SCHEMA)
    for flipped in (False, True):
        mine = people(120, 5, flipped=flipped)
        ours, control = (PoolChoice(SCHEMA, rows, mine, 10, GAMMA) for rows in (pool, separate))
        with one_thread():
            advice = train_on_what(ours, control)
        assert advice is not None
        assert advice.shifted is flipped
        assert ("gather more" in advice.line(SCHEMA)) is flipped
        if flipped:
            assert TARGET in advice.best or "target" in advice.best
            score = {each.name: each.accuracy for each in advice.scores}
            assert score["the release"] < 0.3 < 0.7 < score[TARGET]


def test_boosted_trees_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # Threads of OpenMP spin where cores are shared: at a load of 4 on two cores, 200 s in place of 27.
    seen = set[int]()

    def watched(name: str) -> Any:
        method = getattr(HistGradientBoostingClassifier, name)

        def called(model: Any, *arguments: Any, **named: Any) -> Any:
            pools = threadpoolctl.threadpool_info()
            seen.update(pool["num_threads"] for pool in pools if pool["user_api"] == "openmp")
            return method(model, *arguments, **named)

        return called

    for name in ("fit", "predict", "predict_proba"):
        monkeypatch.setattr(HistGradientBoostingClassifier, name, watched(name))
    pool, mine = people(200, 4), people(40, 5)
    with threadpoolctl.threadpool_limits(2, user_api="openmp"):
        choice = PoolChoice(SCHEMA, pool, mine, 10, GAMMA)
        train_on_what(choice, choice)
        assert seen == {1}
        boosted_score(pool, mine, SCHEMA, 0)
    assert seen == {1}


@pytest.mark.parametrize(("numbers", "classes", "rows"), [(20, 2, 10_000), (300, 20, 3_333)])
def test_models_of_wide_tables_with_many_classes_are_trained_in_minutes(
    numbers: int, classes: int, rows: int
) -> None:
    columns = tuple(Numeric(name=f"x{place}", bounds=(0, 1)) for place in range(numbers))
    schema = Schema(columns=columns, label=Label(name="y", classes=tuple(map(str, range(classes)))))
    random = np.random.default_rng(0)
    pool = Table(random.random((11_000, numbers)), random.integers(0, classes, 11_000))
    choice = PoolChoice(schema, pool, pool.take(np.arange(40)), 10, 1.0)
    made = candidates(choice, choice, None)
    assert len(made[RELEASE](choice.everything).table) == rows
    models: list[Any] = list(fitted_models(schema, made[TARGET](choice.everything)))
    logistic, _, boosted = (model.__self__ for model in models)
    assert (boosted.max_iter < 60) == (logistic.max_iter < 500) == (rows < 10_000)


def test_of_a_release_in_which_d_v_is_rare_more_rows_are_drawn(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.target.matching.DRAWN", 1_000)
    monkeypatch.setattr("consumer.target.matching.RARE_DRAWN", 8_000)
    pool = people(20_000, 3)
    old = pool.take(np.flatnonzero(pool.values[:, 0] > 84)[:40])  # one in four hundred
    for number, (target, drawn) in enumerate(((old, 8_000), (people(40, 4), 1_000))):
        save_table(tmp_path / "mine.npz", target)
        out = tmp_path / str(number)
        made = fk.match(release, tmp_path / "mine.npz", 10, train=False, out=out, progress=False)
        assert made.metrics["drawn"] == drawn
    monkeypatch.setattr("consumer.target.matching.MOST_NUMBERS", 3_000 * SCHEMA.encoded_width)
    assert (
        len(drawn_for(lambda rows: pool.take(np.arange(rows)), SCHEMA, old, GAMMA)) == 3_000
    )  # wide rows fit into memory
    few = load_table(release / "synthetic.npz", SCHEMA, "the release").take(np.arange(1_000))
    advice = match_rows(PoolChoice(SCHEMA, few, old, 10, GAMMA), train=False).judged.verdict.advice
    assert "fedkme match --draw 3000 looks at more" in advice  # a consumer that was sent the rows alone


def test_rows_of_a_data_frame_have_the_persons_of_the_same_file(tmp_path: Path) -> None:
    schema = Schema(columns=SCHEMA.columns, label=SCHEMA.label, person=Person(column="patient", rows=2))
    frame = frame_of(people(24, 1), SCHEMA).assign(patient=[f"p{row // 3}" for row in range(24)])
    frame.to_csv(tmp_path / "mine.csv", index=False)
    of_file = load_target(tmp_path / "mine.csv", schema)
    assert len(of_file.persons) == len(of_file.validation) == 16  # two of three rows count
    for given in (frame, {"path": tmp_path / "mine.csv"}):
        of_frame = target_rows(rows_to_check(given, schema, "D_v"), schema)
        assert list(of_frame.persons) == list(of_file.persons)
        assert np.array_equal(of_frame.validation.values, of_file.validation.values)


def test_a_d_v_written_its_own_way_is_refused_with_the_settings_that_read_it(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The line named settings of a file, and the verb had no place for them.
    monkeypatch.chdir(tmp_path)
    frame = frame_of(people(30, 1), SCHEMA)
    other = frame.assign(ward=frame["ward"].str.upper(), well=frame["well"] == "yes", site=1)
    other = other.rename(columns={"age": "Age"})
    (tmp_path / "data").mkdir()
    other.to_csv("data/mine.csv", sep=";", decimal=",", index=False)
    words = (release, "--out", tmp_path / "out", "--draw", 500, "--rows", 10, "--no-train")
    code, text = ran(capsys, monkeypatch, words[0], "data/mine.csv", *words[1:])
    assert code == 12
    # A path from the current folder was looked for from the .toml's folder.
    assert "a .toml beside it" in text
    (tmp_path / "data" / "mine.toml").write_text("validation" + text.partition("it: validation")[2])
    code, text = ran(capsys, monkeypatch, words[0], "data/mine.toml", *words[1:])
    assert code == 0, text
    with pytest.raises(DataError) as error:
        fk.match(release, other, 10, draw=500, train=False, out="of-frame", progress=False)
    names = {"D_v": other}
    exec(error.value.remedy.partition("read it: ")[2], names)
    fk.match(release, names["D_v"], 10, draw=500, train=False, out="of-frame", progress=False)
    held = read_arrays(tmp_path / "out" / f"{ALONE}weighted.npz", "test")
    again = read_arrays(tmp_path / "of-frame" / f"{ALONE}weighted.npz", "test")
    assert np.array_equal(held["x"], again["x"])
    assert (
        fk.match(release, "data/mine.toml", 10, draw=500, train=False, out="of-toml", progress=False).rows
        is not None
    )
    (tmp_path / "empty.toml").write_text("[request]\n")
    code, text = ran(capsys, monkeypatch, words[0], "empty.toml", *words[1:])
    assert (code, "validation" in text) == (10, True)


def test_a_person_is_in_one_fold() -> None:
    persons = [f"p{number // 3}" for number in range(60)]
    labels = np.arange(60) % 2
    parts = folds(labels, persons)
    assert sorted(np.concatenate(parts).tolist()) == list(range(60))
    for part in parts:
        inside = {persons[place] for place in part}
        assert all(persons[place] not in inside for place in set(range(60)) - set(part.tolist()))
    alike = folds(labels, ())
    assert len(alike) == FOLDS
    assert all(abs(int(labels[part].sum()) - 6) <= 1 for part in alike)


def test_halves_choose_from_the_pool_themselves() -> None:
    # A pool of D_v's rows and of rubbish: by rows that all of D_v chose, the held-out half is there as well.
    mine = people(80, 6)
    against = ReferenceRows(SCHEMA.encode(mine.values), GAMMA)
    rubbish = SCHEMA.encode(np.tile([[100.0, 0.0, 2.0]], (5_000, 1)))
    pool = np.concatenate([against.rows, rubbish])
    estimates = cross_validated(pool, against, 20, pool=True)
    assert estimates is not None
    fresh = (1.0 - against.own) / 20
    assert all(abs(form.estimate) < 2.0 * fresh for form in estimates)


def test_no_grade_is_good_where_independent_columns_come_as_near() -> None:
    # Six numbers that go together: of rows whose columns are independent hardly any is like them.
    schema = Schema(columns=tuple(Numeric(name=f"x{place}", bounds=(0, 1)) for place in range(6)))
    random = np.random.default_rng(3)
    rows = Table(np.clip(random.random((2_120, 1)) + 0.05 * random.standard_normal((2_120, 6)), 0, 1))
    gamma = domain_gamma(schema.mean_squared_distance)
    pool, mine = rows.take(np.arange(2_000)), rows.take(np.arange(2_000, 2_120))
    matched = match_rows(PoolChoice(schema, pool, mine, 40, gamma))
    assert not matched.as_near
    assert matched.judged.verdict.grade == "good"
    assert not matched.judged.verdict.doubts
    assert "there are no labels" in matched.judged.verdict.advice
    loose = independent_columns(rows, schema)
    level = match_rows(
        PoolChoice(schema, loose.take(np.arange(2_000)), loose.take(np.arange(2_000, 2_120)), 40, gamma)
    )
    assert level.as_near
    assert level.judged.verdict.grade != "good"
    assert "independent columns come as near" in "".join(level.judged.verdict.doubts)
