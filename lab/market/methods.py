"""Methods of MarketBench by the family that computes them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from fedkme.protocols import ALGORITHM3
from lab.market import rivals
from lab.market.pool import Chosen, PooledRows, SummaryQuestion
from lab.market.product import product


@dataclass(frozen=True, slots=True)
class MethodFamily:
    """Methods that one computation answers.

    Attributes:
        name: name of the family.
        choose: summaries by method.
        paced: true if rho makes a difference.
        private: true if epsilon makes a difference.
    """

    name: str
    choose: Callable[[PooledRows, SummaryQuestion], Mapping[str, Chosen]]
    paced: bool
    private: bool


CLOCK = "Algorithm 3, clock"
FAMILIES = (
    MethodFamily("ours", product, paced=True, private=True),
    MethodFamily(CLOCK, partial(product, protocol=ALGORITHM3, name=CLOCK), paced=False, private=True),
    MethodFamily("exact greedy", rivals.exact_greedy, paced=False, private=False),
    MethodFamily("uniform", rivals.uniform_rows, paced=True, private=False),
    MethodFamily("FedDP-KMeans cells", rivals.kmeans_cells, paced=True, private=True),
    MethodFamily("vendors by MMD", rivals.ranked_vendors, paced=True, private=False),
    MethodFamily("kernel thinning", rivals.thinned_pool, paced=True, private=False),
    MethodFamily("DAVED", rivals.experimental_design, paced=False, private=False),
    MethodFamily("ProtoDash", rivals.prototypes, paced=False, private=False),
)

OURS, OURS_EQUAL, GREEDY, FREE = "ours + weights", "ours + prune", "exact greedy", "uniform + weights"
"""Methods in the tables' comparisons."""

NEEDS: Mapping[str, str] = {
    "ours": "epsilon",
    CLOCK: "epsilon",
    "exact greedy": "every row in one place",
    "uniform": "nothing",
    "FedDP-KMeans cells": "epsilon",
    "vendors by MMD": "exact MMD of owners",
    "kernel thinning": "pool in one place",
    "DAVED": "every row in one place",
    "ProtoDash": "every row in one place",
}
"""Needs of a family from owners, beside the rows that are accessed."""
