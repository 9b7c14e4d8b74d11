"""Marginals by dpmm, a package that shares no code with ours, on the tables of `secure-marginals`.

Its pins conflict with ours, so that files go between two environments:

    python -m tools.referee codes FOLDER [SEED]
    DPMM/bin/python tools/dpmm_rows.py dpmm-mst 1 0 FOLDER/wine.npz FOLDER/wine=1=dpmm-mst=0.npz
    python -m tools.referee score FOLDER

`score` writes measurements.csv, as `fedkme sim reproduce secure-marginals` does with our own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from fedkme.features.binning import Binning
from lab.experiments.curves import CurveValue, write_csv
from lab.experiments.secure import FILES, parts, scored


def codes(folder: Path, seed: int) -> None:
    """Write the codes of each table's rows to release, by public bins."""
    for data in FILES:
        schema, train, _ = parts(data, seed)
        binning = Binning(schema)
        np.savez(folder / f"{data}.npz", codes=binning.encode(train, data), sizes=binning.sizes)


def score(folder: Path) -> None:
    """Score every file of made rows in the folder."""
    values: list[CurveValue] = []
    for file in sorted(folder.glob("*=*.npz")):
        data, epsilon, way, seed = file.stem.split("=")
        schema, train, test = parts(data, int(seed))
        with np.load(file) as found:
            made = Binning(schema).decode(found["codes"], np.random.default_rng(int(seed)))
            figures = [("cpu", float(found["cpu"])), *scored(schema, train, test, made, int(seed))]
        values += [CurveValue(panel, way, f"{data} {epsilon}", int(seed), value) for panel, value in figures]
    write_csv(folder / "measurements.csv", values)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["codes", to, *seeds]:
            codes(Path(to), int(seeds[0]) if seeds else 0)
        case ["score", of]:
            score(Path(of))
