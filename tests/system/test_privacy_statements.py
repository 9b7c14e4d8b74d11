"""Metrics, terminal, page and audit say the same of a run: what its ledgers say (issue 11, item 5)."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedkme.errors import FedkmeError, InterruptedRunError
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.statements import statements
from fedkme.privacy.events import CURATOR, OWNERS
from fedkme.protocols import PROTOCOLS, Protocol
from operate.audit_cli import app
from sim.report import privacy
from sim.report.write import print_summary
from tests.pages import without_links
from tests.system.launches import KeptProgress, launch, read_json
from tests.system.release_market import release, scenario

INPROCESS = ("engine=inprocess", "scenario.copies=1")


def settings_of(row: Protocol) -> list[str]:
    """The assignments under which a summary is made by a protocol."""
    chosen = f"auction.kind={row.base}" if row.family == "auction" else f"protocol={row.base}"
    return [chosen, f"content={'hashed' if row.sealed else 'rows'}"]


def stated(directory: Path, delta: float = 1e-5) -> list[dict[str, Any]]:
    return [each.to_json() for each in statements(read_ledgers([directory]), delta)]


def assert_one_truth(directory: Path, metrics: Mapping[str, Any], printed: str) -> None:
    """Check that a run's four places say what its ledgers say, word for word."""
    truth = stated(directory)
    assert truth
    assert metrics["privacy"] == truth == read_json(directory / "metrics.json")["privacy"]
    audit = CliRunner().invoke(app, ["ledger", "--json", str(directory)], catch_exceptions=False)
    assert json.loads(audit.stdout) == truth
    flat = " ".join(printed.split())
    for line in privacy.lines(truth):
        assert " ".join(line.split()) in flat
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert privacy.section(truth, "") in without_links(page)
    table = CliRunner().invoke(app, ["ledger", str(directory)], env={"COLUMNS": "200"}).stdout
    shown = unescape(privacy.section(truth, "")) + flat
    for entry in truth:
        figure = "inf" if entry["epsilon"] == "inf" else f"{entry['epsilon']:.3g}"
        assert entry["observer"] in table
        assert entry["protected"] in table
        assert f">{figure}</td>" in shown
        assert f"epsilon {figure}" in shown


@pytest.mark.parametrize("name", [row.name for row in PROTOCOLS.values() if row.family != "sums"])
def test_a_summary_s_places_agree(tmp_path: Path, name: str) -> None:
    directory, metrics = launch(tmp_path / "run", *INPROCESS, *settings_of(PROTOCOLS[name]))
    stream = io.StringIO()
    print_summary(metrics, Console(file=stream, width=100))
    assert_one_truth(directory, metrics, stream.getvalue())
    if name.startswith("cells"):  # made of a sketch, which is a protocol of its own
        sketched = [line for line in read_ledgers([directory]).lines if line[0].endswith("/cells")]
        assert {about.observer for _, about in sketched} >= {CURATOR, OWNERS}


@pytest.mark.parametrize(
    ("security", "seen"),
    [((), "released without noise: sums of"), (("pooling.security.dropouts=1",), "exact Gaussian")],
)
def test_the_curator_of_a_release_sees_what_the_trust_level_says(
    tmp_path: Path, security: tuple[str, ...], seen: str
) -> None:
    # docs/releases.md, "Whom to trust with what".
    directory, metrics = release(scenario(tmp_path), "balog1", "inprocess", tmp_path / "run", *security)
    (towards_curator,) = towards(metrics, CURATOR)
    assert towards_curator["reason"].startswith(seen)
    assert seen in (directory / "report.html").read_text(encoding="utf-8")
    (others,) = towards(metrics, "other owners")
    assert others["epsilon"] == 0.0


def test_a_release_that_failed_states_what_was_disclosed(tmp_path: Path) -> None:
    with pytest.raises(FedkmeError, match="quorum"):
        release(scenario(tmp_path), "balog1", "inprocess", tmp_path / "run", "pooling.quorum=99")
    assert read_json(tmp_path / "run" / "metrics.json")["privacy"] == stated(tmp_path / "run") == []
    assert "Nothing was disclosed" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_run_that_was_cut_short_states_what_was_disclosed_so_far(tmp_path: Path) -> None:
    def fail() -> None:
        raise InterruptedRunError("the run was cut short", "-")

    _, whole = launch(tmp_path / "whole", *INPROCESS)
    with pytest.raises(InterruptedRunError):
        launch(tmp_path / "part", *INPROCESS, progress=KeptProgress(on_first_round=fail))
    part = read_json(tmp_path / "part" / "metrics.json")
    assert (part["rounds"], whole["rounds"]) == (1, 12)
    assert part["privacy"] == stated(tmp_path / "part")
    assert sum(each["raw_points"] for each in towards(part, CURATOR)) > 0
    assert sum(each["raw_points"] for each in towards(part, "consumer")) == 0  # no summary came out
    assert 0 < towards(part, "other owners")[0]["epsilon"] < towards(whole, "other owners")[0]["epsilon"]


@pytest.mark.parametrize(
    ("epsilon", "delta", "share"), [(1.0, 1e-5, 0.5), (0.3, 1e-6, 0.5), (4.0, 1e-5, 0.2)]
)
def test_the_default_is_sound_and_keeps_to_its_target(
    tmp_path: Path, epsilon: float, delta: float, share: float
) -> None:
    # Issue 3, item 4: a run states a total per pair, its parameters are derived from it; sound by default.
    privacy_settings = (
        f"privacy.epsilon={epsilon}",
        f"privacy.delta={delta}",
        f"privacy.clock_share={share}",
    )
    directory, metrics = launch(tmp_path / "run", *INPROCESS, *privacy_settings)
    assert metrics["privacy"] == stated(directory, delta)
    for observer in ("owners and curator", "other owners"):
        (sound,) = towards(metrics, observer)
        assert (sound["accountant"], sound["delta"]) == ("sound", delta)
        assert 0.9 * epsilon < sound["epsilon"] <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    ("assignments", "epsilon"),
    [
        (("target.mechanism=gaussian", "target.epsilon=0.7", "target.delta=1e-6"), 0.7),
        (("target.mechanism=exact",), math.inf),
        (("protocol=uniform",), 1.0),  # g~ is sent all the same
    ],
)
def test_d_v_costs_what_its_release_is_calibrated_for(
    tmp_path: Path, assignments: tuple[str, ...], epsilon: float
) -> None:
    directory, _ = launch(tmp_path / "run", *INPROCESS, *assignments)
    delta = 1e-6 if "target.delta=1e-6" in assignments else 1e-5
    (sound,) = [each for each in stated(directory, delta) if each["protected"] == "D_v"]
    assert (sound["observer"], sound["accountant"]) == ("owners and curator", "sound")
    assert float(sound["epsilon"]) == pytest.approx(epsilon, rel=1e-9)


def test_a_curator_that_is_trusted_with_d_v_sees_its_rows(tmp_path: Path) -> None:
    # Issue 2, item 6, the option of the paper; owners still see g~ alone. 1.4006: MATH.md, "Privacy of h2".
    directory, metrics = launch(tmp_path / "run", *INPROCESS, "preset=published", "share=rows")
    found = [each for each in stated(directory, 0.01) if each["protected"] == "D_v"]
    claimed, proven, seen = found
    assert (claimed["observer"], claimed["accountant"]) == ("owners", "published")
    assert claimed["epsilon"] == pytest.approx(1.4006, abs=5e-5)
    assert proven["epsilon"] == pytest.approx(3.104, abs=5e-4)
    assert (seen["observer"], seen["epsilon"]) == (CURATOR, "inf")
    assert seen["raw_points"] == metrics["points_accessed"]["validation_points"] > 0
    assert [each["epsilon"] for each in metrics["privacy_published"][:2]] == [
        claimed["epsilon"],
        proven["epsilon"],
    ]


@pytest.mark.parametrize(
    ("assignments", "reason"),
    [
        (("preset=published",), "not being asked"),
        (("auction.kind=winner-only",), "without noise"),
        (("auction.kind=ask-everyone",), "without noise"),
        (("broadcast.mechanism=exact",), "without noise"),
    ],
)
def test_what_has_no_proof_towards_other_owners_says_why(
    tmp_path: Path, assignments: tuple[str, ...], reason: str
) -> None:
    _, metrics = launch(tmp_path / "run", *INPROCESS, *assignments)
    (sound,) = towards(metrics, "other owners")
    assert (sound["accountant"], sound["epsilon"]) == ("sound", "inf")
    assert reason in sound["reason"]


def test_who_sees_rows_is_told_how_many(tmp_path: Path) -> None:
    # DESIGN.md, decision 4: "where an observer sees raw rows, how many".
    directory, metrics = launch(tmp_path / "run", *INPROCESS)
    record = read_json(directory / "record.json")
    used = Counter(owner for owner, *_ in record["selected"])
    seen = {(each["protected"], each["observer"]): each for each in metrics["privacy"]}
    for name, accessed in record["accessed"].items():
        for observer, count in ((CURATOR, accessed), ("consumer", used[name])):
            assert seen[name, observer]["raw_points"] == count
            assert ("rows are seen" in seen[name, observer]["reason"]) == (count > 0)


def towards(metrics: Mapping[str, Any], observer: str) -> list[dict[str, Any]]:
    """Statements of metrics.json about one observer."""
    return [each for each in metrics["privacy"] if each["observer"] == observer]
