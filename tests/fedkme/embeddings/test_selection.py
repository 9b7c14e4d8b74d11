"""Selection of a party's own rows, compared with brute force and with the properties of each step."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedkme.embeddings.kernels import rbf
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.selection import Selected, choose, exchange, pursue, select_rows, shorten, shortlist
from fedkme.embeddings.simplex_fit import fit_simplex
from fedkme.errors import NotEnoughRowsError
from sim.evaluation.baselines import exact_kernel_greedy

GAMMA = 0.7


def rows(size: int, seed: int = 3) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(5, 3)) * 2
    return np.asarray(centres[random.integers(5, size=size)] + random.normal(size=(size, 3)) * 0.4)


def mmd2(all_rows: NDArray[np.float64], selected: Selected) -> float:
    gram = rbf(all_rows, all_rows, GAMMA)
    signed = -np.full(len(all_rows), 1.0 / len(all_rows))
    signed[selected.indices] += selected.weights
    return float(signed @ gram @ signed)


def alike(all_rows: NDArray[np.float64], indices: NDArray[np.int64]) -> float:
    return mmd2(all_rows, Selected(indices, np.full(len(indices), 1.0 / len(indices)), 0.0))


def test_both_forms_state_their_mmd2() -> None:
    data = rows(400)
    selection = select_rows(data, 12, GAMMA)
    for form in (selection.alike, selection.weighted):
        assert form.mmd2 == pytest.approx(mmd2(data, form), abs=2e-6)
        assert len(set(form.indices.tolist())) == 12
        assert form.weights.sum() == pytest.approx(1.0)
        assert (form.weights >= 0).all()


def test_without_sweeps_the_choice_is_the_exact_greedy_one() -> None:
    data = rows(500)
    short = shorten(data, GAMMA)
    wanted = exact_kernel_greedy(data, data, None, 15, GAMMA)
    assert choose(short, short.means(), 15, 0).tolist() == wanted.tolist()


def test_exchanges_end_where_no_exchange_helps() -> None:
    data = rows(60)
    short = shorten(data, GAMMA)
    indices = choose(short, short.means(), 6, 50)
    best = alike(data, indices)
    assert best <= alike(data, choose(short, short.means(), 6, 0))
    for place in range(6):
        for other in set(range(60)) - set(indices.tolist()):
            changed = indices.copy()
            changed[place] = other
            assert alike(data, changed) > best - 1e-7


def test_few_rows_are_near_the_best_of_all_choices() -> None:
    data = rows(16, 8)
    least = min(alike(data, np.array(choice)) for choice in combinations(range(16), 4))
    assert select_rows(data, 4, GAMMA, 20).alike.mmd2 < 1.3 * least


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_weights_are_never_worse_than_on_rows_alike(seed: int) -> None:
    data = rows(600, seed)
    selection = select_rows(data, 15, GAMMA)
    short = shorten(data, GAMMA)
    indices = selection.alike.indices
    fit = fit_simplex(rbf(data[indices], data[indices], GAMMA), short.means()[indices])
    assert selection.weighted.mmd2 <= mmd2(data, Selected(indices, fit.weights, 0.0)) + 2e-6
    assert selection.weighted.mmd2 < selection.alike.mmd2


def test_a_pursuit_takes_the_row_of_the_largest_residual() -> None:
    data = rows(200)
    short = shorten(data, GAMMA)
    means = short.means()
    chosen = pursue(short, means, 3)
    assert chosen[0] == np.argmax(means)
    gram = rbf(data, data[chosen[:1]], GAMMA)[:, 0]
    short_of = means - gram
    short_of[chosen[0]] = -np.inf
    assert chosen[1] == np.argmax(short_of)


def test_choosing_all_rows_gives_every_row_once() -> None:
    selection = select_rows(rows(9), 9, GAMMA)
    assert sorted(selection.alike.indices.tolist()) == list(range(9))
    assert selection.alike.mmd2 < 1e-6
    with pytest.raises(NotEnoughRowsError):
        select_rows(rows(9), 10, GAMMA)


def test_equal_rows_are_chosen_once_each() -> None:
    data = np.repeat(rows(4), 5, axis=0)
    selection = select_rows(data, 8, GAMMA)
    assert len(set(selection.alike.indices.tolist())) == 8
    assert selection.alike.mmd2 < 1e-5


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("p", [1, 2, 9])
def test_exchanges_of_weighted_rows_lower_mmd2(seed: int, p: int) -> None:
    data = rows(300, seed)
    gram, short = rbf(data, data, GAMMA), shorten(data, GAMMA)
    first = np.random.default_rng(seed).choice(300, p, replace=False)

    def value(indices: NDArray[np.int64]) -> float:
        means = gram.mean(axis=1)[indices]
        return mmd2(data, Selected(indices, fit_simplex(gram[np.ix_(indices, indices)], means).weights, 0.0))

    selection = exchange(short, short.means(), first, 1)
    assert len(set(selection.tolist())) == p
    assert value(selection) < value(first)
    assert value(exchange(short, short.means(), selection, 9)) <= value(selection) + 1e-7


def test_a_sample_is_near_the_choice_among_all() -> None:
    # fedkme/embeddings/selection.py: mu has a mean square error of (1 - |mu|^2) (1 / Q - 1 / N).
    data, p, sample = rows(4000), 12, 60 * 12
    everything, selection = select_rows(data, p, GAMMA), select_rows(data, p, GAMMA, sample=sample)
    off = (1.0 - rbf(data, data, GAMMA).mean()) * (1.0 / sample - 1.0 / len(data))
    for form, best in ((selection.alike, everything.alike), (selection.weighted, everything.weighted)):
        assert len(set(form.indices.tolist())) == p
        assert np.isnan(form.mmd2)
        assert form.weights.sum() == pytest.approx(1.0)
        assert best.mmd2 < mmd2(data, form) < 1.5 * best.mmd2 + 2.0 * off
    assert mmd2(data, selection.weighted) < mmd2(data, selection.alike)


def test_a_sample_larger_than_the_table_changes_nothing() -> None:
    data = rows(90)
    selection, wanted = (select_rows(data, 3, GAMMA, sample=size).alike.indices for size in (500, 90))
    assert selection.tolist() == wanted.tolist()
    with pytest.raises(NotEnoughRowsError, match="4 rows was asked for and there are 3"):
        select_rows(data, 4, GAMMA, sample=3)


def test_a_shortlist_of_very_many_rows_holds_the_few_that_are_like_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedkme.embeddings.selection.MOST_LISTED", 400)
    random = np.random.default_rng(5)
    target = random.normal(size=(60, 3)) * 0.4 + 4.0
    pool = rows(20_000)
    pool[400:][random.random(len(pool) - 400) < 0.01] = 4.0  # none of the first rows is like the target
    pool[400:] += random.normal(size=(len(pool) - 400, 3)) * 0.4
    chosen = shortlist(pool, target, 30, GAMMA)
    assert len(set(chosen.tolist())) == 30
    first = shortlist(pool[:400], target, 30, GAMMA)
    near, far = (ReferenceRows(target, GAMMA).mmd2(pool[places]) for places in (chosen, first))
    assert near < 0.1 * far
