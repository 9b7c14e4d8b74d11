"""Server of the page to watch."""

from __future__ import annotations

import contextlib
import socket
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedkme.watch.access import PageAddress
from fedkme.watch.server import shared, shown
from fedkme.watch.state import Watched
from tests.parties import WAIT_S


@pytest.mark.parametrize(("every_s", "computed"), [(1000.0, 1), (0.0, 40)])
def test_a_state_is_computed_once_a_tick_for_all_viewers(every_s: float, computed: int) -> None:
    reads: list[Watched] = []

    def source() -> Watched:
        reads.append(Watched("curator", float(len(reads))))
        return reads[-1]

    look = shared(source, every_s)
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: look(), range(40)))
    assert len(reads) == computed
    assert {each.at for each in seen} == {each.at for each in reads}


def test_idle_connections_do_not_close_the_page() -> None:
    with (
        shown(PageAddress("127.0.0.1:0"), lambda: Watched("curator", 0.0)) as address,
        contextlib.ExitStack() as idle,
    ):
        host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")
        for number in range(200):
            connection = idle.enter_context(socket.create_connection((host, int(port)), WAIT_S))
            if number % 2:
                connection.send(b"GET / HTTP/1.1\r\n")  # and never the rest
        with urllib.request.urlopen(address, timeout=WAIT_S) as answer:
            assert answer.status == 200
