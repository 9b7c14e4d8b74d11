"""The README and the documents: what they name is there, what they show can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from fedkme.extensions import AUCTIONS, RELEASES, registered
from fedkme.protocols import PROTOCOLS
from operate.cli import _load, main
from tests.parties import subcommands
from tests.places import ROOT

README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *PAGES, *(ROOT / "lab").rglob("*.md")])
OF_READERS = [path for path in PAGES if path.parent.name not in ("decisions", "reference")]
"""Pages for who uses fedkme; decisions say why it is so, and the reference is generated."""
BEGINNING = 12
"""Lines within which a page shows what it is about."""
MOST_WORDS = 40_000


def blocks(document: Path, language: str) -> list[str]:
    """Code blocks of a language in a document."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def commands() -> list[str]:
    """Commands of fedkme in the README, without their comments."""
    lines = [line for block in blocks(README, "bash") for line in block.splitlines()]
    return [line.partition(" #")[0].strip() for line in lines if line.startswith("fedkme ")]


def test_lines_of_documents_are_short() -> None:
    # CONVENTIONS: "lines of documents at most 120 columns".
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in DOCUMENTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120
    ]
    assert not long


def linked_in(text: str) -> set[str]:
    """Targets of links in a text that are no addresses of the web."""
    return {target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_documents_link_to_are_there(document: Path) -> None:
    targets = linked_in(document.read_text(encoding="utf-8"))
    assert not {target for target in targets if not (document.parent / target).exists()}


def test_links_are_found() -> None:
    assert linked_in("[a](nowhere.md#part) [b](https://example.org)") == {"nowhere.md"}


@pytest.mark.parametrize("page", OF_READERS, ids=lambda path: path.name)
def test_a_page_begins_with_a_command_or_a_picture(page: Path) -> None:
    title, *lines = page.read_text(encoding="utf-8").splitlines()[:BEGINNING]
    assert title.startswith("# ")
    assert begins_with_something_to_see("\n".join(lines))


def begins_with_something_to_see(text: str) -> bool:
    """Check for a command in a block or a row of a table, or for a picture."""
    return re.search(r"^(```(ba)?sh.*\n.|\| `|!\[)", text, re.MULTILINE) is not None


def test_a_page_that_begins_with_words_is_found() -> None:
    assert not begins_with_something_to_see("What `fedkme` is.\n\n| a | b |\n|---|---|\n```text\nwords\n```")
    assert begins_with_something_to_see("```bash\nfedkme plan digits\n```")


def test_pages_have_few_words() -> None:
    # Issue 34, item 10: "docs/: 92,000 words become at most 40,000"; the reference is generated.
    words = {path: len(path.read_text(encoding="utf-8").split()) for path in PAGES}
    assert sum(many for path, many in words.items() if path.parent.name != "reference") <= MOST_WORDS


def test_the_page_of_concepts_has_the_table_of_protocols() -> None:
    # Issue 11: "protocols in a table that agrees with fedkme/protocols.py".
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \| .* \|$", text, re.MULTILINE)
    others = {*registered(AUCTIONS), *registered(RELEASES)}
    assert dict(rows) == {name: row.title for name, row in PROTOCOLS.items() if row.base not in others}


def test_code_in_the_page_on_extensions_is_part_of_files_that_tests_run() -> None:
    page = ROOT / "docs" / "extending.md"
    found = [*blocks(page, "python"), *blocks(page, "toml")]
    assert len(found) == 9
    for block in found:
        name, _, code = block.removeprefix("# ").partition("\n")
        assert code.strip() in (ROOT / name).read_text(encoding="utf-8"), name


def test_additions_stand_in_as_many_files_as_the_page_on_extensions_says() -> None:
    # An auction 2 files, a release method 3, a question 5; simulations and tests apart.
    for words, files in (
        ("WinnerOnlySettings|winner_only:", {"curator/summary/auctions/base.py", "fedkme/protocols.py"}),
        (
            "MarginalsSettings|methods.marginals:",
            {"curator/releases/methods/marginals.py", "fedkme/protocols.py", "fedkme/releases/settings.py"},
        ),
        (
            r'\bDrawRows\b|(?m:^message Draw\b)|\(\{"draw"\}\)',
            {
                "fedkme/directives.py",
                "fedkme/protocols.py",
                "protos/fedkme/v1/owners.proto",
                "owner/summary/handler.py",
                "curator/owners/session.py",
            },
        ),
    ):
        naming = {
            str(path.relative_to(ROOT))
            for package in ("fedkme", "curator", "owner", "consumer", "protos")
            for path in (ROOT / package).rglob("*.p*")
            if path.suffix in (".py", ".proto")
            if re.search(words, path.read_text(encoding="utf-8"))
        }
        assert naming == files


@pytest.mark.parametrize("command", commands())
def test_commands_of_the_readme_exist(command: str) -> None:
    verb, *words = shlex.split(command)[1:]
    found: Any = typer.main.get_command(_load(verb))
    while below := subcommands(found):
        found = below[words.pop(0)]
    options = {name for parameter in found.params for name in parameter.opts}
    taken = found.context_settings.get("ignore_unknown_options", False)
    assert taken or {word for word in words if word.startswith("--")} <= options


@pytest.mark.long
def test_the_readme_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # CONVENTIONS, Habits: "README code blocks are executed by a test": those that need no other process.
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    smaller = "--set p=10 --set downstream=false --set 'baselines=[]'"
    for line in commands():
        if line.startswith("fedkme plan"):
            typed = line
        elif line.startswith("fedkme sim run"):
            typed = f"{line} {smaller}" if "inprocess" in line else f"{line} --engine inprocess {smaller}"
        elif line.startswith(("fedkme audit ledger", "fedkme schema", "fedkme release", "fedkme ask")):
            typed = line  # issue 11: no data but those of the repository
        else:
            continue
        monkeypatch.setattr("sys.argv", shlex.split(typed))
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, typed
    output = capfd.readouterr().out
    assert "take " in output
    assert "report:" in output
    assert "Epsilon (inf: no bound)" in output
    (notebook,) = blocks(README, "python")
    names: dict[str, Any] = {}
    exec(notebook, names)
    assert len(names["run"].weights) == len(names["run"].weighted)


def test_the_readme_can_be_read_in_minutes() -> None:
    # Issue 37, item 1: at most 120 lines; what you have, what you get, what others see in the first twenty.
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    first = "\n".join(lines[:20])
    assert all(words in first for words in ("You have", "You get", "The others see", "summary.csv"))


def test_variables_of_the_environment_that_commands_want_are_explained() -> None:
    # Issue 37: a first command ended with "FEDKME_DATA is not set", which no document explained.
    assert "export FEDKME_DATA=" in (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
