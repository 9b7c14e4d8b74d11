"""First line of verbs that take long, without a terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.parties import COMMAND, environment


def typed(folder: Path, *words: str, first: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", first + COMMAND, *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    "words", [("sim", "run"), ("release", "auto"), ("audit", "replay"), ("bench", "all")]
)
def test_long_verbs_print_a_line_before_imports(tmp_path: Path, words: tuple[str, str]) -> None:
    # "Something is on the screen within half a second": imports take longer, and a log file had nothing.
    missing = "import sys; sys.modules['typer'] = None; "  # whatever is imported of a verb fails at once
    process = typed(tmp_path, *words, first=missing)
    assert process.stderr.startswith(f"fedkme {' '.join(words)} begins\n")


def test_short_verbs_and_help_say_what_they_were_asked_alone(tmp_path: Path) -> None:
    assert typed(tmp_path, "runs").stderr == ""
    assert typed(tmp_path, "sim", "run", "--help").stderr == ""
    assert typed(tmp_path, "runs", "--json").stdout.strip() == "[]"
    assert typed(tmp_path, "ask", "release", "count()").stderr.startswith("error 12")  # a folder of that name


def test_a_replay_says_how_far_it_is(tmp_path: Path) -> None:
    # It was silent for eight minutes.
    process = typed(tmp_path, "audit", "replay", "uniform", "--quick")
    assert " of " in process.stderr.splitlines()[1]
    assert "left" in process.stderr.splitlines()[1]
