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
