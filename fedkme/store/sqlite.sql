-- Tables of a store on SQLite, as the steps that lead from one version to the next. A step that was released
-- is never changed; a change is another step. Statements stand in paragraphs of their own.

-- step 1

CREATE TABLE schema_version (version INTEGER NOT NULL);

INSERT INTO schema_version VALUES (0);

CREATE TABLE parties (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

-- The document last: the columns before it are read without it.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, party INTEGER NOT NULL REFERENCES parties, name TEXT NOT NULL,
    peer TEXT NOT NULL, status TEXT NOT NULL, opened REAL NOT NULL, ended REAL,
    document BLOB NOT NULL, UNIQUE (party, name)
) STRICT;

CREATE TABLE journal (
    run INTEGER NOT NULL REFERENCES runs, position INTEGER NOT NULL, kind TEXT NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (run, position)
) STRICT;

CREATE TABLE ledger (
    party INTEGER NOT NULL REFERENCES parties, seq INTEGER NOT NULL, line TEXT NOT NULL,
    written REAL NOT NULL, PRIMARY KEY (party, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE facts (
    party INTEGER NOT NULL REFERENCES parties, name TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (party, name)
) STRICT;

CREATE TRIGGER ledger_not_updated BEFORE UPDATE ON ledger
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER ledger_not_deleted BEFORE DELETE ON ledger
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- INSERT OR REPLACE deletes without asking the trigger above.
CREATE TRIGGER ledger_in_order BEFORE INSERT ON ledger
    WHEN NEW.seq <> 1 + (SELECT COALESCE(MAX(seq), 0) FROM ledger WHERE party = NEW.party)
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- step 2

CREATE TABLE archives (
    party INTEGER NOT NULL REFERENCES parties, last INTEGER NOT NULL, mark TEXT NOT NULL,
    written REAL NOT NULL, digest TEXT NOT NULL, content BLOB, PRIMARY KEY (party, digest)
) STRICT;

ALTER TABLE runs ADD COLUMN archive TEXT;

DROP TRIGGER ledger_not_deleted;

CREATE TRIGGER ledger_not_deleted BEFORE DELETE ON ledger
    WHEN OLD.seq > (SELECT COALESCE(MAX(last), 0) FROM archives WHERE party = OLD.party)
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
