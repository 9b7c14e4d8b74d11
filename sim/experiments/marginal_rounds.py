"""Releases of marginals of discretised Adult, pooled over owners, beside AIM on the table in one place.

Figures: total variation of 3- and 4-way marginals, exactly and as Table
1 of DP-HP measures it (sim.experiments.marginals). Everything is (epsilon, 1e-5) under replace-one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from curator.releases.marginals import MarginalRelease, PooledOracle, TrustedNoise, aim, independent, rounds
from fedkme.features.binning import Binning
from fedkme.privacy.accountants import Sound
from fedkme.privacy.noise import simulated
from sim.experiments import marginals
from sim.experiments.adult import load_codes
from sim.experiments.pooled_aim import pooled_aim
from sim.experiments.seeds import Figures, require
from sim.experiments.synthesis import DELTA

Method = Literal["rounds", "aim", "independent", "pooled"]
METHODS: tuple[Method, ...] = ("rounds", "aim", "independent", "pooled")
OWNERS, SEEDS = 5, 3


def measure(file: Path, epsilon: float, method: Method, seed: int) -> dict[str, float]:
    """Release a discretised table, split over owners at random; draw as many rows, and compare.

    `pooled` is AIM of sim.experiments.pooled_aim on all rows at once.
    """
    schema, table = load_codes(file)
    binning, rows = Binning(schema), len(table)
    real = binning.encode(table, "adult")
    if method == "pooled":
        synthetic = pooled_aim(real, binning.sizes, epsilon, DELTA, seed)
        paid = epsilon
    else:
        order = np.random.default_rng(np.random.SeedSequence([seed, 2])).permutation(rows)
        oracle = PooledOracle([real[part] for part in np.array_split(order, OWNERS)], binning.sizes)
        release = asyncio.run(_released(oracle, binning.sizes, rows, method, epsilon, seed))
        synthetic = binning.encode(release.sample(binning, rows, seed), "synthetic")
        paid = Sound().epsilon([release.event], DELTA).epsilon
    found = {"epsilon": paid}
    for alpha in (3, 4):
        found[f"exact {alpha}"] = marginals.exact(real, synthetic, alpha)
        found[f"published {alpha}"] = marginals.as_published(real, synthetic, alpha)
    return found


async def _released(
    oracle: PooledOracle, sizes: Sequence[int], rows: int, method: Method, epsilon: float, seed: int
) -> MarginalRelease:
    noise = simulated(seed, "curator", "marginals")
    if method == "aim":
        return await aim(oracle, sizes, rows, epsilon, DELTA, noise)
    release = rounds if method == "rounds" else independent
    return await release(TrustedNoise(oracle, noise), sizes, rows, epsilon, DELTA)


def run(file: Path, quick: bool, out: Path) -> None:
    """Measure each method at the papers' epsilons.

    Raises:
        DataError: the file is not there, or of another form.
    """
    require([file])
    methods: tuple[Method, ...] = ("rounds", "independent") if quick else METHODS
    figures = Figures(range(1 if quick else SEEDS), {})
    for epsilon in (0.3,) if quick else (0.3, 0.1):
        figures.compare(f"epsilon {epsilon}", methods, partial(measure, file, epsilon), out)
