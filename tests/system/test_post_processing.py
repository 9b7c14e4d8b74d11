"""Each step of post-processing raises, or its process is killed in it: what was paid for stays.

Issue 33, item 4. A schedule is the number of a step and what happens there; `FEDKME_STEPS=all` plays each
step, CI the first of each kind.
"""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedkme.answers.folder import AskedFolder
from fedkme.command_line import explained
from fedkme.durable import replace
from fedkme.errors import NotMadeError, StoreError
from fedkme.ops.derivation import Derivation
from fedkme.privacy.ledger import read_ledger
from sim.cli import report_app
from sim.progress import Progress
from tests.places import ROOT
from tests.system.launches import read_json
from tests.system.release_market import come, faults, files, release, release_market, scenario

ALL = os.environ.get("FEDKME_STEPS") == "all"
ERRORS = (
    ValueError("math domain error: 17"),
    MemoryError(),
    OSError(errno.ENOSPC, "No space left on device"),
    FloatingPointError("overflow"),
    RecursionError(),
)


class FailingSteps:
    """Steps of post-processing, of which one raises.

    Attributes:
        names: names of all steps that were taken.
    """

    def __init__(self, patch: pytest.MonkeyPatch, number: int = 0, error: Exception | None = None) -> None:
        """Count; let the step of a number, from 1, raise."""
        self.names: list[str] = []
        step, count = Derivation.step, itertools.count(1)

        def counted(self_: Derivation, what: str, make: Callable[[], Any]) -> Any:
            self.names.append(what)
            place = next(count)

            def failing() -> Any:
                if place == number and error is not None:
                    raise error
                return make()

            return step(self_, what, failing)

        patch.setattr(Derivation, "step", counted)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scenario(tmp_path_factory.mktemp("scenario"), count=80)


def played(here: Path, out: Path, **more: Any) -> dict[str, Any]:
    return release(here, "moments", "inprocess", out, "seed=1", **more)[1]


def contents(folder: Path) -> dict[str, bytes]:
    """Files of a run but its page, times and signatures."""
    others = (".html", ".toml", ".heads")
    names = (path for path in folder.iterdir() if path.is_file() and path.suffix not in others)
    return {
        path.name: path.read_bytes() for path in names if path.name not in ("metrics.json", ".unfinished")
    }


@pytest.fixture(scope="module")
def quiet(here: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, bytes]]:
    """Steps and files of a run in which nothing fails."""
    out = tmp_path_factory.mktemp("quiet") / "run"
    with pytest.MonkeyPatch.context() as patch:
        steps = FailingSteps(patch)
        assert played(here, out)["code"] == 0
    return steps.names, contents(out)


def schedules(names: list[str]) -> Iterator[int]:
    """Numbers of the steps that fail: all, or the first of each kind of name."""
    kinds = set[str]()
    for number, name in enumerate(names, 1):
        kind = name.partition(" to ")[0]
        if ALL or kind not in kinds:
            yield number
        kinds.add(kind)


def test_each_step_that_raises_costs_one_line_and_the_same_command_makes_the_rest(
    here: Path, tmp_path: Path, quiet: tuple[list[str], dict[str, bytes]]
) -> None:
    names, whole = quiet
    for number, error in zip(schedules(names), itertools.cycle(ERRORS), strict=False):
        out, name = tmp_path / f"step-{number}", names[number - 1]
        with pytest.MonkeyPatch.context() as patch:
            FailingSteps(patch, number, error)
            metrics = played(here, out)
        lines = [line for line in (tmp_path / f"{out.name}.txt").read_text().splitlines() if "error" in line]
        assert (out / "release.npz").read_bytes() == whole["release.npz"], name
        assert len(metrics["losses"]) == 1 or name == "what follows from the release", name
        assert metrics["code"] == NotMadeError.code, name
        assert any("error 28 (not made)" in line for line in lines), (name, lines)
        assert "17" not in "".join(metrics["losses"])  # the text of an unexpected failure may hold numbers
        if number % 3:
            assert played(here, out)["code"] == 0
        else:
            assert CliRunner().invoke(report_app, [str(out)]).exit_code == 0
        again = contents(out)
        assert again["ledger.jsonl"] == whole["ledger.jsonl"], name
        assert again == whole, name
        assert read_json(out / "metrics.json")["code"] == 0
    answers, failures = AskedFolder(out).ask("mean(age); count()")
    assert (len(answers), failures) == (2, {})


KILLED = """
import os, signal, sys
from pathlib import Path
from fedkme.ops.derivation import Derivation
from tests.system.release_market import release
step, left = Derivation.step, [int(sys.argv[3])]
def killed(self, what, make):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, what, make)
Derivation.step = killed
release(Path(sys.argv[1]), "moments", "inprocess", Path(sys.argv[2]), "seed=1")
"""


def test_a_process_that_is_killed_in_a_step_leaves_what_was_paid_for(
    here: Path, tmp_path: Path, quiet: tuple[list[str], dict[str, bytes]]
) -> None:
    names, whole = quiet
    numbers = range(1, len(names) + 1) if ALL else (1, len(names) - 1)
    for number in numbers:
        out = tmp_path / f"step-{number}"
        command = [sys.executable, "-c", KILLED, str(here), str(out), str(number)]
        ended = subprocess.run(command, check=False, cwd=ROOT, capture_output=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert (out / "release.npz").read_bytes() == whole["release.npz"]
        assert (out / "ledger.jsonl").read_bytes() == whole["ledger.jsonl"]
        assert played(here, out)["code"] == 0
        assert contents(out) == whole, names[number - 1]


async def test_a_curator_that_is_asked_again_makes_the_rest_and_charges_nothing(tmp_path: Path) -> None:
    async with release_market(tmp_path) as at:
        come(at)
        with pytest.MonkeyPatch.context() as patch:
            FailingSteps(patch, 2, MemoryError())
            with pytest.raises(NotMadeError, match="not enough memory"):
                await at.asks()
        before = files(tmp_path / "consumer")
        assert "release.npz" in before
        assert (tmp_path / "consumer" / "release.open").exists()
        await at.asks()
        after = files(tmp_path / "consumer")
        assert {"release.npz", "weighted.csv", "weighted.card.json"} <= set(after)
        assert after["release.npz"] == before["release.npz"]
        assert not (tmp_path / "consumer" / "release.open").exists()
    assert not (tmp_path / "runs" / "run-2").exists()
    assert read_json(at.run() / "record.json")["code"] == 0
    lines = [entry.disclosure for entry in read_ledger(tmp_path / "owner-1.jsonl")]
    assert [(line.observer, line.run) for line in lines] == [("curator", "run-1"), ("consumer", "run-1")]
    assert not faults(tmp_path)


async def test_a_consumer_makes_the_rest_of_what_came_without_its_curator(tmp_path: Path) -> None:
    async with release_market(tmp_path) as at:
        come(at)
        with pytest.MonkeyPatch.context() as patch:
            FailingSteps(patch, 1, ValueError())
            with pytest.raises(NotMadeError, match="ValueError at"):
                await at.asks()
    output = tmp_path / "consumer"
    assert not (output / "weighted.csv").exists()
    result = CliRunner().invoke(report_app, [str(output)])
    assert result.exit_code == 0, result.output
    assert {"weighted.csv", "weighted.card.json", "report.html"} <= {path.name for path in output.iterdir()}


def test_a_page_that_follows_a_run_is_not_needed_for_its_release(here: Path, tmp_path: Path) -> None:
    """Rows and card are there where the disk is too full for the page."""
    with pytest.MonkeyPatch.context() as patch:

        def full(directory: Path) -> Path:
            raise OSError(errno.ENOSPC, "No space left on device", str(directory))

        patch.setattr("sim.releases.write_report", full)
        metrics = played(here, tmp_path / "run", shown=Progress(sys.stderr))
    assert metrics["code"] == NotMadeError.code
    assert metrics["losses"] == ["report.html could not be made: No space left on device"]
    assert (tmp_path / "run" / "synthetic.csv").exists()


@pytest.mark.parametrize("room", [300, 3_000])
def test_a_disk_that_is_full_at_any_moment_of_a_run_is_one_line(tmp_path: Path, room: int) -> None:
    # Five of seven sizes of a disk ended `fedkme sim run` in a traceback, and a call in an OSError.
    program = (
        "import resource, sys; import fedkme as fk\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))\n"
        "try:\n"
        "    fk.simulate('digits', p=3, protocol='uniform', downstream=False, baselines=[], out='run')\n"
        "except fk.FedkmeError as error:\n"
        "    sys.exit(error.code)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert "Traceback" not in run.stderr, run.stderr
    assert run.returncode


def test_a_write_that_fails_names_its_file(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        with pytest.raises(OSError, match=r"rows\.csv"):
            replace(tmp_path / "rows.csv", b"rows")
    with pytest.raises(SystemExit) as end, explained():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert end.value.code == StoreError.code
