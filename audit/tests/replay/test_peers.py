"""Replay of other people's releases: a release of each kind of fault, and the reports."""

from __future__ import annotations

import ast
import random
import re
import secrets
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from audit.peers.frozen import replay_release
from fedkme.errors import AuditError, ConfigError, DataError
from operate.audit_cli import app
from tests.places import ROOT

REPORTS = sorted(
    path for path in (ROOT / "audit" / "peers" / "reports").glob("*.py") if path.stem != "__init__"
)


class Laplace:
    """Mechanism of a made-up peer."""

    sensitivity = 1.0

    def randomise(self, value: float) -> float:
        return value + secrets.SystemRandom().expovariate(1.0) - secrets.SystemRandom().expovariate(1.0)


class Counter(Laplace):
    """Mechanism that returns nothing and keeps its count."""

    def count(self, rows: list[float]) -> None:
        self.counted = self.randomise(sum(rows))


class Seeded(Laplace):
    """Mechanism whose noise anybody can draw again."""

    def randomise(self, value: float) -> float:
        return value + float(np.random.default_rng(0).laplace())


ROWS, NEIGHBOUR = [0.0, 1.0, 1.0], [0.0, 1.0, 0.0]
RANDOMISE = f"{__name__}:Laplace.randomise#sensitivity"


def sound(rows: list[float]) -> Any:
    noisy = Laplace().randomise(sum(rows))
    made = [random.random(), float(np.random.default_rng().normal()), secrets.token_bytes(4)]
    return [noisy, *made, {"round": {round(noisy)}}]


def counted(rows: list[float]) -> Any:
    counter = Counter()
    counter.count(rows)
    return counter.counted


def test_a_sound_release_passes_whatever_it_draws_afterwards() -> None:
    assert replay_release(sound, ROWS, NEIGHBOUR, [RANDOMISE]) == (1, [])
    assert replay_release(counted, ROWS, NEIGHBOUR, [f"{__name__}:Counter.count"]) == (1, [])


def test_a_call_around_others_is_run() -> None:
    declared = [f"{__name__}:Counter.count", RANDOMISE]
    assert replay_release(counted, ROWS, NEIGHBOUR, declared) == (2, [])
    (finding,) = replay_release(lambda rows: [counted(rows), len(set(rows[1:]))], ROWS, NEIGHBOUR, declared)[
        1
    ]
    assert "[1] '1', then '2'" in finding


@pytest.mark.parametrize(
    ("release", "says"),
    [
        (
            lambda rows: [Laplace().randomise(sum(rows)), {"most": max(rows[1:]) + rows[2]}],
            "[1].most '2.0', then '1.0'",
        ),
        (lambda rows: [Laplace().randomise(row) for row in rows if row], "2 calls of declared mechanisms, 1"),
        (lambda rows: Laplace().randomise(5 * sum(rows)), "moved by 5, claimed 1"),
        (lambda rows: Laplace().randomise(1.0) if rows[2] else 1 / 0, "then 'an end by ZeroDivisionError'"),
    ],
)
def test_a_release_that_tells_more_is_found(release: Any, says: str) -> None:
    assert any(says in finding for finding in replay_release(release, ROWS, NEIGHBOUR, [RANDOMISE])[1])


def test_a_fixed_seed_is_found() -> None:
    finding = replay_release(
        lambda rows: Seeded().randomise(sum(rows)), ROWS, NEIGHBOUR, [f"{__name__}:Seeded.randomise"]
    )
    assert finding == (1, ["three runs get the same noise: its seed is fixed"])


def test_what_is_not_frozen_is_no_proof() -> None:
    count = iter(range(100))
    with pytest.raises(RuntimeError, match="something draws that is not declared"):
        replay_release(lambda rows: next(count), ROWS, NEIGHBOUR, [])


FILE = """
import secrets
class Peer:
    def noisy(self, number): return number + secrets.randbelow(1000)
import sys; sys.modules["peer"] = type(sys)("peer"); sys.modules["peer"].Peer = Peer
DECLARED, ROWS, NEIGHBOUR = ["peer:Peer.noisy"], [1, 2], [1, 3]
def release(rows): return [Peer().noisy(sum(rows)), {}]
"""


def test_the_verb_replays_a_file_by_an_interpreter(tmp_path: Path) -> None:
    (file := tmp_path / "peer_of_ours.py").write_text(FILE.format("len(rows)"), encoding="utf-8")
    arguments = ["replay", str(file), "--python", sys.executable]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    file.write_text(FILE.format("max(rows)"), encoding="utf-8")
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, AuditError)
    assert "UNDECLARED peer_of_ours.py" in result.output
    file.write_text("import a_peer_that_is_not_there", encoding="utf-8")
    assert isinstance(CliRunner().invoke(app, arguments).exception, DataError)
    assert isinstance(CliRunner().invoke(app, [*arguments[:3], str(tmp_path / "none")]).exception, DataError)
    assert isinstance(
        CliRunner().invoke(app, ["replay", "cells", *arguments[2:3], "x"]).exception, ConfigError
    )


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_report_says_what_its_maintainers_need_in_forty_lines(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) or ""
    assert len(text.splitlines()) <= 40
    assert all(f"\n{word}: " in said for word in ("Run", "Expected", "Seen", "Why", "Remedy"))
    assert re.search(r"==[\d.]+", said)
    assert path.stem in said
    assert {"DECLARED", "ROWS", "NEIGHBOUR", "def release(rows)"} <= set(
        re.findall(r"^(?:DECLARED|ROWS|NEIGHBOUR|def release\(rows\))", text, re.MULTILINE)
    )
    peer = re.search(r"install '?([\w\[\]-]+)==([\d.]+)", said)
    assert peer is not None
    assert f"{peer[1]} {peer[2]}".lower() in (ROOT / "docs" / "peers.md").read_text(encoding="utf-8").lower()
