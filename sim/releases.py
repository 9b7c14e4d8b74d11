"""One simulated release from its settings to a finished folder, by either engine."""

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from consumer.releases.client import ReleaseConsumerSettings
from consumer.results import participation_in
from curator.planning.releases import ReleasePlan
from curator.releases.method import RELEASE, make_method
from curator.run.record import RECORD
from curator.run.release_record import completed, write_release
from curator.runs.public_draws import public_seed
from fedkme.config import dump_toml
from fedkme.durable import replace
from fedkme.errors import ConfigError, DataError, NotMadeError, StoreError, on_disk, typed
from fedkme.exchange import Participation
from fedkme.inputs import read_bytes, read_text
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.statements import statements
from fedkme.ops.derivation import Derivation, total
from fedkme.privacy.events import CONSUMER, CURATOR
from fedkme.privacy.presets import warn_of_large
from fedkme.releases.counts import protocol_of
from fedkme.releases.settings import read_points
from fedkme.tables.files import load_table
from fedkme.tables.table import joined
from sim.config import plain
from sim.engines import run_folder
from sim.engines.children import Event
from sim.engines.inprocess import InProcessMarket, KeptRecords, release_in_process
from sim.engines.processes import Folders, Launch
from sim.evaluation.grades import by_rows
from sim.evaluation.metrics import with_reading
from sim.evaluation.releases import can_train, evaluate_points, evaluate_rows
from sim.interrupts import Interrupts
from sim.progress import Follower
from sim.release_config import ReleaseSimulation, load_release
from sim.report.received import write_received
from sim.report.write import read_object, write_report
from sim.run import carried_out, opened, rows_of
from sim.scenarios import build_scenario
from sim.scenarios.base import Scenario

SETTINGS, METRICS = "release.toml", "metrics.json"
FIGURES = "figures by the owners' rows"


def simulate_release(
    settings: ReleaseSimulation,
    out: Path | None,
    shown: Follower,
    scenario: Scenario | None = None,
    plan: ReleasePlan | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Run a release in `out`, or the next free folder under runs/; returns the folder and its metrics.

    Args:
        settings: settings of the run.
        out: folder of the run, new or empty.
        shown: follows the run.
        scenario: rows of a calling program; default: the rows that the settings name.
        plan: reason for the method; None where the user named the method.

    Returns:
        The run's folder and its metrics.

    Raises:
        InterruptedRunError: ctrl-C; the folder holds the partial results, with a report.
        FedkmeError: the run failed; its partial results are in the folder, with a report.
    """
    with contextlib.ExitStack() as until, Interrupts() as interrupts:
        started = time.monotonic()
        scenario = rows_of(settings, scenario, shown)
        if plan is not None:
            shown.note(plan.line)
        settings = _with_seed(settings)
        release = read_points(settings.release, scenario.schema, Path())
        make_method(release, scenario.schema, scenario.seeds, release.seed or 0)  # refuses wrong settings now
        warn_of_large(settings, shown.warn)
        if scenario.test.labels is not None and len(scenario.test) and not can_train():
            shown.warn("no models will be trained on the rows: training takes pip install 'fedkme[sim]'")
        if out is not None and _lacks_derived_files(out, settings):
            return out, complete_release(out, shown.warn, scenario)
        directory = run_folder.make_run_directory(out, f"{settings.release.kind}-{settings.title}", until)
        (directory / SETTINGS).write_text(dump_toml(plain(settings)), encoding="utf-8")
        run_folder.write_schema(directory, scenario.schema)
        steps = Derivation()
        if settings.engine == "processes":
            work = ReleaseLaunch(scenario, settings, directory, shown).run()
        else:
            work = _in_process(scenario, settings, directory, shown, steps)
        compared = settings.noise == "seeded"  # figures by the owners' rows carry no noise
        next_step = (
            "The run is over; its rows are compared with the owners'." if compared else "The run is over."
        )
        record, failure = carried_out(interrupts, work, directory, shown, next_step)
        if record["files"]:
            shown.note("the release is made" + ("; it is compared with the owners' rows" if compared else ""))
        figures = {"timing": {"total_s": time.monotonic() - started}}
        if plan is not None:
            figures["plan"] = plan.to_json()
        metrics = _derive(directory, record, settings, scenario, figures, shown.warn, steps)
        if shown.watch is not None:
            shown.watch.finish(directory, f"Report: {directory / 'report.html'}", over=True)
    if failure is not None:
        raise failure
    return directory, metrics


def _lacks_derived_files(directory: Path, settings: ReleaseSimulation) -> bool:
    """Check whether a folder has the numbers of this very release, but not every file derived from them."""
    path = directory / SETTINGS
    if not path.exists() or read_text(path) != dump_toml(plain(settings)):
        return False
    return not run_folder.is_under_way(directory) and has_numbers(directory) and not _is_complete(directory)


def has_numbers(directory: Path) -> bool:
    """Check whether a folder has released numbers: a simulation's, or a consumer's output."""
    return (directory / RELEASE).exists() or any(directory.glob(f"curator/run-*/{RELEASE}"))


def _is_complete(directory: Path) -> bool:
    """Check whether a folder has every file that is derived from its released numbers."""
    if not (directory / RECORD).exists():
        return any(directory.glob("*.card.json")) and any(directory.glob("*.csv"))
    record, metrics = read_object(directory / RECORD), directory / METRICS
    there = all((directory / str(name)).exists() for name in record["files"])
    return record["status"] == "complete" and there and metrics.exists() and not read_object(metrics)["code"]


def complete_release(
    directory: Path, warn: Callable[[str], None], scenario: Scenario | None = None
) -> dict[str, Any]:
    """Make the missing files of a release from the numbers in its folder; no party is asked.

    Args:
        directory: folder of a simulation, even a killed simulation, or a consumer's output.
        warn: gets a line for each file that cannot be made this time either.
        scenario: parties of the simulation; default: the parties that its settings name.

    Returns:
        Metrics, whose `code` is 28 where something is still missing.

    Raises:
        ConfigError: the run is under way.
        StoreError: the numbers cannot be read.
    """
    if run_folder.is_under_way(directory):
        raise ConfigError(f"the run in {directory} is under way", "Wait for its end.")
    if (directory / "curator").is_dir():  # the launcher was killed
        run_folder.adopt(directory)
    if _is_complete(directory) and (directory / METRICS).exists():
        write_report(directory)
        return {"losses": (), **read_object(directory / METRICS)}
    owners = participation_in(directory)
    losses = () if _is_complete(directory) else completed(directory, lambda *_: None, owners)
    if not ((directory / SETTINGS).exists() and (directory / RECORD).exists()):
        return _derive_received(directory, losses, warn)
    steps = Derivation()
    settings = load_release(protocol_in(directory), str(directory / SETTINGS))
    before = read_object(directory / METRICS) if (directory / METRICS).exists() else {}
    figures: dict[str, Any] = {key: before[key] for key in ("timing", "plan", "reading") if key in before}
    if scenario is None and settings.noise == "seeded":
        scenario = steps.step(FIGURES, lambda: build_scenario(settings.scenario, settings.seed))
    record = read_object(directory / RECORD)
    _copy_to_consumer(directory, record["files"], steps)
    metrics = _derive(directory, record, settings, scenario, {"timing": {}, **figures}, warn, steps)
    (directory / run_folder.UNFINISHED).unlink(missing_ok=True)
    return metrics


def protocol_in(directory: Path) -> str:
    """Name of the method that made the released numbers of a folder.

    Raises:
        DataError: the folder has no release.
    """
    with on_disk(f"{directory / RELEASE} cannot be read", "Give a release's folder.", DataError):
        return protocol_of(read_bytes(directory / RELEASE), str(directory / RELEASE))


def _derive(
    directory: Path,
    record: Mapping[str, Any],
    settings: ReleaseSimulation,
    scenario: Scenario | None,
    figures: Mapping[str, Any],
    warn: Callable[[str], None],
    steps: Derivation,
) -> dict[str, Any]:
    """Make metrics.json and the page of a run; a failed step adds a warning and sets the run's code."""
    steps.remedy = f"`fedkme report {typed(directory)}` makes the rest at no cost."
    steps.losses = [
        *(NotMadeError(cause, steps.remedy) for cause in record.get("losses", ())),
        *(NotMadeError(loss.cause, steps.remedy) for loss in steps.losses),
    ]
    reading = figures.get("reading", {}) if scenario is None else scenario.reading()
    metrics = with_reading({**_metrics(scenario, settings, directory, record, steps), **figures}, reading)
    _write_metrics(directory, metrics, steps)
    if steps.step("report.html", lambda: write_report(directory)) is None:
        _write_metrics(directory, metrics, steps)
    for loss in steps.losses:
        warn(str(loss))
    return metrics


def _write_metrics(directory: Path, metrics: dict[str, Any], steps: Derivation) -> None:
    """Write metrics.json with the losses so far."""

    def write() -> None:
        replace(directory / METRICS, (json.dumps(metrics, indent=2) + "\n").encode())

    for _ in range(2):  # a second time where the loss of the file itself is new
        metrics["losses"] = [loss.cause for loss in steps.losses]
        if (loss := total(steps.losses)) is not None and metrics["code"] in (0, loss.code):
            metrics |= {"code": loss.code, "reason": str(loss)}
        before = len(steps.losses)
        steps.step(METRICS, write)
        if len(steps.losses) == before:
            return


def _derive_received(
    directory: Path, losses: Sequence[NotMadeError], warn: Callable[[str], None]
) -> dict[str, Any]:
    """Make the page of a consumer's received release, if it has its card."""
    steps, metrics = Derivation(), dict[str, Any]()

    def page() -> dict[str, Any]:
        return write_received(directory, CONSUMER, protocol_in(directory))

    if any(directory.glob("*.card.json")):
        metrics = steps.step("report.html", page) or metrics
    for loss in (all_losses := (*losses, *steps.losses)):
        warn(str(loss))
    return metrics | {"losses": [loss.cause for loss in all_losses]}


def _with_seed(settings: ReleaseSimulation) -> ReleaseSimulation:
    """Add the public seed that the curator of a deployment would draw."""
    if settings.release.seed is not None:
        return settings
    release = settings.release.model_copy(update={"seed": public_seed(settings.noise_seed) >> 1})
    return settings.model_copy(update={"release": release})


class ReleaseLaunch(Launch[ReleaseSimulation]):
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
    def hear(self, event: Event) -> None:
        if event["event"] != "progress" or event["party"] == "curator":
            _show(self.shown, event["event"], event)


def _show(shown: Follower, event: str, fields: Mapping[str, Any]) -> None:
    match event:
        case "run":
            shown.note(f"{fields['owners']} owners are ready")
        case "progress":
            shown.stage(fields["stage"], fields["line"], fields["fraction"])


async def _in_process(
    scenario: Scenario, settings: ReleaseSimulation, directory: Path, shown: Follower, steps: Derivation
) -> None:
    def hear(event: str, **fields: Any) -> None:
        if shown.watch is not None:
            shown.watch.hear(event, fields)
        _show(shown, event, fields)
        if event in ("owner_left", "warning"):
            shown.warn(fields["line"])

    release = json.dumps(plain(read_points(settings.release, scenario.schema, Path())), sort_keys=True)
    async with opened(scenario, settings, shown.note) as market:
        if shown.watch is not None:
            shown.watch.take(market.curator, tuple(market.owners), directory)

        def keep(records: KeptRecords) -> None:
            """Write a release to disk; files at its end only as far as the disk has room."""
            assert records.release is not None, "a release is kept"
            stores = market.stores() if isinstance(market, InProcessMarket) else {CURATOR: market.curator}
            with on_disk(f"{directory} cannot be written", "Make room, and ask again.", StoreError):
                run_folder.write_ledgers(directory, stores)
                write_release(directory, records.release, records.files, records.facts, Derivation())

        records = KeptRecords(keep)
        try:
            await release_in_process(market, release, settings.pooling, records, hear)
        finally:
            run_folder.write_ledgers(directory, await market.collect_stores())
    _copy_to_consumer(directory, records.files, steps)


def _copy_to_consumer(directory: Path, names: Iterable[str], steps: Derivation) -> None:
    """Copy the run's files that the consumer gets, where they exist."""
    for name in names:
        source, target = directory / name, directory / "consumer" / name
        if source.exists() and target.parent.exists():
            steps.step(f"consumer/{name}", partial(shutil.copyfile, source, target))


def _metrics(
    scenario: Scenario | None,
    settings: ReleaseSimulation,
    directory: Path,
    record: Mapping[str, Any],
    steps: Derivation,
) -> dict[str, Any]:
    """Metrics for metrics.json, each figure in a step of its own; docs/metrics.md explains each figure."""
    delta = settings.release.delta
    privacy = steps.step("statements on privacy", lambda: statements(read_ledgers([directory]), delta))
    card = next((name for name in record["files"] if name.endswith(".card.json")), None)
    verdict = None if card is None else steps.step("the verdict", lambda: read_object(directory / card))
    evaluation = None
    # Figures by the owners' rows carry no noise: only a seeded simulation has them.
    rows = {"synthetic.npz", "weighted.npz"} & set(record["files"])
    if scenario is not None and rows and settings.noise == "seeded":
        evaluation = steps.step(FIGURES, lambda: _evaluation(scenario, settings, directory, record))
    return {
        "status": record["status"],
        "reason": record["reason"],
        "code": record["code"],
        **settings.named,
        "method": record["protocol"],
        "engine": settings.engine,
        "seed": settings.noise_seed,
        "security": record["security"],
        "K": len(record["owner_rows"]),
        "N": sum(record["owner_rows"].values()),
        "rows": record["rows"],
        "verdict": by_rows((verdict or {}).get("verdict"), evaluation or {}),
        "lost": owners.doubts if (owners := Participation.from_json(record.get("participation"))) else [],
        "privacy": [statement.to_json() for statement in privacy or ()],
        "evaluation": evaluation or {},
        "files": record["files"],
        "bytes": record["bytes"],
        "faults": record["faults"],
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
