"""`fedkme payout` on a finished run."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedkme.errors import ConfigError, StoreError
from fedkme.protocols import PROTOCOLS
from operate.payout_cli import app, read_inputs
from sim.config import load_simulation
from sim.progress import Progress
from sim.run import simulate


def run_in(folder: Path, *changes: str) -> Path:
    """Folder of a finished run of the clock."""
    quick = ("p=30", "scenario.copies=1", "baselines=[]", "downstream=false")
    loaded = load_simulation("digits", ["engine=inprocess", "protocol=algorithm3", *quick, *changes])
    return simulate(loaded, folder, Progress(io.StringIO()))[0]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run by rank."""
    return run_in(tmp_path_factory.mktemp("runs") / "run")


def call(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert isinstance(result.exception, ConfigError | StoreError), result.output
    return str(result.exception)


def test_rows_and_gains_of_a_real_run(finished: Path) -> None:
    """Counts equal the run's record; a divided total and exact gains are marked for the curator alone."""
    record = json.loads((finished / "record.json").read_text())
    priced = call(finished, "--price", 3)
    assert priced["amounts"] == {name: 3 * count for name, count in record["accessed"].items()}
    assert priced["audience"] == "owners"
    for method in ("rows", "gains"):
        answer = call(finished, "--method", method, "--total", 997)
        assert sum(answer["amounts"].values()) == 997
        assert answer["audience"] == "curator"
    table = CliRunner().invoke(app, [str(finished), "--method", "gains"])
    assert "CURATOR ONLY" in table.output


def test_what_a_run_lacks_is_refused(finished: Path, tmp_path: Path) -> None:
    assert "no histograms" in refused(finished, "--method", "mixture")
    (tmp_path / "nothing").mkdir()
    assert "no record" in refused(tmp_path / "nothing")
    assert "error 10 (configuration): there is no folder" in refused(tmp_path / "nowhere")


def test_cells_runs_are_paid_by_mixture(finished: Path, tmp_path: Path) -> None:
    """Private histograms in the record: shares are the mixture's weights, and gains are refused."""
    record = json.loads((finished / "record.json").read_text())
    names = sorted(record["owner_rows"])
    rows, m = record["owner_rows"], record["validation_rows"]
    record["histograms"] = {name: [rows[name] * (i == j) for j in range(5)] for i, name in enumerate(names)}
    record["target_histogram"] = [0, 7 * m, 3 * m, 0, 0]
    record["mixture_weights"] = dict(zip(names, [0.0, 0.7, 0.3, 0.0, 0.0], strict=True))
    record["validation_rows"], record["classes"], record["protocol"] = 10 * m, 0, "cells"
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert read_inputs(tmp_path).protocol == PROTOCOLS["cells"]
    mixture = call(tmp_path, "--method", "mixture")
    assert mixture["audience"] == "owners"
    assert mixture["event"] is None
    assert mixture["amounts"] == dict(zip(names, [0, 700, 300, 0, 0], strict=True))
    assert "no winning gains" in refused(tmp_path, "--method", "gains")
    assert call(tmp_path, "--method", "rows")["audience"] == "curator"  # deliveries, not orders
    record["orders"] = dict(zip(names, [0, 21, 9, 0, 0], strict=True))
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert call(tmp_path, "--method", "rows")["amounts"] == mixture["amounts"]


def test_owners_are_ranked_by_what_a_run_by_cells_released(tmp_path: Path) -> None:
    """docs/payouts.md: a run's own record is enough; owner 2 has the classes that D_v looks for."""
    changes = ["engine=inprocess", "p=30", "scenario.copies=5", "baselines=[]", "downstream=false"]
    loaded = load_simulation("digits", [*changes, "protocol=cells"])
    directory, _ = simulate(loaded, tmp_path / "run", Progress(io.StringIO()))
    answer = json.loads(CliRunner().invoke(app, [str(directory), "--rank", "--json"]).stdout)
    assert answer[0]["owner"] == "owner-2"
    assert {standing["owner"] for standing in answer} == {f"owner-{i}" for i in range(1, 6)}
    shown = CliRunner().invoke(app, [str(directory), "--rank"]).output
    assert "owner-2" in shown
    assert "nothing new" in shown
    record = json.loads((directory / "record.json").read_text())
    del record["noise_scale"]
    (directory / "record.json").write_text(json.dumps(record))
    assert "does not say the noise" in refused(directory, "--rank")


@pytest.mark.parametrize(
    ("protocol", "orders", "public"),
    [("uniform", None, True), ("cells", {"a": 2}, True), ("cells", None, False), ("clock", None, False)],
)
def test_counts_are_public_where_they_follow_from_releases(
    finished: Path, protocol: str, orders: dict[str, int] | None, public: bool
) -> None:
    # curator/payouts/payout.py: a total may be divided by ordered rows, not by delivered rows.
    inputs = replace(read_inputs(finished), protocol=PROTOCOLS[protocol], orders=orders)
    assert inputs.counts() == (orders or inputs.accessed, public)
    assert inputs.ranked == (protocol == "clock")
