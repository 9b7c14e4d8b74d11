"""The audits of what promises rest on that have no epsilon: budgets, and ledgers that leave nothing out.

Each plays whole runs with the parties of a deployment, in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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

Open = Callable[[OwnerParty, type[RunManager]], RunManager]
"""Opens an owner, with the class of what answers."""
Kept = Callable[[str, Disclosure], bool]
"""Rule by which a party writes a line."""
HOLDER = "holder"
"""The owner whose budget it is."""

_CLAIM = Claim(math.nan, 0.0, "any row; whoever reads the ledgers")
_RUNS: Sequence[Mapping[str, Any]] = (
    {"protocol": "cells", "cells": {"code_book": "seeds"}},
    {"protocol": "cells", "cells": {"code_book": "seeds"}, "content": "hashed"},
    {"protocol": "algorithm3"},
)


def budgets(opened: Open = lambda party, make: party.open(make=make)) -> Subject:
    """Budgets of an owner, looked at before anything is written or sent."""
    return Subject("budgets", "sound", _CLAIM, (partial(_over_budget, opened),))


def ledgers(kept: Kept = lambda party, line: True) -> Subject:
    """Ledgers of all parties, in which a line that one side leaves out is found."""
    return Subject("ledgers", "sound", _CLAIM, (partial(_left_out, kept),))


class _Heard(RunManager):
    """Runs of an owner, with its answers that may say something of rows."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.said: list[Answer] = []

    def answer(self, directive: Directive) -> Answer | None:
        """Answer, and keep what was said."""
        answer = super().answer(directive)
        if answer is not None and not isinstance(answer, Refusal | Head | Cosignature | KeyOffer):
            self.said.append(answer)
        return answer


def _over_budget(opened: Open, effort: Effort) -> CheckResult:
    odd = 0
    for how in _RUNS:
        odd += _disclosed(opened, effort, how, PeriodBudget(epsilon=0.5, delta=1e-5))
        odd += _disclosed(opened, effort, how, PeriodBudget(observer="consumer", epsilon=50, delta=1e-5))
        odd += not _disclosed(opened, effort, how, PeriodBudget(epsilon=2.0, delta=1e-5))
    what = (
        "lines and answers of an owner whose budget is half of a run's epsilon, or towards a consumer that "
        "sees rows; or none at twice the epsilon"
    )
    return CheckResult("recount", what, odd > 0, 0.0, float(odd), trials=3 * len(_RUNS), power=None)


def _disclosed(opened: Open, effort: Effort, how: Mapping[str, Any], budget: PeriodBudget) -> int:
    """Lines and answers of an owner in a run that costs epsilon 1 towards other owners."""
    limits = PolicySettings(budgets=(budget,))
    market = _played(effort, how, {HOLDER: limits}, lambda party: opened(party, _Heard))
    runs = market.runs[HOLDER]
    assert isinstance(runs, _Heard)
    return len(market.owners[HOLDER].store.ledger()) + len(runs.said)


def _left_out(kept: Kept, effort: Effort) -> CheckResult:
    """Lines of runs, each left out by one side in turn.

    Found must be what the curator leaves out and another party wrote too, and what a party leaves out of its
    own data and the curator wrote too. An owner may not have heard what others' rows cost.
    """
    missed = total = 0
    for how in _RUNS:
        stores = _played(effort, how, {}, OwnerParty.open).stores()
        written = {
            party: [
                line for line in disclosures_in(each.line for each in store.ledger()) if kept(party, line)
            ]
            for party, store in stores.items()
        }
        with tempfile.TemporaryDirectory() as folder:
            missed += len(_faults(Path(folder), written))
            for party, number in _shared(written):
                lines = written[party]
                cut = {**written, party: lines[:number] + lines[number + 1 :]}
                missed += not _faults(Path(folder), cut)
                total += 1
    what = "lines that one side left out and nobody found, and faults where none was left out"
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
    return [each.fault for each in verify_files(paths)[0] if each.fault]


def _played(
    effort: Effort,
    how: Mapping[str, Any],
    policies: Mapping[str, PolicySettings],
    opened: Callable[[OwnerParty], RunManager],
) -> InProcessMarket:
    """A market after a run at epsilon 1; where an owner refuses, the other may be too few."""
    random = np.random.default_rng(effort.seed)
    tables = {name: Table(random.random((12, 2))) for name in (HOLDER, "other")}
    seeds = Table(random.random((12, 2)))
    market = open_market(SCHEMA, tables, seeds, effort.seed, policies, opened=opened)
    settings = SummarySettings.model_validate({"features": {"dimension": 16}, **how})
    request = RequestSettings.model_validate({"p": 3, "kernel": {"gamma": 1.0}})
    with contextlib.suppress(FedkmeError):
        asyncio.run(run_in_process(market, Table(random.random((8, 2))), settings, request, KeptRecords()))
    return market
