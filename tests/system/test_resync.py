"""Issue 12, item B10: an owner's store that came from a backup goes on, and has won no budget."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from curator.summary.settings import CellsSettings, FeatureSettings, SummarySettings
from fedkme.errors import ConfigError, LedgerError
from fedkme.heads.files import export
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK, Role
from fedkme.privacy.accountants import Sound, paid
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure
from fedkme.privacy.ledger import disclosures_in
from fedkme.privacy.presets import PrivacyTarget
from fedkme.store import open_store
from owner.cli import app
from owner.consent.history import History
from owner.consent.resync import resync
from tests.parties import owner_values
from tests.system.market import Market, market

OWNERS_HERE = ("a", "b")
CLOCK = SummarySettings(protocol="algorithm3", features=FeatureSettings(dimension=16))
CELLS = SummarySettings(
    protocol="cells",
    cells=CellsSettings(code_book="sketch", bits=2, dimension=2),
    privacy=PrivacyTarget(epsilon=3),
)


def certificates(folder: Path) -> dict[str, Path]:
    authority = Authority()
    (folder / "authority.pem").write_bytes(authority.pem)
    authority.issue("curator", LOOPBACK, Role.CURATOR).save_bundle(folder / "curator.pem")
    for name in OWNERS_HERE:
        authority.issue(name, role=Role.OWNER).save_bundle(folder / f"{name}.pem")
    authority.issue("hospital-x", role=Role.CONSUMER).save_bundle(folder / "x.pem")
    return {name: folder / f"{name}.pem" for name in (*OWNERS_HERE, "x", "curator")}


async def leave(task: asyncio.Task[None]) -> None:
    """Stop an owner's process."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def resynced(folder: Path, at: Market, **more: Any) -> Any:
    """Give `a` back what it lost, by its operator's command, from what the curator's operator exports."""
    file = folder / "curator.jsonl"
    export(str(folder / "runs" / "journal.db"), CURATOR, file)
    values = owner_values(
        folder, "a", at.address, identity=folder / "a.pem", schema_file=folder / "schema.toml"
    )
    config = folder / "a.toml"
    values = {key: value if isinstance(value, int | float) else str(value) for key, value in values.items()}
    plain = {key: value for key, value in values.items() if key != "plaintext"}
    config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in plain.items()))
    return CliRunner().invoke(app, ["resync", str(config), "--curator", str(file)])


@dataclass(frozen=True)
class Books:
    """Knowledge of `a`: lines that others wrote too, cost towards others by its policy and by lines, rows."""

    lines: Counter[Disclosure]
    charged: float
    recorded: float
    rows: int


def books(folder: Path) -> Books:
    with contextlib.closing(open_store(str(folder / "a.db"), "a", "process")) as store:
        history = History("a", store)
        history.read()
        lines = disclosures_in(entry.line for entry in store.ledger())
        heard = [line for line in lines if line.nonce.split()[0] not in ("bid", "counts")]
        charged, recorded = (
            Sound().epsilon(tuple(events), 1e-5).epsilon
            for events in (history.costs(), paid(line for line in lines if line.observer == OWNERS))
        )
        return Books(Counter(heard), charged, recorded, history.rows)


def lose(folder: Path) -> None:
    """No store at all: everything that `a` signed is lost."""
    for path in folder.glob("a.db*"):
        path.unlink()


def cut(file: Path) -> None:
    """A ledger without its last lines."""
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-3]))


@pytest.mark.parametrize("summary", [CLOCK, CELLS], ids=["clock", "cells"])
async def test_a_restored_store_is_let_in_again_and_has_paid(
    tmp_path: Path, summary: SummarySettings
) -> None:
    pem = certificates(tmp_path)
    async with market(tmp_path, OWNERS_HERE, identity=pem["curator"], summary=summary) as at:
        asking: dict[str, Any] = {"name": "hospital-x", "identity": pem["x"]}
        at.owner("b", identity=pem["b"])
        a = at.owner("a", identity=pem["a"])
        await at.consumer(**asking)
        await leave(a)
        shutil.copy(tmp_path / "a.db", tmp_path / "backup")
        a = at.owner("a", identity=pem["a"])
        await at.consumer(**asking, output=tmp_path / "second")
        await leave(a)
        before = books(tmp_path)

        shutil.copy(tmp_path / "backup", tmp_path / "a.db")
        with pytest.raises(LedgerError, match="comes with 1 of its ledger's heads and showed 2"):
            await at.owner("a", identity=pem["a"])
        won = books(tmp_path)
        assert won.charged < before.recorded
        done = resynced(tmp_path, at)
        assert done.exit_code == 0, done.output
        assert "1 heads" in done.output
        after = books(tmp_path)
        assert (after.lines, after.rows) == (before.lines, before.rows)
        assert after.charged > before.recorded - 1e-9
        again = resynced(tmp_path, at)  # nothing is lost any more, and nothing is charged twice
        assert isinstance(again.exception, ConfigError)
        assert books(tmp_path) == after

        at.owner("a", identity=pem["a"])
        await at.consumer(**asking, output=tmp_path / "third")
        assert not [fields for event, fields in at.ear.said if event == "unwitnessed"]


async def test_a_restored_store_alone_is_refused(tmp_path: Path) -> None:
    # Issue 17, item A6: it joined in silence with its budgets at zero. Who knows that its journal is gone may
    # go on, with a line at the curator, and gets no signature.
    pem = certificates(tmp_path)
    async with market(tmp_path, OWNERS_HERE, identity=pem["curator"]) as at:
        asking: dict[str, Any] = {"name": "hospital-x", "identity": pem["x"]}
        at.owner("b", identity=pem["b"])
        a = at.owner("a", identity=pem["a"])
        await at.consumer(**asking)
        await leave(a)
        lose(tmp_path)
        with pytest.raises(LedgerError, match="comes with 0 of its ledger's heads and showed 1"):
            await at.owner("a", identity=pem["a"])
        assert not [fields for event, fields in at.ear.said if event == "unwitnessed"]
        at.owner("a", identity=pem["a"], new_journal=True)
        assert (await at.ear.heard("unwitnessed"))["owner"] == "a"
        await at.consumer(**asking, output=tmp_path / "second")
        assert [fields for event, fields in at.ear.said if event == "unwitnessed"]


async def test_a_curator_that_cut_its_ledger_gives_nothing_back(tmp_path: Path) -> None:
    pem = certificates(tmp_path)
    async with market(tmp_path, OWNERS_HERE, identity=pem["curator"]) as at:
        at.owner("b", identity=pem["b"])
        a = at.owner("a", identity=pem["a"])
        await at.consumer(name="hospital-x", identity=pem["x"])
        await leave(a)
        assert resynced(tmp_path, at).exit_code != 0  # it lost nothing
        lose(tmp_path)
        cut(tmp_path / "curator.jsonl")
        with contextlib.closing(open_store(str(tmp_path / "a.db"), "a", "process")) as store:
            with pytest.raises(LedgerError):
                resync("a", store, tmp_path / "curator.jsonl", identity=lambda: None)
            assert not store.ledger()
