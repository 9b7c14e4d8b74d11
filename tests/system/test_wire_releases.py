"""Releases over gRPC: owners and curators that are lost, requests that come again, refusals (issue 5)."""

from __future__ import annotations

import asyncio
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import curator.cli
from consumer.releases.client import attaching
from consumer.runs import cancelling, listing
from curator.runs.release_run import ReleaseRun
from curator.sums.session import SumSession
from curator.sums.settings import SecuritySettings
from fedkme.errors import (
    CancelledRunError,
    ConfigError,
    FedkmeError,
    NotEnoughRowsError,
    PartyFailedError,
    SchemaError,
)
from fedkme.privacy.ledger import read_ledger
from fedkme.releases.file import from_bytes
from fedkme.secagg.parameters import Parameters
from fedkme.secagg.signing import KeyBinding
from fedkme.sums.values import SumQuery
from fedkme.tables.schema import Numeric, Schema
from owner.settings import PeriodBudget, PolicySettings
from tests.fedkme.secagg.graphs import graphs_from_20
from tests.parties import HERE, curator_values, write_config
from tests.system.launches import read_json
from tests.system.market import Ear
from tests.system.release_market import (
    OWNERS,
    ROWS,
    TOLERANT,
    ReleaseMarket,
    come,
    faults,
    files,
    hold,
    release_market,
)


async def test_who_asks_again_gets_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # "Requests of consumers are idempotent"; a run is followed by name too, by whoever asked for it alone.
    async with release_market(tmp_path) as at:
        come(at)
        first = at.asks()
        with monkeypatch.context() as patch:
            held = hold(patch, ReleaseRun, "_finish")
            await held.reached()
            first.cancel()
            await asyncio.wait([first])
            with pytest.raises(ConfigError, match="holds another request"):
                await at.asks(epsilon=2.0)
            second = at.asks()
            held.go.set()
            await second
        assert held.calls == 1
        assert not (tmp_path / "consumer" / "release.open").exists()
        settings = at.caller("attached")
        await attaching("run-1")(settings, Ear())
        assert files(tmp_path / "attached") == files(tmp_path / "consumer")
        with pytest.raises(ConfigError, match="there is no run 'run-1' of yours"):
            await attaching("run-1")(settings.model_copy(update={"name": "other"}), Ear())
    assert not (tmp_path / "runs" / "run-2").exists()


async def refused(at: ReleaseMarket, kind: type[FedkmeError], why: str, **changes: Any) -> None:
    with pytest.raises(kind, match=why):
        await at.asks(**changes)


async def test_what_a_curator_refuses_before_anybody_is_asked(tmp_path: Path) -> None:
    # "Bad input": another schema, more than this curator takes part in, no noise outside of simulations.
    other = Schema(columns=(Numeric(name="y", bounds=(0, 1), count=3),))
    (tmp_path / "other.toml").write_text(other.to_toml(), encoding="utf-8")
    async with release_market(tmp_path, simulation_seed=None, most_epsilon=6.0) as at:
        await refused(at, SchemaError, "different public schemas", schema_file=tmp_path / "other.toml")
        await refused(at, ConfigError, "epsilon 7 is asked for and this curator's limit is 6", epsilon=7.0)
        await refused(at, ConfigError, "without noise", epsilon=math.inf)
        await refused(at, ConfigError, "has none", z={"kind": "seeds"})
        # 10^7 rows of a wide table took the curator's memory, and its next start began them again.
        await refused(at, ConfigError, "10000000 rows of 4 columns .* limit is 8388608", rows=10**7)
        assert not list((tmp_path / "runs").glob("run-*"))
        assert not (tmp_path / "consumer" / "release.open").exists()


async def test_under_secure_aggregation_not_even_a_simulation_does_without_noise(tmp_path: Path) -> None:
    async with release_market(tmp_path, TOLERANT) as at:
        await refused(at, ConfigError, "without noise", epsilon=math.inf)
        assert not list((tmp_path / "runs").glob("run-*"))


async def test_a_simulation_may_do_without_noise_and_ledgers_say_so(tmp_path: Path) -> None:
    async with release_market(tmp_path) as at:
        come(at)
        await at.asks(epsilon=math.inf)
    towards = [e.disclosure for e in read_ledger(tmp_path / "owner-1.jsonl")]
    assert [(line.observer, line.event.kind) for line in towards] == [
        ("curator", "exact-statistic"),
        ("consumer", "exact-statistic"),
    ]
    assert not faults(tmp_path)


async def test_a_curator_that_fails_says_so_and_the_run_goes_on_when_it_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # It was error 53, "the curator's store failed", for whatever a release method raised, and again at each
    # further request until the curator was started again.
    async def fail(*_: object) -> None:
        raise RuntimeError("age 47 in row 12")

    async with release_market(tmp_path) as at:
        come(at)
        with monkeypatch.context() as patch:
            patch.setattr(ReleaseRun, "_finish", fail)
            with pytest.raises(
                PartyFailedError, match=r"the curator failed in run-1 .* not foreseen"
            ) as told:
                await at.asks()
        assert "age 47" not in str(told.value)
        await at.asks()
    assert [record.name for record in caplog.records if record.exc_info] == ["curator"]
    assert not (tmp_path / "runs" / "run-2").exists()
    costs = [
        line for line in read_ledger(tmp_path / "owner-1.jsonl") if line.disclosure.observer == "consumer"
    ]
    assert len(costs) == 1
    assert not faults(tmp_path)


async def test_owners_say_which_masked_sums_leave_and_say_nothing_twice(tmp_path: Path) -> None:
    ears = {name: Ear() for name in OWNERS}
    async with release_market(tmp_path, TOLERANT) as at:
        for name, ear in ears.items():
            at.owner(name, ROWS, ear, simulation_seed=0)
        await at.asks()
    for ear in ears.values():
        told = [(event, fields) for event, fields in ear.said if "run" in fields]
        assert [event for event, _ in told] == ["release", "sent", "over"]
        asked, sent, over = (fields for _, fields in told)
        assert asked["secure"]
        assert sent["sums"] == "masked"
        assert over["epsilon"] == asked["epsilon"] < 6.0


async def test_owners_that_do_not_take_part_leave_with_a_line(tmp_path: Path) -> None:
    # "An empty owner, over budget": the run goes on without them; each says why.
    async with release_market(tmp_path, owners=(*OWNERS, "owner-4", "owner-5")) as at:
        come(at, "owner-1")
        come(at, "owner-2", policy=PolicySettings(budgets=(PeriodBudget(epsilon=4.0, delta=1e-5),)))
        come(at, "owner-3", policy=PolicySettings(sums="noisy"))
        at.owner("owner-4", 0)
        come(at, "owner-5")
        await at.asks()
    record = read_json(at.run() / "record.json")
    assert list(record["owner_rows"]) == ["owner-1", "owner-5"]
    codes = {fault["owner"]: fault["code"] for fault in record["faults"]}
    assert codes == {"owner-2": 52, "owner-3": 54, "owner-4": 24}
    assert not faults(tmp_path)


@pytest.mark.parametrize("security", [None, TOLERANT], ids=["trusted", "secure"])
async def test_too_few_rows_say_which_epsilon_would_do(
    tmp_path: Path, security: SecuritySettings | None
) -> None:
    # "N too small for the asked epsilon (say what epsilon would be usable)", with all owners' noise in it.
    async with release_market(tmp_path, security) as at:
        for name in OWNERS:
            at.owner(name, 4)
        with pytest.raises(NotEnoughRowsError) as caught:
            await at.asks(epsilon=0.3, tolerance=0.01)
        match = re.search(r"Use epsilon ([0-9.]+) or more", caught.value.remedy)
        assert match
        await at.asks(epsilon=float(match[1]), tolerance=0.01)
    (released,) = from_bytes(files(tmp_path / "consumer")["release.npz"]).embeddings
    assert released.sigma * math.sqrt(released.mean.size) <= 1.0  # the longest that a mean can be
    assert all(entry.disclosure.run == "run-2" for entry in read_ledger(tmp_path / "owner-1.jsonl"))


async def test_runs_are_listed_by_kind_and_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # What it has cost stays counted; the thread that trains is not waited for.
    async with release_market(tmp_path) as at:
        come(at)
        with monkeypatch.context() as patch:
            held = hold(patch, ReleaseRun, "_finish")
            asking = at.asks()
            await held.reached()
            await cancelling("run-1")(at.caller(), Ear())
            with pytest.raises(CancelledRunError):
                await asking
        await listing(False)(at.caller(), Ear())
        assert re.search(r"run-1 +cancelled +balog1 +- ", capsys.readouterr().out)
        config = write_config(tmp_path / "curator.toml", curator_values(HERE))
        output = CliRunner().invoke(curator.cli.app, ["runs", str(config)]).stdout
        assert re.search(r"run-1 +consumer +cancelled +balog1 +- ", output)
    assert read_json(at.run() / "record.json")["code"] == 56
    assert not faults(tmp_path)


async def test_owners_with_neighbours_add_up_to_the_same_bits_as_all_with_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    # Issue 15, item 3, over the wire: everything that a consumer gets of 20 owners, and their ledgers agree.
    names = tuple(f"owner-{number}" for number in range(20))

    async def made(folder: Path) -> dict[str, bytes]:
        async with release_market(folder, TOLERANT, owners=names) as at:
            come(at, *names)
            await at.asks()
        assert not faults(folder)
        return files(folder / "consumer")

    alike = await made(tmp_path / "all")
    request.getfixturevalue(graphs_from_20.__name__)
    proposed: list[int] = []
    propose = SumSession.propose

    async def told(
        self: SumSession, number: int, parameters: Parameters, query: SumQuery, moves: int
    ) -> KeyBinding:
        proposed.append(parameters.neighbours)
        return await propose(self, number, parameters, query, moves)

    monkeypatch.setattr(SumSession, "propose", told)
    assert await made(tmp_path / "graph") == alike
    assert set(proposed) == {6}
