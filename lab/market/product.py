"""Our method: a whole run of the product in this process, with the consumer's results."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

import numpy as np

from consumer.settings import RequestSettings
from consumer.summary.forms import make_forms
from consumer.summary.offers import pruned
from curator.payouts.payout import rank_owners
from curator.summary.settings import SummarySettings
from fedkme.arrays import FloatArray
from fedkme.tables.table import Table
from lab.market.pool import DELTA, Chosen, PooledRows, SummaryQuestion
from sim.engines.inprocess import KeptRecords, open_market, run_in_process
from sim.scenarios.base import owner_names


def product(
    market: PooledRows,
    question: SummaryQuestion,
    protocol: str = "cells",
    name: str = "ours",
    book: str = "auto",
) -> Mapping[str, Chosen]:
    """Run owners, curator and consumer with the curator's defaults and the question's p, rho and epsilon.

    Args:
        market: rows of all parties.
        question: p, rho, epsilon and seed; only cells have a rho.
        protocol: protocol of the run.
        name: first word of the methods' names.
        book: code book of a run by cells.
    """
    privacy = {"epsilon": question.epsilon, "delta": DELTA}
    paced = {} if math.isnan(question.rho) else {"cells": {"rho": question.rho, "code_book": book}}
    settings = SummarySettings.model_validate({"protocol": protocol, "privacy": privacy, **paced})
    draw = market.draw
    request = RequestSettings.model_validate(
        {"p": question.p, "privacy": privacy, "kernel": {"gamma": draw.gamma}}
    )
    records = KeptRecords()
    scenario = draw.scenario
    names = owner_names(len(scenario.owners))
    # Names of sites may not be allowed for parties.
    tables = dict(zip(names, scenario.owners.values(), strict=True))
    parties = open_market(scenario.schema, tables, scenario.seeds, question.seed)
    summary = asyncio.run(run_in_process(parties, scenario.validation, settings, request, records))
    summary_rows = pruned(summary, question.p, scenario.schema, scenario.validation).table
    forms = make_forms(
        scenario.schema, summary.table, summary_rows, draw.to_validation, question.p, draw.validation_labels
    )
    accessed = 0 if records.summary is None else len(records.summary.accesses)
    kendall = agreement(market, names, records)

    def chosen(table: Table, weights: FloatArray) -> Chosen:
        rows = np.asarray(scenario.schema.encode(table.values), np.float64)
        labels = np.zeros(len(table), np.int64) if table.labels is None else table.labels
        return Chosen(rows, labels, weights, accessed, kendall)

    return {
        f"{name} + prune": chosen(summary_rows, np.full(len(summary_rows), 1.0 / len(summary_rows))),
        f"{name} + weights": chosen(forms.weighted, forms.fit.weights),
    }


def agreement(market: PooledRows, names: Sequence[str], records: KeptRecords) -> float:
    """Kendall's tau of a run's private ranking of owners and the ranking by exact MMD; NaN without it."""
    from scipy.stats import kendalltau

    record = records.summary
    if record is None or "histograms" not in (released := record.released):
        return float("nan")
    standings = rank_owners(
        released["histograms"],
        record.owner_rows,
        released["target_histogram"],
        len(market.draw.validation),
        released["noise_scale"],
        released["code_book"]["classes"],
    )
    exact = [float(market.distances[names.index(standing.owner)]) for standing in standings]
    return float(kendalltau([standing.distance for standing in standings], exact).statistic)
