"""Releases over gRPC: owners and curators that are lost, requests that come again, refusals (issue 5)."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
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
    QuorumError,
    SchemaError,
    SecureAggregationError,
)
from fedkme.ledgers.reconcile import verify
from fedkme.privacy.ledger import read_ledger
from fedkme.releases.file import from_bytes
from fedkme.secagg import KeyBinding, Parameters, bind, verify_binding
from fedkme.store import open_store
from fedkme.sums.values import SumQuery
from fedkme.tables.schema import Numeric, Schema
from fedkme.wire.tls import LOOPBACK, Authority, Role
from owner.settings import PeriodBudget, PolicySettings
from tests.fedkme.secagg.graphs import graphs_from_20
from tests.parties import HERE, curator_values, write_config
from tests.system.launches import read_json
from tests.system.market import Ear
from tests.system.release_market import OWNERS, Held, ReleaseMarket, files, hold, lose, release_market

ROWS = 150
SECURE = SecuritySettings()
TOLERANT = SecuritySettings(dropouts=1)


AUTHORITY = Authority()
PARTIES = {name: AUTHORITY.issue(name, role=Role.OWNER) for name in OWNERS}
BROKER = AUTHORITY.issue("curator", LOOPBACK, Role.CURATOR)
STOLEN = Ed25519PrivateKey.generate()
"""Signing key of a curator that puts it in the place of an owner's."""
BINDINGS: dict[str, Callable[[str], KeyBinding]] = {
    "without a certificate": lambda run: KeyBinding(
        b"", STOLEN.public_key().public_bytes_raw(), b"", OWNERS[1]
    ),
    "of the curator's certificate": lambda run: bind(BROKER, STOLEN.public_key(), run),
    "of another owner's": lambda run: bind(PARTIES[OWNERS[2]], STOLEN.public_key(), run),
    "of another authority": lambda run: bind(
        Authority().issue(OWNERS[1], role=Role.OWNER), STOLEN.public_key(), run
    ),
    "of another aggregation": lambda run: bind(PARTIES[OWNERS[1]], STOLEN.public_key(), f"{run}0"),
}
"""Signing keys that a curator says are the second owner's."""


def come(at: ReleaseMarket, *names: str, **changes: Any) -> dict[str, asyncio.Task[None]]:
    """Let owners join."""
    return {name: at.owner(name, ROWS, simulation_seed=0, **changes) for name in names or OWNERS}


def faults(folder: Path) -> list[str]:
    """Faults that `fedkme audit verify` finds between a curator's folder and its owners' ledgers."""
    others = sorted(folder.glob("owner-*.jsonl"))
    assert others
    return [verdict.fault for verdict in verify(folder / "runs", others) if verdict.fault]


async def calm(folder: Path, security: SecuritySettings | None = None) -> dict[str, bytes]:
    """Files that a consumer receives of a run in which nothing happens."""
    async with release_market(folder, security) as at:
        come(at)
        await at.asks()
    assert not faults(folder)
    return files(folder / "consumer")


@pytest.mark.parametrize("phase", ["advertise", "mask", "unmask"])
async def test_owners_may_be_lost_up_to_the_stated_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    # "Shamir shares for drop-out (t of n)": in every phase; the record says of whose rows the release is.
    async with release_market(tmp_path, TOLERANT, grace_s=0.05) as at:
        lose(monkeypatch, phase, {"owner-2": come(at)["owner-2"]})
        await at.asks(epsilon=20.0)
    record = read_json(at.run() / "record.json")
    inside = ["owner-1", "owner-3"] if phase != "unmask" else list(OWNERS)
    assert list(record["owner_rows"]) == inside
    assert record["one_owner_moves"] == ROWS * len(inside)  # under masks the total alone is checked
    assert [fault["owner"] for fault in record["faults"]] == ["owner-2"]
    kept = from_bytes(files(tmp_path / "consumer")["release.npz"])
    assert (kept.owners, kept.rows) == (len(inside), ROWS * len(inside))
    assert not faults(tmp_path)


@pytest.mark.parametrize("security", [SECURE, TOLERANT], ids=["none", "one"])
async def test_beyond_that_number_nothing_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, security: SecuritySettings
) -> None:
    # "Drop-outs under the threshold: typed errors, nothing leaks."
    asked = hold(monkeypatch, SumSession, "unmask")
    async with release_market(tmp_path, security, grace_s=0.05) as at:
        owners = come(at)
        lose(monkeypatch, "mask", {name: owners[name] for name in OWNERS[: security.dropouts + 1]})
        with pytest.raises((SecureAggregationError, QuorumError)):
            await at.asks(epsilon=20.0)
    assert asked.calls == 0
    record = read_json(at.run() / "record.json")
    assert (record["status"], record["files"]) == ("failed", [])
    assert not list((tmp_path / "consumer").iterdir())
    assert not faults(tmp_path)


@pytest.mark.parametrize("quorum", [2, 3])
async def test_a_trusted_curator_goes_on_without_an_owner_that_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quorum: int
) -> None:
    # Decision 007: "A plain total is that of the owners that answered", down to the quorum.
    async with release_market(tmp_path, grace_s=0.05, quorum=quorum) as at:
        lose(monkeypatch, "embed", {"owner-2": come(at)["owner-2"]})
        asking = at.asks()
        if quorum == 3:
            with pytest.raises(QuorumError):
                await asking
        else:
            await asking
            record = read_json(at.run() / "record.json")
            assert list(record["owner_rows"]) == ["owner-1", "owner-3"]
            assert record["one_owner_moves"] == ROWS
    assert read_json(at.run() / "record.json")["code"] == (21 if quorum == 3 else 0)
    # It may have written that its vector left: it is charged in lines that are not certain, of which there
    # may be none in its ledger.
    assert not faults(tmp_path)


@pytest.mark.parametrize("security", [None, SECURE], ids=["trusted", "secure"])
async def test_a_curator_killed_once_the_release_is_kept_asks_nobody_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, security: SecuritySettings | None
) -> None:
    # Decision 007: "The release is the one durable point": everything after is post-processing of it.
    quiet = await calm(tmp_path / "calm", security)
    async with release_market(tmp_path / "troubled", security) as at:
        come(at)
        asking = at.asks()
        with monkeypatch.context() as patch:
            held = hold(patch, ReleaseRun, "_finish")
            await held.reached()
            image = at.image()
            await at.crash(image)
        asked = hold(monkeypatch, SumSession, "invite")
        asked.go.set()
        await at.start()
        await asking
    assert asked.calls == 0
    assert files(tmp_path / "troubled" / "consumer") == quiet
    assert not faults(tmp_path / "troubled")


async def test_a_trusted_curator_killed_before_that_asks_again_and_it_costs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "With a trusted curator it asks again, for sums are a function of the rows, until noise is added."
    quiet = await calm(tmp_path / "calm")
    async with release_market(tmp_path / "troubled") as at:
        come(at)
        asking = at.asks()
        with monkeypatch.context() as patch:
            await hold(patch, SumSession, "embed").reached()
            image = at.image()
            patch.undo()
            await at.crash(image)
        await at.start()
        await asking
    assert files(tmp_path / "troubled" / "consumer") == quiet
    assert not faults(tmp_path / "troubled")
    assert len(read_ledger(tmp_path / "troubled" / "owner-1.jsonl")) == 2


async def test_a_trusted_curator_that_is_stopped_with_sums_in_hand_writes_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What came counts when a process stops, and is no news when the next one is given the same bits.
    answered, work = asyncio.Event(), SumSession.embed

    async def slow(self: SumSession, *arguments: Any) -> Any:
        answer = await work(self, *arguments)
        if self.name == "owner-1":
            answered.set()
            return answer
        return await asyncio.Event().wait()

    async with release_market(tmp_path) as at:
        come(at)
        with monkeypatch.context() as patch:
            patch.setattr(SumSession, "embed", slow)
            asking = at.asks()
            await answered.wait()
            await asyncio.sleep(0)  # the vector is counted when its owner's task goes on
            await at.stop()
        await at.start()
        await asking
    assert not faults(tmp_path)


@pytest.mark.parametrize("phase", ["advertise", "share"])
async def test_a_curator_killed_before_masked_sums_are_asked_for_asks_under_another_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    # Owners take part in no aggregation of a number twice: the run ended with "0 owners are left".
    async with release_market(tmp_path, SECURE) as at:
        come(at)
        asking = at.asks()
        with monkeypatch.context() as patch:
            await hold(patch, SumSession, phase).reached()
            image = at.image()
            await at.crash(image)
        await at.start()
        await asking
    assert (tmp_path / "consumer" / "release.npz").exists()
    assert not faults(tmp_path)
    lines = [entry.disclosure for entry in read_ledger(tmp_path / "owner-2.jsonl")]
    assert [(line.round, line.observer) for line in lines] == [(2, "curator"), (1, "consumer")]


async def test_a_curator_killed_while_a_sum_is_opened_says_that_it_costs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "With secure aggregation the noise is in what owners sent: the run ends with a typed error and asking
    # again costs again"; ledgers agree on what the first attempt cost.
    async with release_market(tmp_path, SECURE) as at:
        come(at)
        asking = at.asks()
        with monkeypatch.context() as patch:
            await hold(patch, SumSession, "endorse").reached()
            image = at.image()
            await at.crash(image)
        await at.start()
        with pytest.raises(SecureAggregationError, match="it costs again") as caught:
            await asking
        assert caught.value.code == 58
        await at.asks()  # in the same folder: another run
    assert (tmp_path / "consumer" / "release.npz").exists()
    assert not faults(tmp_path)
    lines = [entry.disclosure for entry in read_ledger(tmp_path / "owner-2.jsonl")]
    assert [(line.run, line.observer) for line in lines] == [
        (run, observer) for run in ("run-1", "run-2") for observer in ("curator", "consumer")
    ]


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
        found = re.search(r"Use epsilon ([0-9.]+) or more", caught.value.remedy)
        assert found
        await at.asks(epsilon=float(found[1]), tolerance=0.01)
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
        told = CliRunner().invoke(curator.cli.app, ["runs", str(config)]).stdout
        assert re.search(r"run-1 +consumer +cancelled +balog1 +- ", told)
    assert read_json(at.run() / "record.json")["code"] == 56
    assert not faults(tmp_path)


@pytest.mark.parametrize(("phase", "security"), [("embed", None), ("mask", SecuritySettings())])
async def test_what_may_have_left_counts_where_a_run_is_cancelled_before_it_comes(
    phase: str, security: SecuritySettings | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its lines waited in the store for an attempt that never came; the owner's own looked like cheating.
    async with release_market(tmp_path, security) as at:
        come(at)
        held, work = Held(), getattr(SumSession, phase)

        async def late(self: SumSession, *arguments: Any) -> Any:
            answer = await work(self, *arguments)
            if self.name == "owner-3":
                await held.wait()
            return answer

        monkeypatch.setattr(SumSession, phase, late)
        asking = at.asks()
        await held.reached()
        await cancelling("run-1")(at.caller(), Ear())
        with pytest.raises(CancelledRunError):
            await asking
    assert not faults(tmp_path)
    lines = [entry.disclosure for entry in read_ledger(tmp_path / "runs" / "journal.db")]
    assert {line.protected for line in lines if not line.certain} >= {"owner-3"}
    with contextlib.closing(open_store(tmp_path / "runs" / "journal.db", "curator")) as store:
        assert [*store.keys("doubtful/"), *store.keys("asked/")] == []


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


@pytest.mark.parametrize("lie", [None, *BINDINGS])
async def test_keys_of_a_roster_are_bound_to_certificates_over_mutual_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str | None
) -> None:
    # With certificates no owner believes a curator about another's signing key: nothing leaves under masks.
    said, masks = list[KeyBinding](), list[str]()
    advertise, mask = SumSession.advertise, SumSession.mask

    async def told(self: SumSession, number: int, keys: Sequence[KeyBinding]) -> Any:
        run = f"run-1/{number}"
        odd = [] if lie is None else [BINDINGS[lie](run)]
        said[:] = [keys[0], *(odd or keys[1:2]), *keys[2:]]
        return await advertise(self, number, said)

    async def masked(self: SumSession, *arguments: Any) -> Any:
        masks.append(self.name)
        return await mask(self, *arguments)

    monkeypatch.setattr(SumSession, "advertise", told)
    monkeypatch.setattr(SumSession, "mask", masked)
    for name, identity in {**PARTIES, "curator": BROKER}.items():
        identity.save_bundle(tmp_path / f"{name}.pem")
    AUTHORITY.issue("lab", role=Role.CONSUMER).save_bundle(tmp_path / "lab.pem")
    async with release_market(tmp_path, SECURE, identity=tmp_path / "curator.pem") as at:
        for name in OWNERS:
            come(at, name, identity=tmp_path / f"{name}.pem")
        asking = at.asks(name="lab", identity=tmp_path / "lab.pem")
        if lie is None:
            await asking
        else:
            with pytest.raises((QuorumError, SecureAggregationError)):
                await asking
    record = read_json(at.run() / "record.json")
    assert [fault["owner"] for fault in record["faults"]] == ([] if lie is None else list(OWNERS))
    assert sorted(masks) == (list(OWNERS) if lie is None else [])
    if lie is None:
        for owner, binding in zip(OWNERS, said, strict=True):
            assert verify_binding(binding, AUTHORITY.pem, "run-1/1")[0] == owner
    assert not faults(tmp_path)
