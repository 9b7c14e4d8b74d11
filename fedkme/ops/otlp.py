"""Export of spans by OTLP over gRPC, with the extra `otel`."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from fedkme import __version__
from fedkme.ops.traces import Public, TraceSpan

EXPORT_S, CLOSE_S = 2.0, 1.0
"""Time for one export, and time for all that is left when the last party ends."""
MOST_WAITING = 2**15
"""Spans that wait for the collector at most; older ones are dropped for newer ones."""
_KINDS = {"ask": SpanKind.CLIENT, "answer": SpanKind.SERVER}
_NO_PROXY: Any = (("grpc.enable_http_proxy", 0),)
"""Channel option of an integer, which the exporter's types do not know."""
_SCOPE = InstrumentationScope("fedkme", __version__)
_KEYS = Public.__annotations__.keys()


class _Exporter:
    """SpanExporter that says once that the collector is away, and does not delay the end of a party."""

    def __init__(self, url: str, say: Callable[..., None]) -> None:
        self.end: float | None = None
        self._say = say
        self._away = False
        self._url = url
        self._otlp = OTLPSpanExporter(
            url, insecure=urlsplit(url).scheme == "http", timeout=EXPORT_S, channel_options=_NO_PROXY
        )

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; they are lost where that fails."""
        if self.end is not None and (self._away or time.monotonic() > self.end):
            return SpanExportResult.FAILURE
        result = self._otlp.export(spans)
        away = result is not SpanExportResult.SUCCESS
        if away and not self._away:
            line = f"the collector at {self._url} takes no spans; they are lost until it does"
            self._say("warning", line=line)
        self._away = away
        return result

    def shutdown(self) -> None:
        """Close the channel at once."""
        self._otlp.shutdown(timeout_millis=0)


class _Pipeline:
    """Queue and thread that serve all parties of this process with one collector."""

    def __init__(self, url: str, say: Callable[..., None]) -> None:
        self.parties = 0
        # a collector that is away would write a line for each attempt
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = _Exporter(url, say)
        exporter: Any = self._exporter
        self._queue = BatchSpanProcessor(exporter, MOST_WAITING)

    def emit(self, resource: Resource, span: TraceSpan) -> None:
        """Queue a span; any thread may call this, and it never waits."""
        if unknown := span.public.keys() - _KEYS:
            raise ValueError(f"a span has no key {min(unknown)}")
        code, flags = span.public.get("code", 0), TraceFlags(TraceFlags.SAMPLED)
        remote = span.name == "answer"
        self._queue.on_end(
            ReadableSpan(
                span.name,
                SpanContext(span.trace, span.id, False, flags),
                None if span.parent is None else SpanContext(span.trace, span.parent, remote, flags),
                resource,
                {
                    f"fedkme.{key}": value
                    for key, value in span.public.items()
                    if isinstance(value, int | str)
                },
                kind=_KINDS.get(span.name, SpanKind.INTERNAL),
                status=Status(StatusCode.ERROR if code else StatusCode.UNSET),
                start_time=span.begin,
                end_time=span.end,
                instrumentation_scope=_SCOPE,
            )
        )

    def close(self) -> None:
        """Send the remaining spans, within a time limit."""
        self._exporter.end = time.monotonic() + CLOSE_S
        self._queue.shutdown()


_PIPELINES: dict[str, _Pipeline] = {}
_LOCK = threading.Lock()


@contextlib.contextmanager
def collector(url: str, party: str, say: Callable[..., None]) -> Iterator[Callable[[TraceSpan], None]]:
    """Send the spans of a party to the collector at a URL; parties of one process share the way there.

    Yields:
        Callback for each span.
    """
    with _LOCK:
        if (pipeline := _PIPELINES.get(url)) is None:
            pipeline = _PIPELINES[url] = _Pipeline(url, say)
        pipeline.parties += 1
    names = {"service.namespace": "fedkme", "service.name": party, "service.version": __version__}
    try:
        yield partial(pipeline.emit, Resource(names))
    finally:
        with _LOCK:
            pipeline.parties -= 1
            last = not pipeline.parties
            if last:
                del _PIPELINES[url]
        if last:
            pipeline.close()
