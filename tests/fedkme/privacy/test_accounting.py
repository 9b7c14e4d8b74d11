"""Privacy figures of Sarpatwar 2019, published and sound."""

import json
import math

import numpy as np
import pytest

from fedkme.privacy.accounting import (
    PrivacyStatement,
    lemma5_bound,
    privauction_patience,
    privauction_rate,
    published_epsilon,
    zcdp_epsilon,
)
from fedkme.privacy.events import MwemRelation
from fedkme.privacy.gaussian import gaussian_epsilon
from tests.fedkme.privacy.formulas import mwem_zcdp


def test_published_epsilon_gives_the_papers_figures_for_h2() -> None:
    # Section 4: "the total differential privacy measure epsilon = 1.4", "a total ... of 0.043".
    assert published_epsilon(0.01, 1656, 0.01) == pytest.approx(1.4006, abs=5e-5)
    assert published_epsilon(0.01 / math.sqrt(500), 500, 1e-4) == pytest.approx(0.04302, abs=5e-6)


@pytest.mark.parametrize(
    ("epsilon", "iterations", "relation", "delta", "digits", "expected"),
    [
        (0.01, 1656, "replace-one", 0.01, 4, 3.308),
        (0.01, 1656, "add-remove, q counted", 0.01, 4, 2.436),
        (0.01, 1656, "add-remove, q public", 0.01, 4, 1.351),
        (0.01 / math.sqrt(500), 500, "replace-one", 1e-4, 3, 0.0762),
    ],
)
def test_zcdp_of_h2_gives_its_proven_epsilon(
    epsilon: float, iterations: int, relation: MwemRelation, delta: float, digits: int, expected: float
) -> None:
    # What 1.4 and 0.043 are under each relation: zCDP figures of an independent implementation, to all
    # the digits given.
    rho = mwem_zcdp(epsilon, iterations, relation)
    assert float(f"{zcdp_epsilon(rho, delta):.{digits}g}") == expected


def test_replace_one_iteration_costs_four_e_squared() -> None:
    # (4e)^2/8 for the selection and (2e)^2/2 for the value.
    assert mwem_zcdp(0.3, 1, "replace-one") == pytest.approx(4 * 0.09)


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e4])
def test_the_conversion_is_valid_and_near_its_optimum(rho: float, delta: float) -> None:
    epsilon = zcdp_epsilon(rho, delta)
    # A Gaussian of sigma = 1/sqrt(2 rho) is rho-zCDP: no valid conversion can go below its exact epsilon.
    assert epsilon >= gaussian_epsilon(1 / math.sqrt(2 * rho), delta)
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    orders = 1 + np.geomspace(1e-4, 1e6, 20_001)
    bounds = orders * rho - np.log(orders * delta) / (orders - 1) + np.log1p(-1 / orders)
    assert epsilon == pytest.approx(max(0.0, bounds.min()), rel=1e-5)


def test_no_release_costs_nothing() -> None:
    assert zcdp_epsilon(0.0, 1e-5) == 0


@pytest.mark.parametrize(
    ("epsilon", "owners", "bound"),
    [
        (1, 5, 10560),
        (1, 27, 18380),
        (1, 64, 24450),
        (1, 125, 30510),
        (10, 5, 1544),
        (10, 27, 2558),
        (10, 64, 3345),
        (10, 125, 4131),
    ],
)
def test_lemma_5_bound_holds_with_its_correction(epsilon: float, owners: int, bound: int) -> None:
    # p (K/tau + 1 + 1/eps_auc) at p = 200, delta = 1e-3, to the four digits of the reference table.
    rate = privauction_rate(epsilon, 1e-3, owners)
    expected = lemma5_bound(200, owners, rate, privauction_patience(owners))
    assert float(f"{expected:.4g}") == bound


@pytest.mark.parametrize(
    ("owners", "rate", "patience"), [(5, 0.0200, 2.9), (27, 0.0114, 9), (125, 0.0068, 25)]
)
def test_privauction_parameters_follow_the_paper(owners: int, rate: float, patience: float) -> None:
    # Algorithm 3 at epsilon 1, delta 1e-3.
    assert privauction_rate(1.0, 1e-3, owners) == pytest.approx(rate, abs=1e-4)
    assert privauction_patience(owners) == pytest.approx(patience, abs=0.05)


def test_a_statement_becomes_plain_json() -> None:
    # DESIGN.md, decision 4: no proof means epsilon = inf, with the reason; JSON has no infinity.
    statement = PrivacyStatement(
        protected="owner-1",
        observer="owner-2",
        accountant="sound",
        epsilon=math.inf,
        delta=1e-5,
        neighbouring="replace-one",
        raw_points=0,
        reason="not being asked has probability 0 in one world",
    )
    plain = json.loads(json.dumps(statement.to_json(), allow_nan=False))
    assert plain["epsilon"] == "inf"
    assert plain["raw_points"] == 0
    assert (plain["unit"], plain["whole_set"]) == ("one row", "inf")
    assert set(plain) == {*PrivacyStatement.__dataclass_fields__, "whole_set"}
