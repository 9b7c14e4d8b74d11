"""Public rules in a model of marginals: cells that no row has (`fedkme.answers.rules`).

A rule adds a clique to the junction tree. A rule whose clique would make the tree too large, and a rule
without a table, is kept by drawing rows again alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curator.releases.marginals.model import Model, model_cells
from fedkme.answers.rules import RowRules
from fedkme.features.binning import Binning
from fedkme.features.counts import Clique

RULE_CELLS = 1 << 15
"""Most cells of a model of fixed pairs and rules: half of what the tables of the rounds may have."""


def start_with_zeros(
    rules: RowRules, binning: Binning, fixed_pairs: Sequence[Clique]
) -> tuple[Model | None, tuple[str, ...]]:
    """Make a model that has zeros alone; None without any. Rules that it does not have come with it, as text.

    Args:
        rules: rules of the schema.
        binning: coding of rows.
        fixed_pairs: pairs that the model will always have.
    """
    zeros, left = dict[Clique, NDArray[np.bool_]](), list[str]()
    for rule, clique, impossible in rules.impossible(binning):
        cliques = {*fixed_pairs, *zeros, clique}
        if impossible is None or impossible.all() or model_cells(binning.sizes, cliques) > RULE_CELLS:
            left.append(rule.text)
        elif impossible.any():
            zeros[clique] = zeros[clique] | impossible if clique in zeros else impossible
    return (Model(binning.sizes, {}, zeros=zeros) if zeros else None), tuple(left)
