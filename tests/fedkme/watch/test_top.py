"""Issue 14, item 3: "`fedkme top`: the same in a terminal", by the same view."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedkme.errors import ConfigError
from fedkme.operate.top import app
from fedkme.store import open_store
from fedkme.watch.place import PageAddress
from fedkme.watch.server import shown
from fedkme.watch.state import BudgetUse, Lane, Learned, News, RunState, Viewer, Watched
from fedkme.watch.terminal import drawn
from fedkme.watch.view import view_of
from tests.parties import NUMBERS, curator_values, write_config

LANES = (Lane("north", "asked", "for a bid", 90.0, 150.0, 40, 7), Lane("south", "answered", seen=3))
RUN = RunState(
    "run-1",
    "lab",
    "summary",
    "running",
    opened=1.0,
    began=2.0,
    protocol="clock",
    done=3,
    rounds=9,
    progressed=50.0,
    planned=20,
    came=((5.0, 10),),
    lanes=LANES,
)
STATE = Watched(
    "curator",
    100.0,
    (RUN,),
    (Learned("north", "curator", math.inf, 1e-5, 7, "rows are seen as they are"),),
    BudgetUse(8.0, 1e-5, ((2.0, 1.0),)),
    (News(60.0, "connected", owner="north"),),
)


def text(viewer: Viewer) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(drawn(view_of(STATE, viewer), 100.0))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_says_what_the_page_says() -> None:
    said = text(Viewer())
    for words in (
        "run-1: summary by clock for lab, under way; 10 rows came of 20 planned",
        "Waiting for north: asked for a bid.",
        "33 %, about",
        "for a bid, 10 s so far",
        "7 rows as they are",
        "epsilon 7 left of 8",
        "north connected",
    ):
        assert words in said


def test_an_owner_reads_its_own_view() -> None:
    said = text(Viewer("owner", "north"))
    assert "as north sees them" in said
    assert "south" not in said


def test_a_state_without_runs_is_said() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(drawn(view_of(Watched("curator", 1.0), Viewer()), 1.0))
    assert isinstance(console.file, io.StringIO)
    assert "No run yet." in console.file.getvalue()


def test_it_reads_a_page() -> None:
    with shown(PageAddress("127.0.0.1:0"), lambda: STATE) as address:
        host = address.removeprefix("http://").rstrip("/")
        whole = CliRunner().invoke(app, [host, "--json"])
        north = CliRunner().invoke(app, [address, "--as", "owner:north", "--json"])
        once = CliRunner().invoke(app, [host])
    assert json.loads(whole.output) == json.loads(json.dumps(view_of(STATE, Viewer())))
    assert json.loads(north.output) == json.loads(json.dumps(view_of(STATE, Viewer("owner", "north"))))
    assert "Waiting for north" in once.output


def test_it_reads_a_journal(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(NUMBERS)
    config = write_config(tmp_path / "curator.toml", curator_values(tmp_path))
    (tmp_path / "runs").mkdir()
    open_store(tmp_path / "runs" / "journal.db", "curator").close()
    done = CliRunner().invoke(app, [str(config)])
    assert "No run yet." in done.output
    assert "From the journal alone" in done.output


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [(["127.0.0.1:9"], "no page can be read"), (["127.0.0.1:9", "--as", "root"], "'root' is no view")],
)
def test_what_is_wrong_is_said_in_a_line(arguments: list[str], cause: str) -> None:
    failed = CliRunner().invoke(app, arguments)
    assert cause in str(failed.exception)


def test_a_configuration_that_is_not_there_is_no_address(tmp_path: Path) -> None:
    # Issue 14: found as an operator finds it; it was tried as the address of a page, error 34.
    error = CliRunner().invoke(app, [str(tmp_path / "nowhere.toml")]).exception
    assert isinstance(error, ConfigError)
    assert "there is no file" in error.cause
