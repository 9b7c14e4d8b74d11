"""Degree and threshold of the graph meet the conditions of the proof for n, D and T."""

from __future__ import annotations

import hashlib
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from fedkme.errors import ConfigError
from fedkme.secagg import neighbours
from fedkme.secagg.graph import Graph
from fedkme.secagg.neighbours import Neighbours, is_connected, offsets, plan_neighbours
from fedkme.secagg.parameters import least_threshold, sharing
from tests.fedkme.secagg.runs import parameters

SIZES = [
    (100, 5, 5),
    (100, 0, 0),
    (150, 30, 0),
    (200, 20, 10),
    (1000, 100, 50),
    (1000, 0, 100),
    (3000, 300, 0),
]


def planned(owners: int, dropouts: int, colluders: int) -> Neighbours:
    plan = plan_neighbours(owners, dropouts, colluders)
    assert plan is not None
    return plan


def tail(owners: int, marked: int, drawn: int, over: int) -> Fraction:
    """P[HG > over]."""
    ways = [
        math.comb(marked, x) * math.comb(owners - marked, drawn - x)
        for x in range(max(0, over + 1), drawn + 1)
    ]
    return Fraction(sum(ways), math.comb(owners, drawn))


def matrix(owners: int, degree: int) -> NDArray[np.float64]:
    edges = np.zeros((owners, owners))
    for place, distance in itertools.product(range(owners), offsets(owners, degree)):
        edges[place, (place + distance) % owners] = edges[place, (place - distance) % owners] = 1.0
    return edges


@pytest.mark.parametrize(("owners", "dropouts", "colluders"), SIZES)
def test_a_plan_meets_the_four_conditions_of_its_proof(owners: int, dropouts: int, colluders: int) -> None:
    plan = planned(owners, dropouts, colluders)
    k, t, tau = plan.degree, plan.threshold, plan.colluders
    q, d = k + 1, k + 1 - t
    around = owners * tail(owners - 1, colluders, k, tau) + tail(owners, colluders, q, tau)
    assert around <= Fraction(1, 2**120)
    assert not tau or owners * tail(owners - 1, colluders, k, tau - 1) * 2 > Fraction(1, 2**120)
    lost = owners * tail(owners - 1, dropouts, k, d - 1) + tail(owners, dropouts, q, d)
    assert not dropouts or lost <= Fraction(1, 2**40)
    assert 2 * t > q + tau
    assert owners > 2 * dropouts + colluders
    if owners > 1000:
        return
    # Condition 4, checked over all sizes of sets and numbers of survivors, by eigenvalues of the matrix.
    values = np.linalg.eigvalsh(matrix(owners, k))[:-1]
    above, largest, least = values.max(), np.abs(values).max(), t - 1 - tau
    for survivors in range(owners - dropouts - colluders, owners + 1):
        sizes = np.arange(1, survivors // 2 + 1)
        dense = least <= k * sizes / owners + above * (1 - sizes / owners)
        pairs = sizes * (survivors - sizes)
        apart = pairs / (owners * (owners - survivors) + pairs) <= (largest / k) ** 2
        assert not np.any(dense & apart)


def test_the_degree_is_small_and_no_smaller_degree_meets_the_conditions() -> None:
    assert planned(1000, 100, 50).degree < 160
    assert planned(1000, 100, 0).degree < 80
    assert planned(10_000, 1000, 500).degree < 220
    for degree in range(4, 64, 2):
        better = neighbours._plan(200, 20, 10, degree)
        assert (better is None) == (degree < planned(200, 20, 10).degree)


@pytest.mark.parametrize(("owners", "dropouts", "colluders"), [(99, 0, 0), (100, 45, 10), (120, 40, 30)])
def test_all_share_with_all_where_a_graph_saves_nothing(owners: int, dropouts: int, colluders: int) -> None:
    assert sharing(owners, dropouts, colluders) == (0, least_threshold(owners, colluders))


def test_arcs_as_neighbours_are_refused_since_two_arcs_of_lost_owners_cut_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Planted fault: Harary's graph, which Bell et al. take where the curator does what it should.
    owners, degree = 1000, 60
    least, honest = 30, 900
    assert is_connected(owners, degree, least, honest)
    monkeypatch.setattr(neighbours, "offsets", lambda owners, degree: tuple(range(1, degree // 2 + 1)))
    assert not is_connected(owners, degree, least, honest)
    # It splits: 30 lost owners at 0 and 30 at 500 leave two parts, whose members have 30 neighbours or more.
    survivors = [place for place in range(owners) if place % 500 >= degree // 2]
    reached, ahead = {survivors[0]}, [survivors[0]]
    while ahead:
        place = ahead.pop()
        for step in (*range(-30, 0), *range(1, 31)):
            other = (place + step) % owners
            if other % 500 >= 30 and other not in reached:
                reached.add(other)
                ahead.append(other)
    assert len(reached) == len(survivors) / 2


@pytest.mark.parametrize("seed", range(3))
def test_no_choice_of_lost_owners_that_was_tried_cuts_the_graph(seed: int) -> None:
    # Attack: around a few places all neighbours are lost but the least number that owners demand, then
    # others.
    owners, dropouts = 300, 30
    plan = planned(owners, dropouts, 0)
    joined = matrix(owners, plan.degree) > 0
    rng = np.random.default_rng(seed)
    survivors = np.ones(owners, dtype=bool)
    for place in rng.permutation(owners):
        around = np.flatnonzero(joined[place] & survivors)
        spare = min(len(around) - (plan.threshold - 1), dropouts - int((~survivors).sum()))
        survivors[rng.permutation(around)[: max(0, spare)]] = False
    assert (~survivors).sum() == dropouts
    demanded = survivors & (joined[:, survivors].sum(axis=1) >= plan.threshold - 1)
    reached = np.zeros(owners, dtype=bool)
    reached[np.flatnonzero(demanded)[0]] = True
    for _ in range(owners):
        reached |= survivors & joined[:, reached].any(axis=1)
    assert reached[demanded].all()


def test_parameters_take_no_other_degree_or_threshold_than_the_plan() -> None:
    degree, threshold = sharing(100, 5, 5)
    for other in ((degree - 2, threshold), (degree, threshold - 1), (degree + 2, threshold)):
        with pytest.raises(ConfigError, match="which this release does not plan for 100 owners"):
            parameters(100, 5, 5, neighbours=other[0], threshold=other[1])
    with pytest.raises(ConfigError, match="it must exceed"):  # what an older owner says, who knows no degree
        parameters(100, 5, 5, threshold=threshold)


def test_the_context_of_parameters_without_neighbours_never_changes() -> None:
    # The context of the release before neighbours existed; signatures and keys are bound to it.
    assert parameters(100, 5, 5).context.hex().startswith("68fd8a9033c9ad97bf759fea00ed98e7")


def test_owners_are_ordered_by_hashes_and_circles_are_regular() -> None:
    degree, threshold = sharing(100, 5, 5)
    agreed = parameters(100, 5, 5, neighbours=degree, threshold=threshold)
    graph, other = Graph(agreed, b"root"), Graph(agreed, b"another")
    circles = {name: set(graph.circle(name)) for name in agreed.owners}
    assert {len(circle) for circle in circles.values()} == {degree + 1}
    assert all((a in circles[b]) == (b in circles[a]) for a, b in itertools.combinations(agreed.owners, 2))
    assert len(graph.committee) == degree + 1
    shared = [len(circles[name] & set(other.circle(name))) for name in agreed.owners]
    assert max(shared) < degree / 1.5
    framed = b"".join(len(p).to_bytes(8, "big") + p for p in (b"fedkme secagg order", b"root", b"o007"))
    draws = {name: hashlib.sha256(framed[:-4] + name.encode()).digest() for name in agreed.owners}
    assert list(graph._order) == sorted(agreed.owners, key=draws.__getitem__)


def test_the_smallest_circle_is_counted() -> None:
    degree, threshold = sharing(100, 5, 5)
    graph = Graph(parameters(100, 5, 5, neighbours=degree, threshold=threshold), b"root")
    names = graph._owners
    for gone in (set(names[3:8]), set(graph.circle(names[0])) - {names[0]}):
        survivors = frozenset(names) - gone
        assert graph.fewest(survivors) == min(
            len(survivors.intersection(graph.circle(name))) for name in survivors
        )
    assert graph.fewest(survivors) == 1
