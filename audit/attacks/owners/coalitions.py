"""Audit of owners that count in coalitions: a row's change of their counts, and the cost of a whole run.

Neighbouring: one row, with its label, replaced; the number of rows public.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache, partial

import numpy as np

from audit.attacks.cells import BOOK, CORNERS, SCHEMA
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.recount import recount
from audit.attacks.scripted import TalliedNoise
from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from curator.sums.owner_sums import PURPOSE
from fedkme.cells import sketch
from fedkme.cells.coalitions import CoalitionNoise, coalition_noise
from fedkme.cells.plan import SKETCH_SHARE
from fedkme.features.counts import L2_STEP
from fedkme.features.sums import Layout
from fedkme.party import NoiseFor, noise_for
from fedkme.privacy.events import CURATOR, Event, Gaussian
from fedkme.privacy.noise import NoiseSource
from fedkme.sums.values import CellCounts, SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table
from sim.engines.inprocess import KeptRecords, open_market, run_in_process

_CLAIM = Claim(1.0, 1e-5, "replace one row; everybody looks")
_GROUPS = (("east", "north"), ("south", "west"))
_NAMES = tuple(name for group in _GROUPS for name in group)


def question() -> SumQuery:
    """Counts by class and cell of two coalitions."""
    book = json.dumps(BOOK.to_json(), sort_keys=True)
    return SumQuery((), Layout(), cells=CellCounts(book, 2, tuple(group[0] for group in _GROUPS)))


def counted() -> Subject:
    """Sketch and counts of coalitions together, at (1, 1e-5)."""
    plan = coalition_noise(_CLAIM.epsilon, _CLAIM.delta, SKETCH_SHARE)
    return Subject("cells-coalitions", "sound", _CLAIM, (partial(_units, plan), _spent))


def _units(plan: CoalitionNoise, effort: Effort) -> CheckResult:
    """Largest L2 change of the counts, over corners and classes, in deviations of the counts' noise."""
    worst, vector = 0.0, SumVector(question(), SCHEMA)
    for owner in _NAMES:
        vectors = [
            vector.of(Table(row[np.newaxis], np.full(1, label, np.int64)), owner).astype(np.float64)
            for row in CORNERS
            for label in (0, 1)
        ]
        worst = max(worst, max(float(np.linalg.norm(one - other)) for one in vectors for other in vectors))
    units = worst / plan.deviation
    what = "change of counts of coalitions in deviations of their noise"
    return CheckResult("sensitivity", what, units > (1 + 1e-9) / plan.counts, 1 / plan.counts, units)


def _spent(effort: Effort) -> CheckResult:
    return recount(
        _CLAIM, events_of_a_run(effort.seed), [Gaussian], "the noise that sketch and counts drew in a run"
    )


def events_of_a_run(seed: int) -> list[Event]:
    """Events of the curator's Gaussian noise in a run of four owners."""
    random = np.random.default_rng([seed, 19])
    tables = {name: Table(random.random((12, 2)), random.integers(0, 2, 12)) for name in _NAMES}
    tallied: list[TalliedNoise] = []

    def randomness(party: str) -> NoiseFor:
        usual = noise_for(seed, party)

        @cache
        def drawn(purpose: str) -> NoiseSource:
            if (party, purpose) != (CURATOR, PURPOSE):
                return usual(purpose)
            tallied.append(TalliedNoise(usual(purpose)))
            return tallied[-1]

        return drawn

    market = open_market(SCHEMA, tables, None, seed, noise_of=randomness)
    cells = {"coalitions": True, "bits": 2, "dimension": 2}
    privacy = {"epsilon": _CLAIM.epsilon, "delta": _CLAIM.delta}
    settings = SummarySettings.model_validate({"protocol": "cells", "cells": cells, "privacy": privacy})
    request = RequestSettings.model_validate({"p": 4, "kernel": {"gamma": 1.0}})
    validation = Table(random.random((20, 2)), random.integers(0, 2, 20))
    asyncio.run(run_in_process(market, validation, settings, request, KeptRecords()))
    scales = sorted(scale for noise in tallied for scale in noise.gaussian_calls.elements())
    # Counts are in rows, a sketch is in steps; a row has millions of steps.
    return [Gaussian(s / (sketch.DIAMETER_STEPS if s > 1e4 else L2_STEP)) for s in scales]
