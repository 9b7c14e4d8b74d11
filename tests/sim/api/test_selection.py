"""`fk.select`: of a data frame, of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkme as fk
from tests.sim.api.frames import SCHEMA, people


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_rows_of_a_frame_are_the_callers_own(schema: dict[str, Any] | None) -> None:
    frame = people(120, 4).set_index(np.arange(1000, 1120))
    selection = fk.select(frame, 10, schema=schema)
    for part in (selection.rows, selection.weighted):
        assert len(part) == 10
        assert part.equals(frame.loc[part.index])
    assert list(selection.weights.index) == list(selection.weighted.index)
    assert selection.weights.sum() == pytest.approx(1.0)
    assert 0 < selection.weighted_mmd2 < selection.mmd2


def test_rows_of_an_array() -> None:
    data = np.random.default_rng(0).normal(size=(200, 3))
    selection = fk.select(data, 5, gamma=0.5)
    assert np.array_equal(selection.rows.to_numpy(), data[selection.rows.index])
    assert selection.gamma == 0.5


def test_too_many_rows_are_refused() -> None:
    with pytest.raises(fk.FedkmeError, match="there are 3"):
        fk.select(np.eye(3), 4)
