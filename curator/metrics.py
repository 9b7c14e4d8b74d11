"""Metrics of a curator for Prometheus."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from curator.owners.members import Members
from curator.run.summary_record import RoundRecord
from curator.runs.queue import RunQueue

_ROUND_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)


class CuratorMetrics:
    """Counts rounds, accesses and refusals in a Prometheus registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        where: dict[str, Any] = {"registry": self.registry}
        self._rounds = Counter("fedkme_rounds", "Rounds of all runs in this process", **where)
        self._seconds = Histogram("fedkme_round_seconds", "Wall time of a round", buckets=_ROUND_S, **where)
        self._accessed = Counter(
            "fedkme_points_accessed", "Distinct rows that came in this process", ["owner"], **where
        )
        self._accessed_of: dict[str, Counter] = {}
        self._refusals = Counter("fedkme_refusals", "Refusals by number of docs/errors.md", ["code"], **where)
        self._left = Counter(
            "fedkme_owners_left",
            "Runs that an owner left, by number of docs/errors.md",
            ["owner", "code"],
            **where,
        )
        self._unwitnessed = Counter(
            "fedkme_unwitnessed_heads", "Heads of ledgers that were not exchanged with an owner", **where
        )

    def count(self, event: str, fields: Mapping[str, Any]) -> None:
        """Count an event that the curator reports, if it is one of these."""
        match event:
            case "refused":
                self._refusals.labels(str(fields["code"])).inc()
            case "owner_left":
                self._left.labels(fields["owner"], str(fields["code"])).inc()
            case "unwitnessed":
                self._unwitnessed.inc()

    def round_done(self, record: RoundRecord, accesses: Sequence[tuple[int, str, int]]) -> None:
        """Count a round and its accesses."""
        self._rounds.inc()
        self._seconds.observe(record.milliseconds / 1e3)
        for _, owner, _ in accesses:
            if (count := self._accessed_of.get(owner)) is None:
                count = self._accessed_of[owner] = self._accessed.labels(owner)
            count.inc()

    def watch(self, members: Members, runs: RunQueue) -> None:
        """Export states and traffic of `members` and `runs` whenever the registry is read."""
        self.registry.register(_States(members, runs))


class _States(Collector):
    """States and traffic that members and runs keep anyway; read in the exporter's thread."""

    def __init__(self, members: Members, runs: RunQueue) -> None:
        self._members = members
        self._runs = runs

    def collect(self) -> Iterator[Metric]:
        streams = GaugeMetricFamily("fedkme_owner_stream", "Whether an owner has a stream", labels=["owner"])
        sent = "Bytes of protocol messages in this process, without framing and TLS"
        traffic = CounterMetricFamily("fedkme_bytes", sent, labels=["owner", "direction"])
        for connection in self._members.connections():
            streams.add_metric([connection.name], float(connection.stream is not None))
            traffic.add_metric([connection.name, "sent"], connection.traffic.sent)
            traffic.add_metric([connection.name, "received"], connection.traffic.received)
        runs = GaugeMetricFamily("fedkme_runs", "Open runs, suspended ones apart", labels=["status"])
        for status, count in self._runs.counts().items():
            runs.add_metric([status], count)
        yield from (streams, traffic, runs)
