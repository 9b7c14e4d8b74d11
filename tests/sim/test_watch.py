"""`fedkme sim run --watch`: a simulation on a page, as it goes on and when it is over."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedkme.pages.html import FINISHED
from fedkme.watch.access import PageAddress
from fedkme.watch.server import shown
from fedkme.watch.state import Viewer, Watched, seen_by
from sim.config import load_simulation
from sim.engines.processes import ANY_PORT
from sim.progress import Progress
from sim.release_config import load_release
from sim.releases import simulate_release
from sim.run import simulate
from sim.watch import SimulationWatch
from tests.fedkme.test_completion import START
from tests.parties import WAIT_S
from tests.places import ROOT
from tests.system.release_market import METHODS, scenario

SMALL = ["p=30", "downstream=false", "baselines=[]", "protocol=algorithm3"]


class Followed(Progress):
    """Progress that looks at the page's state in every stage of a release, and every round of a summary."""

    def __init__(self, watch: SimulationWatch) -> None:
        super().__init__(io.StringIO())
        self.states: list[Watched] = []
        self.watch = watch
        self._look: Callable[[], None] = lambda: self.states.append(watch.state())

    def stage(self, stage: str, line: str, fraction: float) -> None:
        self._look()

    def round(self, record: Any) -> None:
        self._look()


def watched(watch: SimulationWatch | None) -> Progress:
    progress = Progress(io.StringIO())
    progress.watch = watch
    return progress


@pytest.mark.parametrize("engine", ["inprocess", "processes"])
def test_a_simulation_is_shown_as_it_goes_on_and_when_it_is_over(tmp_path: Path, engine: str) -> None:
    watch = SimulationWatch()
    followed = Followed(watch)
    settings = load_simulation("digits", [f"engine={engine}", *SMALL])
    directory, metrics = simulate(settings, tmp_path / "run", followed)
    after = watch.state()
    for during in (state.runs[0] for state in followed.states if state.runs):
        assert [at for at, _ in during.mmd2] == sorted({at for at, _ in during.mmd2})
    record = json.loads((directory / "record.json").read_text(encoding="utf-8"))
    assert after.runs or engine == "processes"  # a busy machine may look too late; the report is there
    for run in after.runs:
        assert (run.status, run.share, run.reason) == (record["status"], 1.0, "")
        assert {lane.owner for lane in run.lanes} == {*record["owner_rows"]}
        assert run.rows <= metrics["points_accessed"]["total"]
        assert run.mmd2[-1][0] == 30
    assert after.over
    assert watch.report() == (directory / "report.html").read_text(encoding="utf-8")


def test_a_release_is_shown_as_it_goes_on_and_when_it_is_over(tmp_path: Path) -> None:
    # Every release shows stages; here also on the page of `fedkme release --watch`.
    watch = SimulationWatch()
    followed = Followed(watch)
    settings = load_release("balog2", str(scenario(tmp_path)), ["engine=inprocess", *METHODS["balog2"]])
    directory, _ = simulate_release(settings, tmp_path / "run", followed)
    record = json.loads((directory / "record.json").read_text(encoding="utf-8"))
    during = [state.runs[0] for state in followed.states if state.runs]
    assert {state.protocol for state in during} <= {"balog2"}  # a busy machine may look too late
    after = watch.state()
    (run,) = after.runs
    assert (run.kind, run.status, run.share) == ("balog2", "complete", 1.0)
    assert {lane.owner for lane in run.lanes} == {*record["owner_rows"]}
    assert after.over
    assert watch.report() == (directory / "report.html").read_text(encoding="utf-8")


def test_a_run_that_ended_before_the_first_look_is_shown(tmp_path: Path) -> None:
    # Found on a busy machine: the curator's process had ended when its page was first read.
    settings = load_simulation("digits", ["engine=inprocess", *SMALL])
    directory, _ = simulate(settings, tmp_path / "run", Progress(io.StringIO()))
    watch = SimulationWatch()
    assert not watch.report()
    watch.finish(directory, over=True)
    with shown(PageAddress(ANY_PORT), watch.state, watch.report) as address:
        with urllib.request.urlopen(address, timeout=WAIT_S) as page:
            assert page.read().decode() == (directory / "report.html").read_text(encoding="utf-8")
        with urllib.request.urlopen(f"{address}events", timeout=WAIT_S) as events:
            data = events.read().decode().partition("data: ")[2]
            assert json.loads(data)["page"] == watch.report().replace(FINISHED, "")
        with urllib.request.urlopen(f"{address}?as=owner:owner-1", timeout=WAIT_S) as page:
            assert "No run yet" in page.read().decode()  # an owner is not shown the operator's report


def test_what_a_simulation_alone_knows_is_the_operators(tmp_path: Path) -> None:
    watch = SimulationWatch()
    settings = load_simulation("digits", ["engine=inprocess", *SMALL])
    simulate(settings, tmp_path / "run", watched(watch))
    seen = seen_by(watch.state(), Viewer("owner", "owner-1"))
    assert not seen.runs[0].mmd2
    assert not seen.note


def test_a_simulation_that_is_watched_computes_the_same(tmp_path: Path) -> None:
    # "The page must not change what leaves any party": the ledgers and the summary are the same bytes.
    settings = load_simulation("digits", ["engine=inprocess", *SMALL])
    for name, watch in (("plain", None), ("watched", SimulationWatch())):
        simulate(settings, tmp_path / name, watched(watch))
    files = ("ledger.jsonl", "consumer/ledger.jsonl", "owners/owner-1.jsonl", "consumer/summary.npz")
    for file in files:
        assert (tmp_path / "plain" / file).read_bytes() == (tmp_path / "watched" / file).read_bytes()


def test_at_a_terminal_the_page_stays_until_enter(tmp_path: Path) -> None:
    # Runs of some seconds were over before a browser was open: "this site can't be reached".
    master, slave = pty.openpty()
    words = ["sim", "run", "digits", "--watch", "--baselines", "none", "--out", str(tmp_path / "run")]
    settings = [word for key in ("p=5", "downstream=false", "engine=inprocess") for word in ("--set", key)]
    command = ["setsid", "--ctty", "--wait", sys.executable, "-P", "-c", START, *words, *settings]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=os.environ | {"PYTHONPATH": str(ROOT)}
    ) as process:
        os.close(slave)
        said = ""
        while "Enter ends it" not in said:
            said += os.read(master, 65536).decode()
        assert said.index("report.html") < said.index("Enter ends it")
        address = re.findall(r"http://\S+/", said)[0]
        with urllib.request.urlopen(f"{address}state", timeout=WAIT_S) as answer:
            assert json.loads(answer.read())["over"]
        os.write(master, b"\n")
        assert process.wait(WAIT_S) == 0
    os.close(master)
