"""Standard streams that are closed or full: nothing is lost, and the end says what could not be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FEDKME = str(Path(sys.executable).with_name("fedkme"))
SCHEMA = f'"{FEDKME}" schema json schema'


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (
            f"{SCHEMA} > /dev/full",
            53,
            "error 53 (store): the output cannot be written: No space left on device.",
        ),
        (f'"{FEDKME}" --help > /dev/full', 53, "error 53"),
        (f"{SCHEMA} >&-", 0, ""),
        (f'"{FEDKME}" --version >&- 2>&-', 0, ""),
        (f'"{FEDKME}" schema json nothing 2> /dev/full', 10, ""),
        (f'"{FEDKME}" schema json nothing 2>&-', 10, ""),
        (f"{SCHEMA} | head -1 > /dev/null", 0, ""),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_traceback(
    tmp_path: Path, line: str, code: int, words: str
) -> None:
    end = shell(line, tmp_path)
    assert (end.returncode, "Traceback" in end.stderr) == (code, False)
    assert words in end.stderr


def test_a_file_never_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    # With standard error closed, the next file that was opened became number 2, and messages went into it.
    end = shell(
        f'{SCHEMA} --out out.json 2>&- 1>&- 0<&-; "{FEDKME}" schema json schema > same.json', tmp_path
    )
    assert end.returncode == 0
    assert (tmp_path / "out.json").read_bytes() == (tmp_path / "same.json").read_bytes()


def test_python_m_fedkme_is_the_command(tmp_path: Path) -> None:
    end = shell(f'"{sys.executable}" -m fedkme --version', tmp_path)
    assert (end.returncode, end.stdout[:7]) == (0, "fedkme ")


@pytest.mark.parametrize("when", ["_begun", "run_app"])
def test_a_signal_outside_a_verb_is_one_line(tmp_path: Path, when: str) -> None:
    # One SIGTERM of 110 came while the first sign of life was written, and showed a traceback.
    program = (
        "import os, signal, sys\nimport operate.cli as cli\nsys.argv = ['fedkme', 'runs']\n"
        "def terminated(*_):\n    os.kill(os.getpid(), signal.SIGTERM)\n"
        f"cli.{when} = terminated\ncli.main()\n"
    )
    end = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (end.returncode, "Traceback" in end.stderr, end.stderr.count("error 130")) == (130, False, 1)


def test_a_signal_while_python_ends_is_no_traceback(tmp_path: Path) -> None:
    program = (
        "import atexit, os, signal, sys\nimport operate.cli as cli\n"
        "sys.argv = ['fedkme', 'schema', '--help']\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))\ncli.main()\n"
    )
    end = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (end.returncode, end.stderr) == (-15, "")
