"""Server of the page to watch: three files, the view as JSON, and the view as server-sent events.

The server only reads. It runs in a thread of its own, so that neither the page nor a slow viewer delays runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from fedkme import __version__
from fedkme.errors import ConfigError, FedkmeError
from fedkme.pages.glossary import NAME, TERMS
from fedkme.pages.style import STYLE
from fedkme.watch.access import Access
from fedkme.watch.place import PageAddress
from fedkme.watch.state import Viewer, Watched
from fedkme.watch.view import View, view_of

Source = Callable[[], Watched]

SCRIPT, SHEET = "page.js", "page.css"
_TERMS = ("mmd2", "dv", "accessed", "epsilon", "delta", "cells", "accountant")
"""Keys of the glossary's terms that the page explains."""

TICK_S = 0.5
"""Time between two reads of the state."""
_QUIET = 30
"""Reads without a change after which the server sends a comment, so that viewers see it is alive."""
_MOST_VIEWERS = 64
_COOKIE = "fedkme-page"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@contextlib.contextmanager
def shown(place: PageAddress, source: Source) -> Iterator[str]:
    """Serve the page inside the context.

    Args:
        place: address of the page, and its protection.
        source: returns the current state; called in other threads.

    Yields:
        the page's address, with the port that the system chose for 0.

    Raises:
        ConfigError: the address or the secret cannot be used.
        ModuleNotFoundError: the extra `page` is not installed.
    """
    import uvicorn  # from the extra `page`

    place.check()
    stopping = threading.Event()
    app = _application(place.access(), source, stopping)
    listening = _listen(place)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        log_level="critical",
        lifespan="off",
        server_header=False,
        limit_concurrency=_MOST_VIEWERS,
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


def _application(access: Access, source: Source, stopping: threading.Event) -> Any:
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
        if viewer(request) is None:
            return refusal()
        if token := request.query_params.get("token"):
            # removes the token from the browser's address line and history
            moved = RedirectResponse("/", HTTPStatus.SEE_OTHER, headers=_HEADERS)
            moved.set_cookie(_COOKIE, token, httponly=True, secure=True, samesite="strict")
            return moved
        return answer(_page(), "text/html")

    async def show_state(request: Request) -> Response:
        who = viewer(request)
        if who is None:
            return refusal()
        return answer(json.dumps(await asyncio.to_thread(_look, source, who)), "application/json")

    async def show_whole(request: Request) -> Response:
        if viewer(request) != Viewer():
            return refusal()
        return answer((await asyncio.to_thread(source)).to_json(), "application/json")

    async def show_events(request: Request) -> Response:
        who = viewer(request)
        if who is None:
            return refusal()
        kind = "text/event-stream"
        return StreamingResponse(_events(source, often, who, stopping), media_type=kind, headers=_HEADERS)

    def static(name: str, kind: str, text: str) -> Route:
        async def show(request: Request) -> Response:
            return answer(text, kind)

        return Route(f"/{name}", show)

    return Starlette(
        routes=[
            Route("/", show_page),
            Route("/state", show_state),
            Route("/whole", show_whole),
            Route("/events", show_events),
            static(SCRIPT, "text/javascript", _text(SCRIPT)),
            static(SHEET, "text/css", STYLE + _text(SHEET)),
        ]
    )


@cache
def _page() -> str:
    """Write the frame of the page, the same for every viewer; the script fills it with the view."""
    terms = (term for term in TERMS if term.key in _TERMS)
    entries = (f"<div><dt><dfn>{term.name}</dfn></dt><dd>{term.meaning}</dd></div>" for term in terms)
    return _text("page.html") % (NAME, "".join(entries), __version__)


def _text(name: str) -> str:
    return files("fedkme.watch").joinpath(name).read_text(encoding="utf-8")


def _look(source: Source, viewer: Viewer) -> View:
    """View of the current state; if the state cannot be read, a view with the reason."""
    try:
        return view_of(source(), viewer)
    except FedkmeError as error:
        return view_of(Watched("", 0.0, note=error.cause if viewer == Viewer() else "cannot be read"), viewer)


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
    source: Source, often: Source, viewer: Viewer, stopping: threading.Event
) -> AsyncIterator[str]:
    """Yield the view whenever it changes, until the server stops; then the final view."""
    yield "retry: 1000\n\n"
    last, quiet = "", 0
    while not stopping.is_set():
        view = await asyncio.to_thread(_look, often, viewer)
        text = json.dumps({**view, "at": 0})
        if text != last or quiet >= _QUIET:
            yield f"data: {json.dumps(view)}\n\n" if text != last else ": here\n\n"
            last, quiet = text, 0
        quiet += 1
        await asyncio.sleep(TICK_S)
    if (final := await asyncio.to_thread(_look, source, viewer))["over"]:
        yield f"data: {json.dumps(final)}\n\n"
