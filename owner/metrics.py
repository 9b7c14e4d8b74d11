"""Metrics of an owner for Prometheus."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from fedkme.directives import Answer, Directive, Dismiss, Refusal
from fedkme.errors import FedkmeError
from fedkme.ops.metrics import Spending, exported, host_figures, timed
from fedkme.ops.supervision import StatusReporter
from fedkme.store import Store
from owner.settings import OwnerSettings


class OwnerMetrics:
    """Counters and gauges of one owner.

    Attributes:
        registry: holds every metric.
        stream: 1 while the stream to the curator is open.
        run_ended: called when the curator lets the owner forget a run.
    """

    def __init__(self, rows_sent: Callable[[], int]) -> None:
        """Start every counter at 0, but for `rows_sent`: rows sent in all runs by all processes."""
        self.registry = CollectorRegistry()
        where: dict[str, Any] = {"registry": self.registry}
        self.stream = Gauge("fedkme_stream", "Whether the curator is reached", **where)
        self._bytes = Counter(
            "fedkme_bytes", "Bytes of protocol messages in this process", ["direction"], **where
        )
        self._refusals = Counter("fedkme_refusals", "Refusals by number of docs/errors.md", ["code"], **where)
        self._left_out = Counter(
            "fedkme_runs_left", "Runs that went on without this owner, by number", ["code"], **where
        )
        self._directives = Counter("fedkme_directives", "Directives answered", ["kind"], **where)
        self.registry.register(_Rows(rows_sent))
        self.run_ended: Callable[[], None] = lambda: None

    def left_out(self, code: int) -> None:
        """Count a run that went on without this owner, by the number of docs/errors.md."""
        self._left_out.labels(str(code)).inc()

    def answered(
        self, directive: Directive, answer: Answer | None, received: int, sent: int, at: int
    ) -> None:
        """Count one exchange, with its bytes received and sent."""
        self._directives.labels(directive.question or "none").inc()
        self._bytes.labels("received").inc(received)
        self._bytes.labels("sent").inc(sent)
        if isinstance(answer, Refusal):
            self._refusals.labels(str(answer.code)).inc()
        if isinstance(directive.body, Dismiss):
            self.run_ended()


@contextlib.contextmanager
def export(
    settings: OwnerSettings, store: Store, rows_sent: Callable[[], int], reporter: StatusReporter
) -> Iterator[tuple[OwnerMetrics, Store]]:
    """Export an owner's metrics to Prometheus inside the block, as its settings say.

    Yields:
        The metrics, and the store wrapped so that its calls are timed.

    Raises:
        ConfigError: `metrics` is not an address on which metrics may be served.
    """
    loop = asyncio.get_running_loop()

    def unreadable(error: FedkmeError) -> None:  # in a thread
        loop.call_soon_threadsafe(
            functools.partial(reporter.say, "warning", code=error.code, line=str(error))
        )

    assert settings.metrics is not None, "the caller checked"
    metrics = OwnerMetrics(rows_sent)
    with (
        exported(settings.metrics, settings.metrics_anywhere, metrics.registry) as where,
        contextlib.closing(Spending(store, metrics.registry, unreadable)) as spending,
        host_figures(metrics.registry, settings.journal),
    ):
        metrics.run_ended = spending.refresh
        reporter.say("metrics", address=where)
        yield metrics, timed(store, metrics.registry)


class _Rows(Collector):
    def __init__(self, rows_sent: Callable[[], int]) -> None:
        self._rows_sent = rows_sent

    def collect(self) -> Iterator[Metric]:
        about = "Rows that left this owner, over all runs and processes"
        yield CounterMetricFamily("fedkme_rows_sent", about, value=self._rows_sent())
