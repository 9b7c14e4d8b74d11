"""Every verb: one example in its help that can be typed, and results for programs as for people."""

from __future__ import annotations

import contextlib
import io
import json
import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from fedkme.errors import MissingDependencyError
from fedkme.extensions import INSTRUMENTS
from fedkme.verbs import epilog, print_json
from operate.cli import _VERBS, _load, main
from tests.parties import subcommands

WITHOUT_JSON = {
    "curator serve": "a service, whose log has `log = json`",
    "owner join": "a service, whose log has `log = json`",
    "consumer cancel": "ends with a line of the log",
    "schema draft": "prints a file",
    "schema cuts": "prints a file",
    "schema dummy": "prints a file",
    "schema json": "prints JSON anyway",
    "new scenario": "makes a file",
    "new form": "shows a page",
    "new owner": "makes files",
    "new curator": "makes files",
    "new consumer": "makes files",
}
"""Verbs that print no result."""


def leaves() -> Iterator[tuple[str, Any]]:
    """Every verb that can be typed, with what Click knows of it."""
    for verb in (*_VERBS, "bench"):
        yield from _below(verb, typer.main.get_command(_load(verb)))


def _below(typed: str, command: Any) -> Iterator[tuple[str, Any]]:
    below = subcommands(command)
    for name, each in below.items():
        yield from _below(f"{typed} {name}", each)
    if not below or command.invoke_without_command:
        yield typed, command


LEAVES = dict(leaves())


def parsed(line: str) -> str:
    """Verb of a command line whose arguments and options are all known and all there."""
    _, verb, *words = shlex.split(line)
    command: Any = typer.main.get_command(_load(verb))
    while words and words[0] in (below := subcommands(command)):
        command, verb = below[words[0]], f"{verb} {words.pop(0)}"
    command.make_context(f"fedkme {verb}", words)
    return verb


@pytest.mark.parametrize("verb", LEAVES)
def test_the_help_of_every_verb_ends_with_an_example_that_can_be_typed(verb: str) -> None:
    # "examples in every `--help`".
    examples = [line for line in (LEAVES[verb].epilog or "").split("\n\n") if line.startswith("fedkme ")]
    assert examples
    assert {parsed(line) for line in examples} == {verb}


@pytest.mark.parametrize("verb", INSTRUMENTS)
def test_a_wheel_alone_says_what_a_verb_of_another_distribution_needs(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # "a wheel alone says in one line what to install".
    monkeypatch.setattr("fedkme.verbs.entries", lambda group: {})
    monkeypatch.setattr("sys.argv", ["fedkme", *verb.split(), "all", "--quick"])
    with pytest.raises(SystemExit) as end:
        main()
    line = capsys.readouterr().err.splitlines()[-1]
    assert end.value.code == MissingDependencyError.code
    assert f"`fedkme {verb}` is part of {INSTRUMENTS[verb][0]}" in line
    assert "make venv" in line


def test_an_example_with_an_unknown_option_is_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        parsed("fedkme sim run digits --nonsense")


@pytest.mark.parametrize("verb", LEAVES)
def test_every_verb_that_prints_a_result_has_json_and_says_its_shape(verb: str) -> None:
    # "`--json` for every verb that prints results".
    options = {name for parameter in LEAVES[verb].params for name in parameter.opts}
    passed_on = LEAVES[verb].context_settings.get("ignore_unknown_options", False)
    assert ("--json" in options or passed_on) is (verb not in WITHOUT_JSON)
    assert ("With --json: " in LEAVES[verb].epilog) is (verb not in WITHOUT_JSON)


def test_json_is_strict() -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_json({"a": math.inf, "b": [math.nan, -math.inf], "c": Path("x/y"), "d": "=é"})
    assert json.loads(out.getvalue()) == {"a": "inf", "b": [None, "-inf"], "c": "x/y", "d": "=é"}


def test_the_end_of_a_help_has_each_example_in_a_line_of_its_own() -> None:
    assert epilog("fedkme a", "fedkme b", json="a list") == (
        "Examples:\n\nfedkme a\n\nfedkme b\n\nWith --json: a list."
    )


Typed = Any


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Typed:
    """Type a command in a folder of its own; returns status and standard output."""
    monkeypatch.chdir(tmp_path)

    def call(line: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", shlex.split(line))
        out = io.StringIO()
        with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), out.getvalue()

    return call


def test_json_has_what_the_text_shows(typed: Typed) -> None:
    small = "--engine inprocess --set p=10 --set downstream=false --set 'baselines=[]' --set protocol=uniform"
    code, text = typed(f"fedkme sim run digits {small} --out run --json")
    values = json.loads(text)
    assert (code, values["directory"], values["report"]) == (0, "run", "run/report.html")
    assert values["metrics"] == json.loads(Path("run/metrics.json").read_text())
    _, shown = typed("fedkme audit verify run")
    verdicts = json.loads(typed("fedkme audit verify run --json")[1])
    ledgers = {each["about"] for each in verdicts["verdicts"] if each["lines"] is not None}
    assert shown.splitlines()[-1] == f"{len(ledgers)} ledgers agree, {verdicts['lines']} lines"
    assert shown.count("OK ") == sum(not each["fault"] for each in verdicts["verdicts"])
    assert json.loads(typed("fedkme report run --json")[1])["report"] == typed("fedkme report run")[1].strip()
    (past,) = json.loads(typed("fedkme runs . --json")[1])
    assert past["directory"] in typed("fedkme runs .")[1]
    papers = json.loads(typed("fedkme dossier run --json")[1])
    assert {Path(each["file"]).name for each in papers} == {
        "registry.yaml",
        "croissant.json",
        "nist-800-226.md",
    }


def test_a_folder_of_runs_that_is_not_there_is_a_fault(typed: Typed) -> None:
    # "whatever is incomplete exits with its number, on every verb".
    assert typed("fedkme runs elsewhere")[0] == 10
    assert typed("fedkme runs") == (
        0,
        "runs has no simulation that ended; `fedkme sim run digits` makes one\n",
    )


def test_json_of_certificates_has_what_the_text_shows(typed: Typed) -> None:
    facts = json.loads(typed("fedkme pki init authority --json")[1])
    assert [each["authority"] for each in facts] == ["fedkme authority"]
    (party,) = json.loads(typed("fedkme pki issue north --authority authority --out north.pem --json")[1])
    lines = typed("fedkme pki show north.pem")[1].splitlines()
    assert f"serial        {party['serial']}" in lines
    assert f"fingerprint   {party['fingerprint']}" in lines
    *_, listed = json.loads(typed("fedkme pki show authority --json")[1])
    assert (listed["party"], listed["serial"]) == ("north", party["serial"])
    assert any(
        line.startswith(f"north               owner     {party['serial']}")
        for line in typed("fedkme pki show authority")[1].splitlines()
    )


@pytest.mark.parametrize("method", ["marginals", "merf"])
def test_the_help_of_a_method_lists_its_keys(method: str, typed: Typed) -> None:
    # "`release METHOD --help` lists the method's keys".
    from fedkme.releases.settings import METHODS

    code, text = typed(f"fedkme release {method} --help")
    assert code == 0
    for key in METHODS[method].model_fields:
        assert f"- `{key}` (" in text
