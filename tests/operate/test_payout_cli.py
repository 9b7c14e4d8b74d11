"""`fedkme payout` on a finished run."""

import contextlib
import io
import json
import math
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from curator.payouts.allowance import FILE, draw_payout, drawn, read_draws
from curator.payouts.payout import Payout
from fedkme.errors import BudgetError, ConfigError, FedkmeError, StoreError
from fedkme.privacy.events import Laplace, PureDp
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.summary_disclosures import PAYOUTS
from fedkme.protocols import PROTOCOLS
from operate.audit_cli import app as audit
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
    """Folder of a run whose owners agreed to payouts of epsilon .3."""
    return run_in(tmp_path_factory.mktemp("runs") / "run", "payouts=0.3")


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


@pytest.fixture
def paid(finished: Path, tmp_path: Path) -> Path:
    """Copy of the run, for a test that draws payouts."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def epsilon_of(folder: Path) -> float:
    """Epsilon of owners towards each other, by the ledgers of a folder."""
    result = CliRunner().invoke(audit, ["ledger", str(folder), "--json"], catch_exceptions=False)
    return max(float(x["epsilon"]) for x in json.loads(result.stdout) if x["observer"] == "other owners")


def test_a_payout_that_owners_were_not_asked_for_is_refused(tmp_path: Path) -> None:
    """`payout RUN --epsilon 40` was possible after a run of .969, and the ledgers still said .969."""
    folder = run_in(tmp_path / "run")
    before = epsilon_of(folder)
    for method in (["rows"], ["wins"], ["gains", "--clip", "1"]):
        result = CliRunner().invoke(app, [str(folder), "--epsilon", "40", "--method", *method])
        assert isinstance(result.exception, BudgetError), result.output
        assert result.exception.code == 52
    assert epsilon_of(folder) == before
    assert not (folder / FILE).exists()


def test_noised_payouts_are_in_every_ledger_and_statement_before_they_are_drawn(paid: Path) -> None:
    total = epsilon_of(paid)
    assert 0.9 < total <= 1.0
    for path in (paid / "ledger.jsonl", *(paid / "owners").glob("*.jsonl")):
        lines = [e.disclosure.event for e in read_ledger(path) if e.disclosure.nonce == PAYOUTS]
        assert lines == [PureDp(0.3)]
    answer = call(paid, "--method", "wins", "--epsilon", 0.1)
    assert (answer["audience"], answer["event"]) == ("owners", Laplace(10.0).to_json())
    call(paid, "--epsilon", 0.2)  # rows: .1 and .2 are .3
    for epsilon in (0.001, 40):
        result = CliRunner().invoke(app, [str(paid), "--method", "wins", "--epsilon", str(epsilon)])
        assert isinstance(result.exception, BudgetError)
    assert epsilon_of(paid) == total
    stated = json.loads((paid / "metrics.json").read_text())["privacy"]
    assert max(float(x["epsilon"]) for x in stated if x["observer"] == "other owners") == total
    assert CliRunner().invoke(audit, ["verify", str(paid)]).exit_code == 0


def test_a_payout_that_is_asked_for_again_is_the_same_and_costs_nothing(paid: Path) -> None:
    answers = [call(paid, "--method", "wins", "--epsilon", 0.3) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert float(drawn(read_draws(paid))) == 0.3


def test_there_is_no_public_seed_of_a_payout(paid: Path) -> None:
    # Noise that can be computed again costs infinity, which no allowance has.
    assert CliRunner().invoke(app, [str(paid), "--epsilon", "0.1", "--seed", "1"]).exit_code == 2
    assert call(paid, "--method", "wins", "--epsilon", 0.1) != call(
        paid, "--method", "wins", "--epsilon", 0.1, "--total", 1001
    )


def test_an_interrupted_payout_is_charged_once(paid: Path) -> None:
    def interrupted(noise: NoiseSource) -> Payout:
        raise KeyboardInterrupt

    request = {"method": "wins", "epsilon": 0.3}
    with pytest.raises(KeyboardInterrupt):  # nobody saw it
        draw_payout(paid, "run-1", request, interrupted)
    drawn_payout = draw_payout(paid, "run-1", request, made)  # written, and perhaps never shown
    assert draw_payout(paid, "run-1", request, interrupted) == drawn_payout
    assert float(drawn(read_draws(paid))) == 0.3


def made(noise: NoiseSource) -> Payout:
    return Payout("wins", 1, {"a": 1}, {"a": 1.0}, "owners", "little", Laplace(1.0))


def test_payouts_at_once_do_not_draw_the_same_part(paid: Path) -> None:
    def draw(total: int) -> bool:
        try:
            draw_payout(paid, "run-1", {"method": "wins", "epsilon": 0.1, "total": total}, made)
        except BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(draw, range(8))) == 3


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats() | st.sampled_from([0.1, 0.05, 0.3, 5e-324, 1e300]), max_size=8))
def test_whatever_is_asked_payouts_stay_within_their_allowance(finished: Path, epsilons: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(finished / "ledger.jsonl", folder)
        for number, epsilon in enumerate(epsilons):
            with contextlib.suppress(BudgetError, ConfigError):
                draw_payout(Path(folder), "run-1", {"epsilon": epsilon, "number": number}, made)
        spent = [draw["asked"]["epsilon"] for draw in read_draws(Path(folder))]
        assert all(0 < epsilon <= 0.3 for epsilon in spent)
        assert math.fsum(spent) <= 0.3 * (1 + 1e-15)


def test_a_damaged_file_of_payouts_is_an_error(paid: Path) -> None:
    (paid / FILE).write_text('[{"asked": {}}]')
    assert "was not written by a payout" in refused(paid, "--method", "wins", "--epsilon", 0.1)


def test_owners_consent_to_payouts_by_their_budgets(tmp_path: Path) -> None:
    """The plan that policies admit contains the cost of payouts and of the run."""
    budget = "policies.all.budgets=[{epsilon=0.8, delta=1e-5, observer='owners'}]"
    run_in(tmp_path / "less", "privacy.epsilon=0.7", budget)
    with pytest.raises(FedkmeError) as refusal:
        run_in(tmp_path / "more", "privacy.epsilon=1.0", "payouts=0.3", budget)
    assert refusal.value.code in (21, 52)


@pytest.mark.parametrize(
    "changes", [["payouts=1.0"], ["payouts=-1"], ["payouts=0.1", "protocol=cells"], ["payouts=inf"]]
)
def test_an_allowance_that_a_run_cannot_have_is_refused(changes: list[str]) -> None:
    with pytest.raises(ConfigError, match="payouts"):
        load_simulation("digits", changes)


def test_payouts_without_a_finite_bound_are_refused(finished: Path, tmp_path: Path) -> None:
    """Gains without a clip, exact wins, histograms that a run did not release, an auction without a proof."""
    assert "infinite" in refused(finished, "--method", "gains", "--epsilon", 0.1)
    assert "only with noise" in refused(finished, "--method", "wins")
    assert "no histograms" in refused(finished, "--method", "mixture")
    record = json.loads((finished / "record.json").read_text())
    (tmp_path / "record.json").write_text(json.dumps(record | {"protocol": "privauction"}))
    shutil.copy(finished / "ledger.jsonl", tmp_path)
    assert "no finite epsilon" in refused(tmp_path, "--method", "wins", "--epsilon", 0.1)
    assert not (tmp_path / FILE).exists()
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
