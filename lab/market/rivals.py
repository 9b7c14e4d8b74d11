"""Rivals of the product: baselines and published methods, each at most a page long.

Methods that use rho p rows get as many as the product. The others see every row in one place: their number of
rows accessed shows it, and they pay no epsilon because none would be finite.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from curator.cells.orders import Histograms, Orders, make_orders
from curator.runs.public_draws import draw_features
from curator.summary.settings import FeatureSettings
from fedkme.arrays import FloatArray, IntArray
from fedkme.cells.histogram import histogram_noise, noisy_counts
from fedkme.cells.plan import bits_for
from fedkme.cells.projection import Projection, spec_for
from fedkme.embeddings.kernels import rbf
from fedkme.embeddings.prune import pruned
from fedkme.embeddings.summary_weights import Received, received, weigh
from fedkme.features.fourier import RandomFourier
from fedkme.privacy.noise import simulated
from lab.market.pool import DELTA, Chosen, PooledRows, SummaryQuestion, equal
from lab.market.published.experimental_design import STEPS, design_rows, design_weights
from lab.market.published.private_kmeans import CentreBudget, nearest, private_centres
from lab.market.published.prototypes import protodash
from lab.market.published.thinning import thin
from owner.cells.fill import drawn_rows, fill_order
from sim.evaluation.baselines import exact_kernel_greedy

_DESIGN_FEATURES = 128
_THINNED = 3200
"""Most rows at the start of kernel thinning: it needs the kernel of all pairs."""


def exact_greedy(market: PooledRows, question: SummaryQuestion) -> Mapping[str, Chosen]:
    """Greedy selection with every row in one place (Sarpatwar 2019, eq. 3), and its rows with weights."""
    draw = market.draw
    chosen = exact_kernel_greedy(market.rows, draw.validation, None, question.p, draw.gamma)
    rows, labels = market.take(chosen)
    everything = len(market.rows)
    return {
        "exact greedy": equal(rows, labels, everything),
        "exact greedy + weights": weighted(market, rows, labels),
    }


def uniform_rows(market: PooledRows, question: SummaryQuestion) -> Mapping[str, Chosen]:
    """Draw rho p rows at random, the same number of each owner; costs no privacy."""
    total = market.drawn(question)
    rng = np.random.default_rng(np.random.SeedSequence([question.seed, total]))
    counts = np.zeros(len(market.sizes), dtype=np.int64)
    for owner in itertools.cycle(rng.permutation(len(counts)).tolist()):
        if counts.sum() == total:
            break
        counts[owner] += counts[owner] < market.sizes[owner]
    starts = np.cumsum(market.sizes) - market.sizes
    pairs = zip(market.sizes, counts, strict=True)
    picks = [rng.choice(size, count, replace=False) for size, count in pairs]
    places = [start + pick for start, pick in zip(starts, picks, strict=True)]
    rows, labels = market.take(np.concatenate(places))
    return both("uniform", market, rows, labels, question.p)


def ranked_vendors(market: PooledRows, question: SummaryQuestion) -> Mapping[str, Chosen]:
    """Buy rho p rows at random of the owners nearest to D_v by MMD (Xu and others, NeurIPS 2024, 2410.04386).

    Their value of a vendor is -MMD of its sample to the buyer's; here each shows all its rows, exactly.
    """
    rng = _generator(question, 1)
    places = np.split(np.arange(len(market.rows)), np.cumsum(market.sizes)[:-1])
    in_order = [rng.permutation(places[owner]) for owner in np.argsort(market.distances, kind="stable")]
    rows, labels = market.take(np.concatenate(in_order)[: market.drawn(question)])
    return both("vendors by MMD", market, rows, labels, question.p)


def thinned_pool(market: PooledRows, question: SummaryQuestion) -> Mapping[str, Chosen]:
    """Thin the pool to rho p rows (`thinning`) in place of drawing them at random."""
    rng, drawn = _generator(question, 2), market.drawn(question)
    halvings = max(0, int(np.log2(min(_THINNED, len(market.rows)) / drawn)))
    start = rng.choice(len(market.rows), drawn << halvings, replace=False)
    gram = rbf(market.rows[start], market.rows[start], market.draw.gamma)
    rows, labels = market.take(start[thin(gram, halvings, rng)])
    return both("kernel thinning", market, rows, labels, question.p)


def experimental_design(market: PooledRows, question: SummaryQuestion) -> Mapping[str, Chosen]:
    """DAVED on random Fourier features of the benchmark's kernel (`experimental_design`)."""
    draw = market.draw
    settings = FeatureSettings(dimension=_DESIGN_FEATURES)
    h1 = RandomFourier(draw_features(settings, draw.gamma, market.rows.shape[1], question.seed))
    features = np.asarray(h1(market.rows), np.float64)
    queries = np.asarray(h1(draw.validation), np.float64)
    weights = design_weights(features, queries, STEPS * question.p)
    rows, labels = market.take(design_rows(weights, question.p, _generator(question, 3)))
    everything = len(market.rows)
    return {"DAVED": equal(rows, labels, everything), "DAVED + weights": weighted(market, rows, labels)}


def prototypes(market: PooledRows, question: SummaryQuestion) -> Mapping[str, Chosen]:
    """ProtoDash over the pool (`prototypes`), its weights scaled to add up to 1."""
    picked, weights = protodash(market.closeness, market.columns, question.p)
    rows, labels = market.take(picked)
    return {"ProtoDash": Chosen(rows, labels, weights / weights.sum(), len(market.rows))}


def kmeans_cells(market: PooledRows, question: SummaryQuestion) -> Mapping[str, Chosen]:
    """Orders by the cells of FedDP-KMeans (`private_kmeans`): half of epsilon for its centres, half to count.

    Rows are compared by z of the product, whose norm is at most 1; the server's rows are the public seeds.
    Counts, orders and how owners fill them are the product's.
    """
    draw, half = market.draw, question.epsilon / 2.0
    z = Projection(spec_for(draw.schema, question.seed), draw.schema)
    projected = [z(own) for own in draw.owners]
    bits = bits_for(len(draw.validation), market.sizes.tolist(), question.epsilon, half)
    budget, rng = CentreBudget(half, DELTA), _generator(question, 4)
    centres = private_centres(np.concatenate(projected), z(draw.seeds), 2**bits, budget, rng)
    cells = [nearest(own, centres) for own in projected]
    size = len(centres)
    counted = [
        noisy_counts(own, size, histogram_noise(half), simulated(question.seed, f"owner-{i}", "kmeans"))
        for i, own in enumerate(cells)
    ]
    of_validation = nearest(z(draw.validation), centres)
    noise = simulated(question.seed, "consumer", "kmeans")
    nu = noisy_counts(of_validation, size, histogram_noise(question.epsilon), noise)
    histograms = Histograms(np.stack(counted), market.sizes, nu, len(draw.validation))
    rows, labels = _filled(market, cells, make_orders(histograms, market.drawn(question)), question.seed)
    return both("FedDP-KMeans cells", market, rows, labels, question.p)


def _filled(
    market: PooledRows, cells: Sequence[IntArray], orders: Orders, seed: int
) -> tuple[FloatArray, IntArray]:
    """Rows and labels that owners answer orders with, given the cell of each of their rows."""
    draw = market.draw
    rows, labels = [], []
    for place, order in enumerate(orders.directives()):
        if order.count:
            own = draw.owners[place]
            drawn = drawn_rows(len(own), order.uniform, simulated(seed, f"owner-{place}", "draw"))
            chosen = fill_order(own, cells[place], order, drawn, draw.gamma, seed)
            rows.append(own[chosen])
            labels.append(draw.labels[place][chosen])
    return np.concatenate(rows), np.concatenate(labels)


def both(name: str, market: PooledRows, rows: FloatArray, labels: IntArray, p: int) -> Mapping[str, Chosen]:
    """Summaries of the rows received: the best p with equal weights, and at most p of them with weights."""
    about = received(rows, market.draw.to_validation)
    order = pruned(about.seen, p)
    return {
        f"{name} + prune": equal(rows[order], labels[order], len(rows)),
        f"{name} + weights": _weighted(about, rows, labels, order, len(rows)),
    }


def weighted(market: PooledRows, rows: FloatArray, labels: IntArray) -> Chosen:
    """Weigh rows chosen with all rows in one place."""
    about = received(rows, market.draw.to_validation)
    return _weighted(about, rows, labels, np.arange(len(rows)), len(market.rows))


def _weighted(about: Received, rows: FloatArray, labels: IntArray, order: IntArray, accessed: int) -> Chosen:
    """Weigh at most as many of the rows as pruning kept, as the product's consumer does."""
    fit = weigh(about, len(order), order)
    return Chosen(rows[fit.indices], labels[fit.indices], fit.weights, accessed)


def _generator(question: SummaryQuestion, part: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([question.seed, question.p, part]))
