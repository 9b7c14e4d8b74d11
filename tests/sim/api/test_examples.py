"""Each public name shows a call in its docstring, and the call does what stands there."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import fedkme as fk
from tests.places import ROOT

NAMES = sorted(set(fk.__all__) - {"__version__"})


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_name_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Issue 37, item 6: "API examples in docstrings run as doctests".
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    examples = doctest.DocTestFinder(recurse=False).find(
        getattr(fk, name), name, globs={name: getattr(fk, name)}
    )
    (example,) = examples
    calls = [each for each in example.examples if doctest.SKIP not in each.options]
    assert calls, "the docstring shows no call"
    lines: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example, out=lines.append).failed == 0, "".join(lines)
