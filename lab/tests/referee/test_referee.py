"""Planted entrants: a worse one is found, a row that was won and is lost ends with 1, nothing runs twice."""

from __future__ import annotations

import csv
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from fedkme.answers.rules import RowRules
from fedkme.errors import DataError
from fedkme.features.binning import Binning
from fedkme.tables.schema import Numeric
from lab.referee import checks, entrants, standing, tables
from lab.referee import environments as environment_module
from lab.referee.checks import CHECKS
from lab.referee.cli import QUICK, app
from lab.referee.entrants import ENTRANTS, Entrant
from lab.referee.environments import Environment, environments
from lab.referee.figures import FILE, MADE, read_figures
from lab.referee.scores import KINDS, SCORES
from lab.referee.site_tables import site_tables

GOOD = """
import pathlib, shutil, sys
folder = pathlib.Path(sys.argv[1])
shutil.copyfile(folder / "train.csv", folder / "made.csv")
with (folder.parent / "runs.txt").open("a") as runs:
    runs.write(folder.name + "\\n")
"""
"""Entrant that copies the training rows, and counts its runs."""
BAD = (
    GOOD
    + """
rows = (folder / "made.csv").read_text().splitlines()
flipped = [row[:-1] + "10"[int(row[-1])] for row in rows[1:]]
(folder / "made.csv").write_text("\\n".join([rows[0], *flipped]) + "\\n")
"""
)
"""Entrant whose labels are all wrong."""
HANGS = "import time; time.sleep(600)"
SPINS = "while True: pass"
BREAKS = "raise SystemExit('no such luck')"


class Bench:
    """Referee's command line on a small table, with planted entrants and a won.csv of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.patch = monkeypatch
        monkeypatch.setattr(tables, "tables", lambda: {"xor-2": tables.xor_table(2, 400)})
        monkeypatch.setattr(checks, "CHECKS", ())
        monkeypatch.setattr(standing, "WON", folder / "won.csv")
        monkeypatch.setattr(standing, "published_figures", list)
        monkeypatch.chdir(folder)  # environments of others are in build/, which is not here

    def enter(self, **files: str) -> None:
        """Make these the entrants: names and their files' text."""
        known = {}
        for name, text in files.items():
            (file := self.folder / f"{name}.py").write_text(text, encoding="utf-8")
            known[name] = Entrant(name, file)
        self.patch.setattr(entrants, "ENTRANTS", known)

    def run(self, line: str = "--seeds 0 --epsilon 1") -> tuple[int, str]:
        """Run a command line; return its exit status and all that it printed."""
        result = CliRunner().invoke(
            app,
            [
                *shlex.split(line),
                *(["--out", "out"] if "--out" not in line and "prepare" not in line else []),
            ],
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    def runs(self) -> list[str]:
        """Names of the folders that an entrant ran on."""
        return (self.folder / "out" / "made" / "runs.txt").read_text(encoding="utf-8").split()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_an_entrant_that_is_worse_is_found_and_what_we_lose_stands_first(bench: Bench) -> None:
    bench.enter(ours=BAD, rival=GOOD)
    code, output = bench.run()
    assert code == 0  # nothing was won before
    rows = [line.split(" | ") for line in output.splitlines() if line.startswith("|")][2:]
    lost = [row[2] for row in rows if "lost" in row[0]]
    assert "label right, forest +" in lost
    assert [("lost" in row[0]) for row in rows] == sorted((("lost" in row[0]) for row in rows), reverse=True)

    bench.enter(ours=GOOD, rival=BAD)
    _, output = bench.run("--seeds 0 --epsilon 1 --out other")
    assert all("CPU" in line or "memory" in line for line in output.splitlines() if "**lost**" in line)


def test_a_row_that_was_won_and_is_lost_ends_with_1(bench: Bench) -> None:
    bench.enter(ours=GOOD, rival=BAD)
    bench.run("--seeds 0 --epsilon 1 --keep")
    assert standing.read_won() == {}  # one seed says nothing of the next one's noise
    code, _ = bench.run("--seeds 0,1 --epsilon 1 --keep")
    assert code == 0
    won = standing.read_won()
    assert ("xor-2", 1.0, "trusted", "three-way error") in won

    bench.enter(ours=BAD, rival=GOOD)
    code, output = bench.run()
    assert code == 1
    assert "was won before, and is lost: three-way error on xor-2, epsilon 1, trusted" in output
    assert standing.read_won() == won  # only --keep writes it

    assert bench.run("--seeds 0 --epsilon 1 --keep")[0] == 0
    assert ("xor-2", 1.0, "trusted", "three-way error") not in standing.read_won()


DRIFTS = (
    GOOD
    + """
task = json.loads((folder / "task.json").read_text())
rows = (folder / "made.csv").read_text().splitlines()
wrong = WRONG[task["seed"]]
flipped = [row[:-1] + "10"[int(row[-1])] for row in rows[1 : 1 + wrong]]
(folder / "made.csv").write_text("\\n".join([rows[0], *flipped, *rows[1 + wrong :]]) + "\\n")
"""
)
"""Entrant with as many wrong labels as WRONG says by seed."""


def test_a_margin_between_seeds_is_no_loss_and_more_is(bench: Bench) -> None:
    def wrong(*many: int) -> str:
        return f"import json\nWRONG = {many}\n{DRIFTS}"

    level = wrong(30, 60, 90)
    bench.enter(ours=level, rival=level)
    assert bench.run("--seeds 0,1,2 --epsilon 1 --keep")[0] == 0
    place = ("xor-2", 1.0, "trusted", "three-way error")
    assert (margin := standing.read_won()[place]) > 0

    bench.enter(ours=wrong(60, 90, 120), rival=level)  # what another draw would be
    code, output = bench.run("--seeds 0,1,2 --epsilon 1")
    assert "**lost** | xor-2 1 trusted | three-way error" in output
    assert (code, "was won before" in output) == (0, False)
    assert standing.read_won()[place] == margin

    bench.enter(ours=wrong(280, 290, 300), rival=level)
    code, output = bench.run("--seeds 0,1,2 --epsilon 1")
    assert code == 1
    assert "was won before, and is lost: label right, forest on xor-2" in output


def test_a_short_table_has_rows_lost_and_counts_the_others(bench: Bench) -> None:
    bench.enter(ours=BAD, rival=GOOD)
    _, output = bench.run("--seeds 0 --epsilon 1 --short")
    rows = [line for line in output.splitlines() if line.startswith("|")]
    assert any("| three-way error -" in row for row in rows)
    lost, alone, won = (int(cell) for cell in rows[-1].strip("| ").split(" | ")[1:])
    assert (lost, alone) == (sum("**lost**" in row for row in rows), 0)
    assert lost + won == 5


def test_given_again_nothing_runs_twice(bench: Bench) -> None:
    bench.enter(ours=GOOD, rival=GOOD)
    bench.run()
    first = (bench.folder / "out" / FILE).read_bytes()
    assert len(bench.runs()) == 2
    bench.run()
    assert len(bench.runs()) == 2
    assert (bench.folder / "out" / FILE).read_bytes() == first

    bench.run("--seeds 0,1 --epsilon 1")  # what the file lacks
    assert len(bench.runs()) == len(set(bench.runs())) == 4


def test_a_run_that_was_cut_short_goes_on_at_the_score_that_it_lacks(bench: Bench) -> None:
    bench.enter(ours=GOOD)
    bench.run()
    path = bench.folder / "out" / FILE
    whole = path.read_text(encoding="utf-8").splitlines()
    lacking = [line for line in whole if "label right" not in line]
    assert len(lacking) == len(whole) - 1
    path.write_text("\n".join(lacking) + "\n", encoding="utf-8")
    bench.run()
    assert sorted(path.read_text(encoding="utf-8").splitlines()) == sorted(whole)
    assert len(bench.runs()) == 1


def test_another_version_of_an_entrant_runs_again(bench: Bench) -> None:
    bench.enter(ours=GOOD)
    bench.run()
    bench.enter(ours=BAD)
    bench.run()
    assert len(bench.runs()) == 2


@pytest.mark.parametrize(
    ("text", "reason"), [(HANGS, "did not end in"), (SPINS, "did not end in"), (BREAKS, "no such luck")]
)
def test_an_entrant_that_fails_is_a_line_with_its_reason(bench: Bench, text: str, reason: str) -> None:
    bench.enter(ours=GOOD, rival=text)
    code, output = bench.run("--seeds 0 --epsilon 1 --limit 3" if text != BREAKS else "--seeds 0 --epsilon 1")
    assert code == 0
    assert reason in output
    failed = [figure for figure in read_figures(bench.folder / "out") if figure.note]
    assert [(figure.run.entrant, figure.name) for figure in failed] == [("rival", MADE)]


def test_memory_and_seconds_are_of_the_entrant_alone(tmp_path: Path) -> None:
    # wait4 charges a child with the memory of the process that forked it, here of this one.
    ballast = bytearray(400_000_000)
    ballast[::4096] = b"x" * len(ballast[::4096])
    (file := tmp_path / "small.py").write_text("sum(range(3_000_000))", encoding="utf-8")
    cost = entrants.run_file(Path(sys.executable), file, tmp_path, 30)
    assert (cost.failure, cost.late) == ("", False)
    assert 0 < cost.megabytes < 200 < len(ballast) / 1e6
    assert 0 < cost.seconds < 30


def test_another_limit_is_another_try(bench: Bench) -> None:
    bench.enter(ours=GOOD, rival=GOOD + SPINS)
    for limit in ("3", "3", "4"):
        bench.run(f"--seeds 0 --epsilon 1 --limit {limit}")
    assert len(bench.runs()) == 3  # ours once, the rival at each limit


def test_a_failure_of_ours_is_lost(bench: Bench) -> None:
    bench.enter(ours=BREAKS, rival=GOOD)
    _, output = bench.run()
    assert "**lost** | xor-2 1 trusted | three-way error" in output


def test_rows_made_elsewhere_are_scored_and_stand_in_the_table(bench: Bench) -> None:
    bench.enter(ours=BAD)
    bench.run()
    assert bench.run("rows xor-2 --out given")[0] == 0
    code, output = bench.run("add mine --csv given/train.csv --table xor-2")
    assert code == 0
    assert "three-way error: 0" in output
    assert "0 mine" in output  # the best rival
    before = (bench.folder / "out" / FILE).read_bytes()
    bench.run("add mine --csv given/train.csv --table xor-2")
    assert (bench.folder / "out" / FILE).read_bytes() == before


def test_tables_without_their_file_are_left_out_with_a_word(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = tables.RefereeTable(tables.xor_table(2).schema, tables.xor_table(2, 400).split, "absent.parquet")
    monkeypatch.setattr(tables, "tables", lambda: {"there": tables.xor_table(2, 400), "gone": absent})
    bench.enter(ours=GOOD)
    _, output = bench.run()
    assert "gone is left out: absent.parquet is not in the folder of the data" in output


def test_every_figure_and_environment_is_known() -> None:
    named = {name for score in SCORES for name in score.names} | {"CPU seconds", "memory MB"}
    assert named | {name for check in CHECKS for name in check.names} == set(KINDS)
    needed = {entrant.environment for entrant in ENTRANTS.values()} | {score.environment for score in SCORES}
    needed |= {check.entrant.environment for check in CHECKS}
    assert needed - {""} == set(environments())
    known = {*tables.tables(), *(check.table for check in CHECKS)}
    assert all(x.table in known and x.figure in KINDS for x in standing.published_figures())


def test_quick_names_tables_and_entrants_that_there_are() -> None:
    assert set(QUICK) <= set(tables.tables())
    assert {name for names in QUICK.values() for name in names} <= set(ENTRANTS)


def test_an_environment_is_pinned_wholly_and_its_tool_comes_first() -> None:
    for name, environment in environments().items():
        assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin) for pin in environment.pins), name
        assert environment.package.lower().partition("-")[0] == name
        assert len(set(environment.pins)) == len(environment.pins)


def test_an_environment_that_cannot_be_made_leaves_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = {name: Environment(name, (f"{name}==1",)) for name in ("gone", "there")}
    monkeypatch.setattr(environment_module, "environments", lambda: planted)
    made = []

    def prepare(name: str) -> str:
        if name == "gone":
            raise DataError("the environment gone could not be made: no network", "Make one yourself.")
        made.append(name)
        return name

    monkeypatch.setattr(environment_module, "prepare", prepare)
    code, output = bench.run("prepare")
    assert (code, made) == (0, ["there"])
    assert "gone is left out: the environment gone could not be made: no network" in output
    with pytest.raises(DataError):
        bench.run("prepare gone")  # who names it hears of it


@pytest.mark.parametrize("name", ["adult", "acs"])
def test_no_real_row_is_impossible(name: str) -> None:
    table = tables.tables()[name]
    if not table.is_here():
        pytest.skip(f"{table.file} is not there: set FEDKME_DATA to the folder of the data sets")
    train, schema = table.split(0).train, table.schema
    frame = tables.columns_of_table(train, schema)
    assert not any(rule(frame).any() for rule in table.rules.values())
    assert not RowRules(schema).broken(train).any()


@pytest.mark.parametrize("name", ["adult", "acs"])
def test_rows_that_obey_a_schema_are_not_impossible(name: str) -> None:
    table = tables.tables()[name]
    random = np.random.default_rng(0)
    binning = Binning(table.schema, 100)
    codes = np.stack([random.integers(0, size, 40_000) for size in binning.sizes], axis=1)
    rows = binning.decode(codes, random)
    frame = tables.columns_of_table(rows, table.schema)
    wrong = np.any([rule(frame) for rule in table.rules.values()], axis=0)
    broken = RowRules(table.schema).broken(rows)
    assert wrong.any()
    assert not (wrong & ~broken).any()


def test_examples_of_the_help_can_be_parsed() -> None:
    command: Any = typer.main.get_command(app)
    for verb, each in command.commands.items():
        for line in (line for line in (each.epilog or "").splitlines() if line.startswith("fedkme referee")):
            each.make_context(verb, shlex.split(line)[3:])


def test_won_rows_have_figures_that_there_are() -> None:
    with (Path(standing.__file__).parent / "won.csv").open(encoding="utf-8") as file:
        assert all(row["figure"] in KINDS for row in csv.DictReader(file))


@pytest.mark.parametrize("name", list(site_tables()))
def test_a_table_of_the_data_folder_has_a_name_for_each_column_and_rows_of_each_site(name: str) -> None:
    table = tables.tables()[name]
    names = [each["name"] for each in tables.columns_as_plain(table.schema)]
    assert table.schema.label is not None
    assert names == [*table.schema.names, table.schema.label.name]
    if not table.is_here():
        pytest.skip("the public data are not here")
    split = table.split(0)
    assert len(split.train) == len(split.owners) == pytest.approx(4 * len(split.test), abs=4)
    assert set(np.unique(split.owners)) == set(range(split.owners.max() + 1))
    assert len(tables.columns_of_table(split.test, table.schema)) == len(names)
    for each, values in zip(table.schema.columns, split.train.values.T, strict=True):
        if isinstance(each, Numeric):  # no entrant has to clip, or to fill gaps
            assert each.bounds[0] <= values.min() <= values.max() <= each.bounds[1]
            assert each.integer == np.array_equal(values, np.rint(values)), f"{each.name} counts"
    assert not np.array_equal(table.split(1).train.values, split.train.values)
