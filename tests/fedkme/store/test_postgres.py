"""PostgreSQL's own: parties that share a server, connections that break, URLs, backups."""

from __future__ import annotations

import contextlib
import importlib.util
import traceback

import pytest

from fedkme.errors import ConfigError, StoreError
from tests.fedkme.store.places import Place
from tests.fedkme.store.server import Server


@pytest.fixture
def url(server: Server) -> str:
    return server.new_database()


def database(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]


def end_sessions(server: Server, url: str) -> None:
    name = database(url)
    command = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'"
    server.psql("template1", command)


def test_parties_share_a_server_and_see_only_their_own(url: str) -> None:
    place = Place("postgres", url)
    with place.open("curator-1") as one, place.open("curator-2") as two:
        for store in (one, two):
            store.open_run("run", "peer", b"")
            store.extend_ledger(["line"])
            store.put("key", b"")
        one.append("run", "kind", b"of one")
        one.extend_ledger(["second"])
        assert two.entries("run") == []
        assert [line.seq for line in two.ledger()] == [1]
        two.delete("key")
        two.forget_entries("run")
        assert one.keys() == ["key"]
        assert [entry.body for entry in one.entries("run")] == [b"of one"]


def test_a_broken_connection_leaves_no_half_transaction(server: Server, url: str) -> None:
    place = Place("postgres", url)
    store = place.store()
    store.put("before", b"")

    def write() -> None:
        with store.transaction():
            store.put("inside", b"")
            store.extend_ledger(["inside"])
            end_sessions(server, url)
            store.put("after", b"")

    with pytest.raises(StoreError, match=r"the connection to .* was lost"):
        write()
    store.close()
    with place.open() as again:
        assert again.keys() == ["before"]
        assert again.ledger() == []


def test_a_store_with_a_lost_connection_does_not_reconnect(server: Server, url: str) -> None:
    # With it the party lost its exclusive right: another process may have it by now.
    place = Place("postgres", url)
    with place.open() as store:
        end_sessions(server, url)
        with place.open() as other:
            other.put("key", b"of the other")
            for _ in range(2):
                with pytest.raises(StoreError, match="was lost"):
                    store.put("key", b"of the first")
                with pytest.raises(StoreError, match="was lost"):
                    store.check()
            assert other.get("key") == b"of the other"


def test_the_ledger_is_append_only_at_the_console(server: Server, url: str) -> None:
    with Place("postgres", url).open() as store:
        store.extend_ledger(["one"])
        for command in (
            "UPDATE fedkme.ledger SET line = 'x'",
            "DELETE FROM fedkme.ledger",
            "TRUNCATE fedkme.ledger",
        ):
            with pytest.raises(Exception, match="returned non-zero"):
                server.psql(database(url), command)
        assert [line.line for line in store.ledger()] == ["one"]


def test_commits_wait_for_the_disk_even_if_the_server_is_configured_not_to(server: Server, url: str) -> None:
    server.psql("template1", f"ALTER DATABASE {database(url)} SET synchronous_commit = off")
    from fedkme.store.postgres import PostgresStore

    with contextlib.closing(PostgresStore(url, "curator")) as store:
        assert store._execute("SHOW synchronous_commit") == [("on",)]


def test_tables_are_migrated_only_while_no_other_party_is_connected(url: str) -> None:
    from fedkme.store.migrations import POSTGRES

    place = Place("postgres", url)
    later = (*POSTGRES, ("ALTER TABLE runs ADD COLUMN note TEXT",))
    with (
        place.open("curator-1"),
        pytest.raises(
            StoreError, match="needs another version of its tables, and is in use by fedkme process"
        ),
    ):
        place.store("curator-2", steps=later, patience_s=0.2)
    with place.open("curator-2", steps=later):
        pass


@pytest.mark.skipif(importlib.util.find_spec("psycopg") is None, reason="psycopg is not installed")
@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user:planted@127.0.0.1:1/db",
        "postgresql://user:planted@127.0.0.1:1/db?sslmode=nonsense",
        "postgresql://user@127.0.0.1:1/db?password=planted",
        "postgresql://user:planted@[broken/db",
        "postgresql://user:planted@host:port:x/db",
        "postgresql://user:with@planted@host/db",
        "postgresql://user:with/planted@host/db",
        "postgresql://user:with?planted@host/db",
    ],
)
def test_a_password_is_in_no_error(address: str) -> None:
    place = Place("postgres", address)
    with pytest.raises((StoreError, ConfigError)) as caught:
        place.store()
    assert "planted" not in "".join(traceback.format_exception(caught.value))


def test_a_dump_restores(server: Server, url: str) -> None:
    # The commands are those of fedkme/store/postgres.py.
    with Place("postgres", url).open() as store:
        store.open_run("run", "peer", b"")
        store.append("run", "kind", b"body")
        store.extend_ledger(["line"])
        server.call("pg_dump", "--schema=fedkme", "--format=custom", "--file=backup", url)
    other = server.new_database()
    server.call("pg_restore", f"--dbname={other}", "backup")
    with Place("postgres", other).open() as restored:
        assert restored.last_ledger_line() == "line"
        assert [entry.body for entry in restored.entries("run")] == [b"body"]
        restored.open_run("next", "peer", b"")
        assert [row.run for row in restored.runs()] == ["run", "next"]
