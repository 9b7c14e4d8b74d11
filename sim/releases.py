"""One simulated release from its settings to a finished folder, by either engine."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from consumer.releases.client import ReleaseConsumerSettings
from curator.planning.releases import ReleasePlan
from curator.releases.method import make_method
from curator.releases.record import write_release
from curator.runs.public_draws import public_seed
from fedkme.config import dump_toml
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.statements import statements
from fedkme.privacy.presets import warn_of_large
from fedkme.releases.settings import read_points
from fedkme.tables.files import load_table
from fedkme.tables.table import joined
from sim.config import plain
from sim.engines.children import Event as Said
from sim.engines.inprocess import KeptRecords, release_in_process
from sim.engines.opening import opened
from sim.engines.processes import Folders, Launch
from sim.engines.run_folder import make_run_directory, write_ledgers, write_schema
from sim.evaluation.releases import can_train, evaluate_points, evaluate_rows
from sim.interrupts import Interrupts
from sim.release_config import ReleaseSimulation
from sim.report.release_progress import ReleaseFollower
from sim.report.write import read_object, write_report
from sim.run import carried_out, rows_of
from sim.scenarios import Scenario
from sim.watch import SimulationWatch


def simulate_release(
    settings: ReleaseSimulation,
    out: Path | None,
    shown: ReleaseFollower,
    scenario: Scenario | None = None,
    plan: ReleasePlan | None = None,
    watch: SimulationWatch | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Run a release in `out`, or the next free folder under runs/; returns the folder and its metrics.

    Args:
        settings: of the run.
        out: its folder, new or empty.
        shown: follows the run.
        scenario: rows of a program that calls; by default those that the settings name.
        plan: by which the method was chosen; None where somebody named it.
        watch: what a page shows of it.

    Returns:
        The run's folder and its metrics.

    Raises:
        InterruptedRunError: ctrl-C; the folder holds what there is, with a report.
        FedkmeError: the run failed; whatever there was of it is in the folder, with a report.
    """
    with contextlib.ExitStack() as until, Interrupts() as interrupts:
        started = time.monotonic()
        scenario = rows_of(settings, scenario, shown.note)
        if plan is not None:
            shown.note(plan.line)
        settings = _with_seed(settings)
        asked = read_points(settings.release, scenario.schema, Path())
        make_method(asked, scenario.schema, scenario.seeds, asked.seed or 0)  # what is wrong is said now
        warn_of_large(settings, shown.warn)
        if scenario.test.labels is not None and len(scenario.test) and not can_train():
            shown.warn("no models will be trained on the rows: that takes pip install 'fedkme[sim]'")
        directory = make_run_directory(out, f"{settings.release.kind}-{settings.title}", until)
        (directory / "release.toml").write_text(dump_toml(plain(settings)), encoding="utf-8")
        write_schema(directory, scenario.schema)
        if settings.engine == "processes":
            work = ReleaseLaunch(scenario, settings, directory, shown, watch).run()
        else:
            work = _in_process(scenario, settings, directory, shown, watch)
        held = "The run is over; its rows are held against the owners'."
        record, failure = carried_out(interrupts, work, directory, shown.close, watch, held)
        if record["files"]:
            shown.note("the release is made; it is held against the owners' rows")
        metrics = _metrics(scenario, settings, directory, record, time.monotonic() - started)
        if plan is not None:
            metrics["plan"] = plan.to_json()
        (directory / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
        write_report(directory)
        if watch is not None:
            watch.finish(directory, f"Report: {directory / 'report.html'}", over=True)
    if failure is not None:
        raise failure
    return directory, metrics


def _with_seed(settings: ReleaseSimulation) -> ReleaseSimulation:
    """Add the public seed that the curator of a deployment would draw."""
    if settings.release.seed is not None:
        return settings
    release = settings.release.model_copy(update={"seed": public_seed(settings.noise_seed) >> 1})
    return settings.model_copy(update={"release": release})


class ReleaseLaunch(Launch[ReleaseSimulation, ReleaseFollower]):
    """A release by processes."""

    @override
    def parties(self, scratch: Path) -> Mapping[str, list[str]]:
        folders = Folders(self.scenario, self.settings, scratch, self.directory, self.authority)
        commands = folders.servers(self.page, release=self.settings.pooling)
        consumer = ReleaseConsumerSettings(
            **folders.common("consumer"),
            curator="-",
            output=folders.directory / "consumer",
            release=self.settings.release,
        )
        commands["consumer"] = ["consumer", "release", folders.write("consumer", consumer)]
        return commands

    @override
    def hear(self, event: Said) -> None:
        if event["event"] != "progress" or event["party"] == "curator":
            _show(self.shown, event["event"], event)


def _show(shown: ReleaseFollower, event: str, fields: Mapping[str, Any]) -> None:
    match event:
        case "run":
            shown.note(f"{fields['owners']} owners are ready")
        case "progress":
            shown.stage(fields["stage"], fields["line"], fields["fraction"])


async def _in_process(
    scenario: Scenario,
    settings: ReleaseSimulation,
    directory: Path,
    shown: ReleaseFollower,
    watch: SimulationWatch | None,
) -> None:
    def hear(event: str, **fields: Any) -> None:
        if watch is not None:
            watch.hear(event, fields)
        _show(shown, event, fields)
        if event in ("owner_left", "warning"):
            shown.warn(fields["line"])

    records = KeptRecords()
    asked = json.dumps(plain(read_points(settings.release, scenario.schema, Path())), sort_keys=True)
    async with opened(scenario, settings, shown.note) as market:
        if watch is not None:
            watch.take(market.curator, tuple(market.owners), directory)
        try:
            await release_in_process(market, asked, settings.pooling, records, hear)
        finally:
            write_ledgers(directory, await market.collect_stores())
            if records.release is not None:
                write_release(directory, records.release, records.files, records.facts)
    for name, data in records.files.items():
        (directory / "consumer" / name).write_bytes(data)


def _metrics(
    scenario: Scenario,
    settings: ReleaseSimulation,
    directory: Path,
    record: Mapping[str, Any],
    total_s: float,
) -> dict[str, Any]:
    """Metrics for metrics.json; docs/metrics.md explains them."""
    privacy = statements(read_ledgers([directory]), settings.release.delta)
    card = next((name for name in record["files"] if name.endswith(".card.json")), None)
    held_against_rows = record["files"] and settings.noise == "seeded"  # such figures carry no noise
    return {
        "status": record["status"],
        "reason": record["reason"],
        "code": record["code"],
        "scenario": settings.title,
        "method": record["protocol"],
        "engine": settings.engine,
        "seed": settings.noise_seed,
        "security": record["security"],
        "K": len(record["owner_rows"]),
        "N": sum(record["owner_rows"].values()),
        "rows": record["rows"],
        "verdict": None if card is None else read_object(directory / card).get("verdict"),
        "privacy": [each.to_json() for each in privacy],
        "evaluation": _evaluation(scenario, settings, directory, record) if held_against_rows else {},
        "files": record["files"],
        "bytes": record["bytes"],
        "faults": record["faults"],
        "timing": {"total_s": total_s},
    }


def _evaluation(
    scenario: Scenario, settings: ReleaseSimulation, directory: Path, record: Mapping[str, Any]
) -> dict[str, Any]:
    owners = [table for table in scenario.owners.values() if len(table)]
    real = joined(owners)
    real = real.take(np.random.default_rng(settings.seed).permutation(len(real)))
    if "synthetic.npz" in record["files"]:
        synthetic = load_table(directory / "synthetic.npz", scenario.schema, "synthetic")
        return evaluate_rows(synthetic, real, scenario.test, scenario.schema, settings.seed)
    from consumer.releases.released import load_release

    released = load_release(directory)
    return evaluate_points(*released.in_units_of_kernel(scenario.schema, real.values))
