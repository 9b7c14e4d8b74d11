"""Client of a page that another process serves."""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from fedkme.errors import ConnectionFailedError
from fedkme.watch.state import Watched

_WAIT_S = 5.0


def read_watched(address: str) -> Watched:
    """Read the whole state from the page at an address, such as `http://127.0.0.1:8080/`.

    Raises:
        ConnectionFailedError: there is no page at the address, or the page refuses.
    """
    opener = build_opener(ProxyHandler({}))  # the page is on this machine, whatever proxies there are
    try:
        with opener.open(f"{address}state", timeout=_WAIT_S) as answer:
            return Watched.from_json(answer.read())
    except HTTPError as error:
        cause = f"the page at {address} refuses to be read ({error.code})"
        raise ConnectionFailedError(cause, "Read it on the curator's machine.") from None
    except OSError:
        cause = f"no page can be read at {address}"
        raise ConnectionFailedError(cause, "Start the curator with --page, or name its address.") from None
