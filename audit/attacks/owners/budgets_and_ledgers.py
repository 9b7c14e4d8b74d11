"""Audits of promises without an epsilon: budgets hold, and ledgers leave nothing out.

Each audit plays whole runs with the parties of a deployment, in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.runs import SCHEMA
from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from fedkme.directives import Answer, Directive, Refusal
from fedkme.errors import FedkmeError
from fedkme.heads.log import Cosignature, Head
from fedkme.ledgers.reconcile import verify_files
from fedkme.privacy.events import CURATOR, Disclosure, validation_of
from fedkme.privacy.ledger import Ledger, disclosures_in
from fedkme.sealed.offers import KeyOffer
from fedkme.tables.table import Table
from owner.party import OwnerParty
from owner.runs import RunManager
from owner.settings import PeriodBudget, PolicySettings
from sim.engines.inprocess import InProcessMarket, KeptRecords, open_market, run_in_process

HOLDER = "holder"
"""Name of the owner with a budget."""

_CLAIM = Claim(math.nan, 0.0, "any row; whoever reads the ledgers")
_RUNS: Sequence[Mapping[str, Any]] = (
    {"protocol": "cells", "cells": {"code_book": "seeds"}},
    {"protocol": "cells", "cells": {"code_book": "seeds"}, "content": "hashed"},
    {"protocol": "algorithm3"},
)


def budgets() -> Subject:
    """Budgets of an owner, which the owner checks before it writes or sends anything."""
    return Subject("budgets", "sound", _CLAIM, (_over_budget,))


def ledgers() -> Subject:
    """Ledgers of all parties: verification must find a line that one side leaves out."""
    return Subject("ledgers", "sound", _CLAIM, (_left_out,))


class _RecordedRuns(RunManager):
    """Runs of an owner that record its answers about rows."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.answers: list[Answer] = []

    def answer(self, directive: Directive) -> Answer | None:
        """Answer a directive, and record an answer that may tell of rows."""
        answer = super().answer(directive)
        if answer is not None and not isinstance(answer, Refusal | Head | Cosignature | KeyOffer):
            self.answers.append(answer)
        return answer


def _over_budget(effort: Effort) -> CheckResult:
    odd = 0
    for how in _RUNS:
        odd += _disclosed(effort, how, PeriodBudget(epsilon=0.5, delta=1e-5))
        odd += _disclosed(effort, how, PeriodBudget(observer="consumer", epsilon=50, delta=1e-5))
        odd += not _disclosed(effort, how, PeriodBudget(epsilon=2.0, delta=1e-5))
    what = (
        "lines and answers of an owner whose budget is half of a run's epsilon, or towards a consumer that "
        "sees rows; or none at twice the epsilon"
    )
    return CheckResult("recount", what, odd > 0, 0.0, float(odd), trials=3 * len(_RUNS), power=None)


def _disclosed(effort: Effort, how: Mapping[str, Any], budget: PeriodBudget) -> int:
    """Lines and answers of an owner in a run that costs epsilon 1 towards other owners."""
    limits = PolicySettings(budgets=(budget,))
    market = _play(effort, how, {HOLDER: limits}, _RecordedRuns)
    runs = market.runs[HOLDER]
    assert isinstance(runs, _RecordedRuns)
    return len(market.owners[HOLDER].store.ledger()) + len(runs.answers)


def _left_out(effort: Effort) -> CheckResult:
    """Leave out each line of a run on one side in turn, and count the losses that verification misses.

    Verification must find a line that the curator leaves out and another party has, and a line about its own
    data that a party leaves out and the curator has. An owner may lack lines on the cost of others' rows.
    """
    missed = total = 0
    for how in _RUNS:
        stores = _play(effort, how, {}, RunManager).stores()
        written = {
            party: disclosures_in(entry.line for entry in store.ledger()) for party, store in stores.items()
        }
        with tempfile.TemporaryDirectory() as folder:
            missed += len(_faults(Path(folder), written))
            for party, number in _shared(written):
                lines = written[party]
                cut = {**written, party: lines[:number] + lines[number + 1 :]}
                missed += not _faults(Path(folder), cut)
                total += 1
    what = "left-out lines that verification missed, and faults in whole ledgers"
    return CheckResult("recount", what, missed > 0, 0.0, float(missed), trials=total, power=None)


def _shared(written: Mapping[str, Sequence[Disclosure]]) -> list[tuple[str, int]]:
    """Lines, by party and number, whose loss the other side's ledger must show."""
    return [
        (party, number)
        for party, lines in written.items()
        for number, line in enumerate(lines)
        if any(line in others for other, others in written.items() if other != party)
        and (party == CURATOR or line.protected in (party, validation_of(party)))
    ]


def _faults(folder: Path, written: Mapping[str, Sequence[Disclosure]]) -> list[str]:
    """Faults that `fedkme audit verify` finds in ledgers of these lines."""
    paths = []
    for party, disclosures in written.items():
        lines: list[str] = []
        Ledger(party, lines.extend).extend(disclosures)
        paths.append(folder / f"{party}.jsonl")
        paths[-1].write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    return [ledger.fault for ledger in verify_files(paths)[0] if ledger.fault]


def _play(
    effort: Effort,
    how: Mapping[str, Any],
    policies: Mapping[str, PolicySettings],
    opened: Callable[[OwnerParty], RunManager],
) -> InProcessMarket:
    """Play a run at epsilon 1, and return its market; the run may fail if an owner refuses."""
    random = np.random.default_rng(effort.seed)
    tables = {name: Table(random.random((12, 2))) for name in (HOLDER, "other")}
    seeds = Table(random.random((12, 2)))
    market = open_market(SCHEMA, tables, seeds, effort.seed, policies, opened=opened)
    settings = SummarySettings.model_validate({"features": {"dimension": 16}, **how})
    request = RequestSettings.model_validate({"p": 3, "kernel": {"gamma": 1.0}})
    with contextlib.suppress(FedkmeError):
        asyncio.run(run_in_process(market, Table(random.random((8, 2))), settings, request, KeptRecords()))
    return market
