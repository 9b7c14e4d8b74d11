"""Errors of wrong arguments in a notebook: one line that says it in the words of the call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkme as fk
from tests.sim.api.frames import SCHEMA, SMALL, owners, people


def summary(**changed: Any) -> Any:
    """A summary of three small owners, but for what is changed."""
    asked: dict[str, Any] = (
        {"owners": owners(), "validation": people(40, 9), "rows": 12, "schema": SCHEMA} | SMALL | changed
    )
    return fk.summarize(**asked)


def release(**changed: Any) -> Any:
    """A release of them, but for what is changed."""
    asked: dict[str, Any] = {"owners": owners(), "schema": SCHEMA, "progress": False} | changed
    return fk.release(**asked)


def match(**changed: Any) -> Any:
    """Rows for a target, of a release that is not there."""
    given: dict[str, Any] = {"release": "none", "validation": people(40, 9), "progress": False} | changed
    return fk.match(**given)


def sweep(grid: Any) -> Any:
    """A sweep over a grid."""
    return fk.sweep("digits", grid, progress=False)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "owners of numbers": (lambda: summary(owners=dict(enumerate(owners().values()))), "0 is no owner's name"),
    "a name of data": (lambda: fk.release("digits", progress=False), "there are no owners"),
    "no D_v": (lambda: summary(validation=None), "Give validation="),
    "an empty D_v": (lambda: summary(validation=people(40, 9)[:0]), "validation has no rows"),
    "owners without rows": (lambda: summary(owners={"a": people(3, 1)[:0]}), "the owners have no rows"),
    "rows below 1": (lambda: summary(rows=-1), "fedkme.summarize: 'rows' is wrong"),
    "epsilon of a summary": (lambda: summary(epsilon=0), "'epsilon' is wrong"),
    "epsilon without end": (lambda: summary(epsilon=float("inf")), "'epsilon' is wrong: it is not finite"),
    "more rows than there are": (lambda: summary(rows=10**6), "Ask for at most"),
    "a short word": (lambda: summary(eps=1), "'eps' is not a key. Did you mean 'epsilon'?"),
    "a short word of a release": (lambda: release(eps=1), "'eps' is not a key. Did you mean 'epsilon'?"),
    "a key of a table": (lambda: summary(asks=0), "'asks' is wrong"),
    "a policy of nobody": (lambda: summary(policies={"nrth": {"most_rows": 3}}), "no owner is called so"),
    "a policy of nobody in a release": (lambda: release(policies={"x": {}}), "policies' names 'x', and"),
    "a key below a key": (lambda: summary(kernel={"gamma": "x"}), "'kernel.gamma' is wrong"),
    "a key of a release": (lambda: release(copies=-1), "'copies' is wrong"),
    "what follows from an epsilon": (
        lambda: summary(epsilon=1e-9),
        "privacy.epsilon = 1e-09 at delta 1e-05 is too small to be shared by the parts of a summary",
    ),
    "a limit with thirty digits": (lambda: release(delta=0), "greater than or equal to 1e-30. Correct"),
    "epsilon of a release": (lambda: release(epsilon=-2), "fedkme.release: 'epsilon' is wrong"),
    "method": (lambda: release(method="mst"), "'method' is wrong: 'mst' is no method"),
    "task": (lambda: release(task="regress"), "'regress' is no task"),
    "one baseline": (lambda: summary(seed=1, baselines="uniform"), "baselines is a list: ['uniform']"),
    "a folder that is not empty": (lambda: summary(out=Path(__file__).parent), "Choose another out"),
    "frames to simulate": (lambda: fk.simulate(owners()), "Frames are for fk.summarize"),  # type: ignore[arg-type]
    "a grid that is a list": (lambda: sweep([50]), "the grid is no dict"),
    "a grid of numbers": (lambda: sweep({"p": 3}), "'p' has no list of values"),
    "a folder that is a number": (lambda: fk.load(3), "a value of type int is no folder"),  # type: ignore[arg-type]
    "a folder of runs": (lambda: fk.load(Path(__file__).parent), "is no folder of a run or a sweep"),
    "a selection of none": (lambda: fk.select(np.eye(3), 0), "0 rows was asked for"),
    "a selection of text": (lambda: fk.select("rows.csv", 3), "rows are neither"),  # type: ignore[arg-type]
    "a selection of a line": (lambda: fk.select(np.arange(5.0), 3), "rows are neither"),
    "a selection of gaps": (lambda: fk.select(np.full((5, 2), np.nan), 3), "not finite"),
    "a draft of nothing": (lambda: fk.draft_schema(None), "neither a data frame nor"),
    "a selection of half a row": (lambda: fk.select(np.eye(3), 1.5), "'p' is wrong"),  # type: ignore[arg-type]
    "a selection by no kernel": (lambda: fk.select(np.eye(3), 1, gamma=-1.0), "'gamma' is wrong"),
    "an epsilon of moments": (
        lambda: release(method="moments", epsilon=1e-6),
        "too small to be shared by two",
    ),
    "a schema that is a number": (lambda: summary(schema=3), "a value of type int is no schema"),
    "rows for a folder": (lambda: fk.load(people(3, 1)), "of type DataFrame is no folder"),  # type: ignore[arg-type]
    "an out of a match": (lambda: match(out=3), "a value of type int is no folder"),
    "rows of a match": (lambda: match(rows=-1), "fedkme.match: 'rows' is wrong"),
    "half a row of a match": (lambda: match(rows=2.5), "'rows' is wrong: it is no whole number"),
    "a draw of a match": (lambda: match(draw="x"), "'draw' is wrong"),
    "a kernel of a match": (lambda: match(gamma=0), "'gamma' is wrong"),
    "a kernel without end": (lambda: match(gamma=float("nan")), "'gamma' is wrong: it is not finite"),
    "a consumer of a schema": (
        lambda: fk.Consumer(Path("examples/own-files/schema.toml")).last(),
        "is not a key",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_line_says_what_is_wrong(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call, words = WRONG[name]
    if name != "a consumer of a schema":
        monkeypatch.chdir(tmp_path)
    with pytest.raises(fk.FedkmeError) as refused:
        call()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_owners_may_be_groups_of_a_frame(tmp_path: Path) -> None:
    # dict(tuple(frame.groupby("hospital"))) has numbers for names where the column has numbers
    rows = pd.concat([frame.assign(hospital=f"h{at}") for at, frame in enumerate(owners().values())])
    groups = {str(name): part.drop(columns="hospital") for name, part in rows.groupby("hospital")}
    assert len(summary(owners=groups, out=tmp_path / "run").rows) == 12


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> fk.ReleaseResult:
    out = tmp_path_factory.mktemp("made")
    result: fk.ReleaseResult = release(method="moments", epsilon=50, seed=1, out=out)
    return result


NO_QUESTIONS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "error 15 (question): a question is neither text nor a function"),
    "bytes": (b"count()", "neither text nor"),
    "a list of numbers": ([1], "neither text nor"),
    "a frame's worth": (lambda rows: rows, "no number for each row"),
    "text for each row": (lambda rows: rows.iloc[:, 0].astype(str) + "x", "no number for each row"),
    "one text": (lambda rows: "x", "no number for each row"),
    "names": (lambda rows: rows.select_dtypes("category").iloc[:, 0], "no number for each row"),
}


@pytest.mark.parametrize("name", NO_QUESTIONS)
def test_one_line_says_what_is_no_question(name: str, made: fk.ReleaseResult) -> None:
    question, words = NO_QUESTIONS[name]
    with pytest.raises(fk.FedkmeError) as refused:
        made.ask(question)
    assert words in str(refused.value)
    with pytest.raises(fk.FedkmeError, match="is no release"):
        made.distance(3)  # type: ignore[arg-type]
