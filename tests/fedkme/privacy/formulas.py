"""Formulas of MATH.md as printed: accountants compute the same figures in other ways."""

from __future__ import annotations

from fedkme.privacy.events import CHOICE_SLACK, MWEM_ITERATION_COST, MwemRelation


def mwem_zcdp(epsilon: float, iterations: int, relation: MwemRelation) -> float:
    """Parameter rho of the zero-concentrated DP of h2.

    The selection has a bounded range r, which is r^2/8-zCDP (Cesar and Rogers 2021, after Durfee and
    Rogers 2019); the value is l-DP, which is l^2/2-zCDP (Bun and Steinke 2016, proposition 1.4). rho
    adds up over releases that may depend on those before them. For Laplace alone l + e^-l - 1 would do
    (Harrison and Manurangsi 2025): below half a percent less at the paper's parameters, not used.

    Args:
        epsilon: parameter e of every iteration, > 0.
        iterations: number of iterations of all calls together.
        relation: neighbouring relation; "q counted" means that the size used by h2 is the true one.
    """
    selection, value = MWEM_ITERATION_COST[relation]
    return iterations * ((selection * epsilon + CHOICE_SLACK) ** 2 / 8.0 + (value * epsilon) ** 2 / 2.0)
