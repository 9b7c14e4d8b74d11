"""Width of the kernel from the public schema (docs/decisions/008)."""

from __future__ import annotations

import numpy as np
import pytest

from fedkme.embeddings.kernels import CLOSER, domain_gamma
from fedkme.errors import ConfigError
from fedkme.tables.schema import Category, Numeric, Schema

PEOPLE = Schema(
    columns=(
        Numeric(name="age", bounds=(20, 120)),
        Category(name="job", categories=("clerk", "cook", "doctor", "pilot", "priest")),
        Numeric(name="pixel", bounds=(0, 255), count=3),
        Category(name="alive", categories=("yes",)),
    )
)


def test_the_mean_squared_distance_is_that_of_uniform_rows() -> None:
    # 20,000 independent pairs; the squared distance deviates by .5, so its mean by .004: six deviations.
    chance = np.random.default_rng(0)
    rows = np.column_stack(
        [
            chance.uniform(20, 120, 40_000),
            chance.integers(5, size=40_000),
            chance.uniform(0, 255, (40_000, 3)),
            np.zeros(40_000),
        ]
    )
    first, second = np.split(PEOPLE.encode(rows).astype(np.float64), 2)
    mean = float(((first - second) ** 2).sum(axis=1).mean())
    assert PEOPLE.mean_squared_distance == pytest.approx(4 / 6 + 4 / 5)
    assert mean == pytest.approx(PEOPLE.mean_squared_distance, abs=0.024)
    assert domain_gamma(PEOPLE.mean_squared_distance) == CLOSER / PEOPLE.mean_squared_distance


def test_a_domain_of_one_row_has_no_scale() -> None:
    with pytest.raises(ConfigError, match="all rows of this schema are equal"):
        domain_gamma(Schema(columns=(Category(name="alive", categories=("yes",)),)).mean_squared_distance)
