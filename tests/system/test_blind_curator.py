"""Sealed rows beside secure sums: a curator that learns of nobody's rows more than an epsilon allows.

Issue 6, items 1 and 2, together: histograms and the sketch reach the curator with owners' noise in them, and
rows go by in boxes that it cannot open.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.reconcile import verify
from fedkme.privacy.events import CURATOR, OWNERS
from sim.config import load_simulation
from sim.progress import Progress
from sim.run import simulate

SMALL = (
    "protocol=cells",
    "content=hashed",
    "security.dropouts=1",
    "scenario.copies=1",
    "scenario.owners=3",
    "p=20",
    "baselines=['uniform']",
    "downstream=false",
)


def run(out: Path, engine: str, *more: str) -> tuple[Path, dict[str, object]]:
    settings = load_simulation("digits", [*SMALL, *more, f"engine={engine}"])
    return simulate(settings, out, Progress(io.StringIO()))


def test_both_engines_end_in_the_same_bits_and_every_observer_but_the_consumer_has_an_epsilon(
    tmp_path: Path,
) -> None:
    found = {}
    for engine in ("inprocess", "processes"):
        directory, metrics = run(tmp_path / engine, engine)
        found[engine] = (directory / "consumer" / "summary.npz").read_bytes()
        statements = metrics["privacy"]
        assert isinstance(statements, list)
        for statement in statements:
            if statement["observer"] != "consumer":
                assert float(statement["epsilon"]) <= 1.0, statement
        lines = [
            line for line in read_ledgers([directory]).disclosures() if line.observer in (CURATOR, OWNERS)
        ]
        assert not [
            line for line in lines if line.event.kind in ("raw-rows", "exact-statistic", "hashed-rows")
        ]
        assert not [verdict for verdict in verify(directory) if verdict.fault]
        mmd2 = metrics["mmd2"]
        assert isinstance(mmd2, dict)
        assert mmd2["summary"] < mmd2["uniform"]
    assert found["inprocess"] == found["processes"]


def test_a_trusted_curator_has_none(tmp_path: Path) -> None:
    # The same search finds what secure sums take away, so that the test above can fail.
    settings = load_simulation("digits", [*SMALL[:2], *SMALL[3:], "engine=inprocess"])
    directory, metrics = simulate(settings, tmp_path / "run", Progress(io.StringIO()))
    lines = [line for line in read_ledgers([directory]).disclosures() if line.observer == CURATOR]
    assert [line for line in lines if line.event.kind == "exact-statistic"]
    assert any(s["observer"] == "curator" and s["epsilon"] == "inf" for s in metrics["privacy"])


@pytest.mark.parametrize("content", ["rows", "hashed"])
def test_secure_sums_change_nothing_but_the_noise(tmp_path: Path, content: str) -> None:
    directory, metrics = run(tmp_path / content, "inprocess", f"content={content}")
    assert metrics["status"] == "complete"
    assert (directory / "consumer" / "summary.npz").is_file()
