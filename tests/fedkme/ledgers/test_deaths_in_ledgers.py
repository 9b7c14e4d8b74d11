"""Lines that a death left on one side are said; what a liar takes out is a fault (issue 17, A7)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fedkme.cells.disclosures import sketch_of
from fedkme.heads.files import write_heads
from fedkme.ledgers.reconcile import Verdict, verify, verify_files
from fedkme.privacy.events import CURATOR, Disclosure, Gaussian, RawRows
from fedkme.privacy.ledger import stored_ledger
from fedkme.store import open_store
from tests.fedkme.heads.village import Party, exchange
from tests.ledgers import ledger_text

LINES = [
    Disclosure(
        "run-1", number, "north", CURATOR, Gaussian(4.0), "replace-one", 2.0, f"sums {number} {number:032x}"
    )
    for number in (1, 2, 3)
]
"""Disclosures of an owner to the curator in three questions of a run."""
STOPPED = (3, "west", 23)
CERTAIN, DOUBTED = LINES[:2], [replace(LINES[2], certain=False)]


def write(folder: Path, curator: Sequence[Disclosure], north: Sequence[Disclosure]) -> None:
    """Ledgers of a run in its folder."""
    (folder / "owners").mkdir()
    for party, path, lines in ((CURATOR, "ledger.jsonl", curator), ("north", "owners/north.jsonl", north)):
        (folder / path).write_text(ledger_text(party, lines))


def record(folder: Path, *faults: tuple[int, str, int]) -> None:
    """Write who left the run as the curator recorded it: round, owner and code."""
    left = [{"round": number, "owner": owner, "code": code, "line": ""} for number, owner, code in faults]
    (folder / "record.json").write_text(json.dumps({"run": "run-1", "faults": left}))


def compared(folder: Path) -> Verdict:
    """Finding about the two."""
    *chains, pair = verify(folder)
    assert not [each for each in chains if each.fault]
    return pair


def test_an_uncertain_line_of_the_curator_may_be_missing_at_the_owner(tmp_path: Path) -> None:
    write(tmp_path, [*CERTAIN, *DOUBTED], CERTAIN)
    assert (compared(tmp_path).fault, compared(tmp_path).note[:6]) == ("", "1 more")


def test_an_uncertain_line_on_both_sides_is_one_draw(tmp_path: Path) -> None:
    write(tmp_path, [*CERTAIN, *DOUBTED], LINES)
    assert (compared(tmp_path).fault, compared(tmp_path).note) == ("", "")


LESS = replace(LINES[2], event=Gaussian(40.0))
LIES: dict[str, tuple[Sequence[Disclosure], Sequence[Disclosure], tuple[int, str, int]]] = {
    "an owner leaves out a line that is certain": ([*CERTAIN, *DOUBTED], LINES[1:], STOPPED),
    "an owner says less of a line that is not": ([*CERTAIN, *DOUBTED], [*CERTAIN, LESS], STOPPED),
    "the curator says less of it": ([*CERTAIN, replace(LESS, certain=False)], LINES, STOPPED),
    "the curator leaves it out": (CERTAIN, LINES, STOPPED),
    "the curator leaves out what came before it lost the owner": (LINES[:1], LINES, (3, "north", 23)),
    "the curator lost another owner": (CERTAIN, LINES, (3, "south", 23)),
    "the owner left of itself": (CERTAIN, LINES, (3, "north", 24)),
}
"""Lies, each with the curator's lines, the owner's, and who left the run."""


@pytest.mark.parametrize("lie", LIES)
def test_a_line_on_one_side_without_a_death_is_a_fault(tmp_path: Path, lie: str) -> None:
    curator, north, left = LIES[lie]
    write(tmp_path, curator, north)
    record(tmp_path, left)
    assert compared(tmp_path).fault


@pytest.mark.parametrize("code", [23, 59], ids=["lost", "back without the keys of its rows"])
def test_lines_of_a_dead_owner_may_be_missing_at_the_curator(tmp_path: Path, code: int) -> None:
    record(tmp_path, (3, "north", code))
    write(tmp_path, CERTAIN, LINES)
    assert (compared(tmp_path).fault, compared(tmp_path).note[:5]) == ("", "1 of ")


SKETCH = [replace(line, run=sketch_of("run-1")) for line in LINES]
ROW = Disclosure("run-1", 1, "north", CURATOR, RawRows(1), "replace-one", 1.0, "row 1")


COUNTED = replace(ROW, event=Gaussian(4.0), nonce=f"histogram {0:032x}")


@pytest.mark.parametrize(
    ("curator", "north", "recorded", "fault"),
    [
        (SKETCH[:2], SKETCH, False, False),
        (SKETCH[:2], SKETCH, True, True),
        (SKETCH[:2], [*SKETCH, ROW], False, True),
        (SKETCH[:2], [*SKETCH, COUNTED], False, True),
        ([*SKETCH[:2], ROW], [*SKETCH, ROW], False, True),
        (CERTAIN, LINES, False, True),
        (SKETCH, SKETCH[:2], False, True),
    ],
    ids=[
        "its plan came to nothing",
        "recorded",
        "sold",
        "counted and no row sold",
        "sold and said",
        "no sketch",
        "left out by the owner",
    ],
)
def test_a_line_of_a_sketch_without_a_record_may_have_been_lost_where_no_row_of_its_run_was_sold(
    tmp_path: Path, curator: Sequence[Disclosure], north: Sequence[Disclosure], recorded: bool, fault: bool
) -> None:
    # a curator that deletes the record of a run does not hide behind it
    write(tmp_path, curator, north)
    if recorded:
        record(tmp_path)
    verdict = compared(tmp_path)
    assert (bool(verdict.fault), bool(verdict.note)) == (fault, not fault)


@pytest.mark.parametrize("over", [False, True])
def test_a_line_on_its_way_is_no_fault_while_the_run_is_open(tmp_path: Path, over: bool) -> None:
    write(tmp_path, CERTAIN, LINES)
    (tmp_path / "ledger.jsonl").unlink()
    store = open_store(tmp_path / "journal.db", CURATOR, "process")
    stored_ledger(CURATOR, store).extend(CERTAIN)
    store.open_run("run-1", "lab", b"")
    store.update_run("run-1", status="running", ended=over)
    store.close()
    assert bool(compared(tmp_path).fault) is over
    assert bool(compared(tmp_path).note) is not over


def heads(folder: Path, name: str, party: Party) -> None:
    """Write a party's ledger into a run's folder, with its heads."""
    path = folder / name
    path.write_text("".join(f"{line.line}\n" for line in party.store.ledger()), encoding="ascii")
    write_heads(party.store, path)


@pytest.mark.parametrize(
    ("ran", "signed", "fault"),
    [("run-1", "run-1", True), ("", "", False), ("run-1", "", True), ("run-2", "run-2", False)],
    ids=["ended", "came to nothing", "ended, and the curator's head says otherwise", "another run ended"],
)
def test_heads_show_that_a_run_without_a_record_had_begun(
    tmp_path: Path, ran: str, signed: str, fault: bool
) -> None:
    # A curator deletes the record of a run in which nothing was counted or sold, and hides behind "its plan
    # came to nothing": its own head, of which others keep the leaf, says that the run had an end.
    (tmp_path / "owners").mkdir()
    curator, north = Party(CURATOR), Party("owner-1")
    curator.ledger.extend([replace(line, protected="owner-1") for line in SKETCH[:2]])
    north.ledger.extend([replace(line, protected="owner-1") for line in SKETCH])
    if ran:
        exchange(curator, [north], ran, signed)
    heads(tmp_path, "ledger.jsonl", curator)
    heads(tmp_path, "owners/owner-1.jsonl", north)
    assert bool(compared(tmp_path).fault) is fault


def test_heads_expose_a_run_without_lines_at_the_curator(tmp_path: Path) -> None:
    # An owner's ledger may hold runs of other curators, so that its lines alone accuse nobody.
    curator, north = Party(CURATOR), Party("owner-1")
    for run in ("run-1", "run-9", "run-2"):
        line = replace(ROW, run=run, protected="owner-1")
        north.ledger.extend([line])
        if run == "run-9":
            north.heads.advance(run)  # shown to another curator
            continue
        curator.ledger.extend([line] if run == "run-1" else [])
        exchange(curator, [north], run)
    heads(tmp_path, "curator.jsonl", curator)
    heads(tmp_path, "owner-1.jsonl", north)
    *chains, pair = verify_files(sorted(tmp_path.glob("*.jsonl")))[0]
    assert not [each for each in chains if each.fault]
    assert "of owner-1 in run-2, round 1 (row 1) is not in" in pair.fault
    assert pair.about.endswith(": 2 events")


@pytest.mark.parametrize("lies", [False, True])
def test_an_owner_is_compared_with_each_curator_over_that_curator_s_runs(tmp_path: Path, lies: bool) -> None:
    lines = {run: [replace(line, run=run) for line in LINES] for run in ("run-1", "run-2")}
    second = lines["run-2"][: 2 if lies else 3]
    for party, name, written in (
        (CURATOR, "first", lines["run-1"]),
        (CURATOR, "second", second),
        ("north", "north", [*lines["run-1"], *lines["run-2"]]),
    ):
        (tmp_path / f"{name}.jsonl").write_text(ledger_text(party, written))
    verdicts, absent = verify_files([*tmp_path.glob("*.jsonl")])
    faults = [each.fault for each in verdicts if each.fault]
    assert not absent
    assert len(faults) == lies
    assert all("in run-2" in fault and "second.jsonl" in fault for fault in faults)
