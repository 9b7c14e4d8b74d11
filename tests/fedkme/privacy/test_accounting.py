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
    zcdp_epsilon,
)
from fedkme.privacy.gaussian import gaussian_epsilon


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
