"""Graphs of few owners, for tests; real aggregations use a graph from 100 owners on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fedkme.secagg import neighbours
from fedkme.secagg.parameters import Parameters, sharing
from tests.fedkme.secagg.runs import parameters

DROPOUTS, COLLUDERS = 2, 1


@pytest.fixture
def graphs_from_20(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Plan graphs from 20 owners on."""
    neighbours.plan_neighbours.cache_clear()
    monkeypatch.setattr(neighbours, "GRAPH_FROM", 20)
    yield
    neighbours.plan_neighbours.cache_clear()


@pytest.fixture
def hasty_graphs(graphs_from_20: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow plans to fail with probability 1/4, so that D lost owners can be too many for one circle."""
    monkeypatch.setattr(neighbours, "FAILURE_BITS", 2)
    monkeypatch.setattr(neighbours, "TRIES_BITS", 0)


def on_a_graph(
    owners: int = 30, dropouts: int = DROPOUTS, colluders: int = COLLUDERS, **more: Any
) -> Parameters:
    degree, threshold = sharing(owners, dropouts, colluders)
    assert degree, "no graph is planned for these parameters"
    return parameters(owners, dropouts, colluders, neighbours=degree, threshold=threshold, **more)
