"""Issue 12, item B10, over gRPC with certificates: heads after each run, and who checks them elsewhere."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fedkme.heads.files import lines_in, read_heads
from fedkme.heads.notes import read_note
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK, Role
from fedkme.privacy.ledger import read_ledger
from fedkme.store.reading import ledger_lines
from operate.audit_cli import app
from tests.places import ROOT
from tests.system.market import market

OWNERS = ("a", "b")


def independent(folder: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    """The verifier by itself: without this package on its path."""
    tool = [sys.executable, "-I", str(ROOT / "tools" / "verify_ledger.py")]
    where = ["--authority", str(folder / "authority.pem")]
    return subprocess.run([*tool, *where, *map(str, files)], capture_output=True, text=True, check=False)


def audited(folder: Path, *files: Path) -> tuple[int, str]:
    words = ["verify", *map(str, files), "--authority", str(folder / "authority.pem")]
    done = CliRunner().invoke(app, words)
    return done.exit_code, done.stdout


async def test_heads_of_two_runs_with_a_renewed_certificate_between(tmp_path: Path) -> None:
    # "Each party signs the head of its ledger at the end of a run with its certificate's key; parties
    # exchange and keep each other's heads; the curator's heads are cosigned by owners."
    authority, bundle = Authority(), tmp_path / "curator.pem"
    (tmp_path / "authority.pem").write_bytes(authority.pem)
    authority.issue("curator", LOOPBACK, Role.CURATOR).save_bundle(bundle)
    for name in OWNERS:
        authority.issue(name, role=Role.OWNER).save_bundle(tmp_path / f"{name}.pem")
    authority.issue("hospital-x", role=Role.CONSUMER).save_bundle(tmp_path / "x.pem")
    async with market(tmp_path, OWNERS, identity=bundle) as at:
        for name in OWNERS:
            at.owner(name, identity=tmp_path / f"{name}.pem")
        asking: dict[str, Any] = {"name": "hospital-x", "identity": tmp_path / "x.pem"}
        await at.consumer(**asking)
        authority.issue("curator", LOOPBACK, Role.CURATOR).save_bundle(bundle, over=True)
        await at.consumer(**asking, output=tmp_path / "second")
        assert not [fields for event, fields in at.ear.said if event == "unwitnessed"]

    runs = tmp_path / "runs"
    stores = [runs / "journal.db", *(tmp_path / f"{name}.db" for name in OWNERS)]
    heads = {path.stem: read_heads(path) for path in stores}
    assert heads["journal"].leaves.keys() == heads["a"].leaves.keys() | heads["b"].leaves.keys()
    last = [note for note in heads["journal"].notes if note.startswith(f"{heads['journal'].origin}\n2\n")]
    assert [note.count("\n— fedkme.ledger/") for note in last] == [3]  # its own, and of two owners
    asker = tmp_path / "hospital-x.db"
    heard = [read_note(note) for note in read_heads(asker).notes]
    assert [checkpoint.size for checkpoint, _ in heard] == [1, 2]
    assert {name for _, signatures in heard for name, _ in signatures} == {heads["journal"].origin}
    files = [runs / "ledger.jsonl", runs / "ledger.heads"]
    for name, path in zip(OWNERS, stores[1:], strict=True):
        for suffix, lines in (("jsonl", ledger_lines(path)), ("heads", lines_in(path))):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / f"{name}.{suffix}").write_text(text, encoding="ascii")
        files += [tmp_path / f"{name}.jsonl", tmp_path / f"{name}.heads"]
    done = independent(tmp_path, *files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the ledger goes through all") == 3
    code, text = audited(tmp_path, runs, *stores[1:], asker)
    assert code == 0, text

    # The curator drops its tail with the heads over it: both owners hold what it says it never signed.
    entries = read_ledger(files[0])
    whole = files[0].read_bytes().splitlines(keepends=True)
    files[0].write_bytes(b"".join(whole[: len(entries) // 2]))
    told = [json.loads(line) for line in files[1].read_text(encoding="ascii").splitlines()]
    cut = [line for line in told if line.get("opening", {}).get("number") != 2]
    files[1].write_text("".join(json.dumps(line) + "\n" for line in cut), encoding="ascii")
    done = independent(tmp_path, *files)
    assert done.returncode == 1
    assert "FAULT fedkme.ledger/curator/curator" in done.stdout

    # It drops its own leaf and note of them too: that is whole by itself, and the consumer holds the head.
    for line in cut:
        if line.get("origin") == heads["journal"].origin:
            line["leaves"] = base64.b64encode(base64.b64decode(line["leaves"])[:32]).decode()
    own = [line for line in cut if not line.get("note", "").startswith(f"{heads['journal'].origin}\n2\n")]
    files[1].write_text("".join(json.dumps(line) + "\n" for line in own), encoding="ascii")
    assert independent(tmp_path, *files[:2]).returncode == 0
    theirs = tmp_path / "hospital-x.heads"
    theirs.write_text("".join(f"{line}\n" for line in lines_in(asker)), encoding="ascii")
    done = independent(tmp_path, *files[:2], theirs)
    assert f"FAULT fedkme.ledger/curator/curator: {theirs} has head 2" in done.stdout
