"""AIM (McKenna 2022) on a table in one place: what a federated release of marginals is measured against.

Written from the paper's Algorithm 1 for mbi 2.0, whose package holds no mechanisms: rounds of 16 per column
with annealing, 10 % of the budget for selection, one-way marginals first, zCDP from (epsilon, delta). It
shares no code with curator.releases.marginals but the answers and rows of a fitted model, and draws its noise
from numpy.

The relation is replace-one, as that of the federated release: counts move by sqrt(2) in L2 and scores by 2.
The paper's is add-remove: half the cost of everything, for a weaker promise.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import model_cells
from fedkme.privacy.accounting import zcdp_epsilon
from fedkme.releases.counts import Measurement

Codes = NDArray[np.int64]
Clique = tuple[int, ...]

WAYS = 3
MOST_CELLS = 1 << 17
"""Cells of the model at the end of the budget; AIM lets it grow with the budget spent."""


def zcdp_budget(epsilon: float, delta: float) -> float:
    """The rho whose epsilon at delta is this one."""
    return float(brentq(lambda rho: zcdp_epsilon(rho, delta) - epsilon, 1e-12, 1e3, xtol=1e-14))


def pooled_aim(codes: Codes, sizes: Sequence[int], epsilon: float, delta: float, seed: int) -> Codes:
    """Synthetic codes, as many rows as the table; the workload is all marginals of WAYS columns.

    Fits are those of curator.releases.marginals.descent: by mbi they take minutes of compiling.
    """
    refit = functools.partial(fit, iterations=300)
    generator = np.random.default_rng(np.random.SeedSequence([seed, 3]))
    rows, width = codes.shape
    # Costs of replace-one against sensitivity 1, in zCDP: Gaussian (sqrt 2)^2, selection 2^2.
    step, score_step = math.sqrt(2.0), 2.0
    workload = list(itertools.combinations(range(width), WAYS))
    candidates: dict[Clique, float] = {}
    for size in range(1, WAYS + 1):
        for clique in itertools.combinations(range(width), size):
            candidates[clique] = float(sum(len(set(clique) & set(target)) for target in workload))
    answers = {clique: _counts(codes, clique, sizes) for clique in candidates}
    rho = zcdp_budget(epsilon, delta)
    rounds = 16 * width
    sigma = step * math.sqrt(rounds / (2 * 0.9 * rho))
    choice = math.sqrt(8 * 0.1 * rho / rounds)
    used = 0.0
    measurements = []

    def measure(clique: Clique) -> None:
        noisy = answers[clique] + generator.normal(0.0, sigma, len(answers[clique]))
        measurements.append(Measurement(clique, noisy, sigma))

    for column in range(width):
        measure((column,))
        used += 0.5 * (step / sigma) ** 2
    model = refit(sizes, measurements, rows)
    last = False
    while not last:
        if rho - used < 2 * (0.5 * (step / sigma) ** 2 + choice**2 / 8):
            left, last = rho - used, True
            sigma, choice = step * math.sqrt(1 / (2 * 0.9 * left)), math.sqrt(8 * 0.1 * left)
        used += 0.5 * (step / sigma) ** 2 + choice**2 / 8
        taken = [measurement.clique for measurement in measurements]
        allowed = MOST_CELLS * used / rho
        small = [
            clique
            for clique in candidates
            if any(set(clique) <= set(other) for other in taken)
            or model_cells(sizes, (*taken, clique)) <= allowed
        ]
        scores = []
        for clique in small:
            error = np.abs(answers[clique] - rows * model.probabilities(clique).ravel()).sum()
            scores.append(
                candidates[clique] * (error - math.sqrt(2 / math.pi) * sigma * len(answers[clique]))
            )
        logits = (
            0.5 * choice * np.asarray(scores) / (score_step * max(candidates[clique] for clique in small))
        )
        weights = np.exp(logits - logits.max())
        clique = small[int(generator.choice(len(small), p=weights / weights.sum()))]
        measure(clique)
        before = model.probabilities(clique).ravel()
        model = refit(sizes, measurements, rows, start=model)
        change = rows * float(np.abs(model.probabilities(clique).ravel() - before).sum())
        if change <= sigma * math.sqrt(2 / math.pi) * len(before):
            sigma, choice = sigma / 2, choice * 2
    return fit(sizes, measurements, rows, 1000, model).sample(rows, generator)


def _counts(codes: Codes, clique: Clique, sizes: Sequence[int]) -> NDArray[np.int64]:
    shape = tuple(sizes[c] for c in clique)
    index = np.ravel_multi_index(tuple(codes[:, c] for c in clique), shape)
    return np.bincount(index, minlength=math.prod(shape)).astype(np.int64)
