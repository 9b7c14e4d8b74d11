"""`fedkme plan`: advice on the protocol to take, before any run."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.console import Console

from curator.planning.formulas import PublicFacts, run_facts
from curator.planning.plan import FACTOR, WITHIN, Recommendation, make_plan
from curator.planning.ways import MEASURED, Way, ways_of
from fedkme.cells.menu import no_picks_words, offers_columns
from fedkme.cells.projection import spec_for
from fedkme.cells.repeated_requests import deviation_of_asks
from fedkme.embeddings.kernels import domain_gamma
from fedkme.margins.picks import words_of_asks
from fedkme.tables.schema import Schema
from fedkme.verbs import AsJson, Verbs, console, print_json, table_of
from sim.arguments import ScenarioKeys, ScenarioName
from sim.config import SummaryTable, load_simulation
from sim.scenarios import build_scenario, check_target
from sim.scenarios.base import Scenario

app = Verbs()


@app.verb(
    "fedkme plan digits",
    "fedkme plan digits --set p=50 --max-access 2 --json",
    json="an object: facts, estimates (one a protocol), recommended, reason, cautions, asks, ways",
)
def plan(
    scenario: ScenarioName,
    assignments: ScenarioKeys = None,
    most: Annotated[
        float | None, typer.Option("--max-access", min=1, help="Rows accessed over p, at most.")
    ] = None,
    pruning: Annotated[
        bool, typer.Option("--pruning/--no-pruning", help="May the party with D_v see more rows than p?")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Estimate every protocol's MMD^2 and rows accessed from sizes and budgets, never from rows."""
    settings = load_simulation(scenario, assignments or [])
    if settings.stand_in:
        typer.echo(settings.stand_in, err=as_json)
    parties = build_scenario(settings.scenario, settings.seed)
    check_target(parties)
    facts = facts_of(parties, settings.summary)
    advice = make_plan(facts, most, pruning)
    if words := _no_picks(settings.summary, parties.schema):
        advice = replace(advice, cautions=(*advice.cautions, words))
    summary = settings.summary
    asks = words_of_asks(summary.privacy, summary.asks, summary.picks)
    closed = [name for name, policy in settings.policies.items() if policy.rows == "none"]
    ways = ways_of(advice, ["all owners" if name == "all" else name for name in closed])
    if as_json:
        print_json({**advice.to_json(), "asks": asks, "ways": [asdict(way) for way in ways]})
    else:
        show(advice, asks, console())
        show_ways(ways, console())


def _no_picks(summary: SummaryTable, schema: Schema) -> str:
    """Cost of settings by which D_v picks nothing; empty without such settings, or where it could not."""
    settings = {"picks": summary.picks, "cells.picks": summary.cells.picks}
    none = [key for key, picks in settings.items() if picks == 0]
    could = none and offers_columns(spec_for(schema, 0, summary.cells.dimension), schema)
    return no_picks_words(none[0]) if could else ""


def facts_of(scenario: Scenario, summary: SummaryTable) -> PublicFacts:
    """Public facts for a plan: sizes of a scenario and settings of its summary; reads no row."""
    kernel = summary.kernel.gamma
    public = domain_gamma(scenario.schema.mean_squared_distance) if kernel == "domain" else kernel
    gamma = public if isinstance(public, float) else None
    sizes = [len(table) for table in scenario.owners.values()]
    seeds = 0 if scenario.seeds is None else len(scenario.seeds)
    noisier = deviation_of_asks(summary.privacy, summary.asks)
    return run_facts(
        summary, scenario.schema, summary.p, len(scenario.validation), sizes, seeds, gamma, noisier
    )


def show(advice: Recommendation, asks: str, console: Console) -> None:
    """Print the estimates, the recommendation, its cautions, and the cost of asking again."""
    facts = advice.facts
    console.print(
        f"m = {facts.validation_rows}, {facts.owners} owners of {facts.owner_rows[0]} to "
        f"{facts.owner_rows[-1]} rows, p = {facts.rows}, epsilon {facts.epsilon:g} at delta {facts.delta:g}, "
        f"{facts.seed_rows} public rows for a code book",
        highlight=False,
    )
    caption = (
        f"MMD^2 to D_v with weights over that of p random rows alike; {WITHIN} of the trials on other data "
        f"were within {FACTOR} times"
    )
    header = ("<protocol", ">MMD^2", ">rows accessed", "<proven", "concern")
    table = table_of(header, caption=caption, padding=(0, 1))
    for estimate in advice.estimates:
        mark = "bold" if estimate.name == advice.recommended else None
        table.add_row(
            estimate.name,
            "-" if estimate.mmd2 is None else f"{estimate.mmd2:.1g}",
            f"{estimate.accessed:,}",
            "yes" if estimate.sound else "no",
            estimate.concern,
            style=mark,
        )
    console.print(table)
    settings = next(e.settings for e in advice.estimates if e.name == advice.recommended)
    console.print(f"take {advice.recommended} ({settings}): {advice.reason}", highlight=False)
    for caution in [*advice.cautions, asks]:
        console.print(f"- {caution}", highlight=False)


def show_ways(ways: Sequence[Way], console: Console) -> None:
    """Print what a consumer can do, in five lines."""
    caption = f"error: MMD^2 to fresh rows over exact greedy's, median of {MEASURED} of other data"
    header = ("<you can take", ">rows leave", ">epsilon of owners", ">of D_v", ">error", "where")
    table = table_of(header, caption=caption, padding=(0, 1))
    for way in ways:
        numbers = (f"{way.rows:,}", f"{way.owners_epsilon:g}", f"{way.validation_epsilon:g}")
        table.add_row(way.name, *numbers, way.error, way.use)
    console.print(table)
