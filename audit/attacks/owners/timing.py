"""Timing attack: does the time in which an owner fills an order tell the cells of its rows?

Neighbouring: one row replaced. The order asks for one cell, in which the owner has one row or none. Rows are
sealed, so the attacker sees boxes and times alone. Scores are seconds of processor time of the handler, in
alternating worlds; the answer schedule (owner/cells/answer_schedule.py) would hide more.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from audit.attacks.confidence import smallest_factor, split_bound
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from fedkme.cells.codebook import kmeans_book
from fedkme.cells.histogram import histogram_noise
from fedkme.cells.projection import spec_for
from fedkme.directives import AskHistogram, Body, Directive, FillOrder, Rows
from fedkme.privacy.noise import simulated
from fedkme.protocol import CellTerms, Invitation
from fedkme.sealed.group import Gift, GroupSecret
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from owner.cells.handler import CellHandler
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from owner.keyring import KeyRing, Sealer

_ROWS, _WIDTH, _ORDERED = 300, 16, 3
_EPSILON = 1.0
"""Epsilon of the histogram, which pays for a row's cell; the time may tell nothing beyond it."""
_SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0.0, 1.0), count=_WIDTH),))
_CORNERS = np.repeat(np.array([[0.0], [1.0]]), _WIDTH, axis=1)
_BOOK = kmeans_book(_SCHEMA.encode(_CORNERS), 2, spec_for(_SCHEMA, 2), _SCHEMA, 0)


class _Keys(KeyRing):
    """Keys of a run whose consumer opens no box."""

    def __init__(self) -> None:
        super().__init__("holder")
        self._sealer = Sealer(GroupSecret.fresh("audit"), KeyRing("consumer").offer("audit").box)

    def take(self, run: str, gift: Gift | None, consumer: str) -> Sealer:
        return self._sealer


def answer_times() -> Subject:
    """Attack by the processor time of an order whose rows are sealed."""
    claim = Claim(_EPSILON, 0.0, "replace one row of an owner; the asker looks at the clock")
    keys = _Keys()

    def timed(effort: Effort) -> CheckResult:
        trials = effort.trials(500)
        random = np.random.default_rng([effort.seed, 9])
        scores = np.zeros((2, trials))
        for trial in range(trials):
            for world in random.permutation(2).tolist():
                scores[world, trial] = _seconds(keys, bool(world))
        bound = split_bound(scores[0], scores[1], 0.0, effort.alpha)
        return CheckResult(
            "black box",
            "processor time of an owner that fills an order, with a row of the cell or without",
            bound.epsilon > claim.epsilon,
            claim.epsilon,
            bound.epsilon,
            bound.trials,
            effort.alpha,
            smallest_factor(claim.epsilon, 0.0, bound, effort.alpha),
        )

    return Subject("cells-time", "sound", claim, (timed,))


def _seconds(keys: KeyRing, present: bool) -> float:
    rows = np.repeat(_CORNERS[1:], _ROWS, axis=0)
    if present:
        rows[0] = _CORNERS[0]
    noise = histogram_noise(_EPSILON)
    owner = HistogramResponder(
        "holder", Table(rows), _SCHEMA, simulated(0, "holder", "time"), OwnerGate("holder"), keys
    )
    handler = CellHandler("audit", owner)
    terms = CellTerms(_BOOK.to_json(), 1.0, noise, _ORDERED)
    invitation = Invitation("audit", _SCHEMA.digest(), "consumer", "cells-sealed", (noise.event,), terms)
    first = int(_BOOK.cells_of(_SCHEMA.encode(_CORNERS[:1]))[0])
    shares: NDArray[np.float64] = np.eye(_BOOK.cells)[first]
    bodies: list[Body] = [invitation, AskHistogram(), FillOrder(_ORDERED, shares)]
    for number, body in enumerate(bodies, 1):
        began = time.thread_time()
        entry = handler.answer(Directive("audit", int(number > 1), number, body))
        taken = time.thread_time() - began
    assert isinstance(entry.answer, Rows)
    assert len(entry.answer.rows) == _ORDERED
    return taken
