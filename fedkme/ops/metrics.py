"""Metrics for Prometheus of every party with a store, and the server that exports them.

The server has threads of its own. A round costs a few counters; epsilon, which is expensive, is computed in a
thread when a run ends.
"""

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from fedkme.errors import ConfigError, FedkmeError, on_disk
from fedkme.party import host_and_port, is_loopback
from fedkme.pki.expiry import Read
from fedkme.privacy.ledger import costs, disclosures_in
from fedkme.store import Store
from fedkme.store.opening import is_on_server

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]
"""WSGI application."""

DELTA = 1e-5
"""Delta at which epsilons are stated, as `fedkme audit ledger` does."""
FAST = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.5, 2.0)
"""Buckets of commits, in seconds."""


@contextlib.contextmanager
def exported(address: str, anywhere: bool, registry: CollectorRegistry) -> Iterator[str]:
    """Serve metrics to Prometheus inside the context.

    Args:
        address: host:port.
        anywhere: allow an address off loopback.
        registry: the metrics.

    Yields:
        the address, with the port that the system chose for 0.

    Raises:
        ConfigError: the address is malformed, is off loopback without `anywhere`, or is not free.
    """
    host, port = host_and_port(address, "metrics", "127.0.0.1:9464")
    if not anywhere and not is_loopback(host):
        remedy = "Use 127.0.0.1 and let a proxy ask for passwords, or set 'metrics_anywhere'."
        raise ConfigError(f"metrics are refused at {address}: anybody who reaches it would read them", remedy)
    with on_disk(f"'metrics' cannot listen on {address}", "Choose a free port of this machine."):
        server, thread = start_http_server(port, host.strip("[]"), registry)
    if is_loopback(host):
        server.set_app(_own_host_only(make_wsgi_app(registry)))
    try:
        yield f"{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _own_host_only(app: Application) -> Application:
    """Refuse requests that name another host: a web site in a browser of this machine could read figures."""

    def guarded(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        host = environ.get("HTTP_HOST", "")
        if is_loopback(host.rpartition(":")[0] or host):
            return app(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"Figures are for this machine: name it as 127.0.0.1.\n"]

    return guarded


class Expiries(Collector):
    """Seconds until what a party must renew ends; read in the exporter's thread."""

    def __init__(self, read: Read) -> None:
        self._read = read

    @override
    def collect(self) -> Iterator[Metric]:
        about = "Seconds until it must have been renewed"
        ends = GaugeMetricFamily("fedkme_expires_seconds", about, labels=["what"])
        soonest: dict[str, float] = {}
        for each in self._read():
            soonest[each.what] = min(each.seconds, soonest.get(each.what, each.seconds))
        for what, seconds in soonest.items():
            ends.add_metric([what], seconds)
        yield ends


@contextlib.contextmanager
def host_figures(registry: CollectorRegistry, journal: str) -> Iterator[None]:
    """Count this process's unforeseen errors, and watch the room of a journal in a file, in the context."""
    counter = Counter(
        "fedkme_unforeseen_errors", "Errors that nobody foresaw; the log has their place", registry=registry
    )
    handler = _CountingHandler(counter)
    if not is_on_server(journal):
        registry.register(JournalRoom(Path(journal)))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


class _CountingHandler(logging.Handler):
    """Counts errors in logs; a party has none there that it foresaw."""

    def __init__(self, counter: Counter) -> None:
        super().__init__(logging.ERROR)
        self._counter = counter

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._counter.inc()


class JournalRoom(Collector):
    """Size of a journal's files and free room beside them; read in the exporter's thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    def collect(self) -> Iterator[Metric]:
        with contextlib.suppress(OSError):  # a disk that is gone has no figures
            files = [self._path, self._path.with_name(f"{self._path.name}-wal")]
            size = sum(file.stat().st_size for file in files if file.exists())
            yield GaugeMetricFamily("fedkme_journal_bytes", "Bytes of the journal, without archives", size)
            free = shutil.disk_usage(self._path.parent).free
            yield GaugeMetricFamily("fedkme_journal_free_bytes", "Free bytes of the journal's disk", free)


class TimedStore:
    """A store whose transactions are measured."""

    def __init__(self, store: Store, registry: CollectorRegistry) -> None:
        self._store = store
        self._seconds = Histogram(
            "fedkme_journal_commit_seconds",
            "Time of a transaction of the journal",
            buckets=FAST,
            registry=registry,
        )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction of the store, and measure its time."""
        begun = time.perf_counter()
        with self._store.transaction():
            yield
        self._seconds.observe(time.perf_counter() - begun)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def timed(store: Store, registry: CollectorRegistry) -> Store:
    """Wrap a store so that its transactions are measured."""
    return cast(Store, TimedStore(store, registry))


class Spending:
    """Epsilon and raw rows of the ledger by protected set and observer, by the sound accountant."""

    def __init__(self, store: Store, registry: CollectorRegistry, say: Callable[[FedkmeError], None]) -> None:
        """Start with the ledger's lines; `say` gets errors of an unreadable ledger, in another thread."""
        self._store = store
        self._say = say
        self._disclosures, self._read = costs(store)
        self._due = threading.Event()
        self._over = threading.Event()
        labels = ("protected", "observer")
        about = f"Epsilon at delta {DELTA:g} that was proven to be spent; +Inf where nothing is proven"
        self._epsilon = Gauge("fedkme_epsilon", about, labels, registry=registry)
        self._rows = Gauge(
            "fedkme_raw_rows", "Rows that an observer saw as they are", labels, registry=registry
        )
        # a daemon: an accountant in the middle of its computation does not delay the end of the process
        self._thread = threading.Thread(target=self._work, name="spending", daemon=True)
        self._thread.start()
        self.refresh()

    def refresh(self) -> None:
        """Start a computation in the thread."""
        self._due.set()

    def close(self) -> None:
        """Stop reading the store."""
        self._over.set()
        self._due.set()

    def _work(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._over.is_set():
                return
            try:
                self._compute()
            except FedkmeError as error:
                if self._over.is_set():  # the store was closed meanwhile
                    return
                self._say(error)

    def _compute(self) -> None:
        from fedkme.privacy.accountants import Sound, matrix

        lines = self._store.ledger(self._read)
        if not lines:
            return
        self._disclosures += disclosures_in(line.line for line in lines)
        self._read = lines[-1].seq
        for row in matrix(self._disclosures, Sound(), DELTA):
            self._epsilon.labels(row.protected, row.observer).set(row.figure.epsilon)
            self._rows.labels(row.protected, row.observer).set(row.raw_rows)
