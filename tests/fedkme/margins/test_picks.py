"""Margins that D_v picks: what a row moves, what they cost, and the density that follows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.cells.disclosures import PICK_SENSITIVITY
from fedkme.cells.histogram import GaussianNoise
from fedkme.errors import ProtocolError
from fedkme.margins.model import PoolModel, make_model
from fedkme.margins.picks import HALF, Raked, margin_noise, margins_of, picked_margins, tilt_of, uniform_share
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import BoundedRange
from fedkme.privacy.events.groups import for_group
from fedkme.privacy.noise import simulated
from fedkme.privacy.presets import PrivacyTarget
from fedkme.tables.schema import Category, Label, Numeric, Schema

SCHEMA = Schema(
    columns=(
        Numeric(name="age", bounds=(0, 100)),
        Numeric(name="same", bounds=(0, 100)),
        Category(name="job", categories=("a", "b", "c")),
        Category(name="tie", categories=("yes", "no")),
    ),
    label=Label(name="ill", classes=("no", "yes")),
)
NONE = GaussianNoise(1e-3)
SURE = BoundedRange(20.0)


def people(count: int, seed: int, oldest: float = 0.0) -> np.ndarray:
    random = np.random.default_rng(seed)
    ages = random.uniform(oldest, 100, count)
    jobs = random.choice(3, count, p=(0.6, 0.3, 0.1) if not oldest else (0.1, 0.3, 0.6))
    return SCHEMA.encode(np.column_stack([ages, ages, jobs, random.integers(0, 2, count)]))


POOL = people(10_000, 0)
MODEL = make_model(POOL, None, SCHEMA, picks=2)
OLD = people(400, 1, 90.0)


def picked(rows: np.ndarray, seed: int, how: GaussianNoise = NONE) -> dict[int, np.ndarray]:
    noise = simulated(seed, "consumer", "margins")
    return picked_margins(MODEL, MODEL.codes_of(rows), how, SURE, noise, noise)


@pytest.mark.parametrize("group", [1, 3])
def test_picks_and_margins_cost_what_they_may(group: int) -> None:
    target = PrivacyTarget(epsilon=1.0, delta=1e-5, group=group)
    how = margin_noise(target, 4, 0.1)
    events = for_group([*[BoundedRange(0.1 * target.of_row)] * 4, *[how.event] * 4], group)
    assert 0.99 < Sound().epsilon(events, 1e-5).epsilon <= 1.0


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_one_row_replaced_moves_every_score_by_one_at_most(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    rows = MODEL.codes_of(people(size + 1, seed))
    lies = PoolModel(MODEL.groups, MODEL.edges, 0, random.integers(0, 2, (7, 4)), 2, 0.1)
    state = Raked(lies, size, 1.0)
    for column in random.permutation(4)[: random.integers(3)].tolist():  # margins of any numbers before
        state.add(column, random.integers(-50, 50, MODEL.sizes[column]))
    scores = [
        state.scores([np.bincount(each[:, c], minlength=n) for c, n in enumerate(MODEL.sizes)])
        for each in (rows[1:], np.concatenate([rows[:1], rows[2:]]))
    ]
    assert np.abs(scores[0] - scores[1]).max() <= PICK_SENSITIVITY


def test_a_pick_knows_of_earlier_margins_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    # Neither replay nor the attack found exact counts in the place of released ones.
    added, add = list[tuple[int, list[int]]](), Raked.add

    def note(state: Raked, column: int, noisy: np.ndarray) -> None:
        added.append((column, noisy.tolist()))
        add(state, column, noisy)

    monkeypatch.setattr(Raked, "add", note)
    margins = picked(OLD, 3, GaussianNoise(15.0))
    assert added == [(column, margin.tolist()) for column, margin in margins.items()][:-1]


def test_a_column_that_says_the_same_again_is_not_picked() -> None:
    for seed in range(20):
        assert set(picked(OLD, seed)) in ({0, 2}, {1, 2})


def test_the_curator_tilts_the_model_to_what_d_v_released() -> None:
    margins = picked(OLD, 3)
    sent = margins_of(MODEL, tuple(margins), np.concatenate(list(margins.values())))
    assert [(column, margin.tolist()) for column, margin in sent.items()] == [
        (column, margin.tolist()) for column, margin in margins.items()
    ]
    tilt = tilt_of(MODEL, margins, len(OLD), NONE.deviation, SCHEMA, 5)
    weights = tilt.book.weights_of(POOL)
    assert weights @ (POOL[:, 0] > 0.9) > 0.95
    assert weights @ (POOL[:, 4] > 0.0) == pytest.approx(0.6, abs=0.05)  # the third job
    assert tilt.book.cells_of(OLD).mean() > 0.5
    assert tilt.book.cells_of(POOL).mean() < 0.15
    assert (tilt.uniform, tilt.absent) == (0.0, 0.0)


@pytest.mark.parametrize(("names", "rows"), [(40, 90), (40, 250), (64, 150)])
def test_one_rare_name_among_many_is_found(names: int, rows: int) -> None:
    # `fedkme sim run adult` on invented rows: sixteen equally frequent names, of which D_v was of one. Only
    # the ten most frequent had bins.
    towns = Schema(columns=(Category(name="town", categories=tuple(f"t{place}" for place in range(names))),))
    random = np.random.default_rng(3)
    model = make_model(towns.encode(random.integers(0, names, (5_000, 1))), None, towns)
    how, sought = margin_noise(PrivacyTarget(), 4, 0.1), towns.encode(np.full((rows, 1), 7))
    found = []
    for seed in range(20):
        noise = simulated(seed, "consumer", "margins")
        margins = picked_margins(model, model.codes_of(sought), how, SURE, noise, noise)
        book = tilt_of(model, margins, rows, how.deviation, towns, 1).book
        others = book.density_of(towns.encode(np.arange(names)[:, None]))
        found.append(others[7] / others.sum())
    assert np.quantile(found, 0.1) > 10.0 / names


@pytest.mark.parametrize("phantoms", [0, 25])
def test_a_name_that_no_owner_has_leaves_the_others_to_the_model(phantoms: int) -> None:
    # All of D_v has a name that no owner has. The model has no row of it, or some by noise: a run was 12
    # times exact greedy.
    schema = Schema(columns=(Category(name="tag", categories=tuple("abcd")),))
    rows = np.repeat(np.arange(4), [3_000 - phantoms, 1_500, 500, phantoms])
    model = make_model(schema.encode(rows[:, None]), None, schema)
    how = margin_noise(PrivacyTarget(), 4, 0.1)
    for seed in range(20):
        state, noise = Raked(model, 250, how.deviation), simulated(seed, "consumer", "margins")
        place = model.groups[0].index(3)
        counts = np.bincount([place], [250], 4).astype(np.int64) + how.draw(noise, 4)
        state.add(0, counts)
        law = state.law(0)
        assert law[place] < 0.27
        others = np.delete(law, place) / np.delete(law, place).sum()
        assert np.abs(others - [0.6, 0.3, 0.1]).max() < 0.15
        factors = state.factors_of_rows(0)
        assert (
            factors[place] > 50.0 * np.delete(factors, place).max()
        )  # owners may have some rows all the same


def test_noise_alone_leaves_the_density_to_the_model() -> None:
    near = people(200, 4)
    how = margin_noise(PrivacyTarget(epsilon=0.2, delta=1e-5), 2, 0.1)
    tilt = tilt_of(MODEL, picked(near, 6, how), len(near), how.deviation, SCHEMA, 5)
    density = tilt.book.density_of(POOL)
    assert density.std() < 0.3 * density.mean()
    assert tilt.uniform > 0.4


def test_classes_are_a_margin_too() -> None:
    random = np.random.default_rng(8)
    model = make_model(POOL, random.integers(0, 2, len(POOL)), SCHEMA, picks=1)
    ill = np.ones(400, np.int64)
    noise = simulated(1, "consumer", "margins")
    margins = picked_margins(model, model.codes_of(people(400, 9), ill), NONE, SURE, noise, noise)
    assert [*margins] == [4]
    tilt = tilt_of(model, margins, 400, 1e-3, SCHEMA, 5)
    assert tilt.book.needs_labels
    density = tilt.book.density_of(POOL[:2], np.array([0, 1]))
    assert density[1] > 100.0 * density[0]


def test_bins_that_the_pool_lacks_are_said() -> None:
    young = MODEL.codes_of(POOL)[:, 0] < 7
    model = PoolModel(MODEL.groups, MODEL.edges, 0, MODEL.codes_of(POOL)[young], 1, 0.1)
    counts = np.bincount(model.codes_of(OLD)[:, 0], minlength=model.sizes[0])
    tilt = tilt_of(model, {0: counts}, len(OLD), 0.0, SCHEMA, 5)
    assert tilt.absent > 0.2  # of ages from 97 on


def test_rows_are_uniform_where_d_v_is_near_the_pool() -> None:
    assert uniform_share(np.ones(1_000)) == HALF
    quarter = np.concatenate([np.full(750, 1e-12), np.ones(250)])  # D_v is like a quarter of the pool
    assert uniform_share(quarter) == pytest.approx(0.25, abs=1e-6)
    hundredth = np.concatenate([np.full(990, 1e-12), np.ones(10)])
    assert uniform_share(hundredth) == 0.0


EXTREME = st.sampled_from([0, 2**53 - 1, 1 - 2**53]) | st.integers(-50, 400)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@given(
    st.lists(st.integers(0, 5), max_size=3),
    st.lists(EXTREME, min_size=24, max_size=24),
    st.sampled_from([0, 1, 400, 2**64 - 1]),
    st.sampled_from([0.0, 1e-4, 15.0, 1.5e4]),
)
def test_whatever_a_consumer_says_gives_a_density_or_is_refused(
    picks: list[int], said: list[int], rows: int, deviation: float
) -> None:
    size = sum(MODEL.sizes[pick] for pick in picks if pick < 4)
    try:
        margins = margins_of(MODEL, picks, np.array(said[:size]))
    except ProtocolError:
        return
    weights = tilt_of(MODEL, margins, rows, deviation, SCHEMA, 5).book.weights_of(POOL[:50])
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("picks", "missing"), [((0, 0), 0), ((0,), 0), ((0, 9), 0), ((0, 1), 1), ((0, -1), 0), ((), 0)]
)
def test_margins_that_the_model_lacks_are_refused(picks: tuple[int, ...], missing: int) -> None:
    size = sum(MODEL.sizes[pick % 4] for pick in picks) - missing
    with pytest.raises(ProtocolError):
        margins_of(MODEL, picks, np.zeros(size, np.int64))
