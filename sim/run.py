"""One simulation from its settings to a finished folder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from consumer.evaluation import evaluate_tables
from curator.store import write_run
from curator.summary.record import RoundRecord, SummaryRecord
from curator.summary.roster import Fault
from fedkme.data import Table
from fedkme.errors import FedkmeError, InterruptedRunError
from sim.baselines import BaselineResult, run_baselines
from sim.config import Baseline, SimulationSettings
from sim.inprocess import open_market, run_in_process
from sim.metrics import Metrics, assemble, read_rounds, write_metrics
from sim.processes import Launch
from sim.progress import Progress
from sim.report import write_report
from sim.rundir import make_run_directory, read_record, write_configuration
from sim.scenarios import Scenario, build_scenario

Result = TypeVar("Result")


class Shown:
    """Passes a run in this process on to whoever shows its progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.first_round: float | None = None

    def round_done(self, record: RoundRecord) -> None:
        """See `RunObserver`."""
        if self.first_round is None:
            self.first_round = time.monotonic() - record.milliseconds / 1e3
        self._progress.round({name: getattr(record, name) for name in RoundRecord.__slots__})

    def owner_left(self, fault: Fault) -> None:
        """See `RunObserver`."""
        self._progress.note(fault.line)


def simulate(settings: SimulationSettings, out: Path | None, progress: Progress) -> tuple[Path, Metrics]:
    """Run a simulation.

    Args:
        settings: what to run.
        out: folder for the run, or None for the next free one under runs/.
        progress: shows how far it is.

    Returns:
        The run's folder and its metrics.

    Raises:
        InterruptedRunError: ctrl-C; the folder holds the partial run with its metrics and report.
        FedkmeError: the run failed; whatever there was of it is in the folder.
    """
    started = time.monotonic()
    scenario = build_scenario(settings.scenario, settings.seed)
    directory = make_run_directory(out, scenario.name)
    write_configuration(directory, settings)
    failure: FedkmeError | None = None
    timing: dict[str, float] = {}
    try:
        engine = _processes if settings.engine == "processes" else _in_process
        asyncio.run(_interruptible(engine(scenario, settings, directory, progress, timing)))
    except FedkmeError as error:
        failure = error
    finally:
        progress.close()
    record = read_record(directory)
    if record is None:
        raise failure or InterruptedRunError("the run ended before it began", "Start it again.")
    baselines: dict[Baseline, BaselineResult] = {}
    if failure is None and record["selected"] and settings.baselines:
        progress.note(f"the summary is {record['status']}; running the baselines")
        try:
            gamma = record["features"]["gamma"]
            baselines = asyncio.run(_interruptible(run_baselines(scenario, settings, gamma)))
        except InterruptedRunError as error:
            failure = error
    timing["total_s"] = time.monotonic() - started
    with _undisturbed():
        evaluation = _read_evaluation(directory)
        metrics = assemble(settings, record, read_rounds(directory), evaluation, baselines, timing)
        write_metrics(directory, metrics)
        write_report(directory)
    if failure is not None:
        raise failure
    return directory, metrics


async def _processes(
    scenario: Scenario,
    settings: SimulationSettings,
    directory: Path,
    progress: Progress,
    timing: dict[str, float],
) -> None:
    launch = Launch(scenario, settings, directory, progress)
    try:
        await launch.run()
    finally:
        clock = launch.clock
        if clock.first_round is not None:
            timing["startup_s"] = clock.first_round - clock.imported
            timing["launch_s"] = clock.first_round - clock.launched


async def _in_process(
    scenario: Scenario,
    settings: SimulationSettings,
    directory: Path,
    progress: Progress,
    timing: dict[str, float],
) -> None:
    started = time.monotonic()
    market = open_market(scenario, settings.seed)
    record = SummaryRecord()
    shown = Shown(progress)
    progress.started(len(market.ports), settings.summary.p)
    facts: dict[str, Any] = {}
    try:
        table = settings.summary
        await run_in_process(
            market,
            scenario.validation,
            table.curator_part(),
            table.consumer_part(),
            settings.seed,
            record,
            shown,
            facts,
        )
    except FedkmeError as error:
        record.stop(error)
        raise
    finally:
        if facts:
            write_run(directory, record, facts)
        if shown.first_round is not None:
            timing["startup_s"] = timing["launch_s"] = shown.first_round - started
    if record.selected:
        evaluation = evaluate_tables(
            scenario.schema,
            Table(record.values(), record.labels()),
            scenario.validation,
            scenario.test,
            scenario.seeds,
            facts["features"]["gamma"],
            settings.downstream,
        )
        _write_evaluation(directory, evaluation.to_json())


async def _interruptible(work: Coroutine[Any, Any, Result]) -> Result:
    """Let ctrl-C and SIGTERM end the work in order; one is enough, more do not disturb the order."""
    task = asyncio.ensure_future(work)
    told = False

    def stop() -> None:
        nonlocal told
        if not told:
            told = True
            task.cancel()

    with _signals(stop):
        try:
            return await task
        except asyncio.CancelledError:
            if not told:
                raise
            raise InterruptedRunError(
                "the run was interrupted", "What was done so far is kept in the run's folder."
            ) from None


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Write down what there is, whoever is in a hurry."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _write_evaluation(directory: Path, evaluation: dict[str, Any]) -> None:
    folder = directory / "consumer"
    folder.mkdir(exist_ok=True)
    (folder / "evaluation.json").write_text(json.dumps(evaluation, indent=2) + "\n", encoding="utf-8")


def _read_evaluation(directory: Path) -> dict[str, Any] | None:
    path = directory / "consumer" / "evaluation.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
