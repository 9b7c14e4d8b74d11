"""One simulation from its settings to a finished folder."""

import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from consumer.results import EVALUATION, SUMMARY
from consumer.summary.evaluation import evaluator, require_models
from consumer.summary.forms import added_names
from consumer.summary.judging import judge_tables
from consumer.summary.offers import Summary, pruned
from curator.run.summary_record import write_run
from curator.sums.settings import SumSettings
from fedkme.errors import ConfigError, FedkmeError, InterruptedRunError, NotJudgedError, typed
from fedkme.inputs import read_text
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.statements import statements
from fedkme.ops.derivation import Derivation, total
from fedkme.party import fault_of_name
from fedkme.privacy.presets import warn_of_large
from fedkme.tables.data_file import MOST_MISSING, some
from fedkme.tables.files import save_table
from sim.config import Baseline, LaunchSettings, SimulationSettings
from sim.engines import run_folder
from sim.engines.inprocess import KeptRecords, SimulatedMarket, market_of, run_in_process
from sim.engines.processes import SummaryLaunch, show_summary
from sim.evaluation.baselines import BaselineResult, run_baselines
from sim.evaluation.metrics import Metrics, assemble, read_rounds, with_reading, write_metrics
from sim.evaluation.releases import compare_with_validation
from sim.formatting import verdict
from sim.interrupts import Interrupts
from sim.progress import Follower
from sim.report.write import write_report
from sim.scenarios import build_scenario, check_target
from sim.scenarios.base import Scenario


def simulate(
    settings: SimulationSettings, out: Path | None, progress: Follower, scenario: Scenario | None = None
) -> tuple[Path, Metrics]:
    """Run a simulation in `out`, or the next free folder under runs/; returns the folder and its metrics.

    Args:
        settings: settings of the run.
        out: folder of the run, new or empty.
        progress: follows the run.
        scenario: rows of a calling program; default: the rows that the settings name.

    Returns:
        The run's folder and its metrics.

    Raises:
        MissingDependencyError: the summary could not be judged on this machine.
        InterruptedRunError: ctrl-C; the folder holds the partial run with its metrics and report.
        FedkmeError: the run failed; its partial results are in the folder.
    """
    with contextlib.ExitStack() as until, Interrupts() as interrupts:
        started = time.monotonic()
        scenario = rows_of(settings, scenario, progress)
        if settings.downstream and scenario.test.labels is not None and len(scenario.test):
            require_models()
        warn_of_large(settings, progress.warn)
        directory = run_folder.make_run_directory(out, settings.title, until)
        run_folder.write_configuration(directory, settings)
        run_folder.write_schema(directory, scenario.schema)
        timing: dict[str, float] = {}
        if settings.engine == "processes":
            launch = SummaryLaunch(scenario, settings, directory, progress)
            work, timing = launch.run(), launch.timing
        else:
            work = _in_process(scenario, settings, directory, progress, timing)
        judged = "The run is over; its summary is judged and compared."
        record, failure = carried_out(interrupts, work, directory, progress, judged)
        settings = settings.chosen(record)
        steps = Derivation(
            f"The rows in {directory} are whole; `fedkme report {typed(directory)}` writes the page."
        )
        baselines: dict[Baseline, BaselineResult] = {}
        if failure is None and record["selected"] and settings.baselines and settings.noise == "seeded":
            progress.note(f"the summary is {record['status']}; running the baselines")
            try:
                gamma, accessed = record["features"]["gamma"], sum(record["accessed"].values())
                compared = run_baselines(scenario, settings, gamma, accessed, progress.note)
                baselines = steps.step("the baselines", lambda: interrupts.run(compared)) or {}
            except InterruptedRunError as error:
                failure = error
        timing["total_s"] = time.monotonic() - started
        evaluation = steps.step("the evaluation", lambda: _read_evaluation(directory))
        delta = settings.summary.privacy.delta
        privacy = steps.step("statements on privacy", lambda: statements(read_ledgers([directory]), delta))
        rounds = steps.step("rounds.csv", lambda: read_rounds(directory)) or []
        facts, added = (settings, record, rounds), added_names(scenario.schema)
        metrics = steps.step(
            "figures of the run",
            lambda: assemble(*facts, evaluation, baselines, timing, privacy or (), added),
        ) or assemble(*facts, None, {}, timing, (), added)
        compare = partial(
            compare_with_validation, directory / "consumer", scenario.validation, scenario.schema
        )
        beside = steps.step("columns beside D_v", compare)
        metrics = with_reading(metrics | {"columns": beside or {}}, scenario.reading())
        steps.step("report.html", lambda: _write(directory, metrics))
        if (loss := total(steps.losses)) is not None:
            metrics |= {"code": metrics["code"] or loss.code, "reason": metrics["reason"] or str(loss)}
            steps.step("metrics.json", lambda: write_metrics(directory, metrics))
        for failed in steps.losses:
            progress.warn(str(failed))
        if progress.watch is not None:
            words = f"{verdict(metrics)} Report: {directory / 'report.html'}"
            progress.watch.finish(directory, words, over=True)
    if failure is not None:
        raise failure
    return directory, metrics


def _write(directory: Path, metrics: Metrics) -> None:
    write_metrics(directory, metrics)
    write_report(directory)


def rows_of(settings: LaunchSettings, scenario: Scenario | None, progress: Follower) -> Scenario:
    """Rows of every party: from a calling program, or read as the settings say, with a warning of a stand-in.

    Raises:
        FedkmeError: the rows cannot be read, or an owner's name is not allowed.
    """
    if scenario is None:
        if settings.stand_in:
            progress.warn(settings.stand_in)
        progress.note(f"reading the rows of every party: {settings.title}")
        scenario = build_scenario(settings.scenario, settings.seed, at_once=settings.engine != "ray")
    check_names(scenario, settings.policies)
    if isinstance(settings, SimulationSettings):
        check_target(scenario)
    return scenario


def carried_out(
    interrupts: Interrupts,
    work: Coroutine[Any, Any, None],
    directory: Path,
    progress: Follower,
    next_step: str,
) -> tuple[Mapping[str, Any], FedkmeError | None]:
    """Carry a run out, then close its progress and update its page.

    Returns:
        The run's record, and the run's failure or None.

    Raises:
        FedkmeError: the run ended before there was a record.
    """
    failure: FedkmeError | None = None
    try:
        interrupts.run(work)
    except FedkmeError as error:
        failure = error
    finally:
        progress.close()
        if progress.watch is not None:
            progress.watch.finish(directory, next_step)
    if (record := run_folder.read_record(directory)) is None:
        run_folder.forget_settings(directory)
        raise failure or InterruptedRunError("the run ended before it began", "Start it again.")
    return record, failure


def check_names(scenario: Scenario, policies: Collection[str]) -> None:
    """Refuse an owner's name that ledgers could confuse with another party, and a policy of no owner.

    Raises:
        ConfigError: there is such a name.
    """
    if strangers := sorted({*policies} - {*scenario.owners, "all"}):
        listed = some(sorted(scenario.owners), MOST_MISSING)
        cause = f"scenario {scenario.name}: 'policies' names {some(strangers)}, and no owner is called so"
        raise ConfigError(cause, f"The owners are {listed}; 'all' stands for those without a policy.")
    for name in scenario.owners:
        if fault := fault_of_name(name, "owner"):
            raise ConfigError(f"scenario {scenario.name}: {fault}", "Rename the owner.")


async def _in_process(
    scenario: Scenario,
    settings: SimulationSettings,
    directory: Path,
    progress: Follower,
    timing: dict[str, float],
) -> None:
    started, records = time.monotonic(), KeptRecords()

    def hear(event: str, **fields: Any) -> None:
        if progress.watch is not None:
            progress.watch.hear(event, fields)
        if event == "round" and "startup_s" not in timing:
            first_round = time.monotonic() - fields["record"]["milliseconds"] / 1e3
            timing["startup_s"] = timing["launch_s"] = first_round - started
        show_summary(progress, event, fields)

    parts = settings.summary.curator_part(), settings.summary.consumer_part()
    pooling = SumSettings(security=settings.security)
    async with opened(scenario, settings, progress.note) as market:
        if progress.watch is not None:
            progress.watch.take(market.curator, tuple(market.owners), directory)
        try:
            summary = await run_in_process(market, scenario.validation, *parts, records, hear, pooling)
        finally:
            run_folder.write_ledgers(directory, await market.collect_stores())
            if records.summary is not None:
                write_run(directory, records.summary, records.facts)
    if not records.summary or not records.summary.selected:
        return
    steps = Derivation("The rows are whole; the same command with another --out judges them.")
    steps.step("forms and verdict of the summary", lambda: _judge(scenario, settings, directory, summary))
    if (loss := total(steps.losses)) is not None:
        raise NotJudgedError(loss.cause, loss.remedy)


def _judge(scenario: Scenario, settings: SimulationSettings, directory: Path, summary: Summary) -> None:
    """Write the consumer's summary, its forms, and their quality."""
    received, owners = summary.table, summary.outcome.participation
    if summary.outcome.prune:
        summary = pruned(summary, settings.summary.p, scenario.schema, scenario.validation)
    save_table(directory / "consumer" / SUMMARY, summary.table)
    schema, validation, doubts = scenario.schema, scenario.validation, owners.doubts if owners else []
    gamma = summary.plan.features.gamma
    against = evaluator(schema, validation, scenario.test, scenario.seeds, gamma, settings.downstream)
    judged = judge_tables(against, schema, validation, received, summary.table, settings.summary.p, doubts)
    for name, content in judged.files(schema).items():
        (directory / "consumer" / name).write_bytes(content)


def _read_evaluation(directory: Path) -> dict[str, Any] | None:
    path = directory / "consumer" / EVALUATION
    return json.loads(read_text(path)) if path.exists() else None


@contextlib.asynccontextmanager
async def opened(
    scenario: Scenario, settings: LaunchSettings, note: Callable[[str], None]
) -> AsyncIterator[SimulatedMarket]:
    """Open the parties of a scenario by the engine of its settings.

    Yields:
        The parties.

    Raises:
        FedkmeError: there is no cluster, or its nodes do not have the rows.
    """
    if settings.engine != "ray":
        yield market_of(scenario, settings.noise_seed, settings.policies)
        return
    from sim.cluster.parties import owners_in_actors
    from sim.cluster.shard import rows_of_scenario

    rows = partial(rows_of_scenario, settings.scenario, settings.seed)
    async with owners_in_actors(scenario, rows, settings, note) as market:
        yield market
