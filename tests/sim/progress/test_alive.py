"""Signs of life: something is on the screen soon, and where nothing is said for long."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedkme.errors import ConfigError
from sim.config import load_simulation
from sim.engines.run_folder import forget_settings, make_run_directory
from sim.progress import Progress, alive
from sim.sweep.table import FILE
from tests.fedkme.test_completion import START
from tests.parties import WAIT_S

UNDER_WAY = """
import sys
from contextlib import ExitStack
from pathlib import Path
from sim.engines.run_folder import make_run_directory
until = ExitStack()
make_run_directory(Path(sys.argv[1]), "x", until)
print(flush=True)
input()
"""


def test_what_takes_long_says_so_until_it_is_over() -> None:
    lines: list[str] = []
    twice = threading.Event()

    def say(line: str) -> None:
        lines.append(line)
        if len(lines) == 2:
            twice.set()

    with alive(say, 0.001):
        assert twice.wait(WAIT_S)
    assert all(line.startswith("still at it: ") and line.endswith(" s so far") for line in lines)
    assert not [thread for thread in threading.enumerate() if thread.name == "alive"]


def test_a_terminal_shows_something_before_anything_is_imported(tmp_path: Path) -> None:
    # "Something is on the screen within half a second": before imports, whatever they take.
    master, slave = pty.openpty()
    command = [sys.executable, "-c", START, "runs", str(tmp_path)]
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=slave)
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        assert process.wait() == 0
    os.close(master)
    assert shown.startswith(b"fedkme runs ...")
    assert b"\r\x1b[K" in shown


def test_a_folder_that_has_a_run_is_offered_again(tmp_path: Path) -> None:
    # "`Is not empty` after a failure offers to go on".
    (tmp_path / "run.toml").write_text("")
    with pytest.raises(Exception, match=r"fedkme sim run .*run\.toml` repeats its run in another folder"):
        make_run_directory(tmp_path, "x", ExitStack())


def test_a_failed_run_leaves_its_folder_reusable(tmp_path: Path) -> None:
    # "a failed or refused run leaves its folder reusable".
    out = tmp_path / "out"
    for code in (20, 20, 0):
        with ExitStack() as until:
            make_run_directory(out, "x", until)
            for name, content in (("record.json", "{}"), ("metrics.json", f'{{"code": {code}}}')):
                (out / name).write_text(content)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.failed-1", "out.failed-2"]
    with pytest.raises(ConfigError, match="is there already and not empty"):
        make_run_directory(out, "x", ExitStack())


def test_a_run_whose_process_died_leaves_its_folder_reusable(tmp_path: Path) -> None:
    # Its disk was full, or it was killed: "error 10: is there already and not empty" was all that one read.
    out, waiting = tmp_path / "out", [sys.executable, "-c", UNDER_WAY]
    with subprocess.Popen([*waiting, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        run.stdout.readline()
        (out / "ledger.jsonl").write_text("spent")
        with pytest.raises(ConfigError, match="is under way"):
            make_run_directory(out, "x", ExitStack())  # it is under way
        run.kill()
    with ExitStack() as until:
        make_run_directory(out, "x", until)
    assert (tmp_path / "out.failed-1" / "ledger.jsonl").read_text() == "spent"


@pytest.mark.parametrize(("other", "left"), [((), False), (("thesis.txt",), True)])
def test_a_run_that_never_began_leaves_nothing(other: tuple[str, ...], left: bool, tmp_path: Path) -> None:
    folder = make_run_directory(tmp_path / "out", "x", ExitStack())
    for name in ("release.toml", "schema.toml", *other):
        (folder / name).write_text("")
    forget_settings(folder)
    assert folder.exists() is left


def test_a_folder_that_has_a_sweep_is_said_to_go_on(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(ConfigError, match="sim sweep` that made it goes on where it stopped"):
        make_run_directory(tmp_path, "x", ExitStack())


def test_reading_is_said_before_it_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sim.run import simulate

    small = ["engine=inprocess", "p=10", "downstream=false", "baselines=[]", "protocol=uniform"]
    simulate(load_simulation("digits", small), tmp_path / "run", Progress(sys.stderr))
    assert capsys.readouterr().err.startswith("reading the rows of every party: digits\n")
