"""Releases of marginals of discretised Adult, pooled over owners, beside AIM on the table in one place.

    python -m sim.experiments.marginals_mbi FILE [--methods aim mst independent pooled] [--epsilons 0.3 0.1]
        [--owners 5] [--seeds 3] [--out runs/marginals.json]

FILE is dphp_sdgym_simple_adult.npz. Figures: total variation of 3- and 4-way marginals, exactly and as Table
1 of DP-HP measures it (sim.experiments.marginals). Everything is (epsilon, 1e-5) under replace-one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from curator.releases.marginals import MarginalRelease, PooledOracle, TrustedNoise, aim, independent, mst
from fedkme.features.binning import Binning
from fedkme.privacy.accountants import Sound
from fedkme.privacy.noise import simulated
from sim.experiments import marginals
from sim.experiments.adult import load_codes
from sim.experiments.pooled_aim import pooled_aim
from sim.experiments.seeds import summary
from sim.experiments.synthesis import DELTA

Method = Literal["aim", "mst", "independent", "pooled"]
METHODS: tuple[Method, ...] = ("aim", "mst", "independent", "pooled")


def measure(
    file: Path, method: Method, epsilon: float, owners: int, seed: int, tuples: int | None = None
) -> dict[str, float]:
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
        oracle = PooledOracle([real[part] for part in np.array_split(order, owners)], binning.sizes)
        release = asyncio.run(_released(oracle, binning.sizes, rows, method, epsilon, seed))
        synthetic = binning.encode(release.sample(binning, rows, seed), "synthetic")
        paid = Sound().epsilon([release.event], DELTA).epsilon
    found = {"epsilon": paid}
    for alpha in (3, 4):
        found[f"exact {alpha}"] = marginals.exact(real, synthetic, alpha, tuples)
        found[f"published {alpha}"] = marginals.as_published(real, synthetic, alpha, tuples)
    return found


async def _released(
    oracle: PooledOracle, sizes: Sequence[int], rows: int, method: Method, epsilon: float, seed: int
) -> MarginalRelease:
    noise = simulated(seed, "curator", "marginals")
    if method == "aim":
        return await aim(oracle, sizes, rows, epsilon, DELTA, noise)
    release = mst if method == "mst" else independent
    return await release(TrustedNoise(oracle, noise), sizes, rows, epsilon, DELTA)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print figures as they come; 0."""
    parser = argparse.ArgumentParser(description="Releases of marginals of discretised Adult.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=(0.3, 0.1))
    parser.add_argument("--owners", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write the figures here as JSON")
    chosen = parser.parse_args(arguments)
    figures: dict[str, Any] = {}
    for method in chosen.methods:
        for epsilon in chosen.epsilons:
            runs = []
            for seed in range(chosen.seeds):
                started = time.monotonic()
                runs.append(measure(chosen.file, method, epsilon, chosen.owners, seed))
                shown = ", ".join(f"{key} {value:.4f}" for key, value in runs[-1].items())
                print(f"{method}, seed {seed}: {shown} ({time.monotonic() - started:.0f} s)", flush=True)
            found = summary(runs)
            figures[f"{method} at {epsilon}"] = {"mean, sd": found, "runs": runs}
            shown = ", ".join(f"{key} {mean:.4f} +- {sd:.4f}" for key, (mean, sd) in found.items())
            print(f"{method}, {len(runs)} seeds: {shown}", flush=True)
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
