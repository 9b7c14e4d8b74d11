"""`sums`: a run of many small owners, whose coalitions count under a sum: trusted, and by secure aggregation.

K owners of 40 rows, a curator and a consumer in one process, each run from the request to the summary's rows.
What is measured is processor time of everybody together, of which nearly all is the two sums: the sketch, and
the counts of all coalitions. A twentieth of the owners may be missing, and as many may collude.
"""

from __future__ import annotations

import asyncio
from functools import partial

import numpy as np

from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.tables.schema import Label, Schema
from fedkme.tables.table import Table
from lab.bench.result import BenchSettings, Cell, Result, timed
from lab.bench.synthetic import synthetic_schema
from sim.engines.inprocess import KeptRecords, open_market, run_in_process
from sim.scenarios.base import owner_names

_COLUMNS = 32
_ROWS = 40
_VALIDATION = 200
_SUMMARY = 50
_MISSING = 20
"""One owner in so many may be missing, and as many may collude."""


def measure(settings: BenchSettings) -> Result:
    """A line for each number of owners."""
    rows = [_line(owners) for owners in settings.sum_owners]
    return Result("sums", f"whole runs in coalitions, {_ROWS} rows an owner, processor time", rows)


def _line(owners: int) -> dict[str, Cell]:
    some = max(1, owners // _MISSING)
    plain = _seconds(owners, None)
    secure = _seconds(owners, SumSettings(security=SecuritySettings(dropouts=some, colluders=some)))
    return {
        "K": owners,
        "trusted s": plain,
        "secure s": secure,
        "secure s an owner": secure / owners,
        "secure / trusted": secure / plain,
    }


def _seconds(owners: int, pooling: SumSettings | None) -> float:
    """Processor time of one run."""
    rng = np.random.default_rng(0)
    label = Label(name="y", classes=("no", "yes"))
    schema = Schema(columns=synthetic_schema(_COLUMNS).columns, label=label)

    def rows(count: int) -> Table:
        return Table(rng.random((count, _COLUMNS)), rng.integers(0, 2, count))

    market = open_market(schema, {name: rows(_ROWS) for name in owner_names(owners)}, rows(_SUMMARY), 0)
    settings = SummarySettings.model_validate({"protocol": "cells", "cells": {"coalitions": True}})
    request = RequestSettings.model_validate({"p": _SUMMARY})
    validation = rows(_VALIDATION)
    run = partial(run_in_process, market, validation, settings, request, KeptRecords(), pooling=pooling)
    return timed(lambda: asyncio.run(run()))[1]
