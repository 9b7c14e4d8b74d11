"""Releases by both engines and over gRPC (issue 5, "Done means" and "Bad input"; docs/decisions/006)."""

from __future__ import annotations

import io
import json
import math
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from fedkme.errors import ConfigError, DataError
from fedkme.ledgers.figures import check_figures
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.reconcile import verify
from fedkme.privacy.accountants import Sound, matrix
from fedkme.privacy.ledger import read_ledger
from fedkme.protocols import PROTOCOLS, SKETCH
from sim.release_cli import print_release
from tests.ledgers import ledger_text
from tests.system.release_market import release, scenario
from tests.system.test_privacy_statements import assert_one_truth

NAMES = ("north", "south", "west")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scenario(tmp_path_factory.mktemp("scenario"))


def sound(directory: Path) -> bool:
    return not [each for each in (*verify(directory), *check_figures(directory)) if each.fault or each.absent]


SECURE = ("pooling.security.dropouts=0",)
BOTH_ENGINES = {
    **{"balog1": SECURE, "balog2": (), "merf": SECURE, "hermite": (), "moments": SECURE},
    "marginals": (),
}
"""Each method over processes once; what a curator makes of a sum does not depend on who added it."""


def check_complete(directory: Path) -> list[str]:
    record = json.loads((directory / "record.json").read_text())
    assert record["status"] == "complete"
    assert "release.npz" in record["files"]
    assert sound(directory)
    return list(record["files"])


@pytest.mark.parametrize(
    "method", [row.name for row in PROTOCOLS.values() if row.family == "sums" and row.name != SKETCH]
)
def test_every_method_runs_trusted_and_secure_and_engines_make_the_same(
    here: Path, tmp_path: Path, method: str
) -> None:
    # "All four run over `inprocess` and `processes`, trusted and secure"; DESIGN, decision 1: the same bits.
    made: dict[tuple[str, ...], Path] = {}
    for more in ((), SECURE):
        made[more], metrics = release(here, method, "inprocess", tmp_path / f"{len(more)}", *more)
        check_complete(made[more])
        terminal = io.StringIO()
        print_release(metrics, made[more], Console(file=terminal, width=100), details=True)
        assert_one_truth(made[more], metrics, terminal.getvalue())
        (proven,) = [
            each["epsilon"]
            for each in metrics["privacy"]
            if (each["observer"], each["accountant"]) == ("consumer", "sound")
        ]
        assert proven == pytest.approx(1.0, abs=1e-4)
    one = made[BOTH_ENGINES[method]]
    other = release(here, method, "processes", tmp_path / "processes", *BOTH_ENGINES[method])[0]
    check_complete(other)
    for name in check_complete(one):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
        assert (one / name).read_bytes() == (other / "consumer" / name).read_bytes()
    assert (one / "ledger.jsonl").read_bytes() == (other / "ledger.jsonl").read_bytes()


@pytest.fixture(scope="module")
def whole(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release by a trusted curator."""
    return release(here, "balog1", "inprocess", tmp_path_factory.mktemp("whole") / "run")[0]


@pytest.fixture
def spoiled(whole: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def test_a_changed_byte_is_found(spoiled: Path) -> None:
    # "Altering one byte of a ledger is detected", also of a run that has no rows in it.
    path = spoiled / "owners" / "south.jsonl"
    text = bytearray(path.read_bytes())
    text[text.index(b"\n") + 5] ^= 1
    path.write_bytes(text)
    (fault,) = [verdict for verdict in verify(spoiled) if verdict.fault]
    assert (fault.about, fault.fault[:8]) == (str(path), "line 2: ")


@pytest.mark.parametrize("left_out", ["sums 1", "release 0"])
@pytest.mark.parametrize("path", ["ledger.jsonl", "owners/south.jsonl"])
def test_a_line_that_one_side_alone_wrote_is_found(spoiled: Path, path: str, left_out: str) -> None:
    # Decision 006: "Both sides write the same line, so that ledgers can be compared."
    entries = read_ledger(spoiled / path)
    lines = [entry.disclosure for entry in entries]
    hidden = [line for line in lines if line.protected == "south" and line.nonce.startswith(left_out)]
    assert len(hidden) == 1
    (spoiled / "record.json").unlink()  # which has the curator's last hash, and finds it already
    (spoiled / path).write_text(ledger_text(entries[0].party, [x for x in lines if x not in hidden]))
    (fault,) = [verdict for verdict in verify(spoiled) if verdict.fault]
    assert fault.about.startswith("south and curator")
    assert f"of south in run-1, round 1 ({hidden[0].nonce}) is not in {spoiled / path}" in fault.fault


def test_a_ledger_that_is_not_there_is_missed(spoiled: Path) -> None:
    (spoiled / "owners" / "west.jsonl").unlink()
    assert "the ledger beside it is gone" in "".join(verdict.fault for verdict in verify(spoiled))
    (spoiled / "owners" / "west.heads").unlink()
    assert [verdict.absent for verdict in verify(spoiled) if verdict.absent] == ["west"]


def test_what_the_matrix_says_of_a_trusted_curator(whole: Path) -> None:
    # Issue 5: the consumer learns (epsilon, delta) of a row, the curator the sums themselves.
    rows = {
        (row.protected, row.observer): row
        for row in matrix(read_ledgers([whole]).disclosures(), Sound(), 1e-5)
    }
    assert set(rows) == {(owner, seen) for owner in NAMES for seen in ("consumer", "curator")}
    for owner in NAMES:
        assert rows[owner, "consumer"].figure.epsilon == pytest.approx(1.0, abs=1e-6)
        assert math.isinf(rows[owner, "curator"].figure.epsilon)


def test_what_the_matrix_says_under_secure_aggregation(here: Path, tmp_path: Path) -> None:
    # "With distributed noise not even the exact sum": the curator learns no more than the consumer.
    secure = ("pooling.security.dropouts=1", "epsilon=2")
    directory, metrics = release(here, "balog1", "inprocess", tmp_path / "run", *secure)
    rows = matrix(read_ledgers([directory]).disclosures(), Sound(), 1e-5)
    assert [(row.protected, row.observer) for row in rows] == [
        (owner, seen) for owner in NAMES for seen in ("consumer", "curator")
    ]
    assert all(1.9 < row.figure.epsilon <= 2.0 + 1e-9 for row in rows)
    stated = {each["observer"]: each["epsilon"] for each in metrics["privacy"] if each["epsilon"]}
    assert stated == {seen: pytest.approx(2.0, abs=1e-6) for seen in ("consumer", "curator")}


@pytest.mark.parametrize(("owners", "dropouts", "colluders"), [(2, 0, 0), (3, 0, 1), (3, 1, 0)])
def test_colluders_that_nobody_sets_are_as_many_as_the_owners_allow(
    tmp_path: Path, owners: int, dropouts: int, colluders: int
) -> None:
    # Two owners with [release.security] alone ended with error 21: the default was 1, which takes three.
    place = scenario(tmp_path, owners=NAMES[:owners])
    directory, metrics = release(
        place, "balog1", "inprocess", tmp_path / "run", f"pooling.security.dropouts={dropouts}"
    )
    check_complete(directory)
    expected = {"dropouts": dropouts, "colluders": colluders}
    assert json.loads((directory / "record.json").read_text())["security"] == expected
    assert metrics["security"] == expected
    for ledger in (directory / "ledger.jsonl", *(directory / "owners").glob("*.jsonl")):
        lines = [entry.disclosure for entry in read_ledger(ledger)]
        assert {line.colluders for line in lines if line.observer == "curator"} == {colluders}
        assert {line.colluders for line in lines if line.observer == "consumer"} == {1}
    page = (directory / "report.html").read_text()
    assert f"{dropouts} may be lost, {colluders} collude" in page


def test_a_folder_is_repeated_by_its_own_settings(whole: Path, tmp_path: Path) -> None:
    # `fedkme release METHOD DIR/release.toml` repeats the run; another method's settings are refused.
    again = release(whole / "release.toml", "balog1", "inprocess", tmp_path / "again")[0]
    assert (again / "release.npz").read_bytes() == (whole / "release.npz").read_bytes()
    with pytest.raises(ConfigError, match="is of a release by 'balog1'"):
        release(whole / "release.toml", "merf", "inprocess", tmp_path / "other")


def test_points_of_a_file_are_read_by_who_asks(here: Path, tmp_path: Path) -> None:
    # "z from a public subset, from N(0, s^2 I) or from a file": by both engines; the curator opens no path.
    points = ("z.kind=file", "z.path=validation.csv")
    made = [release(here, "balog1", e, tmp_path / e, *points)[0] for e in ("inprocess", "processes")]
    first, second = ((directory / "weighted.npz").read_bytes() for directory in made)
    assert first == second
    with pytest.raises(DataError, match=r"gone\.csv"):
        release(here, "balog1", "inprocess", tmp_path / "gone", "z.kind=file", "z.path=gone.csv")
