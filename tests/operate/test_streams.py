"""Standard streams that are closed or full: nothing is lost, and the end says what could not be written."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedkme.command_line import explained
from operate.cli import _INTERRUPTED
from tests.parties import WAIT_S

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
        (f"mkdir gone; cd gone; rmdir ../gone; {SCHEMA}", 53, "error 53 (store): the working directory: No"),
        (f"{SCHEMA} $'caf\\xe9'", 2, "'caf\\udce9' is not text in UTF-8"),
        (f"mkdir $'caf\\xe9'; cd $'caf\\xe9'; {SCHEMA}", 2, "caf\\udce9' is not text in UTF-8"),
    ],
)
def test_a_stream_or_folder_that_is_not_there_is_no_traceback(
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


STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("when", ["operate.cli._begun", "operate.cli._load", "fedkme.command_line.run_app"])
def test_a_signal_outside_a_verb_is_one_line(tmp_path: Path, when: str, number: signal.Signals) -> None:
    # One SIGTERM of 110 came while the first sign of life was written, and showed a traceback.
    module, _, name = when.rpartition(".")
    program = (
        f"import os, signal, sys\nimport operate.cli as cli\nimport {module} as at\n"
        "sys.argv = ['fedkme', 'runs']\n"
        f"def told(*_):\n    os.kill(os.getpid(), {number:d})\n"
        f"at.{name} = told\ncli.main()\n"
    )
    end = ended(program, tmp_path)
    assert (end.returncode, "Traceback" in end.stderr, end.stderr.count(f"{_INTERRUPTED}\n")) == (
        130,
        False,
        1,
    )


IMPORTING = """
import os, signal, sys
import operate.cli as cli
name, number, sys.argv[1:] = sys.argv[1], int(sys.argv[2]), ["sim", "--help"]
class Told:
    def __del__(self):  # an exception out of here is a traceback, and ends nothing
        os.kill(os.getpid(), number)
class Finder:
    def find_spec(self, module, *_):
        if module == name:
            Told()
sys.meta_path.insert(0, Finder())
cli.main()
"""


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("module", ["fedkme.errors", "typing_extensions", "typer", "sim.cli"])
def test_a_signal_while_modules_are_imported_is_one_line(
    tmp_path: Path, module: str, number: signal.Signals
) -> None:
    # Ctrl-C at a module that `fedkme` imports first, or in a callback of the importer, was a traceback.
    end = ended(IMPORTING, tmp_path, module, str(number.value))
    assert (end.returncode, end.stderr) == (130, f"{_INTERRUPTED}\n")


def ended(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_while_python_ends_is_no_traceback(tmp_path: Path, number: signal.Signals) -> None:
    program = (
        "import atexit, os, signal, sys\nimport operate.cli as cli\n"
        "sys.argv = ['fedkme', 'schema', '--help']\n"
        f"atexit.register(lambda: os.kill(os.getpid(), {number:d}))\ncli.main()\n"
    )
    end = ended(program, tmp_path)
    assert (end.returncode, end.stderr) == (-number, "")


def test_the_line_of_an_interrupted_command_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), explained():
        raise KeyboardInterrupt
    assert capsys.readouterr().err == f"{_INTERRUPTED}\n"


def test_a_signal_during_a_finalizer_of_any_library_is_not_lost() -> None:
    # pyarrow's ParquetWriter.__del__ swallowed SIGTERM, and a sweep that was told to stop ran to its end.
    # Given again once, just before a call that waits, the signal did not end that call.
    code = """
import signal, time
from fedkme.command_line import _FINALIZER_S, interrupt_on

class Finalized:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)

interrupt_on([signal.SIGTERM])
interrupted = 0
while interrupted < 50:
    try:
        soon = time.perf_counter() + 0.98 * _FINALIZER_S
        Finalized()
        while time.perf_counter() < soon:
            pass
        signal.pause()
    except KeyboardInterrupt:
        interrupted += 1
print("interrupted")
"""
    command = [sys.executable, "-c", code]
    end = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert (end.stdout, end.stderr, end.returncode) == ("interrupted\n", "", 0)
