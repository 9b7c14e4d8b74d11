"""The tab key: words in real shells, and one way to get them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from operate.cli import _VERBS, SHELLS
from tests.places import ROOT

START = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom operate.cli import main\nmain()\n"
FEDKME = f"#!{sys.executable}\n{START}"
ASK: Mapping[str, str] = {
    "bash": """source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_fedkme_completion fedkme; printf '%s\\n' "${COMPREPLY[@]}" """,
    "zsh": """compdef() {}; _arguments() { print -r -- "$@" }; source "$1"; words=(${=2}); CURRENT=$#words
_fedkme_completion""",
    "fish": """source $argv[1]; complete --do-complete "$argv[2]" """,
}
"""Scripts that ask a shell for words; their arguments: the path of ours, and what was typed so far."""


@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes_verbs_options_and_scenarios(shell: str, tmp_path: Path) -> None:
    # Completion was advertised by every verb and worked in none.
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "fedkme").write_text(FEDKME)
    (tmp_path / "fedkme").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}

    def output(*command: str) -> str:
        process = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
        assert process.returncode == 0, process.stderr
        return process.stdout

    file = tmp_path / "script"
    file.write_text(output("fedkme", "completion", shell))
    start = [shell, "-f"] if shell == "zsh" else [shell]

    def words(typed: str) -> str:
        ask = [*start, "-c", ASK[shell], *([] if shell == "fish" else [shell]), str(file), typed]
        return output(*ask)

    assert "doctor" in words("fedkme d")
    assert {"protocol=", "progress_s="} <= set(
        re.findall(r"[\w.]+=", words("fedkme sim run digits --set pro"))
    )
    assert "kernel.gamma=" in words("fedkme plan digits --set kernel.g")
    assert "copies=" in words("fedkme release marginals adult --set cop")
    assert "--set" in words("fedkme sim run --s")
    candidates = words("fedkme sim run di")
    assert "digits" in candidates
    assert "hospitals" not in candidates


@pytest.mark.parametrize("verb", sorted(_VERBS))
def test_no_verb_advertises_what_the_whole_command_does(verb: str) -> None:
    module, attribute, _ = _VERBS[verb]
    app = getattr(__import__(module, fromlist=[attribute]), attribute)
    assert not app._add_completion


def test_another_shell_is_refused_with_the_ones_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "fedkme").write_text(FEDKME)
    process = subprocess.run(
        [sys.executable, tmp_path / "fedkme", "completion", "tcsh"], capture_output=True, text=True
    )
    assert process.returncode == 2
    assert "bash|zsh|fish" in process.stderr
