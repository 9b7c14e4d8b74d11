"""The places of stores: one suite runs on every one of them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedkme.store.base import Store
from fedkme.store.sqlite import MEMORY
from tests.fedkme.store.places import Place
from tests.fedkme.store.server import Server, find_binaries, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed: pip install 'fedkme[postgres]'")
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    if sys.platform != "linux":
        pytest.skip("the server of the tests is started the way of Linux")
    with running(binaries) as started:
        yield started


def _place(kind: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    if kind == "postgres":
        server: Server = request.getfixturevalue("server")
        return Place(kind, server.new_database())
    return Place(kind, MEMORY if kind == "memory" else str(folder / "store.db"))


@pytest.fixture(params=["sqlite", "memory", "objects", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place where no store is yet."""
    return _place(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place that outlives the process."""
    return _place(request.param, request, tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    with place.open() as opened:
        yield opened
