"""`protocol = "target"` and `fk.summarize(..., real_rows=False)`: a release, then rows for a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedkme as fk
from consumer.results import ALONE
from fedkme.errors import ConfigError
from fedkme.ledgers.ledger_set import read_ledgers
from sim.config import load_simulation
from sim.match.target import led_to_target
from sim.progress import Follower
from sim.report.write import read_object
from tests.places import ROOT

FILES = ROOT / "examples" / "own-files"
CLINICS = {name: FILES / f"{name}.csv" for name in ("north", "south", "west")}


def test_a_summary_without_a_real_row(tmp_path: Path) -> None:
    out = tmp_path / "run"
    closed: dict[str, Any] = {"policies": {"all": {"rows": "none"}}, "security": {"dropouts": 0}}
    run = fk.summarize(
        CLINICS,
        FILES / "validation.csv",
        20,
        real_rows=False,
        schema=FILES / "schema.toml",
        seed=1,
        out=out,
        downstream=False,
        progress=False,
        **closed,
    )
    assert len(run.rows) == 20
    assert run.metrics["protocol"] == "target"
    assert run.metrics["points_accessed"] == {"total": 0}
    assert not run.privacy["rows_seen"].any()
    owners = run.privacy[run.privacy["protected"] != "D_v"]
    assert owners["epsilon"].max() == pytest.approx(1.0)  # secure: the curator's, too
    assert "or the consumer alone" in run.report
    assert read_object(out / "record.json")["kind"] == "release"
    assert not any(entry.get("raw_points") for entry in read_object(out / "metrics.json")["privacy"])
    assert read_ledgers([out])  # a release's, and no line of D_v
    assert not any(path.name.startswith(ALONE) for path in out.iterdir())
    again = fk.load(out)
    assert isinstance(again, fk.SummaryResult)
    assert again.rows.equals(run.rows)


@pytest.mark.parametrize(
    ("settings", "leads"),
    [
        ([], False),
        (["protocol=target"], True),
        (["real_rows=false"], True),
        (["policies.owner-1.rows=none"], True),
        (["policies.all.rows=none"], True),
        (["policies.owner-1.rows=none", "protocol=cells"], False),
    ],
)
def test_an_owner_that_lets_no_row_leave_leads_the_plan_to_rows_for_the_target(
    settings: list[str], leads: bool
) -> None:
    assert led_to_target(load_simulation("digits", settings), Follower()) is leads


@pytest.mark.parametrize("named", ["protocol=cells", "auction.kind=clock", "preset=published"])
def test_a_protocol_of_real_rows_beside_no_real_row_is_refused(named: str) -> None:
    with pytest.raises(ConfigError, match=r"asks owners for real rows.*leave one of them out"):
        load_simulation("digits", ["real_rows=false", named])
