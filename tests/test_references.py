"""References to the tree, in docstrings, comments, strings and pages: dotted names, paths and decisions."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedkme.extensions import AUCTIONS, FEATURE_MAPS, MECHANISMS, RELEASES
from tests.places import ROOT, tree

PACKAGES = ("fedkme", "curator", "owner", "consumer", "sim", "operate", "audit", "lab", "tests", "tools")
FOLDERS = (*PACKAGES, "protos", "docs", "examples", "deploy")
GENERATED = ROOT / "fedkme" / "wire" / "v1"
NO_CODE = {
    **{str(group): "group of entry points" for group in (AUCTIONS, FEATURE_MAPS, MECHANISMS, RELEASES)},
    "fedkme.v1": "package of messages",
    "fedkme.bench.Echo": "service of a benchmark",
    "fedkme.ledger": "origin of a signed head",
    "fedkme.replay": "logger of a replay",
    "fedkme.schema_version": "table of a store",
    **dict.fromkeys(("lab.last", "lab.release", "lab.summary"), "variable of an example"),
    "curator.published": "end of a key of measurements",
    "curator.sound": "end of a key of measurements",
    "sim.folder": "variable of an example",
}
"""Dotted names that begin as ours do and are none of a module."""
NO_FILES = {
    "consumer/ledger.jsonl": "file in the folder of a run",
    "consumer/output": "folder of a consumer",
    "fedkme/v1": "folder below protos/, as protoc has it",
}
"""Paths that begin as ours do and are not in the repository."""

_FILE = re.compile(
    r"\.(toml|pem|py|jsonl?|heads|db|service|example|csv|parquet|npz|key|request|schema\.json)\b"
)
"""End of the name of a file of a party, or of its host's name."""
_DOTTED = re.compile(rf"(?<![\w/.@:{{-])(?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+")
_PATH = re.compile(rf"(?<![\w/.@:<>{{}}-])(?:{'|'.join(FOLDERS)})/[\w./-]*")
_PART = re.compile(r"`([\w/]+\.py)` \(`(\w+)`\)")
_DECISION = re.compile(r"\bdecisions? (\d{1,3})\b|\bdecisions/(\d{3})\b")


def stale(path: Path) -> Iterator[str]:
    """Stale references of a page, or of a module's texts, each with its line."""
    text = path.read_text(encoding="utf-8")
    lines = [*enumerate(text.splitlines(), 1)]
    if path.suffix == ".py" and any(any(stale_in(line)) for _, line in lines):
        lines = [*written_in(text, of_tests=path.is_relative_to(ROOT / "tests"))]
    for number, line in lines:
        yield from (f"{path.relative_to(ROOT)}:{number}: {name}" for name in stale_in(line))


def written_in(module: str, of_tests: bool) -> Iterator[tuple[int, str]]:
    """Lines of a module's comments and strings, without what f-strings compute.

    Of the strings of tests docstrings alone: others may name what is not there.
    """
    for token in tokenize.generate_tokens(io.StringIO(module).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "COMMENT" or (
            kind in ("STRING", "FSTRING_MIDDLE") and (not of_tests or token.string.startswith('"""'))
        ):
            bare = re.sub(r"\{[^{}]*\}", "{}", token.string)
            yield from enumerate(bare.splitlines(), token.start[0])


def files() -> Iterator[Path]:
    """Every module and page that is written by hand, but for the changelog, which tells of what is gone."""
    for folder in FOLDERS:
        for suffix in ("py", "md", "proto", "toml"):
            found = sorted((ROOT / folder).rglob(f"*.{suffix}"))
            yield from (path for path in found if GENERATED not in path.parents)
    yield from (path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md")


def names_in(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Names that statements give, with those in `if` and `try`, and attributes that methods set."""
    names: dict[str, ast.stmt] = {}
    for statement in body:
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names[name] = statement
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                names |= {alias.asname or alias.name: statement for alias in imported}
            case ast.If() | ast.Try() | ast.With():
                names |= names_in(statement.body)
            case _:
                stored = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
                names |= {each.id: statement for each in stored if isinstance(each.ctx, ast.Store)}
    return names


@functools.cache
def is_code(name: str) -> bool:
    """Check whether a dotted name is that of a package, a module, or of what a module gives."""
    parts, folder = name.split("."), ROOT
    for place, part in enumerate(parts):
        module, rest = folder / f"{part}.py", parts[place + 1 :]
        folder = folder / part
        if module.is_file():
            return not rest or gives(module, rest)
        if not folder.is_dir():
            return gives(folder.parent / "__init__.py", parts[place:])
    return True


def gives(module: Path, parts: list[str]) -> bool:
    """Check whether a module gives a name, or a class of it an attribute; further parts are not looked at."""
    written = next((path for path in (module.with_suffix(".pyi"), module) if path.is_file()), None)
    found = None if written is None else names_in(tree(written).body).get(parts[0])
    if not isinstance(found, ast.ClassDef) or len(parts) == 1 or found.bases:
        return found is not None
    set_in_methods = {each.attr for each in ast.walk(found) if isinstance(each, ast.Attribute)}
    return parts[1] in names_in(found.body) or parts[1] in set_in_methods


def is_path(path: str) -> bool:
    """Check whether a path is in the repository; of a decision the number is enough."""
    path = path.rstrip("/.-")
    if any(path == known or path.startswith(f"{known}/") for known in NO_FILES):
        return True
    return (ROOT / path).exists() or re.fullmatch(r"docs/decisions/\d{3}", path) is not None


def stale_in(text: str) -> Iterator[str]:
    """References of a line to what is not there."""
    for found in _DOTTED.finditer(text):
        name = found.group()
        known = any(name == each or name.startswith(f"{each}.") for each in NO_CODE)
        if not known and not _FILE.match(text, text.index(".", found.start())) and not is_code(name):
            yield name
    yield from (path for path in _PATH.findall(text) if not is_path(path))
    for module, name in _PART.findall(text):
        if (ROOT / module).is_file() and not re.search(rf"\b{name}\b", (ROOT / module).read_text("utf-8")):
            yield f"{module} ({name})"
    for number in (short or long for short, long in _DECISION.findall(text)):
        if not any((ROOT / "docs" / "decisions").glob(f"{int(number):03}-*.md")):
            yield f"decision {number}"


@pytest.mark.parametrize(
    "text",
    [
        "See `consumer.released.load_release`.",
        "fedkme.errors.NoSuchError",
        "fedkme.privacy.ledger.Ledger.no_such_verb",
        "held by `tests/pki`",
        "`curator/summary/task.py` (`no_such_verb`)",
        "docs/nowhere.md",
        "(docs/decisions/999)",
        "decision 999",
    ],
)
def test_a_stale_reference_is_found(text: str) -> None:
    assert [*stale_in(text)]


@pytest.mark.parametrize(
    "text",
    [
        "`fedkme.privacy.ledger.Ledger.extend` in fedkme/privacy/ledger.py, docs/decisions/010, decision 19.",
        "fedkme doctor owner.toml; curator.example.org; protos/fedkme/v1/owners.proto; `fedkme.v1.Owners`",
        "docs/*.md, tests/sim/{chaos,replay}, import fedkme as fk; fk.load(...)",
    ],
)
def test_a_reference_to_what_is_there_is_let_through(text: str) -> None:
    assert not [*stale_in(text)]


def test_no_text_names_a_module_a_path_or_a_decision_that_is_gone() -> None:
    # Issue 34, item 10: a card told users to import `consumer.released`, which was no module any more.
    found = [line for path in files() if path != Path(__file__) for line in stale(path)]
    assert not found, "\n".join(found)
