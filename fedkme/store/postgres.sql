-- Tables of a store on PostgreSQL, as the steps that lead from one version to the next. A step that was released
-- is never changed; a change is another step. Statements stand in paragraphs of their own.

-- step 1

CREATE SCHEMA IF NOT EXISTS fedkme;

CREATE TABLE schema_version (version INTEGER NOT NULL);

INSERT INTO schema_version VALUES (0);

CREATE TABLE parties (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE runs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, party BIGINT NOT NULL REFERENCES parties,
    name TEXT COLLATE "C" NOT NULL, peer TEXT NOT NULL, status TEXT NOT NULL,
    opened DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, document BYTEA NOT NULL,
    UNIQUE (party, name)
);

CREATE TABLE journal (
    run BIGINT NOT NULL REFERENCES runs, position BIGINT NOT NULL, kind TEXT NOT NULL,
    body BYTEA NOT NULL, PRIMARY KEY (run, position)
);

CREATE TABLE ledger (
    party BIGINT NOT NULL REFERENCES parties, seq BIGINT NOT NULL, line TEXT NOT NULL,
    written DOUBLE PRECISION NOT NULL, PRIMARY KEY (party, seq)
);

CREATE TABLE facts (
    party BIGINT NOT NULL REFERENCES parties, name TEXT COLLATE "C" NOT NULL, value BYTEA NOT NULL,
    PRIMARY KEY (party, name)
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$;

CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- step 2

CREATE TABLE archives (
    party BIGINT NOT NULL REFERENCES parties, last BIGINT NOT NULL, mark TEXT NOT NULL,
    written DOUBLE PRECISION NOT NULL, digest TEXT NOT NULL, content BYTEA,
    PRIMARY KEY (party, digest)
);

ALTER TABLE runs ADD COLUMN archive TEXT;

DROP TRIGGER ledger_append_only ON ledger;

CREATE TRIGGER ledger_append_only BEFORE UPDATE OR TRUNCATE ON ledger
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION refuse_loss() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
        IF OLD.seq > (SELECT COALESCE(MAX(last), 0) FROM archives WHERE party = OLD.party) THEN
            RAISE EXCEPTION 'the ledger is append-only';
        END IF;
        RETURN OLD;
    END $$;

CREATE TRIGGER ledger_not_lost BEFORE DELETE ON ledger
    FOR EACH ROW EXECUTE FUNCTION refuse_loss();
