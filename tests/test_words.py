"""Words of the code: docstrings that begin with what a thing is or does, and names that are no metaphors."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import ROOT, tree

PACKAGES = ("audit", "consumer", "curator", "fedkme", "lab", "operate", "owner", "sim", "tests", "tools")
GENERATED = ROOT / "fedkme" / "wire" / "v1"

OPENINGS = """
    what who whom whose whether which how why where when while if that those these whatever whoever it its
    everything everybody everyone anything anybody nothing nobody something somebody none another others
    of for as see likewise also so not more than by from with without to in on at under
"""
"""Words that a docstring does not begin with: it says first what the thing is, or what it does."""

METAPHORS = "office desk filler pooler reception voice watcher meter conductor introductions"
"""Words that no name has: HOUSE.md says the plain ones."""

_OPENINGS, _METAPHORS = frozenset(OPENINGS.split()), frozenset(METAPHORS.split())
_BODIES = ("body", "orelse", "handlers", "finalbody", "cases")
"""Parts of a statement in which statements are: expressions, most of a tree, have no docstrings."""
_AS_PARTS = {w: re.compile(f"(?<![a-z]){w}|{w.capitalize()}") for w in METAPHORS.split()}
"""Text that may be a part of a name; its search takes long where a plain one finds nothing."""
_NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def files() -> Iterator[Path]:
    """Every module that is written by hand."""
    for package in PACKAGES:
        yield from (path for path in sorted((ROOT / package).rglob("*.py")) if GENERATED not in path.parents)


def is_riddle(docstring: str) -> bool:
    """Check whether a docstring begins with neither a noun nor a verb."""
    docstring = docstring.lstrip().partition("\n")[0]
    words = re.findall(r"[\w'-]+", docstring.lower())[:2]
    if not words or not re.match(r"\w", docstring):
        return False  # a formula or a name in backticks
    bare = words[0] in {"before", "after"} and re.match(r"\w+[.,:]", docstring) is not None
    return words[0] in _OPENINGS or words == ["the", "same"] or bare


def docstrings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings with their lines: of modules, classes and functions, and of attributes below these."""
    if isinstance(node, (ast.Module, *_NAMED)) and (docstring := ast.get_docstring(node, clean=False)):
        yield getattr(node, "lineno", 1), docstring
    for body in (getattr(node, part, ()) for part in _BODIES):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            for attribute, below in itertools.pairwise(body):
                match attribute, below:
                    case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(docstring))):
                        yield below.lineno, docstring
        for statement in body:
            yield from docstrings(statement)


def test_docstrings_of_attributes_are_read() -> None:
    source = 'FAIR = 3.0\n"""The same of a fair one."""\nclass A:\n    name: str\n    """Of it."""\n'
    assert [docstring for _, docstring in docstrings(ast.parse(source))] == [
        "The same of a fair one.",
        "Of it.",
    ]


@pytest.mark.parametrize(
    "docstring",
    [
        "Those of another run.",
        "How many of how many.",
        "See `Stream`.",
        "The same for D_v.",
        "Before, or after.",
    ],
)
def test_riddles_are_found(docstring: str) -> None:
    assert is_riddle(docstring)


@pytest.mark.parametrize(
    "docstring",
    ["Rows of another run.", "Count of rows.", "`fedkme audit`: verbs.", "Before-image of a row."],
)
def test_plain_words_are_let_through(docstring: str) -> None:
    assert not is_riddle(docstring)


def names(module: ast.AST) -> Iterator[str]:
    """Names that a module gives: of classes, functions, parameters, variables and attributes."""
    for node in ast.walk(module):
        if isinstance(node, _NAMED):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


@functools.cache
def is_metaphor(name: str) -> bool:
    """Check whether a part of a name is one of the words that no name has."""
    return any(p.lower().rstrip("s") in _METAPHORS for p in re.findall(r"[A-Z]?[a-z]+", name))


def test_docstrings_begin_with_what_a_thing_is_or_does_and_names_are_no_metaphors() -> None:
    assert is_metaphor("FillerDesk")
    wrong: list[str] = []
    for path in files():
        module, place = tree(path), path.relative_to(ROOT)
        wrong += (
            f"{place}:{line}: {docstring.lstrip().splitlines()[0]}"
            for line, docstring in docstrings(module)
            if is_riddle(docstring)
        )
        text = f"{path.stem} {path.read_text(encoding='utf-8')}"
        if any(part[1:] in text and pattern.search(text) for part, pattern in _AS_PARTS.items()):
            wrong += (f"{place}: {name}" for name in {*names(module), path.stem} if is_metaphor(name))
    assert not wrong, "\n".join(wrong)
