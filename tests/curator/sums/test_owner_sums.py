"""The curator's oracle: one release of all owners' rows, with noise by the curator or by owners.

Statistics are of fixed seeds, with bounds that chance exceeds about once in a million.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from curator.releases import joint
from curator.releases.joint import JointRelease, calibrate
from curator.releases.method import make_method
from curator.sums.settings import SumSettings
from fedkme.config import validate
from fedkme.errors import ConfigError, QuorumError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.maps import ROW_UNIT
from fedkme.features.sums import Layout, pooled_sum
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import CURATOR, Gaussian
from fedkme.privacy.noise import simulated
from fedkme.privacy.sums import PooledRelease, count_query
from fedkme.protocol import Security
from fedkme.releases.counts import counts_from_bytes
from fedkme.releases.settings import release_settings
from fedkme.secagg.noise import plan_of
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector, weighted
from tests.curator.sums.fake_owners import (
    BY_CLASS,
    FOURIER,
    HERMITE,
    MIXED,
    SCHEMA,
    At,
    FakeOwner,
    dealt,
    fakes,
    table,
)

QUERY = SumQuery((MIXED, HERMITE), BY_CLASS, counts=True)
SHARED = Security(dropouts=1, colluders=1)


def plan(query: SumQuery = QUERY, epsilon: float = 1.0, delta: float = 1e-5) -> PooledRelease:
    maps = [spec.make(SCHEMA) for spec in query.specs]
    shares = [1.0 + number for number in range(len(maps))]
    return calibrate(maps, shares, query.layout, epsilon=epsilon, delta=delta, counts=query.counts)


def same(one: JointRelease, other: JointRelease) -> bool:
    masses = (one.masses is None) == (other.masses is None)
    if one.masses is not None and other.masses is not None:
        masses = np.array_equal(one.masses, other.masses)
    return masses and all(
        np.array_equal(a.mean, b.mean) and (a.sigma, a.rows, a.map_spec) == (b.sigma, b.rows, b.map_spec)
        for a, b in zip(one.embeddings, other.embeddings, strict=True)
    )


async def released(at: At, query: SumQuery = QUERY, release: PooledRelease | None = None) -> JointRelease:
    await at.pool.invite()
    return await at.pool.joint(query, release)


@pytest.mark.parametrize("query", [QUERY, SumQuery((FOURIER,), Layout())], ids=["by class", "plain"])
async def test_pooling_over_owners_is_one_owner_to_the_last_bit(query: SumQuery) -> None:
    # "Pooling over 5, 20 or 100 owners gives the same release as one owner holding everything (same seed; to
    # float64 rounding)": not only to rounding, with a trusted curator.
    whole, release = table(700), plan(query)
    maps = [spec.make(SCHEMA) for spec in query.specs]
    alone = joint.release(
        maps,
        [pooled_sum(whole, phi, query.layout) for phi in maps],
        query.layout,
        700,
        release,
        simulated(0, "curator", "release"),
        query.counts,
    )
    for count in (5, 20, 100):
        owners = [FakeOwner(f"o{n:03d}", part) for n, part in enumerate(dealt(whole, count))]
        answer = await released(At(owners), query, release)
        assert same(answer, alone)
        assert answer.event == alone.event == Gaussian(release.multiplier)
    single = At([FakeOwner("o", whole)])
    assert same(await released(single, query, release), alone)
    assert single.pool.rows == 700
    assert single.pool.owners == 1


def chi_of(values: NDArray[np.float64], sigma: float) -> float:
    """Deviations by which the sum of squares is off from what noise of that deviation has."""
    squares = float(((values / sigma) ** 2).sum())
    return (squares - values.size) / math.sqrt(2.0 * values.size)


async def shared_noise(
    security: Security, lose: Callable[[list[FakeOwner]], None]
) -> tuple[At, JointRelease]:
    query = SumQuery((FourierMapSpec(dimension=600, gamma=2.0, seed=1), HERMITE), BY_CLASS, counts=True)
    owners = fakes(7, rows=900)
    lose(owners)
    at = At(owners, security)
    release = plan(query)
    answer = await released(at, query, release)
    names = [owner.name for owner in owners if 1 in owner.words]
    vector = SumVector(weighted(query, SCHEMA, release), SCHEMA)
    exact = np.zeros(vector.length, dtype=np.int64)
    for owner in owners:
        if owner.name in names:
            exact += vector.of(owner.table)
    honest = security.honest(7)
    rows = sum(len(owner.table) for owner in owners if owner.name in names)
    sums, _ = vector.parts(exact)
    for embedding, block, sigma in zip(answer.embeddings, sums, release.sigmas, strict=False):
        noise = embedding.mean * rows - block
        assert embedding.rows == rows
        # As it says, and by the root of survivors over honest more than a trusted curator's.
        assert abs(chi_of(noise, embedding.sigma * rows)) < 5.0
        assert embedding.sigma * rows == pytest.approx(sigma * math.sqrt(len(names) / honest), rel=0.01)
    assert answer.masses is not None
    return at, answer


@pytest.mark.parametrize("security", [Security(0, 0), Security(1, 1), Security(2, 0)])
async def test_distributed_noise_has_the_variance_that_was_planned(security: Security) -> None:
    # "each owner adds its share, sized so that the sum stays private with up to a stated number of drop-outs
    # and colluders": nobody is lost, so all seven shares are in it.
    at, _ = await shared_noise(security, lambda owners: None)
    assert not at.faults


async def test_distributed_noise_after_drop_outs() -> None:
    def lose(owners: list[FakeOwner]) -> None:
        owners[3].lost_at["mask"] = owners[5].lost_at["advertise"] = 0

    at, answer = await shared_noise(Security(2, 0), lose)
    assert len(at.faults) == 2
    assert answer.event is not None


@pytest.mark.parametrize("query", [QUERY, SumQuery((FOURIER,), Layout()), SumQuery((MIXED,), BY_CLASS, True)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 20.0])
async def test_weights_move_the_split_and_never_the_total(query: SumQuery, epsilon: float) -> None:
    # Decision 006: "Rounding m_q to whole numbers moves the split of the budget, never the total": what was
    # disclosed, by the accountants, is what was planned, and never more; every owner reckons the same.
    release = plan(query, epsilon)
    owners = fakes(6)
    at = At(owners, SHARED, planned=(release.event,))
    answer = await released(at, query, release)
    event = answer.event
    assert isinstance(event, Gaussian)
    assert event.noise_multiplier >= release.multiplier
    assert event.noise_multiplier == pytest.approx(release.multiplier, rel=1e-12)
    spent, planned = (Sound().epsilon([charged], 1e-5).epsilon for charged in (event, release.event))
    assert planned == pytest.approx(epsilon, rel=1e-3)
    assert spent <= planned * (1.0 + 1e-12)  # the accountant's own rounding; the multipliers are in order
    lines = at.gate.came()
    vectors = [line for line in lines if line.observer == CURATOR]
    assert [line.protected for line in vectors] == [owner.name for owner in owners]
    for owner, line in zip(owners, vectors, strict=True):
        assert owner.vector is not None
        assert line.event == event == plan_of(owner.parameters[0], owner.vector.diameter).event
        assert line.sensitivity == owner.vector.diameter
    assert [line.event for line in lines if line.observer == "lab"] == [release.event] * 6


async def test_shares_of_small_noise_are_taken_in_finer_steps() -> None:
    # At a large epsilon a share would deviate by less than 2^24 steps, where no statement holds.
    query = SumQuery((FourierMapSpec(dimension=4, gamma=0.01, seed=0),), Layout())
    release = plan(query, 5000.0)
    assert release.sigmas[0] / ROW_UNIT / math.sqrt(4) < 2.0**24
    owners = fakes(6)
    answer = await released(At(owners, SHARED), query, release)
    assert owners[0].parameters[0].noise >= 2.0**24
    assert isinstance(answer.event, Gaussian)
    assert answer.event.noise_multiplier == pytest.approx(release.multiplier, rel=1e-9)
    alone = await released(At(fakes(6)), query, None)
    noise = answer.embeddings[0].mean - alone.embeddings[0].mean
    assert np.abs(noise).max() < 6 * answer.embeddings[0].sigma


@pytest.mark.parametrize("value", [False, True])
def test_the_withdrawn_noise_setting_is_refused_with_a_reason(value: bool) -> None:
    words = "'security' is wrong: 'distributed_noise' is withdrawn: .* exact sums .*; remove it"
    with pytest.raises(ConfigError, match=words):
        validate(SumSettings, {"security": {"dropouts": 1, "distributed_noise": value}}, "curator.toml")


async def test_only_a_trusted_curator_gets_exact_sums() -> None:
    # "with distributed noise not even the exact sum": no method gets one, whatever it asks.
    trusted, secure = At(fakes(5)), At(fakes(5), SHARED)
    for at in (trusted, secure):
        await at.pool.invite()
        assert at.pool.exact_sums is (at is trusted)
    answer = await trusted.pool.joint(QUERY, None)
    assert answer.event is None
    assert all(embedding.sigma == 0.0 for embedding in answer.embeddings)
    with pytest.raises(ConfigError, match="exact sums are asked for"):
        await secure.pool.joint(QUERY, None)
    assert not any(owner.parameters for owner in secure.owners.values())


@pytest.mark.parametrize("security", [None, SHARED])
async def test_class_counts_can_be_released_alone(security: Security | None) -> None:
    query = SumQuery((), BY_CLASS, counts=True)
    release = PooledRelease((count_query(),), 1.0, 1e-5)
    owners = fakes(5, rows=3000)
    answer = await released(At(owners, security), query, release)
    labels = [owner.table.labels for owner in owners if owner.table.labels is not None]
    counts = np.bincount(np.concatenate(labels), minlength=3)
    assert answer.embeddings == ()
    assert answer.masses is not None
    noise = answer.masses * 3000 - counts
    assert 0 < np.abs(noise).max() < 6 * 2 * release.sigmas[0]


async def test_counts_of_one_column_are_public() -> None:
    # N is: nothing is paid for it, and nothing asked.
    owners = fakes(4)
    query = SumQuery((FOURIER,), Layout(), counts=True)
    answer = await released(At(owners, SHARED), query, plan(query))
    assert answer.masses is None
    assert owners[0].parameters[0].length == 12


async def test_questions_that_do_not_fit_their_noise_are_refused() -> None:
    at = At(fakes(5), SHARED)
    await at.pool.invite()
    with pytest.raises(ConfigError, match="calibrated for other queries"):
        await at.pool.joint(SumQuery((MIXED,), BY_CLASS, counts=True), plan())
    with pytest.raises(ConfigError, match="weights of a question"):
        await at.pool.joint(SumQuery((MIXED,), BY_CLASS, False, (3,)), None)
    trusted = At(fakes(5))
    await trusted.pool.invite()
    with pytest.raises(ConfigError, match="weights of a question"):
        await trusted.pool.joint(SumQuery((MIXED,), BY_CLASS, False, (3,)), None)


async def test_a_simulation_without_noise_gets_exact_sums() -> None:
    # release None: the exact sums, and no event.
    at = At(fakes(5))
    answer = await released(at, QUERY, None)
    assert answer.event is None
    assert {line.event.kind for line in at.gate.came()} == {"exact-statistic"}
    assert same(answer, await released(At(fakes(5)), QUERY, None))


@pytest.mark.parametrize("mechanism", ["rounds", "independent"])
async def test_tables_of_fewer_owners_stand_for_all(mechanism: str) -> None:
    # Rows spread evenly took the place of a lost owner's: a share of .057 came out as .147.
    owners = fakes(5, 3000)
    owners[2].lost_at["embed"] = 2
    at = At(owners)
    await at.pool.invite()
    settings = {"kind": "marginals", "mechanism": mechanism, "bins": 4, "epsilon": 8.0}
    method = make_method(release_settings(settings), SCHEMA, None, 1)
    stored = counts_from_bytes(await method.ask(at.pool))
    assert (stored.rows, stored.owners) == (3000, 5)
    for each in stored.measurements:
        assert abs(each.values.sum() - 3000) < 6 * each.sigma * math.sqrt(each.values.size)


async def test_means_are_of_the_rows_that_answered() -> None:
    owners = fakes(5)
    owners[0].lost_at["embed"] = 2
    at = At(owners, quorum=4)
    first = await released(at, QUERY, plan())
    second = await at.pool.joint(QUERY, plan())
    assert first.embeddings[0].rows == 200
    assert second.embeddings[0].rows == 200 - len(owners[0].table)
    assert at.pool.owners == 4
    owners[1].lost_at["embed"] = 3
    with pytest.raises(QuorumError):
        await at.pool.joint(QUERY, plan())
