"""Calls of the Python API from a script, a running loop and a thread; what they give, and how they refuse."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkme as fk
from fedkme.errors import InterruptedRunError
from fedkme.privacy.noise import SecureNoise, SimulatedNoise
from fedkme.verdict import GRADES
from sim.engines.inprocess import InProcessMarket, market_of
from sim.interrupts import Interrupts
from tests.sim.api.frames import SCHEMA, SMALL, owners, people


def small_summary(out: Path, **changes: Any) -> fk.SummaryResult:
    given = {"rows": 12, "schema": SCHEMA, "out": out, **SMALL, **changes}
    return fk.summarize(owners(), people(40, 9), **given)


def test_owners_as_frames_give_rows_with_names_and_categories(tmp_path: Path) -> None:
    # Three owners as frames, with missing values and categories.
    run = small_summary(tmp_path / "run", test=people(30, 11), downstream=True)
    assert list(run.rows.columns) == ["age", "pressure", "smoker", "ill"]
    assert len(run.rows) == 12
    assert list(run.rows["smoker"].cat.categories) == ["yes", "no", "unknown"]
    assert set(run.rows["ill"]) <= {"no", "yes"}
    together = pd.concat(owners().values()).fillna({"smoker": "unknown"})
    known = set(zip(together["age"], together["smoker"], together["ill"], strict=True))
    assert set(zip(run.rows["age"], run.rows["smoker"], run.rows["ill"], strict=True)) <= known
    assert len(run.weighted) == len(run.weights) <= 12
    assert run.weights.sum() == pytest.approx(1.0)
    assert len(run.repeats) == 12
    assert run.verdict is not None
    assert run.verdict.grade in GRADES
    assert {"summary", "summary_weighted", "fresh_rows"} <= set(run.compare().index)
    assert {"mmd2", "mmd2_test", "accuracy_linear_svm"} <= set(run.compare().columns)
    towards_owners = run.privacy[run.privacy["observer"].isin(["other owners", "owners and curator"])]
    assert towards_owners["epsilon"].max() <= 1.0 + 1e-9
    assert run.plot_access().get_xlabel() == "rows accessed"
    assert "<iframe" in run._repr_html_()
    assert "12 rows in" in repr(run)


def test_owners_may_be_one_table_with_a_column_of_sites(tmp_path: Path) -> None:
    # As many have them; "North Clinic" is no name of a party, and was refused.
    one = pd.concat([rows.assign(site=f"{name.title()} Clinic") for name, rows in owners().items()])
    file = tmp_path / "all.csv"
    one.to_csv(file, index=False)
    given: dict[str, Any] = {"rows": 12, "schema": SCHEMA, "seed": 1, "baselines": [], **SMALL}
    named = {f"{name}-clinic": rows for name, rows in owners().items()}
    run = fk.summarize(named, people(40, 9), out=tmp_path / "named", **given)
    tables: list[Any] = [one, file, {"path": str(file)}]
    for number, table in enumerate(tables):
        out = tmp_path / f"table-{number}"
        same = fk.summarize(table, people(40, 9), site_column="site", out=out, **given)
        pd.testing.assert_frame_equal(same.rows, run.rows)
    with pytest.raises(fk.FedkmeError, match="there are no owners"):
        fk.summarize(one, people(40, 9), out=tmp_path / "none", **given)


def test_a_loaded_folder_equals_the_result_of_the_call(tmp_path: Path) -> None:
    run = small_summary(tmp_path / "run")
    again = fk.load(tmp_path / "run")
    assert isinstance(again, fk.SummaryResult)
    pd.testing.assert_frame_equal(run.rows, again.rows)
    assert run.metrics == again.metrics


def test_real_rows_get_noise_from_the_operating_system_and_no_baselines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "real noise for real data never from a seeded generator".
    opened: list[InProcessMarket] = []

    def seen(*given: Any) -> InProcessMarket:
        opened.append(market_of(*given))
        return opened[-1]

    monkeypatch.setattr("sim.run.market_of", seen)
    real = small_summary(tmp_path / "real")
    simulated = small_summary(tmp_path / "simulated", seed=0, baselines=["uniform"])
    kinds = [type(market.noise_for("north")("purpose")) for market in opened]
    assert kinds == [SecureNoise, SimulatedNoise]
    assert real.metrics["seed"] is None
    assert simulated.metrics["seed"] == 0
    assert "uniform" not in real.compare().index
    assert "uniform" in simulated.compare().index
    with pytest.raises(fk.FedkmeError, match="without any noise") as refused:
        small_summary(tmp_path / "refused", baselines=["uniform"])
    assert "seed=" in str(refused.value)


def test_a_seed_repeats_a_simulation_bit_for_bit(tmp_path: Path) -> None:
    first, second = (small_summary(tmp_path / name, seed=7, baselines=[]) for name in "ab")
    pd.testing.assert_frame_equal(first.rows, second.rows)


async def test_calls_work_within_a_running_loop(tmp_path: Path) -> None:
    # Today: "asyncio.run() cannot be called from a running event loop".
    assert len(small_summary(tmp_path / "run").rows) == 12


def test_calls_work_in_a_thread(tmp_path: Path) -> None:
    # Today: "signal only works in main thread".
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(len(small_summary(tmp_path / "run").rows)))
    thread.start()
    thread.join()
    assert found == [12]


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_an_interrupt_ends_work_in_order(in_a_loop: bool) -> None:
    # "Ctrl-C in a notebook cancels cleanly": the work may finish what it has begun.
    ended: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)  # its handler runs in the main thread, wherever this does
            await asyncio.sleep(60)
        finally:
            ended.append("in order")

    def call() -> None:
        with Interrupts() as interrupts:
            interrupts.run(work())

    async def within_a_loop() -> None:
        call()

    with pytest.raises(InterruptedRunError):
        asyncio.run(within_a_loop()) if in_a_loop else call()
    assert ended == ["in order"]


def test_a_wrong_column_gives_one_clear_line(tmp_path: Path) -> None:
    wrong = owners() | {"south": owners()["south"].rename(columns={"pressure": "Blood pressure"})}
    with pytest.raises(fk.FedkmeError) as refused:
        fk.summarize(wrong, people(40, 9), 12, schema=SCHEMA, out=tmp_path / "run", **SMALL)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("error 12 (data): south: ")
    assert "'pressure'" in str(refused.value)


def test_no_schema_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(fk.FedkmeError, match="there is no schema") as refused:
        small_summary(tmp_path / "run", schema=None)
    assert "never read from owners' rows" in str(refused.value)
    with pytest.raises(fk.FedkmeError, match="is not a key") as refused:
        small_summary(
            tmp_path / "run", schema={"columns": [{"name": "age", "kind": "numeric", "bound": [0, 1]}]}
        )
    assert refused.value.code == 11


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ro": 3}, "'ro' is not a key"),
        ({"kernel": {"gama": 3}}, "Did you mean 'summary.kernel.gamma'"),
        ({"rows": 1000}, "error 20"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(fk.FedkmeError) as refused:
        small_summary(tmp_path / "run", **changes)
    assert said in str(refused.value)


def test_an_owner_that_refuses_is_a_warning_at_the_callers_line(tmp_path: Path) -> None:
    policies = {"west": {"protocols": ["merf"]}}
    with pytest.warns(fk.FedkmeWarning, match="west") as heard:
        run = small_summary(tmp_path / "run", policies=policies)
    assert {each.filename for each in heard} == {__file__}
    assert len(run.rows) == 12


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small_summary(tmp_path / "run")
    output = capfd.readouterr()
    assert (output.out, output.err) == ("", "")


def test_progress_is_one_bar(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    small_summary(tmp_path / "run", progress=True)
    output = capfd.readouterr()
    assert output.out == ""
    assert "summary: 100 %" in output.err


def test_a_release_says_why_its_method_was_taken(tmp_path: Path) -> None:
    release = fk.release(owners(), schema=SCHEMA, epsilon=2, rows=50, out=tmp_path / "run", progress=False)
    assert release.method == "marginals"
    assert "4 columns" not in release.why  # the label is no column of model space
    assert "3 columns" in release.why
    assert len(release.rows) == 50
    assert list(release.rows.columns) == ["age", "pressure", "smoker", "ill"]
    assert release.weights is None
    assert release.card.startswith("# Synthetic data card")
    assert release.metrics["evaluation"] == {}  # it would look at rows without noise
    older = release.ask(lambda rows: rows["age"] > 60)
    assert older.value == (release.rows["age"] > 60).mean()
    assert older.error is None
    assert release.privacy["epsilon"][release.privacy["observer"] == "consumer"].max() <= 2.0 + 1e-9
    (tmp_path / "run" / "record.json").unlink()  # a folder that was passed on need not have all files
    again = fk.load(tmp_path / "run")
    pd.testing.assert_frame_equal(again.rows, release.rows)


@pytest.mark.parametrize(("secure", "security"), [(True, {"dropouts": 0}), (False, None)])
def test_a_release_is_secure_by_the_word_of_the_command_line(
    tmp_path: Path, secure: bool, security: dict[str, int] | None
) -> None:
    # `secure=True` was refused: "Did you mean 'release.seed'?"
    release = fk.release(
        owners(), schema=SCHEMA, secure=secure, rows=20, out=tmp_path / "run", seed=3, progress=False
    )
    given = release.metrics["security"]
    assert (given and {"dropouts": given["dropouts"]}) == security


def test_weighted_points_answer_with_their_error(tmp_path: Path) -> None:
    release = fk.release(
        owners(),
        method="balog1",
        schema=SCHEMA,
        epsilon=5,
        seed=1,
        out=tmp_path / "run",
        progress=False,
        points=12,
        gamma=2.0,
        z={"kind": "gaussian"},
    )
    assert release.weights is not None
    assert len(release.rows) == len(release.weights)
    answer = release.ask(lambda rows: rows["age"] > 60)
    truth = float(np.mean([frame["age"] > 60 for frame in owners().values()]))
    assert answer.error is not None
    assert answer.error > 0
    assert abs(answer.value - truth) < 6 * answer.error
    assert (
        release.ask(lambda rows: rows.sort_values("age")["age"] > 60) == answer
    )  # weights were another row's
    with pytest.raises(fk.FedkmeError, match="no number for each row"):
        release.ask(lambda rows: 1.0)


def test_a_sweep_is_a_data_frame(tmp_path: Path) -> None:
    table = fk.sweep(
        "digits",
        {"p": [5, 10]},
        out=tmp_path / "sweep",
        progress=False,
        protocol="uniform",
        downstream=False,
        baselines=[],
    )
    assert table.rows["set.p"].tolist() == [5, 10]
    assert table.failures.empty
    assert isinstance(fk.load(tmp_path / "sweep"), fk.SweepTable)
    assert "<iframe" in table._repr_html_()


def test_dates_and_gaps_come_back_as_they_were_given(tmp_path: Path) -> None:
    schema = {
        "columns": [
            {"name": "seen", "kind": "date", "bounds": ["2020-01-01", "2024-12-31"]},
            {"name": "stay", "kind": "numeric", "bounds": [0, 60], "integer": True, "nullable": True},
        ]
    }
    days = pd.date_range("2021-01-01", periods=60, freq="D")
    frame = pd.DataFrame({"seen": days, "stay": pd.array([None, 3, 5] * 20, dtype="Int64")})
    arguments: dict[str, Any] = {
        **SMALL,
        "schema": schema,
        "out": tmp_path / "run",
        "seed": 1,
        "baselines": [],
    }
    run = fk.summarize({"north": frame, "south": frame}, frame.head(20), 12, **arguments)
    assert list(run.rows.columns) == ["seen", "stay"]
    assert set(run.rows["seen"]) <= set(days)
    assert run.rows["stay"].isna().any()
    assert set(run.rows["stay"].dropna()) <= {3, 5}


def test_a_file_may_have_settings_for_reading(tmp_path: Path) -> None:
    people(60, 1).to_csv(tmp_path / "south.csv", sep=";", index=False)
    south = {"path": tmp_path / "south.csv", "sep": ";"}
    arguments: dict[str, Any] = {
        **SMALL,
        "schema": SCHEMA,
        "out": tmp_path / "run",
        "seed": 1,
        "baselines": [],
    }
    assert (
        len(fk.summarize({"north": people(60, 0), "south": south}, people(40, 9), 12, **arguments).rows) == 12
    )
    with pytest.raises(fk.FedkmeError, match="'sepp' is not a key"):
        fk.summarize({"south": {**south, "sepp": ","}}, people(40, 9), 12, schema=SCHEMA, progress=False)
