"""Pages of what a deployed consumer received; they need no extra."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from consumer.releases.client import ReleaseConsumerSettings
from consumer.requests import KeptRequest, Requests
from consumer.results import EVALUATION, SUMMARY, lost_owners, write_result
from consumer.settings import ConsumerSettings
from consumer.summary.received import load_validation
from fedkme.errors import ConfigError, FedkmeError
from fedkme.heads.files import export
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.statements import statements
from fedkme.privacy.accounting import PrivacyStatement
from fedkme.store.reading import read_store
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Schema, load_schema
from sim.evaluation.received import received_metrics, received_release
from sim.evaluation.releases import compare_with_validation
from sim.report.summary_page import render_received
from sim.report.write import REPORT, modified, page_of_release, read_object


def report_summary(settings: ConsumerSettings) -> tuple[Schema, dict[str, Any]]:
    """Write the page of the summary in a consumer's folder; return its schema and its metrics.

    Raises:
        ConfigError: the folder has no summary.
    """
    output, schema = settings.output, load_schema(settings.schema_file)
    request = _last_request(settings) if (output / SUMMARY).exists() else None
    if request is None or request.document.plan is None:
        raise ConfigError(f"there is no summary in {output}", "Ask for one: .summary().")
    plan, arrays = request.document.plan, read_arrays(output / SUMMARY, settings.name)
    evaluation = read_object(output / EVALUATION) if (output / EVALUATION).exists() else None
    rows, wanted = len(arrays["x"]), request.document.request.rows
    privacy = _statements(settings, plan.run)
    metrics = received_metrics(settings.name, plan, wanted, rows, evaluation, privacy)
    with contextlib.suppress(FedkmeError):  # D_v may be elsewhere by now; the rest of the page needs none
        metrics["columns"] = compare_with_validation(output, load_validation(settings, schema).table, schema)
    page = render_received(metrics, arrays, modified(output / SUMMARY))
    write_result(output / REPORT, page.encode("utf-8"))
    return schema, metrics


def _last_request(settings: ConsumerSettings) -> KeptRequest | None:
    with contextlib.closing(read_store(settings.journal, settings.name)) as store:
        return Requests(settings.name, store).last(os.path.realpath(settings.output))


def _statements(settings: ConsumerSettings, run: str) -> list[PrivacyStatement]:
    """Statements on the cost of a run to D_v, from the consumer's own ledger."""
    with tempfile.TemporaryDirectory(prefix="fedkme-") as scratch:
        file = Path(scratch) / "ledger.jsonl"
        export(settings.journal, settings.name, file)
        ledgers = read_ledgers([file])
    return statements(ledgers.of(run), settings.request.privacy.delta)


def report_release(settings: ReleaseConsumerSettings) -> dict[str, Any]:
    """Write the page of the release in a consumer's folder; return its metrics.

    Raises:
        ConfigError: the folder has no release.
    """
    return write_received(settings.output, settings.name, settings.release.kind)


def write_received(folder: Path, consumer: str, method: str) -> dict[str, Any]:
    """Write the page of the release that a consumer received in a folder; return its metrics.

    Raises:
        ConfigError: the folder has no release.
    """
    cards = sorted(folder.glob("*.card.json"))
    if not cards:
        raise ConfigError(f"there is no release in {folder}", "Ask for one: .release().")
    metrics = received_release(consumer, method, read_object(cards[0]))
    metrics["lost"] = lost_owners(folder)
    metrics["files"] = [file.name for file in sorted(folder.glob("*.*")) if file.suffix != ".html"]
    write_result(folder / REPORT, page_of_release(folder, metrics, {}).encode("utf-8"))
    return metrics
