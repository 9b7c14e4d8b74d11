"""`fedkme audit verify` and `fedkme audit ledger` over runs of both engines (issue 3, items 1 to 3)."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from curator.summary.disclosures import SummaryDisclosures
from fedkme.errors import ConfigError, LedgerError, NotVerifiedError, ProtocolError
from fedkme.exchange import Offer
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.reconcile import Verdict, verify, verify_files
from fedkme.privacy.accountants import Sound, matrix
from fedkme.privacy.events import OWNERS, Disclosure, ExactStatistic, Gaussian, RawRows
from fedkme.privacy.ledger import Entry, Ledger, read_ledger
from operate.audit_cli import app
from tests.ledgers import ledger_text
from tests.system.launches import launch, ledgers

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the defaults."""
    return launch(tmp_path_factory.mktemp("whole") / "run", "engine=inprocess")[0]


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def faults(directory: Path) -> list[Verdict]:
    return [verdict for verdict in verify(directory) if verdict.fault]


def rewrite(path: Path, change: Callable[[list[Entry]], list[Disclosure]]) -> None:
    """Forge a whole chain: other events, correct hashes."""
    entries = read_ledger(path)
    path.write_text(ledger_text(entries[0].party, change(entries)))


CASES = {
    "sound": (),
    "published": ("preset=published",),
    "rows": ("share=rows",),
    "winner only": ("auction.kind=winner-only", "broadcast.mechanism=exact", "target.mechanism=exact"),
    "ask everyone": (
        "auction.kind=ask-everyone",
        "broadcast.mechanism=mwem",
        "target.mechanism=mwem",
        "privacy.epsilon=6",
    ),
    "uniform": ("protocol=uniform",),
}


@pytest.mark.parametrize("case", CASES)
def test_whatever_the_settings_a_run_verifies(tmp_path: Path, case: str) -> None:
    directory, _ = launch(tmp_path / "run", "engine=inprocess", *CASES[case])
    verdicts = verify(directory)
    assert not [verdict for verdict in verdicts if verdict.fault]
    assert len(verdicts) == 7 + 6  # the chains, and the curator against everybody
    assert all(row.figure.method for row in matrix(read_ledgers([directory]).disclosures(), Sound(), 1e-5))


def test_the_command_says_ok(whole: Path) -> None:
    done = RUNNER.invoke(app, ["verify", str(whole)])
    assert done.exit_code == 0
    *lines, last = done.stdout.splitlines()
    assert all(line.startswith("OK ") for line in lines)
    assert (
        len(lines) == 13 + 2 + 6
    )  # ledgers and pairs; figures; logs of heads of the curator and five owners
    written = sum(len(read_ledger(whole / path)) for path in ledgers(whole))
    assert last == f"7 ledgers agree, {written} lines"


def verified(*paths: Path | str) -> Any:
    return RUNNER.invoke(app, ["verify", *map(str, paths)])


def test_ledgers_without_their_folder_are_verified_too(run: Path) -> None:
    # Issue 12, A8: a file alone was checked by nobody, and the command said nothing and exited 0.
    owner, other, curator = run / "owners/owner-2.jsonl", run / "owners/owner-3.jsonl", run / "ledger.jsonl"
    lines = {path: len(read_ledger(path)) for path in (owner, other, curator)}
    for path in run.rglob("*.heads"):
        path.unlink()
    alone = verified(owner)
    assert isinstance(alone.exception, NotVerifiedError)
    assert alone.exception.code == 61
    assert alone.exception.cause == "not given, hence not compared: curator"
    assert alone.stdout.splitlines() == [
        f"OK    {owner}",
        f"1 ledger is whole, {lines[owner]} lines; not given, hence not compared: curator",
    ]
    partial = verified(owner, "--partial")
    assert (partial.exit_code, partial.stdout) == (0, alone.stdout)
    plain = json.loads(verified(owner, "--partial", "--json").stdout)
    assert (plain["absent"], plain["faults"]) == (["curator"], 0)
    three = verified(owner, other, curator).stdout.splitlines()
    assert any(line.startswith("OK    owner-2 and curator: ") for line in three)
    accessed = json.loads((run / "record.json").read_text())["accessed"]
    sold = {name for name, rows in accessed.items() if rows} - {"owner-2", "owner-3"}
    rest = ", ".join(["consumer", *sorted(sold)])
    assert three[-1] == f"3 ledgers agree, {sum(lines.values())} lines; not given, hence not compared: {rest}"

    rewrite(owner, lambda entries: [e.disclosure for e in entries if "row " not in e.disclosure.nonce])
    assert verified(owner, "--partial").exit_code == 0  # a whole chain: the other side alone can tell
    faulty = verified(owner, other, curator)
    assert isinstance(faulty.exception, LedgerError)
    assert "FAULT owner-2 and curator: " in faulty.stdout


@pytest.mark.parametrize("spoilt", ["a byte", "the end of the last line", "all of it"])
@pytest.mark.parametrize("path", ["ledger.jsonl", "owners/owner-2.jsonl", "consumer/ledger.jsonl"])
def test_an_altered_file_alone_fails(run: Path, path: str, spoilt: str) -> None:
    text = (run / path).read_bytes()
    changed = {"a byte": text.replace(b'"seq":2', b'"seq":3', 1), "all of it": b""}.get(spoilt, text[:-1])
    (run / path).write_bytes(changed)
    done = verified(run / path)
    if spoilt == "all of it" and path.startswith("consumer"):  # no head beside it says that there was a line
        assert done.exception.code == 61
        assert f"nothing to verify: {run / path}" in done.stdout
        done = verified(run / path, run / "ledger.jsonl", *(run / "owners").glob("*.jsonl"))
        assert (
            done.exception.code == 61
        )  # a file of that name need not be the consumer's, whose lines are missed
        assert "; not given, hence not compared: consumer" in done.stdout.splitlines()[-1]
        return
    assert isinstance(done.exception, LedgerError)
    assert done.exception.code == 50
    assert f"FAULT {run / path}: line " in done.stdout


@pytest.mark.parametrize("path", ["ledger.jsonl", "owners/owner-2.jsonl", "consumer/ledger.jsonl"])
def test_a_changed_byte_is_named_by_file_and_line(run: Path, path: str) -> None:
    # "Altering one byte of a ledger is detected." (Every position: tests/fedkme/privacy/test_ledger.py.)
    text = bytearray((run / path).read_bytes())
    start = text.index(b"\n") + 5
    text[start] ^= 1
    (run / path).write_bytes(text)
    (fault,) = faults(run)
    assert fault.about == str(run / path)
    assert fault.fault.startswith("line 2: ")
    done = RUNNER.invoke(app, ["verify", str(run)])
    assert isinstance(done.exception, LedgerError)
    assert done.exception.code == 50
    assert f"FAULT {run / path}: line 2: " in done.stdout


def row_lines(entries: list[Entry]) -> list[int]:
    return [i for i, entry in enumerate(entries) if isinstance(entry.disclosure.event, RawRows)]


def test_a_forged_chain_of_an_owner_is_found_by_the_curator_s(run: Path) -> None:
    # "Names the first event that differs": an owner that hides a row, with a chain that is whole.
    path = run / "owners" / "owner-2.jsonl"
    entries = read_ledger(path)
    hidden = entries[row_lines(entries)[1]]
    rewrite(path, lambda all_: [entry.disclosure for entry in all_ if entry != hidden])
    (fault,) = faults(run)
    assert fault.about.startswith("owner-2 and curator")
    seen = [entry.disclosure for entry in read_ledger(run / "ledger.jsonl")]
    line = seen.index(hidden.disclosure) + 1
    assert fault.fault.startswith(f"{run / 'ledger.jsonl'}, line {line}: 'raw-rows' of owner-2 in run-1")
    assert f"({hidden.disclosure.nonce}) is not in {path}" in fault.fault


def test_a_line_about_others_rows_that_an_owner_leaves_out_is_found(run: Path) -> None:
    # Issue 12, B12: it stayed to the end, as record.json says; without that, its own sales say what it heard.
    name = max(json.loads((run / "record.json").read_text())["closings"].items(), key=lambda sold: sold[1])[0]
    path = run / "owners" / f"{name}.jsonl"
    honest = path.read_bytes()
    of_others = [entry.seq for entry in read_ledger(path) if entry.disclosure.protected == OWNERS]
    assert len(of_others) > 1
    alone = 0
    for left_out in of_others:

        def without(entries: list[Entry], seq: int = left_out) -> list[Disclosure]:
            return [entry.disclosure for entry in entries if entry.seq != seq]

        rewrite(path, without)
        found = faults(run)
        assert [verdict.about.split(" and ")[0] for verdict in found] == [name]
        assert re.fullmatch(r".*ledger.jsonl, line \d+: '.*' of owners in .* is not in .*", found[0].fault)
        alone += any(verdict.fault for verdict in verify_files([run / "ledger.jsonl", path])[0])
        path.write_bytes(honest)
    assert alone >= len(of_others) // 2
    assert not faults(run)


def test_an_altered_event_is_named_on_both_sides(run: Path) -> None:
    path = run / "owners" / "owner-2.jsonl"
    index = row_lines(read_ledger(path))[0]

    def move(entries: list[Entry]) -> list[Disclosure]:
        changed = [entry.disclosure for entry in entries]
        changed[index] = replace(changed[index], round=77)
        return changed

    rewrite(path, move)
    (fault,) = faults(run)
    assert f"{path}, line {index + 1}: 'raw-rows' of owner-2 in run-1, round 77" in fault.fault
    assert f"is not in {path}" in fault.fault


def test_a_consumer_that_plays_its_noise_up_is_found(run: Path) -> None:
    # The mechanism of g~ is in both ledgers.
    path = run / "consumer" / "ledger.jsonl"
    rewrite(path, lambda all_: [replace(entry.disclosure, event=Gaussian(99.0)) for entry in all_])
    (fault,) = faults(run)
    assert fault.about.startswith("consumer and curator")
    assert f"{path}, line 1: 'gaussian' of D_v of consumer" in fault.fault


@pytest.mark.parametrize(
    ("party", "path"), [("owner-2", "owners/owner-2.jsonl"), ("curator", "ledger.jsonl")]
)
def test_a_cut_at_the_end_is_found(run: Path, party: str, path: str) -> None:
    # A chain cannot tell; the other side's ledger can, and for the curator's own events record.json.
    def cut(entries: list[Entry]) -> list[Disclosure]:
        last = max(row_lines(entries))
        return [entry.disclosure for entry in entries[:last]]

    rewrite(run / path, cut)
    (fault, *_) = faults(run)
    assert party in fault.about or "record.json says" in fault.fault


def test_a_folder_without_an_owner_s_ledger_is_verified_in_part_when_that_is_said(run: Path) -> None:
    for path in [*run.rglob("*.heads"), run / "owners" / "owner-2.jsonl"]:
        path.unlink()
    assert verified(run).exception.code == 61
    partial = verified(run, "--partial")
    assert partial.exit_code == 0
    assert partial.stdout.splitlines()[-1].endswith("; not given, hence not compared: owner-2")


def test_missing_and_misplaced_ledgers(run: Path) -> None:
    lines = len(read_ledger(run / "owners" / "owner-2.jsonl"))
    (run / "owners" / "owner-2.jsonl").unlink()
    shutil.copy(run / "owners" / "owner-5.jsonl", run / "kept-elsewhere.jsonl")
    (run / "owners" / "owner-5.jsonl").unlink()
    found = [verdict.fault for verdict in verify(run, [run / "kept-elsewhere.jsonl"]) if verdict.fault]
    assert found == [f"the ledger beside it is gone, which had {lines} lines"]
    shutil.copy(run / "owners" / "owner-1.jsonl", run / "owners" / "owner-2.jsonl")
    assert "this is the ledger of owner-1" in faults(run)[0].fault
    with pytest.raises(ConfigError, match=r"holds no ledger\.jsonl"):
        verify(run / "owners")


def test_the_matrix_has_a_line_for_each_pair(whole: Path) -> None:
    # Issue 3, item 3: protected x observer, with raw rows seen; the default is sound between parties.
    rows = matrix(read_ledgers([whole]).disclosures(), Sound(), 1e-5)
    owners = [f"owner-{i}" for i in range(1, 6)]
    pairs = {(row.protected, row.observer): row for row in rows}
    consumers = {(name, "consumer") for name in owners if (name, "consumer") in pairs}
    assert set(pairs) - consumers == {
        ("D_v of consumer", "curator"),
        ("D_v of consumer", "owners"),
        ("owners", "owners"),
        ("owners", "consumer"),
        *((name, "curator") for name in owners),
    }
    for pair in (("D_v of consumer", "curator"), ("D_v of consumer", "owners"), ("owners", "owners")):
        assert 0 < pairs[pair].figure.epsilon <= 1.0 + 1e-9  # the default privacy target
        assert pairs[pair].relation == "replace-one"
    assert sum(pairs[pair].raw_rows for pair in consumers) == 12  # p
    done = RUNNER.invoke(app, ["ledger", str(whole)], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert all(name in done.stdout for name in (*owners, "D_v", "consumer"))


def test_the_matrix_of_the_published_preset_says_what_is_claimed_and_what_holds(tmp_path: Path) -> None:
    directory, _ = launch(tmp_path / "run", "engine=inprocess", "preset=published")
    found = read_ledgers([directory]).disclosures()
    pairs = {(row.protected, row.observer): row.figure for row in matrix(found, Sound(), 1e-2)}
    assert "PRIVAUCTION is not private" in pairs["owners", "owners"].reason
    done = RUNNER.invoke(app, ["ledger", str(directory), "--delta", "0.01"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "theorem 6 claims (1, 0.001) for PRIVAUCTION: added" in done.stdout
    assert done.stdout.count("theorem 6 claims") == 1  # once a run, though written once a round
    assert "theorem 7, first form" in done.stdout


def test_what_is_not_declared_counts_as_exact() -> None:
    # protos: "What is not declared counts as released without protection."
    lines: list[str] = []
    gate = SummaryDisclosures("run-1", Ledger("curator", lines.extend))
    target = np.arange(4, dtype=np.int32)
    gate.receive_target(target, Offer(target))
    assert "".join(lines).count('"kind":"exact-statistic"') == 2
    stranger = Disclosure("run-1", 0, "owner-1", "curator", ExactStatistic("x"), "replace-one", None, "x")
    with pytest.raises(ProtocolError, match="not about its request"):
        gate.receive_target(target, Offer(target, disclosures=(stranger,)))
