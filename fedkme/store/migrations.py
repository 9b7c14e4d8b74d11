"""Tables of a store, as the steps that lead from one version to the next.

Version n is what step n leaves behind. A step that was released is never changed; a change is another step.
"""

from __future__ import annotations

from collections.abc import Callable

from fedkme.errors import StoreError

Step = tuple[str, ...]
"""Statements that bring a store from one version to the next, in one transaction."""

_VERSION = ("CREATE TABLE schema_version (version INTEGER NOT NULL)", "INSERT INTO schema_version VALUES (0)")

SQLITE: tuple[Step, ...] = (
    (
        *_VERSION,
        "CREATE TABLE parties (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT",
        # The document last: the columns before it are read without it.
        """CREATE TABLE runs (
            id INTEGER PRIMARY KEY, party INTEGER NOT NULL REFERENCES parties, name TEXT NOT NULL,
            peer TEXT NOT NULL, status TEXT NOT NULL, opened REAL NOT NULL, ended REAL,
            document BLOB NOT NULL, UNIQUE (party, name)
        ) STRICT""",
        """CREATE TABLE journal (
            run INTEGER NOT NULL REFERENCES runs, position INTEGER NOT NULL, kind TEXT NOT NULL,
            body BLOB NOT NULL, PRIMARY KEY (run, position)
        ) STRICT""",
        """CREATE TABLE ledger (
            party INTEGER NOT NULL REFERENCES parties, seq INTEGER NOT NULL, line TEXT NOT NULL,
            written REAL NOT NULL, PRIMARY KEY (party, seq)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE facts (
            party INTEGER NOT NULL REFERENCES parties, name TEXT NOT NULL, value BLOB NOT NULL,
            PRIMARY KEY (party, name)
        ) STRICT""",
        """CREATE TRIGGER ledger_not_updated BEFORE UPDATE ON ledger
            BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
        """CREATE TRIGGER ledger_not_deleted BEFORE DELETE ON ledger
            BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
        # INSERT OR REPLACE deletes without asking the trigger above.
        """CREATE TRIGGER ledger_in_order BEFORE INSERT ON ledger
            WHEN NEW.seq <> 1 + (SELECT COALESCE(MAX(seq), 0) FROM ledger WHERE party = NEW.party)
            BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    ),
    (
        """CREATE TABLE archives (
            party INTEGER NOT NULL REFERENCES parties, last INTEGER NOT NULL, mark TEXT NOT NULL,
            written REAL NOT NULL, digest TEXT NOT NULL, content BLOB, PRIMARY KEY (party, digest)
        ) STRICT""",
        "ALTER TABLE runs ADD COLUMN archive TEXT",
        "DROP TRIGGER ledger_not_deleted",
        """CREATE TRIGGER ledger_not_deleted BEFORE DELETE ON ledger
            WHEN OLD.seq > (SELECT COALESCE(MAX(last), 0) FROM archives WHERE party = OLD.party)
            BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    ),
)

POSTGRES: tuple[Step, ...] = (
    (
        "CREATE SCHEMA IF NOT EXISTS fedkme",
        *_VERSION,
        """CREATE TABLE parties (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT COLLATE "C" NOT NULL UNIQUE
        )""",
        """CREATE TABLE runs (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, party BIGINT NOT NULL REFERENCES parties,
            name TEXT COLLATE "C" NOT NULL, peer TEXT NOT NULL, status TEXT NOT NULL,
            opened DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, document BYTEA NOT NULL,
            UNIQUE (party, name)
        )""",
        """CREATE TABLE journal (
            run BIGINT NOT NULL REFERENCES runs, position BIGINT NOT NULL, kind TEXT NOT NULL,
            body BYTEA NOT NULL, PRIMARY KEY (run, position)
        )""",
        """CREATE TABLE ledger (
            party BIGINT NOT NULL REFERENCES parties, seq BIGINT NOT NULL, line TEXT NOT NULL,
            written DOUBLE PRECISION NOT NULL, PRIMARY KEY (party, seq)
        )""",
        """CREATE TABLE facts (
            party BIGINT NOT NULL REFERENCES parties, name TEXT COLLATE "C" NOT NULL, value BYTEA NOT NULL,
            PRIMARY KEY (party, name)
        )""",
        """CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$""",
        """CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()""",
    ),
    (
        """CREATE TABLE archives (
            party BIGINT NOT NULL REFERENCES parties, last BIGINT NOT NULL, mark TEXT NOT NULL,
            written DOUBLE PRECISION NOT NULL, digest TEXT NOT NULL, content BYTEA,
            PRIMARY KEY (party, digest)
        )""",
        "ALTER TABLE runs ADD COLUMN archive TEXT",
        "DROP TRIGGER ledger_append_only ON ledger",
        """CREATE TRIGGER ledger_append_only BEFORE UPDATE OR TRUNCATE ON ledger
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()""",
        """CREATE FUNCTION refuse_loss() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN
                IF OLD.seq > (SELECT COALESCE(MAX(last), 0) FROM archives WHERE party = OLD.party) THEN
                    RAISE EXCEPTION 'the ledger is append-only';
                END IF;
                RETURN OLD;
            END $$""",
        """CREATE TRIGGER ledger_not_lost BEFORE DELETE ON ledger
            FOR EACH ROW EXECUTE FUNCTION refuse_loss()""",
    ),
)


def is_current(version: int, steps: tuple[Step, ...], where: str) -> bool:
    """Check whether a store needs no step.

    Raises:
        StoreError: it is of a newer version than the steps lead to.
    """
    if version > len(steps):
        cause = f"{where} is of version {version}, and this release knows versions up to {len(steps)}"
        raise StoreError(cause, "Install the release that wrote it, or a later one.")
    return version == len(steps)


def migrate(
    version: int, steps: tuple[Step, ...], where: str, begin: str, execute: Callable[[str], object]
) -> None:
    """Take the steps that are due, each in a transaction.

    Args:
        version: of the store.
        steps: all that lead to today's version, from an empty store.
        where: the store's place, for errors.
        begin: the statement that begins a transaction.
        execute: runs a statement; raises StoreError where it fails.

    Raises:
        StoreError: a step failed; the store is of the version before it.
    """
    for number, step in enumerate(steps[version:], start=version + 1):
        execute(begin)
        try:
            for statement in step:
                execute(statement)
            execute(f"UPDATE schema_version SET version = {number}")
            execute("COMMIT")
        except StoreError as error:
            cause = f"{where} could not be brought to version {number}: {error.cause}"
            raise StoreError(cause, f"It is of version {number - 1}, as it was. {error.remedy}") from None
