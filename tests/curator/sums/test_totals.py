"""Totals of owners' vectors at the curator, in the clear and under masks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from curator.sums.round import PlanFor
from fedkme.errors import DataError, QuorumError, SecureAggregationError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.sums import Layout
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.privacy.events import CURATOR, ExactStatistic, Gaussian
from fedkme.protocol import Security
from fedkme.secagg.noise import NoisePlan, plan_noise
from fedkme.secagg.parameters import least_threshold
from fedkme.secagg.signing import KeyBinding
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from tests.curator.sums.fake_owners import (
    BY_CLASS,
    FOURIER,
    HERMITE,
    MIXED,
    PHASES,
    SCHEMA,
    At,
    Change,
    FakeOwner,
    changed,
    fakes,
    shares,
    table,
)
from tests.silence import Silence

QUERIES = [
    SumQuery((FOURIER,), Layout()),
    SumQuery((FOURIER, HERMITE), BY_CLASS, counts=True),
    SumQuery((MIXED, FOURIER), BY_CLASS, counts=True, weights=(64, 3, 2**30)),
    SumQuery((), BY_CLASS, counts=True),
]
QUERY = QUERIES[1]
OPEN = Security(dropouts=2)


def secure_question(query: SumQuery, security: Security) -> tuple[SumVector, Security, PlanFor]:
    """Make a question under secure aggregation."""
    vector = SumVector(query, SCHEMA)
    return vector, security, shares(vector, security)


def exact(owners: list[FakeOwner], query: SumQuery, names: tuple[str, ...]) -> NDArray[np.int64]:
    vector = SumVector(query, SCHEMA)
    total = np.zeros(vector.length, dtype=np.int64)
    for owner in owners:
        if owner.name in names:
            total += vector.of(owner.table)
    return total


@pytest.mark.parametrize("query", QUERIES)
async def test_the_secure_total_is_the_plain_total(query: SumQuery) -> None:
    # "result equals the plain sum to quantization": the vectors are quantized already, so exactly.
    owners = fakes(6)
    plain, secure = At(owners), At(fakes(6, noise=Silence()), OPEN)
    for at in (plain, secure):
        await at.round.invite_all()
    vector = SumVector(query, SCHEMA)
    clear = await plain.round.plain_total(vector)
    masked = await secure.round.secure_total(*secure_question(query, OPEN))
    assert clear.owners == masked.owners == tuple(plain.owners)
    held = [len(owner.table) for owner in owners]
    for at, moves in ((plain, max(held)), (secure, sum(held))):  # all are told what one of them moves
        assert {moves} == {rows_moved for owner in at.owners.values() for rows_moved in owner.moved}
    assert clear.rows == masked.rows == 240
    assert np.array_equal(clear.steps, exact(owners, query, clear.owners))
    assert np.array_equal(masked.steps, clear.steps)
    assert not secure.faults


async def test_questions_of_a_run_have_names_of_their_own() -> None:
    # Decision 006: "An aggregation is called RUN/N, N counting questions, so that no name is used twice";
    # the least threshold and bits, so that most may be missing.
    owners = fakes(7)
    at = At(owners, OPEN)
    await at.round.invite_all()
    for query in QUERIES:
        await at.round.secure_total(*secure_question(query, OPEN))
    for owner in owners:
        assert [parameters.run for parameters in owner.parameters] == [f"run-1/{n}" for n in (1, 2, 3, 4)]
        for parameters in owner.parameters:
            assert parameters.threshold == least_threshold(7, 0)
            assert (
                2 ** (parameters.bits - 2) <= max(parameters.largest_total, 64) < 2 ** (parameters.bits - 1)
            )
    assert at.begun == [0, 7, 14, 21]  # before the first masked vector of each


@pytest.mark.parametrize("phase", PHASES)
async def test_owners_may_be_lost_in_every_phase(phase: str) -> None:
    # "drop-out at every phase": D of them; whoever sent a masked vector is in the sum, and out of the rest.
    owners = fakes(7, noise=Silence())
    for owner in owners[1:3]:
        owner.lost_at[phase] = 0
    at = At(owners, OPEN)
    await at.round.invite_all()
    total = await at.round.secure_total(*secure_question(QUERY, OPEN))
    staying = tuple(owner.name for owner in owners if owner not in owners[1:3])
    assert total.owners == (tuple(at.owners) if phase in ("endorse", "unmask") else staying)
    assert total.rows == sum(len(at.owners[name].table) for name in total.owners)
    assert np.array_equal(total.steps, exact(owners, QUERY, total.owners))
    assert [fault.owner for fault in at.faults] == ["o001", "o002"]
    assert at.observed == at.faults
    assert tuple(at.round.owners) == staying
    again = await at.round.secure_total(*secure_question(QUERIES[0], OPEN))
    assert again.owners == staying
    assert owners[0].parameters[-1].owners == staying


async def test_an_owner_that_gives_no_key_is_no_drop_out() -> None:
    # It is not in the aggregation at all: all D may still go, and the noise is planned for those that are.
    owners = fakes(8)
    owners[0].lost_at["propose"] = 0
    owners[3].lost_at["mask"] = owners[4].lost_at["unmask"] = 0
    at = At(owners, OPEN)
    await at.round.invite_all()
    planned_owners: list[int] = []

    def plan(count: int) -> NoisePlan:
        planned_owners.append(count)
        vector = SumVector(QUERY, SCHEMA)
        diameter, length = 64 * vector.diameter, vector.length
        return plan_noise(1.0, 1e-5, owners=count, dropouts=2, colluders=0, length=length, diameter=diameter)

    total = await at.round.secure_total(SumVector(QUERY, SCHEMA), OPEN, plan)
    assert planned_owners == [8, 7]
    assert [parameters.run for parameters in owners[1].parameters] == ["run-1/1", "run-1/2"]
    assert total.owners == tuple(name for name in at.owners if name not in ("o000", "o003"))


@pytest.mark.parametrize("phase", PHASES[1:])
async def test_too_many_drop_outs_open_nothing(phase: str) -> None:
    # "drop-outs under the threshold: typed errors, nothing leaks".
    gone = 4 if phase in ("endorse", "unmask") else 3  # of 7 with D = 2 and t = 4
    owners = fakes(7)
    for owner in owners[:gone]:
        owner.lost_at[phase] = 0
    at = At(owners, OPEN)
    await at.round.invite_all()
    with pytest.raises(SecureAggregationError, match=rf"{7 - gone} owners sent .* for 'run-1/1'"):
        await at.round.secure_total(*secure_question(QUERY, OPEN))
    assert len(at.faults) == gone
    if phase != "unmask":
        assert not any(owner.opened for owner in owners)


LIES = {
    "no key": ("propose", changed(key=b"")),
    "a key of another": ("propose", changed(owner="o002")),
    "a signature of nothing": ("advertise", changed(signature=bytes(64))),
    "keys of another question": ("advertise", changed(context=bytes(32))),
    "no shares": ("share", changed(shares=())),
    "shares in another's name": ("share", changed(sender="o002")),
    "a vector that is too short": (
        "mask",
        lambda message: dataclasses.replace(message, words=message.words[1:]),
    ),
    "words that are too large": (
        "mask",
        lambda message: dataclasses.replace(message, words=~np.zeros_like(message.words)),
    ),
    "a vector in another's name": ("mask", changed(sender="o002")),
    "another's word": ("endorse", changed(sender="o002")),
    "an endorsement of nothing": ("endorse", changed(signature=bytes(64))),
    "no shares of masks": ("unmask", changed(self_masks=())),
}


@pytest.mark.parametrize("lie", LIES)
async def test_an_owner_whose_message_does_not_fit_leaves(lie: str) -> None:
    # And the others get their sum: it is one of the D that may be missing.
    phase, change = LIES[lie]
    owners = fakes(5, noise=Silence())
    owners[1].changes[phase] = change
    at = At(owners, Security(1))
    await at.round.invite_all()
    total = await at.round.secure_total(*secure_question(QUERY, Security(1)))
    assert [fault.owner for fault in at.faults] == ["o001"]
    assert [name for name in total.owners if name != "o001"] == ["o000", "o002", "o003", "o004"]
    assert np.array_equal(total.steps, exact(owners, QUERY, total.owners))


async def test_certificates_vouch_for_signing_keys() -> None:
    # "signed key advertisements": with an authority no owner is believed about its key.
    authority = Authority()
    owners = [
        FakeOwner(owner.name, owner.table, Silence(), authority.issue(owner.name, role=Role.OWNER))
        for owner in fakes(5)
    ]
    other = Authority()
    stranger = FakeOwner("o005", table(30, 9), identity=other.issue("o005", role=Role.OWNER))
    liar = FakeOwner("o006", table(30, 8), identity=authority.issue("o002", role=Role.OWNER))
    bare = FakeOwner("o007", table(30, 7))
    bare.changes["propose"] = lambda message: KeyBinding(b"", message.key, b"", "o007")
    at = At([*owners, stranger, liar, bare], OPEN, identity=authority.issue("curator", role=Role.CURATOR))
    await at.round.invite_all()
    total = await at.round.secure_total(*secure_question(QUERY, OPEN))
    assert total.owners == tuple(owner.name for owner in owners)
    assert sorted(fault.owner for fault in at.faults) == ["o005", "o006", "o007"]
    assert np.array_equal(total.steps, exact(owners, QUERY, total.owners))


def poked(place: int, value: int) -> Change:
    def change(vector: NDArray[np.int64]) -> NDArray[np.int64]:
        vector = vector.copy()
        vector[place] = value
        return vector

    return change


PLAIN_LIES: dict[str, Change] = {
    "too short": lambda vector: vector[:-1],
    "no vector": lambda vector: vector.reshape(1, -1),
    "too long": poked(0, 2**40),
    "the least of all": poked(1, -(2**63)),
    "a count below 0": poked(-1, -1),
    "more rows than it has": lambda vector: vector + np.repeat([0, 60], [len(vector) - 3, 3]),
}


@pytest.mark.parametrize("lie", PLAIN_LIES)
async def test_a_plain_vector_that_rows_cannot_have_takes_its_owner_out(lie: str) -> None:
    # The total is that of the others, who go on.
    owners = fakes(4, rows=160)
    owners[2].changes["embed"] = PLAIN_LIES[lie]
    at = At(owners)
    await at.round.invite_all()
    total = await at.round.plain_total(SumVector(QUERY, SCHEMA))
    assert total.owners == ("o000", "o001", "o003")
    assert total.rows == 160 - len(owners[2].table)
    assert np.array_equal(total.steps, exact(owners, QUERY, total.owners))
    assert [fault.owner for fault in at.faults] == ["o002"]
    again = await at.round.plain_total(SumVector(QUERY, SCHEMA))
    assert again.owners == total.owners


async def test_owners_that_refuse_or_have_no_rows_or_too_many_take_no_part() -> None:
    # "an empty owner": it is left out with a line; one that refuses or claims what no sum holds, too.
    owners = fakes(5)
    owners[0].changes["invite"] = lambda rows: 0
    owners[1].lost_at["invite"] = 0
    owners[2].changes["invite"] = lambda rows: 2**40
    at = At(owners, quorum=2)
    rows = await at.round.invite_all()
    assert list(rows) == ["o002", "o003", "o004"]
    total = await at.round.plain_total(SumVector(QUERY, SCHEMA))
    assert total.owners == ("o003", "o004")
    assert [fault.owner for fault in at.faults] == ["o000", "o001", "o002"]
    assert "o000 has no rows" in at.faults[0].line


async def test_below_the_quorum_nothing_is_asked() -> None:
    owners = fakes(3)
    owners[0].lost_at["embed"] = 2
    at = At(owners, quorum=3)
    await at.round.invite_all()
    vector = SumVector(QUERY, SCHEMA)
    await at.round.plain_total(vector)
    with pytest.raises(QuorumError, match="2 owners are left and the quorum is 3"):
        await at.round.plain_total(vector)
    with pytest.raises(QuorumError, match="2 owners are left"):
        await at.round.plain_total(vector)
    with pytest.raises(QuorumError, match="6 owners are left and the quorum is 7; secure aggregation"):
        await At(fakes(6), Security(3, 0)).round.invite_all()


@pytest.mark.parametrize(
    ("dropouts", "colluders", "least"), [(0, 0, 2), (1, 0, 3), (2, 0, 5), (3, 0, 7), (0, 3, 5), (2, 3, 8)]
)
def test_an_aggregation_needs_a_least_number_of_owners(dropouts: int, colluders: int, least: int) -> None:
    assert Security(dropouts, colluders).least_owners == least
    assert least_threshold(least, colluders) <= least - dropouts
    assert least - dropouts - colluders >= 2
    fewer = least - 1
    assert fewer - dropouts - colluders < 2 or least_threshold(fewer, colluders) > fewer - dropouts


async def test_more_rows_than_sums_hold_are_refused() -> None:
    owners = fakes(3)
    for owner in owners:
        owner.changes["invite"] = lambda rows: 2**23
    at = At(owners)
    await at.round.invite_all()
    with pytest.raises(DataError, match="rows to embed and sums hold"):
        await at.round.plain_total(SumVector(QUERY, SCHEMA))


async def test_the_curator_writes_down_whose_vectors_came() -> None:
    # "What an owner writes down. Trusted: an exact statistic towards the curator, and the event of the
    # release towards the consumer": the curator writes the same lines, by question and owner, once.
    planned = (Gaussian(5.0),)
    owners = fakes(3)
    owners[1].lost_at["embed"] = 2
    at = At(owners, planned=planned)
    await at.round.invite_all()
    for _ in range(2):
        await at.round.plain_total(SumVector(QUERY, SCHEMA))
    lines = at.gate.came()
    length = SumVector(QUERY, SCHEMA).length
    seen = [(line.round, line.protected, line.observer, line.event) for line in lines]
    statistic = ExactStatistic(f"sums of {length} features")
    first = [
        (1, name, observer, event)
        for name in at.owners
        for observer, event in ((CURATOR, statistic), ("lab", planned[0]))
    ]
    assert seen == [*first, (2, "o000", CURATOR, statistic), (2, "o002", CURATOR, statistic)]
    at.gate.wrote(lines)
    assert at.gate.came() == []
    # That of who was lost while it was asked may have left; another that refuses says that none did.
    (late,) = at.gate.doubtful()
    assert (late.round, late.protected, late.certain) == (2, "o001", False)


async def test_masked_vectors_count_even_where_nothing_is_opened() -> None:
    # A vector that left has left; the curator might have opened the sum and said nothing.
    owners = fakes(5)
    owners[4].lost_at["endorse"] = owners[3].lost_at["endorse"] = owners[2].lost_at["endorse"] = 0
    owners[1].lost_at["mask"] = 0
    security = Security(1)
    at = At(owners, security, planned=(Gaussian(5.0),))
    await at.round.invite_all()
    with pytest.raises(SecureAggregationError):
        await at.round.secure_total(*secure_question(QUERY, security))
    lines = at.gate.came()
    noisy = shares(SumVector(QUERY, SCHEMA), security)(5).event
    assert [(line.protected, line.event) for line in lines] == [
        (name, event) for name in ("o000", "o002", "o003", "o004") for event in (noisy, Gaussian(5.0))
    ]


async def test_the_cost_of_a_run_is_written_with_an_owners_first_vector() -> None:
    # Also where that is not of question 1, which nobody answered because one owner gave no key.
    owners = fakes(4)
    owners[0].lost_at["propose"] = 1
    at = At(owners, Security(0), planned=(Gaussian(5.0),))
    await at.round.invite_all()
    await at.round.secure_total(*secure_question(QUERIES[0], Security(0)))
    await at.round.secure_total(*secure_question(QUERIES[1], Security(0)))
    mine = [(line.nonce, line.observer) for line in at.gate.came() if line.protected == "o001"]
    sums = [f"sums {number} {QUERIES[number - 2].digest[:32]}" for number in (2, 3)]
    assert mine == [("release 0", "lab"), *((nonce, CURATOR) for nonce in sums)]


LIMIT = 380.0  # of chi-square with 255 degrees of freedom, exceeded with probability 5e-7


def chi_square(words: NDArray[np.uint64], bits: int) -> float:
    """Chi-square of the highest eight bits, over 256 cells."""
    counts = np.bincount((words >> np.uint64(bits - 8)).astype(np.int64), minlength=256)
    expected = len(words) / 256
    return float(((counts - expected) ** 2 / expected).sum())


async def test_any_one_masked_message_is_uniform() -> None:
    # "any one owner's message is uniform", as it comes to the curator in a run of sums.
    query = SumQuery((FourierMapSpec(dimension=4096, gamma=1.0, seed=1),), Layout(), weights=(8,))
    owners = fakes(3, rows=60)
    security = Security(0)
    at = At(owners, security)
    await at.round.invite_all()
    vector = SumVector(query, SCHEMA)
    await at.round.secure_total(*secure_question(query, security))
    bits = owners[0].parameters[0].bits
    for owner in owners:
        assert chi_square(owner.words[1], bits) < LIMIT
        bare = vector.of(owner.table).view(np.uint64) & np.uint64(2**bits - 1)
        assert chi_square(bare, bits) > LIMIT  # what is under the masks is not


def test_absurd_dropouts_keep_no_curator_busy() -> None:
    # A consumer that asked for 10**20 made the curator count up to it, deaf to everybody.
    assert Security(10**20, 3).least_owners == 2 * 10**20 + 4
