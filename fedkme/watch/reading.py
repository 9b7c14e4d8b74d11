"""Reading a page that another process serves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from fedkme.errors import ConnectionFailedError
from fedkme.watch.access import words_of
from fedkme.watch.state import Viewer, Watched
from fedkme.watch.view import View

_WAIT_S = 5.0


def read_watched(address: str) -> Watched:
    """Read the whole state from the page at an address, such as `http://127.0.0.1:8080/`.

    Raises:
        ConnectionFailedError: nothing that can be read is there.
    """
    return Watched.from_json(_read(f"{address}whole", {}))


def read_view(address: str, viewer: Viewer) -> View:
    """Read a viewer's view from the page at an address.

    Raises:
        ConnectionFailedError: nothing that can be read is there.
    """
    view: View = json.loads(_read(f"{address}state", {"as": words_of(viewer)}))
    return view


def _read(address: str, query: Mapping[str, Any]) -> bytes:
    opener = build_opener(ProxyHandler({}))  # the page is on this machine, whatever proxies there are
    try:
        with opener.open(f"{address}?{urlencode(query)}", timeout=_WAIT_S) as answer:
            return bytes(answer.read())
    except HTTPError as error:
        cause = f"the page at {address} refuses to be read ({error.code})"
        raise ConnectionFailedError(cause, "Read it on the curator's machine.") from None
    except OSError:
        cause = f"no page can be read at {address}"
        raise ConnectionFailedError(cause, "Start the curator with --page, or name its address.") from None
