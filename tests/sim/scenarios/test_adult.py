"""The shipped Adult scenario's public schema."""

from __future__ import annotations

import numpy as np

from sim.scenarios.adult import GAINS, public_schema
from sim.scenarios.base import domain


def test_gains_of_zero_stand_apart_and_nothing_else_differs_from_the_experiments_domain() -> None:
    # Decision 019: most gains are 0, and columns that a release made were off by .9 without an atom there.
    schema, plain = public_schema(), domain("adult")
    changed = {
        ours.name for ours, theirs in zip(schema.columns, plain.columns, strict=True) if ours != theirs
    }
    assert changed == set(GAINS)
    place = [column.name for column in schema.columns].index("capital-gain")
    rows = np.tile(
        np.array([column.bounds[0] if column.kind == "numeric" else 0 for column in schema.columns]), (3, 1)
    )
    rows[:, place] = 0, 100, 7_000
    zero, small, large = (np.asarray(schema.encode(row[None]), np.float64) for row in rows)
    assert ((zero - small) ** 2).sum() >= 1
    assert 0.05 < ((small - large) ** 2).sum() < ((zero - large) ** 2).sum()
    zero, small, large = (np.asarray(plain.encode(row[None]), np.float64) for row in rows)
    assert ((zero - large) ** 2).sum() < 0.01
