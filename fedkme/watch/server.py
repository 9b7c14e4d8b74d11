"""Server of the page to watch, of its style and script, of changes as server-sent events, and of JSON.

The server only reads, but for a form that a simulation may have. It runs in a thread of its own, so that
neither the page nor a slow viewer delays runs.
"""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

from fedkme.errors import ConfigError, FedkmeError
from fedkme.inputs import read_text
from fedkme.pages.html import FINISHED, POLICY, STYLE
from fedkme.watch.access import Access, PageAddress
from fedkme.watch.page import page_of
from fedkme.watch.state import Viewer, Watched, seen_by

Source = Callable[[], Watched]


class Form(Protocol):
    """Form of the page; anybody who knows its path may submit it."""

    @property
    def place(self) -> str:
        """Path of the form."""

    def answer(self, fields: Mapping[str, Sequence[str]]) -> str:
        """Answer a submission (no fields: a first visit) with a page; an empty page shows the run."""


TICK_S = 0.5
"""Time between two reads of the state."""
_QUIET = 30
"""Reads without a change after which the server sends a comment, so that viewers see it is alive."""
_MOST_VIEWERS = 64
_MOST_FORM = 1 << 20
"""Bytes of a submission, at most."""
_MOST_FIELDS = 1000
_COOKIE = "fedkme-page"
_SCRIPT = read_text(Path(__file__).with_name("page.js"))
_POLICY = "Content-Security-Policy"
_HEADERS = {
    _POLICY: "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@contextlib.contextmanager
def shown(
    place: PageAddress, source: Source, report: Callable[[], str] = str, form: Form | None = None
) -> Iterator[str]:
    """Serve the page inside the context.

    Args:
        place: address of the page, and its protection.
        source: returns the current state; called in other threads.
        report: returns the page of the finished run, which the curator's viewer gets in place of the state;
            empty before the end.
        form: form that the server answers at the form's own path.

    Yields:
        the page's address, with the port that the system chose for 0.

    Raises:
        ConfigError: the address or the secret cannot be used.
        ModuleNotFoundError: the extra `page` is not installed.
    """
    import uvicorn  # from the extra `page`

    place.check()
    stopping = threading.Event()
    app = _application(place.access(), source, report, stopping, form)
    listening = _listen(place)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        log_level="critical",
        lifespan="off",
        server_header=False,
        limit_concurrency=_MOST_VIEWERS,
        http=_evicting_protocol(),
        timeout_graceful_shutdown=1,
        **_tls(place),
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), name="page", daemon=True)
    thread.start()
    try:
        yield place.url(listening.getsockname()[1])
    finally:
        stopping.set()
        server.should_exit = True
        thread.join()
        listening.close()


def _evicting_protocol() -> type[asyncio.Protocol]:
    """HTTP of the page: when places run out, the longest idle connection makes room for a new one.

    Without that, connections that never ask for anything would keep all viewers away.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    there: dict[Any, None] = {}

    class Evicting(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(there) + 2 > _MOST_VIEWERS:  # at the limit itself uvicorn refuses
                idle = (each for each in there if each.cycle is None or each.cycle.response_complete)
                if (oldest := next(idle, None)) is not None:
                    oldest.connection_lost(None)
            there[self] = None
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            there.pop(self, None)
            super().connection_lost(exc)

    return Evicting


def _listen(place: PageAddress) -> socket.socket:
    host, port = place.host.strip("[]"), int(place.address.rpartition(":")[2])
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        cause = f"'page' cannot listen on {place.address}: {error.strerror}"
        raise ConfigError(cause, "Choose a free port of this machine.") from None


def _tls(place: PageAddress) -> dict[str, Any]:
    """Settings of uvicorn for the party's certificate."""
    if place.identity is None or not place.guarded:
        return {}
    if place.identity.is_dir():
        return {"ssl_certfile": place.identity / "certificate.pem", "ssl_keyfile": place.identity / "key.pem"}
    return {"ssl_certfile": place.identity}  # a bundle contains the key too


def _application(
    access: Access, source: Source, report: Callable[[], str], stopping: threading.Event, form: Form | None
) -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
    from starlette.routing import Route

    often = shared(source)

    def viewer(request: Request) -> Viewer | None:
        token = request.query_params.get("token") or request.cookies.get(_COOKIE, "")
        host = request.headers.get("host", "")
        return access.viewer(host, token, request.query_params.get("as", ""))

    def answer(content: str, kind: str) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    def refusal() -> Response:
        text = "This page needs an address with a token from its operator (fedkme curator page)."
        return PlainTextResponse(f"{text}\n", HTTPStatus.FORBIDDEN, headers=_HEADERS)

    async def show_page(request: Request) -> Response:
        who = viewer(request)
        if who is None:
            return refusal()
        if token := request.query_params.get("token"):
            # removes the token from the browser's address line and history
            moved = RedirectResponse("/", HTTPStatus.SEE_OTHER, headers=_HEADERS)
            moved.set_cookie(_COOKIE, token, httponly=True, secure=True, samesite="strict")
            return moved
        if who == Viewer() and (finished := report()):
            return Response(finished, media_type="text/html", headers=_HEADERS | {_POLICY: POLICY})
        state = await asyncio.to_thread(_look, source, who)
        return answer(page_of(state, who, request.query_params), "text/html")

    async def show_state(request: Request) -> Response:
        who = viewer(request)
        if who is None:
            return refusal()
        state = await asyncio.to_thread(_look, source, who)
        return answer(seen_by(state, who).to_json(), "application/json")

    async def show_events(request: Request) -> Response:
        who = viewer(request)
        if who is None:
            return refusal()

        def look() -> Watched:
            return _look(source if stopping.is_set() else often, who)

        over = report if who == Viewer() else str
        events = _events(look, who, request.query_params, over, stopping)
        return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)

    async def show_form(request: Request) -> Response:
        assert form is not None
        if viewer(request) is None:
            return refusal()
        fields: dict[str, list[str]] = {}
        if request.method == "POST":
            own = f"{request.url.scheme}://{request.headers.get('host', '')}"
            body = b""
            async for piece in request.stream():
                body += piece
                if len(body) > _MOST_FORM:
                    return refusal()
            if request.headers.get("origin") != own:
                return refusal()
            with contextlib.suppress(ValueError):  # too many of them: a new form
                fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=_MOST_FIELDS)
        page = await asyncio.to_thread(form.answer, fields)
        if not page:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER, headers=_HEADERS)
        # under no-referrer a browser would not say which page submits
        rights = {_POLICY: f"{POLICY}; form-action 'self'", "Referrer-Policy": "same-origin"}
        return Response(page, media_type="text/html", headers=_HEADERS | rights)

    def static(name: str, kind: str, text: str) -> Route:
        async def show(request: Request) -> Response:
            return answer(text, kind)

        return Route(f"/{name}", show)

    return Starlette(
        routes=[
            Route("/", show_page),
            Route("/state", show_state),
            Route("/events", show_events),
            static("page.js", "text/javascript", _SCRIPT),
            static("page.css", "text/css", STYLE),
            *([Route(form.place, show_form, methods=["GET", "POST"])] if form else []),
        ]
    )


def _look(source: Source, viewer: Viewer) -> Watched:
    """The current state; if it cannot be read, a state with the reason."""
    try:
        return source()
    except FedkmeError as error:
        return Watched("", 0.0, note=error.cause if viewer == Viewer() else "cannot be read")


def shared(source: Source, every_s: float = TICK_S) -> Source:
    """Cache a source's state for `every_s` seconds, so that many viewers cause one read."""
    lock, last = threading.Lock(), list[tuple[float, Watched]]()

    def look() -> Watched:
        with lock:
            if not last or time.monotonic() - last[0][0] >= every_s:
                last[:] = [(time.monotonic(), source())]
            return last[0][1]

    return look


async def _events(
    look: Source,
    viewer: Viewer,
    query: Mapping[str, str],
    report: Callable[[], str],
    stopping: threading.Event,
) -> AsyncIterator[str]:
    """Yield the page whenever its state changes, until the server stops or there is a report."""
    yield "retry: 1000\n\n"
    last, quiet, ending = None, 0, False
    while not ending:
        ending = stopping.is_set()
        state = await asyncio.to_thread(look)
        if finished := report():
            yield _message(state.at, True, finished.replace(FINISHED, ""))  # its style is there already
            return
        if (constant := replace(seen_by(state, viewer), at=0.0)) != last:
            yield _message(state.at, state.over, page_of(state, viewer, query))
            last, quiet = constant, 0
        elif quiet >= _QUIET:
            yield ": here\n\n"
            quiet = 0
        quiet += 1
        await asyncio.sleep(0 if ending else TICK_S)


def _message(at: float, over: bool, page: str) -> str:
    return f"data: {json.dumps({'at': at, 'over': over, 'page': page})}\n\n"
