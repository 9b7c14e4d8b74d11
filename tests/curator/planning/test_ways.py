"""`fedkme plan` compares what a consumer can do before anything is spent (issue 40, A4)."""

from __future__ import annotations

import io

from rich.console import Console

from curator.planning.formulas import PublicFacts
from curator.planning.plan import make_plan
from curator.planning.ways import ways_of
from sim.plan_cli import show_ways

FACTS = PublicFacts(250, (1_000, 2_000), 100, 1.0, 1e-5)


def test_four_ways_in_five_lines() -> None:
    ways = ways_of(make_plan(FACTS))
    real, target, release, alone = ways
    assert (real.rows, target.rows, release.rows, alone.rows) == (200, 0, 0, 0)
    assert [way.owners_epsilon for way in ways] == [1.0, 1.0, 1.0, 0.0]
    assert [way.validation_epsilon for way in ways] == [1.0, 0.0, 0.0, 0.0]
    screen = Console(file=io.StringIO(), width=110)
    show_ways(ways, screen)
    assert isinstance(screen.file, io.StringIO)
    lines = screen.file.getvalue().rstrip().splitlines()
    assert len(lines) == 6  # five, and where the errors come from


def test_an_owner_that_lets_no_row_leave_is_named_before_anything_is_asked() -> None:
    (real, *others) = ways_of(make_plan(FACTS), ["north"])
    assert "refused by north" in real.use
    assert not any("refused" in way.use for way in others)


def test_uniform_rows_cost_no_epsilon() -> None:
    few = PublicFacts(3, (1_000, 2_000), 100, 0.1, 1e-5)
    real = ways_of(make_plan(few))[0]
    assert "uniform" in real.name
    assert (real.owners_epsilon, real.validation_epsilon) == (0.0, 0.0)
