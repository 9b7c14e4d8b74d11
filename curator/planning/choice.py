"""Choice of a run's protocol once owners are here, or the forecast of a named protocol.

The choice is a function of public numbers alone (p, |D_v|, epsilon, the schema, every m_j): everybody may
know it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from curator.planning.facts import PublicFacts, held_rows, run_facts
from curator.planning.plan import (
    EQUAL,
    NO_BETTER,
    Forecast,
    cells_forecast,
    clock_forecast,
    make_plan,
    published_forecast,
    uniform_forecast,
)
from curator.summary.settings import SummarySettings
from fedkme.exchange import SummaryChoice, SummaryRequest
from fedkme.protocols import ALGORITHM3, AUTO
from fedkme.tables.schema import Schema

ASSUMED = 1000
"""Assumed rows of each owner where no owner says how many it has."""


def choose(
    settings: SummarySettings,
    schema: Schema,
    request: SummaryRequest,
    owners: Sequence[str],
    sizes: Mapping[str, int],
    seed_rows: int,
) -> SummaryChoice:
    """Choose a run's protocol, or forecast the protocol that the settings name.

    Args:
        settings: the curator's settings.
        schema: schema of the rows.
        request: the consumer's request.
        owners: names of the owners that are here; without owners a named protocol gets no forecast.
        sizes: m_j of the owners that gave it; other owners are assumed to have the median.
        seed_rows: public rows.

    Raises:
        NotEnoughRowsError: owners have fewer rows than are asked for.
    """
    if settings.protocol != AUTO and not owners:
        return SummaryChoice(
            settings.protocol, _ratio(settings), (), 0, f"plan: {settings.protocol}, as named"
        )
    held = held_rows(owners, sizes) or [max(ASSUMED, request.rows)] * len(owners)
    facts = run_facts(
        settings,
        schema,
        request.rows,
        request.validation_rows,
        held,
        seed_rows,
        request.gamma,
        request.count_deviation,
    )
    plan = make_plan(facts)
    best = next(forecast for forecast in plan.estimates if forecast.name == plan.recommended)
    taken = best if settings.protocol == AUTO else _named(settings, facts)
    unknown = sum(name not in sizes for name in owners)
    note = f"; {unknown} of {len(owners)} owners do not say how many rows they have" if unknown else ""
    if taken is None:
        auction = settings.row.base
        line = f"plan: algorithm3 by {auction}, as named; no estimate says what it reaches{note}"
        return SummaryChoice(ALGORITHM3, 1.0, (), 0, line)
    return SummaryChoice(
        taken.protocol,
        taken.ratio,
        (taken.mmd2, taken.low, taken.high),
        taken.accessed,
        f"plan: {_words(taken)}{_algorithm3_note(taken)}{note}",
        _disagreement(taken, best),
    )


def _ratio(settings: SummarySettings) -> float:
    return {"cells": settings.cells.rho, "uniform": settings.uniform_ratio}.get(settings.protocol, 1.0)


def _named(settings: SummarySettings, facts: PublicFacts) -> Forecast | None:
    """Forecast of the protocol that settings name; None where nothing was measured."""
    if settings.protocol == "cells":
        return cells_forecast(facts, settings.cells.rho)
    if settings.protocol == "uniform":
        return uniform_forecast(facts, settings.uniform_ratio)
    forecasts = {"clock": clock_forecast, "privauction": published_forecast}
    forecast = forecasts.get(settings.auction.kind)
    return None if forecast is None else forecast(facts)


def _words(taken: Forecast) -> str:
    return f"{taken.name} ({_times(taken)}, {taken.accessed:,} rows accessed)"


def _times(forecast: Forecast) -> str:
    """MMD^2 in words, with one digit: more digits would claim too much."""
    low, high = _short(forecast.low), _short(forecast.high)
    likely = f"likely {low}x to {high}x if owners have rows like D_v"
    return f"with weights about {_short(forecast.mmd2)}x uniform rows alike, {likely}"


def _short(value: float) -> str:
    return f"{value:.1g}".removeprefix("0")


def _algorithm3_note(taken: Forecast) -> str:
    """Note on what the paper's protocol would have reached instead."""
    return "" if taken.protocol == ALGORITHM3 else f"; Algorithm 3 would be {NO_BETTER}"


def _disagreement(taken: Forecast, best: Forecast) -> str:
    """Reason why the plan would not have taken the named protocol; empty where both are as good."""
    if best.name == taken.name or (not taken.concern and taken.mmd2 <= EQUAL * best.mmd2):
        return ""
    why = f"{taken.name} was named, of which the plan says: {taken.concern or _times(taken)}"
    return f"{why}; it would take {_words(best)}"
