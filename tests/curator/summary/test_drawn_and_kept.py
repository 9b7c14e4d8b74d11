"""`uniform_ratio`: rows are drawn at random and the consumer keeps the best; no owner learns which."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fedkme.tables.files import read_arrays
from sim.config import load_simulation
from sim.progress import Progress
from sim.run import simulate

SMALL = ("protocol=uniform", "scenario.copies=1", "scenario.owners=2", "p=20", "baselines=['uniform']")


@pytest.mark.parametrize("content", ["rows", "hashed"])
@pytest.mark.parametrize("engine", ["inprocess", "processes"])
def test_five_times_the_rows_are_drawn_and_the_best_kept(tmp_path: Path, engine: str, content: str) -> None:
    more = ("uniform_ratio=5", "downstream=false", f"engine={engine}", f"content={content}")
    settings = load_simulation("digits", [*SMALL, *more])
    directory, metrics = simulate(settings, tmp_path / "run", Progress(io.StringIO()))
    assert metrics["points_accessed"]["total"] == 100
    assert metrics["points_accessed"]["wasted"] == 80
    assert len(read_arrays(directory / "consumer" / "summary.npz", "test")["x"]) == 20
    assert metrics["mmd2"]["summary"] < metrics["mmd2"]["uniform"]
    towards_owners = [s for s in metrics["privacy"] if s["observer"] == "other owners"]
    assert [s["epsilon"] for s in towards_owners] == [0.0]


def test_uniform_draws_stop_at_the_owners_rows(tmp_path: Path) -> None:
    more = ("uniform_ratio=20", "p=100", "downstream=false", "engine=inprocess")
    settings = load_simulation("digits", [*SMALL, *more])
    _, metrics = simulate(settings, tmp_path / "run", Progress(io.StringIO()))
    assert metrics["status"] == "complete"
    assert metrics["points_accessed"]["total"] < 2000
