"""`fedkme audit verify` of whole folders: an honest one ends with 0, one that was changed does not.

Issue 33, items 5 and 6. Each case runs the verb on a folder that an engine left.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedkme.errors import LedgerError
from fedkme.pki.authority import Authority
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure, Laplace
from operate.audit_cli import app
from operate.dossier.cli import app as dossier
from sim.cli import report_app as report
from sim.engines.run_folder import AUTHORITY
from tests.ledgers import ledger_text
from tests.system.launches import launch
from tests.system.release_market import release, scenario

HONEST = {
    "by cells, in processes": ("engine=processes", "protocol=cells"),
    "in plaintext": ("engine=processes", "tls=false"),
    "in one process": ("engine=inprocess",),
    "an owner that refused": ("engine=processes", 'policies.owner-2.protocols=["uniform"]'),
    "the published variant": ("engine=inprocess", "preset=published"),
    "uniform": ("engine=inprocess", "protocol=uniform"),
    "by rank, in processes": ("engine=processes", "protocol=algorithm3"),
}


def verified(*arguments: Path | str) -> tuple[int, str]:
    """Status and lines of the verb."""
    done = CliRunner().invoke(app, ["verify", *map(str, arguments)])
    return getattr(done.exception, "code", done.exit_code), done.stdout


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make each folder once."""
    root = tmp_path_factory.mktemp("folders")

    def make(case: str) -> Path:
        place = root / case.replace(" ", "-")
        if not place.exists():
            if case == "a release":
                (root / "scenario").mkdir()
                release(scenario(root / "scenario"), "marginals", "processes", place)
            else:
                launch(place, *HONEST[case])
        return place

    return make


@pytest.mark.parametrize("case", [*HONEST, "a release"])
def test_an_honest_folder_is_verified_with_its_signatures(
    folders: Callable[[str], Path], case: str, tmp_path: Path
) -> None:
    folder = folders(case)
    status, shown = verified(folder)
    assert status == 0, shown
    assert "FAULT" not in shown
    assert (folder / AUTHORITY).is_file() == ("OK    heads" in shown and "engine=processes" in _text(folder))
    if (folder / AUTHORITY).is_file():
        assert b"PRIVATE" not in (folder / AUTHORITY).read_bytes()
    assert ("nothing to verify: " in shown) == (case == "an owner that refused")
    copied = Path(shutil.copytree(folder, tmp_path / "elsewhere", copy_function=shutil.copyfile))
    assert verified(copied)[0] == 0


def _text(folder: Path) -> str:
    """Settings of a run that has certificates, in the words of --set."""
    settings = "".join(file.read_text() for file in folder.glob("r*.toml"))
    return "engine=processes" if 'engine = "processes"' in settings and "tls = true" in settings else ""


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Change of the first place of a pattern in a file, which must be there."""

    def change(folder: Path) -> None:
        text, count = re.subn(old, new, (folder / name).read_text(encoding="utf-8"), count=1)
        assert count == 1, name
        (folder / name).write_text(text, encoding="utf-8")

    return change


def emptied(owner: str, heads: bool) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "owners" / f"{owner}.jsonl").write_bytes(b"")
        if not heads:
            (folder / "owners" / f"{owner}.heads").unlink()

    return change


def removed(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


def holding(name: str, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_text(text)

    return change


def renamed(folder: Path) -> None:
    (folder / "owners/owner-2.jsonl").rename(folder / "owners/bergen.jsonl")


def blank_curator(folder: Path) -> None:
    (folder / "ledger.jsonl").write_bytes(b"")
    for name in ("ledger.heads", "record.json", "metrics.json", "report.html"):
        (folder / name).unlink()


def another_authority(folder: Path) -> None:
    (folder / AUTHORITY).write_bytes(Authority().pem)


CELLS, RANKED, RELEASE = "by cells, in processes", "by rank, in processes", "a release"
CHANGES: dict[str, tuple[str, Callable[[Path], None], int]] = {
    "another epsilon in metrics.json": (
        CELLS,
        edited("metrics.json", r'"epsilon": 0\.\d+|"epsilon": 1\.\d+', '"epsilon": 0.1'),
        50,
    ),
    "another delta in metrics.json": (CELLS, edited("metrics.json", r'"delta": 1e-05', '"delta": 1e-02'), 50),
    "no bound turned into one": (CELLS, edited("metrics.json", r'"epsilon": "inf"', '"epsilon": 1.0'), 50),
    "rows seen in metrics.json": (
        RANKED,
        edited("metrics.json", r'"raw_points": [1-9]\d*', '"raw_points": 0'),
        50,
    ),
    "a statement that is gone": (
        CELLS,
        edited("metrics.json", r'"privacy": \[\s*\{[^}]*\},', '"privacy": ['),
        50,
    ),
    "no list of statements": (CELLS, edited("metrics.json", '"privacy":', '"secrecy":'), 50),
    "a claim of the variant": (
        "the published variant",
        edited("metrics.json", r'("privacy_published": \[\s*\{[^}]*"epsilon": )[^,]*', r"\g<1>0.5"),
        50,
    ),
    "a table of the report": (CELLS, edited("report.html", r">inf</td>", ">1.00</td>"), 50),
    "a tile of the report": (
        CELLS,
        edited("report.html", "<dd>40</dd>|(<dd>)[0-9.]+(</dd>)", r"<dd>7</dd>"),
        50,
    ),
    "a card's epsilon": (
        RELEASE,
        edited("synthetic.card.json", r'("sound": \{\s*"epsilon": )[^,]*', r"\g<1>0.01"),
        50,
    ),
    "a card for people": (RELEASE, edited("synthetic.card.md", r"\| sound \| [^|]*", "| sound | 0.01 "), 50),
    "a card's event": (
        RELEASE,
        edited("consumer/synthetic.card.json", r'("noise_multiplier": )[^,]*', r"\g<1>99.0"),
        50,
    ),
    "a release's metrics": (RELEASE, edited("metrics.json", r'"epsilon": [01]\.\d+', '"epsilon": 0.1'), 50),
    "an emptied ledger": (CELLS, emptied("owner-2", heads=True), 50),
    "an emptied ledger, heads gone": (CELLS, emptied("owner-2", heads=False), 50),
    "an emptied ledger of an owner in rounds": (RANKED, emptied("owner-1", heads=False), 50),
    "a ledger that is gone from its heads": (CELLS, removed("owners/owner-2.jsonl"), 50),
    "a ledger that is not there": (CELLS, removed("owners/owner-2.jsonl", "owners/owner-2.heads"), 61),
    "a curator's ledger, emptied": (CELLS, holding("ledger.jsonl", ""), 50),
    "a curator without a trace": (CELLS, blank_curator, 50),
    "a consumer's ledger, emptied": (CELLS, holding("consumer/ledger.jsonl", ""), 50),
    "an owner's ledger under another name": (CELLS, renamed, 50),
    "no authority": (CELLS, removed(AUTHORITY), 61),
    "another authority": (CELLS, another_authority, 50),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_folder_is_not_verified(
    folders: Callable[[str], Path], change: str, tmp_path: Path
) -> None:
    case, spoil, status = CHANGES[change]
    folder = Path(shutil.copytree(folders(case), tmp_path / "run"))
    spoil(folder)
    found, shown = verified(folder)
    assert found == status, shown
    assert ("FAULT" in shown) == (status == 50)
    assert ("not given" in shown or "not verified" in shown) or status == 50


def test_what_is_not_given_is_no_fault_and_not_ok(folders: Callable[[str], Path], tmp_path: Path) -> None:
    folder = folders(CELLS)
    for name in ("ledger.jsonl", "record.json"):
        shutil.copy(folder / name, tmp_path)
    status, shown = verified(tmp_path)
    assert status == 61
    assert "not given: the ledger of owner-2" in shown
    assert "FAULT" not in shown
    assert verified(tmp_path, "--partial")[0] == 0


@pytest.mark.parametrize("name", ["north.jsonl", "north.db"])
def test_an_owner_without_a_line_has_nothing_to_verify(
    folders: Callable[[str], Path], name: str, tmp_path: Path
) -> None:
    # An owner in no run so far, or whose disk failed before its store was made.
    (tmp_path / name).write_bytes(b"")
    status, shown = verified(tmp_path / name)
    assert (status, shown.splitlines()[0]) == (61, f"nothing to verify: {tmp_path / name}")
    folder = folders("in one process")
    parties = [folder / "ledger.jsonl", *folder.glob("owners/*.jsonl"), folder / "consumer/ledger.jsonl"]
    assert verified(tmp_path / name, *parties)[0] == 0
    thief = tmp_path / f"owner-2{Path(name).suffix}"  # the curator's lines say what it had
    thief.write_bytes(b"")
    status, shown = verified(thief, *(path for path in parties if path.stem != "owner-2"))
    assert status == 50
    assert "FAULT owner-2 and curator" in shown


def test_a_ledger_and_its_copy_are_one(folders: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders(CELLS), tmp_path / "run"))
    shutil.copy(folder / "ledger.jsonl", folder / "old-ledger.jsonl")
    shutil.copy(folder / "owners/owner-2.jsonl", tmp_path / "sent.jsonl")
    status, shown = verified(folder, tmp_path / "sent.jsonl")
    assert status == 0, shown


def test_every_ledger_of_a_folder_counts(folders: Callable[[str], Path], tmp_path: Path) -> None:
    # An earlier release charged payouts in a file of its own, which `audit ledger RUN` did not read.
    folder = Path(shutil.copytree(folders("in one process"), tmp_path / "run"))
    assert towards_owners(folder) <= 1.0
    payout = Disclosure("run-1", 0, OWNERS, OWNERS, Laplace(1 / 40), "replace-one", None, "payout x")
    (folder / "payouts-ledger.jsonl").write_text(ledger_text(CURATOR, [payout]))
    assert towards_owners(folder) > 40.0
    status, shown = verified(folder)
    assert status == 50
    assert f"FAULT {folder / 'metrics.json'}: epsilon of each owner towards other owners" in shown
    for verb in (report, dossier):
        assert isinstance(CliRunner().invoke(verb, [str(folder)]).exception, LedgerError)


def towards_owners(folder: Path) -> float:
    done = CliRunner().invoke(app, ["ledger", str(folder), "--json"], catch_exceptions=False)
    report: list[dict[str, Any]] = json.loads(done.stdout)
    return max(float(each["epsilon"]) for each in report if each["observer"] == "other owners")
