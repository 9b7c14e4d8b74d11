"""Faults of sums over owners, and of releases made of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import curator.cells.disclosures
import curator.cells.run
import curator.releases.joint
import curator.releases.marginals.adaptive
import curator.runs.release_run
import curator.summary.algorithm3
import curator.sums.charges
import curator.sums.owner_sums
import fedkme.secagg.owner
import fedkme.sums.disclosures
import owner.cells.responder
import owner.consent.gate
import owner.consent.policy
import owner.handler
import owner.sums.responder
from audit.planted_faults.planting import Patch, PlantedFault, all_of, around, nothing, scaled
from curator.releases.marginals.budget import BudgetFilter


def _planned_for_all(before: Any, *arguments: Any, **named: Any) -> Any:
    return before(*arguments, **(named | {"dropouts": 0, "colluders": 0}))


def _promised_for_all(before: Any, parameters: Any, diameter: float, releases: int = 1) -> Any:
    plan = before(parameters, diameter, releases)
    return replace(plan, honest=len(parameters.owners))


def _total_in_the_log(before: Any, self: Any, vector: Any, total: Any, release: Any) -> Any:
    logging.getLogger("curator.sums").info("the total begins with %s", total.steps[:3])
    return before(self, vector, total, release)


def _exact_masses(before: Any, pooled: Any, sigma: float, noise: Any) -> Any:
    return pooled.count.astype(np.float64)


def _greedy(
    before: Any, self: Any, errors: Any, constants: Any, weights: Any, cost: float, noise: Any
) -> int:
    self._pay(cost)
    return int(np.argmax(weights * (errors - constants)))


def _first_key_again(patch: Patch) -> None:
    class FixedKeys(fedkme.secagg.owner.OwnerAggregator):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            name = self.name.encode()
            self._entropy = lambda size: (name * size)[:size]

    patch.setattr(owner.sums.responder, "OwnerAggregator", FixedKeys)


def _row_in_the_record(before: Any, self: Any) -> None:
    sums = self.record.owner_rows
    self._facts["total"] = _totals[-1] if _totals else len(sums)
    before(self)


_totals: list[int] = []


def _keep_total(before: Any, self: Any, vector: Any, total: Any, release: Any) -> Any:
    _totals.append(int(total.steps.sum()))
    return before(self, vector, total, release)


FAULTS: Mapping[str, PlantedFault] = {
    "a release with half of the noise, at the curator": PlantedFault(
        ("balog1", "any policy"),
        around(
            curator.releases.joint,
            "release_embedding",
            lambda before, pooled, features, layout, sigma, noise: before(
                pooled, features, layout, sigma / 2, noise
            ),
        ),
    ),
    "a release with a tenth less noise": PlantedFault(
        ("merf", "any policy"),
        around(
            curator.releases.joint,
            "release_embedding",
            lambda before, pooled, features, layout, sigma, noise: before(
                pooled, features, layout, 0.9 * sigma, noise
            ),
        ),
    ),
    "class counts without noise": PlantedFault(
        ("merf", "any policy"),
        around(curator.releases.joint, "release_counts", _exact_masses),
        ("corner", "last of a class"),
    ),
    "no line of a release on either side": PlantedFault(
        ("balog1", "any policy"),
        all_of(
            *(
                nothing(place, "release_disclosures", [])
                for place in (owner.consent.gate, curator.sums.charges)
            )
        ),
    ),
    "no line of a release at the owner": PlantedFault(
        ("balog1", "any policy"), nothing(owner.consent.gate, "release_disclosures", [])
    ),
    "a total in a line of the log": PlantedFault(
        ("balog1", "any policy"), around(curator.sums.owner_sums.OwnerSums, "_with_noise", _total_in_the_log)
    ),
    "a total in record.json": PlantedFault(
        ("balog1", "any policy"),
        all_of(
            around(curator.sums.owner_sums.OwnerSums, "_with_noise", _keep_total),
            around(curator.runs.release_run.ReleaseRun, "write", _row_in_the_record),
        ),
    ),
    "AIM measures with half of its noise": PlantedFault(
        ("marginals", "any policy"),
        around(
            curator.releases.marginals.adaptive,
            "add_noise",
            lambda before, counts, sigma, noise: before(counts, sigma / 2, noise),
        ),
    ),
    "AIM chooses the worst marginal itself": PlantedFault(
        ("marginals", "any policy"), around(BudgetFilter, "select", _greedy)
    ),
    "columns measured with half of their noise": PlantedFault(
        ("marginals", "budgets"),
        around(
            curator.sums.owner_sums.OwnerSums,
            "marginals",
            lambda before, self, question, sigmas: before(self, question, [sigma / 2 for sigma in sigmas]),
        ),
    ),
    "noise of owners planned for all of them": PlantedFault(
        ("balog1", "noise of owners"),
        all_of(
            around(curator.sums.owner_sums, "plan_noise", _planned_for_all),
            around(owner.sums.responder, "plan_of", _promised_for_all),
            around(owner.sums.responder.SumResponder, "_check_cost", lambda before, *arguments: None),
        ),
    ),
    "an owner that adds half of its share": PlantedFault(
        ("balog1", "noise of owners"),
        around(
            fedkme.secagg.owner,
            "draw_share",
            lambda before, noise, share, size: before(scaled(noise, 0.5), share, size),
        ),
    ),
    "an owner that adds no noise": PlantedFault(
        ("balog1", "noise of owners"),
        around(
            fedkme.secagg.owner,
            "draw_share",
            lambda before, noise, share, size: np.zeros(size, dtype=np.int64),
        ),
    ),
    "keys of masks that are kept": PlantedFault(("balog1", "noise of owners"), _first_key_again),
    "no line of a total at the curator": PlantedFault(
        ("balog1", "noise of owners"), nothing(curator.sums.charges.SumDisclosures, "came", [])
    ),
}
