"""The table of summaries by cells (docs/decisions/008-cells.md): error and accuracy beside free rivals.

    python -m sim.experiments.cells DATA [--quick] [--layouts mnist-group5 ...] [--rows 250 1000] [--seeds 5]

DATA is the folder of the data sets; a layout whose file is missing is skipped with a word. Everything runs in
this process with simulated noise. Rows of the table: exact greedy (no privacy, all rows in one place),
uniform, uniform rho p rows pruned to p (no privacy needed: nothing is released), cells at rho 1, 1.5, 2, 3,
by each fill; from the same rows a summary with weights too, as its consumer has it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from curator.cells.orders import Histograms, make_orders
from fedkme.cells import sketch
from fedkme.cells.codebook import CodeBook, kmeans_book, sketch_book
from fedkme.cells.counting import Counting
from fedkme.cells.histogram import histogram_noise, noisy_counts
from fedkme.cells.plan import bits_for, labels_help, owner_noise, share_for
from fedkme.cells.projection import Projection, spec_for
from fedkme.embeddings.prune import pruned
from fedkme.embeddings.summary_weights import received, weigh
from fedkme.errors import ConfigError
from fedkme.privacy.noise import simulated
from fedkme.protocol import Fill
from owner.cells.fill import FillRule, drawn_rows, fill_order
from sim.evaluation.exact_greedy import exact_kernel_greedy
from sim.experiments.cells_data import layouts
from sim.experiments.cells_draw import ExperimentDraw

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Book = Literal["auto", "sketch", "labels", "kmeans"]

EPSILON, DELTA = 1.0, 1e-5
"""Budget of an owner's row; D_v has the same epsilon."""
RATIOS = (1.0, 1.5, 2.0, 3.0)
SIZES = (50, 100, 200)


@dataclass(frozen=True)
class Variant:
    """One way to run the protocol."""

    name: str = "cells"
    book: Book = "auto"
    """Sketch with or without labels, by the rule for `auto`; or k-means of public seed rows."""
    bits: int | None = None
    """Bits of the code book; None: by the rule."""
    fill: Fill = "design"
    """Rule by which owners pick rows."""


@dataclass(frozen=True, eq=False)
class Round:
    """State of a run before the first order.

    Attributes:
        layout: who holds what.
        variant: how it is run.
        cells: of each owner's rows, (m_j,), as the owner counts them.
        histograms: what the curator received.
    """

    layout: ExperimentDraw
    variant: Variant
    cells: Sequence[IntArray]
    histograms: Histograms


def first_round(layout: ExperimentDraw, variant: Variant, seed: int) -> Round:
    """Sketch, code book and histograms of all parties."""
    sizes = np.array([len(rows) for rows in layout.owners], dtype=np.int64)
    deviation = owner_noise(EPSILON, DELTA).sketch_deviation
    helpful = labels_help(int(sizes.sum()), layout.classes, deviation)
    labelled = variant.book == "labels" or (variant.book == "auto" and helpful)
    own_class = labelled and layout.validation_labels is not None
    classes = layout.classes if labelled else 1
    share = share_for(int(sizes.sum()), classes, deviation, own_class)
    plan = owner_noise(EPSILON, DELTA, 0.0 if variant.book == "kmeans" else share)
    bits = variant.bits
    if bits is None:
        bits = bits_for(len(layout.validation), sizes.tolist(), EPSILON, plan.histogram.epsilon, classes)
    if variant.book == "kmeans":
        book = kmeans_book(layout.seeds, 2**bits, spec_for(layout.schema, seed), layout.schema, seed)
    else:
        book = _sketched(layout, labelled, plan.multiplier or 0.0, bits, seed, own_class)
    counting = Counting(book, layout.classes if labelled and not own_class else 0)
    pairs = zip(layout.owners, layout.labels, strict=True)
    cells = [counting.cells_of(rows, labels) for rows, labels in pairs]
    counted = [
        noisy_counts(own, counting.size, plan.histogram, simulated(seed, f"owner-{i}", "cells"))
        for i, own in enumerate(cells)
    ]
    of_validation = book.cells_of(layout.validation, layout.validation_labels)
    nu = noisy_counts(
        of_validation, book.cells, histogram_noise(EPSILON), simulated(seed, "consumer", "cells")
    )
    variance = plan.histogram.variance
    histograms = Histograms(
        np.stack(counted), sizes, nu, len(layout.validation), max(1, counting.classes), variance
    )
    return Round(layout, variant, cells, histograms)


def _sketched(
    layout: ExperimentDraw, labelled: bool, multiplier: float, bits: int, seed: int, own_class: bool
) -> CodeBook:
    spec = spec_for(layout.schema, seed)
    projection = Projection(spec, layout.schema)
    classes = layout.classes if labelled else None
    answers = [
        sketch.coordinates(rows, labels if labelled else None, projection, classes)
        for rows, labels in zip(layout.owners, layout.labels, strict=True)
    ]
    total = np.sum(answers, axis=0)
    rows = sum(len(own) for own in layout.owners)
    noise = simulated(seed, "curator", "sketch")
    noisy = sketch.release(total, rows, spec.dimension, classes, multiplier, noise)
    return sketch_book(noisy, bits, spec, layout.schema, own_class)


def collect(first: Round, total: int, seed: int) -> tuple[FloatArray, IntArray]:
    """Rows and labels that answer orders of `total` rows."""
    layout, variant = first.layout, first.variant
    rule = FillRule(variant.fill, layout.gamma, seed)
    rows, labels = [], []
    orders = make_orders(first.histograms, total).directives()
    for place, (own, of_own, order) in enumerate(zip(layout.owners, layout.labels, orders, strict=True)):
        if order.count:
            drawn = drawn_rows(len(own), order.uniform, simulated(seed, f"owner-{place}", "draw"))
            chosen = fill_order(own, first.cells[place], order, drawn, rule)
            rows.append(own[chosen])
            labels.append(of_own[chosen])
    return np.concatenate(rows), np.concatenate(labels)


@dataclass(frozen=True)
class SummaryScore:
    """One summary."""

    layout: str
    rows: int
    seed: int
    p: int
    method: str
    accessed: int
    mmd2: float
    mmd2_test: float
    accuracy: float


def score(
    layout: ExperimentDraw,
    seed: int,
    p: int,
    method: str,
    accessed: int,
    rows: FloatArray,
    labels: IntArray,
    weights: FloatArray | None = None,
) -> SummaryScore:
    """Errors in the exact kernel, and a linear SVM's accuracy on the test rows; without weights all alike."""
    weights = np.full(len(rows), 1.0 / len(rows)) if weights is None else weights
    return SummaryScore(
        layout.name,
        len(layout.validation),
        seed,
        p,
        method,
        accessed,
        layout.to_validation.mmd2(rows, weights),
        layout.to_test.mmd2(rows, weights),
        _accuracy(rows, labels, weights, layout),
    )


def _accuracy(rows: FloatArray, labels: IntArray, weights: FloatArray, layout: ExperimentDraw) -> float:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    if len(np.unique(labels)) == 1:
        return float(np.mean(layout.test_labels == labels[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        each = weights * len(weights)
        model = LinearSVC(random_state=0, max_iter=2000).fit(rows, labels, sample_weight=each)
    return float(model.score(layout.test, layout.test_labels))


def uniform(layout: ExperimentDraw, total: int, seed: int) -> tuple[FloatArray, IntArray]:
    """`total` rows, the same number of each owner as far as it has them, at random."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, total]))
    sizes = np.array([len(rows) for rows in layout.owners])
    counts = np.zeros(len(sizes), dtype=np.int64)
    for owner in itertools.cycle(rng.permutation(len(sizes)).tolist()):
        if counts.sum() == total:
            break
        counts[owner] += counts[owner] < sizes[owner]
    picks = [rng.choice(size, count, replace=False) for size, count in zip(sizes, counts, strict=True)]
    rows = np.concatenate([own[pick] for own, pick in zip(layout.owners, picks, strict=True)])
    labels = np.concatenate([own[pick] for own, pick in zip(layout.labels, picks, strict=True)])
    return rows, labels


def rivals(layout: ExperimentDraw, seed: int, sizes: Sequence[int]) -> Iterator[SummaryScore]:
    """Exact greedy, uniform, and uniform rho p with pruning."""
    pooled, labels = np.concatenate(layout.owners), np.concatenate(layout.labels)
    greedy = exact_kernel_greedy(pooled.astype(np.float32), layout.validation, None, max(sizes), layout.gamma)
    for p in sizes:
        yield score(layout, seed, p, "exact greedy", len(pooled), pooled[greedy[:p]], labels[greedy[:p]])
        for ratio in (1.0, 2.0, 3.0, 5.0):
            rows, classes = uniform(layout, min(round(ratio * p), len(pooled)), seed)
            name = "uniform" if ratio == 1.0 else f"uniform {ratio:g}p + prune"
            yield from both(layout, seed, p, name, rows, classes)


def both(
    layout: ExperimentDraw, seed: int, p: int, method: str, rows: FloatArray, labels: IntArray
) -> Iterator[SummaryScore]:
    """The summary of the rows received that pruning keeps, and the one with weights."""
    about = received(rows, layout.to_validation)
    kept = pruned(about.seen, p)
    yield score(layout, seed, p, method, len(rows), rows[kept], labels[kept])
    fit = weigh(about, p, kept)
    mine, classes = rows[fit.indices], labels[fit.indices]
    yield score(layout, seed, p, f"{method} + weights", len(rows), mine, classes, fit.weights)


def cells(
    layout: ExperimentDraw,
    variant: Variant,
    seed: int,
    sizes: Sequence[int],
    ratios: Sequence[float] = RATIOS,
) -> Iterator[SummaryScore]:
    """The protocol at several sizes and ratios, with the noise of one run."""
    first = first_round(layout, variant, seed)
    available = sum(len(rows) for rows in layout.owners)
    for p, ratio in itertools.product(sizes, ratios):
        rows, labels = collect(first, min(round(ratio * p), available), seed)
        yield from both(layout, seed, p, f"{variant.name} rho={ratio:g}", rows, labels)


def table(scores: Sequence[SummaryScore]) -> str:
    """Markdown, means over seeds.

    An entry is 1000 MMD^2 to D_v / to test rows; ratios to uniform and to exact greedy; accuracy.
    """
    sizes = sorted({s.p for s in scores})
    lines: list[str] = []
    for (name, rows), part in _grouped(scores, lambda s: (s.layout, s.rows)).items():
        seeds = sorted({s.seed for s in part})
        lines += [f"\n**{name}**, |D_v| = {rows}, seeds {seeds}\n"]
        lines += ["| | " + " | ".join(f"p={p}" for p in sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
        for method, mine in _grouped(part, lambda s: s.method).items():
            by_size = [_cell(part, [s for s in mine if s.p == p], p) for p in sizes]
            lines.append(f"| {method} | " + " | ".join(by_size) + " |")
    return "\n".join(lines) + "\n"


def _cell(part: Sequence[SummaryScore], mine: Sequence[SummaryScore], p: int) -> str:
    if not mine:
        return "-"

    def mean(scores: Sequence[SummaryScore], field: str) -> float:
        return float(np.mean([getattr(s, field) for s in scores]))

    own = mean(mine, "mmd2")
    base = [[s for s in part if s.p == p and s.method == name] for name in ("uniform", "exact greedy")]
    ratios = ", ".join(f"{own / mean(scores, 'mmd2'):.2f}" if scores else "-" for scores in base)
    return f"{1e3 * own:.1f} / {1e3 * mean(mine, 'mmd2_test'):.1f}; {ratios}; {mean(mine, 'accuracy'):.3f}"


def _grouped(
    scores: Sequence[SummaryScore], key: Callable[[SummaryScore], Any]
) -> Mapping[Any, list[SummaryScore]]:
    groups: dict[Any, list[SummaryScore]] = {}
    for one in scores:
        groups.setdefault(key(one), []).append(one)
    return groups


QUICK = ("digits-group5", "digits-mixed5", "hospitals")
DEFAULT = (
    *("mnist-group5", "mnist-mixed5", "mnist-group50", "mnist-mixed50"),
    *("fashion-group5", "fashion-mixed5", "digits-group5", "digits-mixed5"),
    *("isolet", "acs", "hospitals"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the table; prints every line as it comes."""
    parser = argparse.ArgumentParser(prog="sim.experiments.cells", description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("--layouts", nargs="+", choices=sorted(layouts()), help="default: the table's")
    parser.add_argument("--rows", nargs="+", type=int, default=[250], help="|D_v|, or all there are")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="p")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--books", nargs="+", choices=["auto", "sketch", "labels", "kmeans"], default=["auto"]
    )
    parser.add_argument("--bits", nargs="+", type=int, default=[None], help="of the code book; else by rule")
    parser.add_argument("--fills", nargs="+", choices=get_args(Fill), default=["design"])
    parser.add_argument("--quick", action="store_true", help="small sizes: a minute or two")
    parser.add_argument("--out", type=Path, help="JSON file of all scores, written after every layout")
    chosen = parser.parse_args(arguments)
    names = chosen.layouts or (QUICK if chosen.quick else DEFAULT)
    seeds = 2 if chosen.quick else chosen.seeds
    sizes = [50, 100] if chosen.quick else chosen.sizes
    scores: list[SummaryScore] = []
    skipped: dict[str, ConfigError] = {}
    for seed, rows, name in itertools.product(
        range(chosen.first_seed, chosen.first_seed + seeds), chosen.rows, names
    ):
        started = time.monotonic()
        try:
            layout = layouts()[name](chosen.data, rows, seed)
        except ConfigError as error:
            print(f"{name}: skipped, {error}", flush=True)
            skipped[name] = error
            continue
        found = list(rivals(layout, seed, sizes))
        varied = (chosen.books, chosen.fills, chosen.bits)
        for book, fill, bits in itertools.product(*varied):
            said = [str(v) for v, all_of in zip((book, fill, bits), varied, strict=True) if len(all_of) > 1]
            variant = Variant(" ".join(["cells", *said]), book, bits, fill)
            found += cells(layout, variant, seed, sizes)
        scores += found
        print(f"seed {seed}, {time.monotonic() - started:.0f} s", table(found), flush=True)
        if chosen.out:
            chosen.out.write_text(json.dumps([asdict(s) for s in scores], indent=1) + "\n", encoding="utf-8")
    print("means over seeds", table(scores), flush=True)
    if skipped:
        raise next(iter(skipped.values()))


if __name__ == "__main__":
    main()
