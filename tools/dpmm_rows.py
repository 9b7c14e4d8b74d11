"""Rows by the package dpmm, whose pins conflict with ours: a script for the Python of another environment.

`pip install dpmm==0.1.9` there (Python < 3.12). Columns come as codes of public bins, so that nothing is
learnt of bounds; everything else is the package's default. Its epsilon is of one row added or removed, weaker
than replace-one at the same number. The file has the CPU seconds of fit and rows, too.
"""

from __future__ import annotations

import importlib
import sys
import time

import numpy as np

PIPELINES = {"dpmm-aim": "AIMPipeline", "dpmm-mst": "MSTPipeline", "dpmm-privbayes": "PrivBayesPipeline"}


def main(way: str, epsilon: str, seed: str, source: str, target: str) -> None:
    """Fit the codes in a file and write as many made ones."""
    pandas = importlib.import_module("pandas")
    pipeline = getattr(importlib.import_module("dpmm.pipelines"), PIPELINES[way])
    with np.load(source) as given:
        names = [f"c{at}" for at in range(len(given["sizes"]))]
        frame = pandas.DataFrame(given["codes"], columns=names)
        domain = {name: int(size) for name, size in zip(names, given["sizes"], strict=True)}
    begun = time.process_time()
    made = pipeline(epsilon=float(epsilon), delta=1e-5, n_jobs=1, disable_processing=True)
    made.fit(frame, domain, random_state=int(seed))
    rows = made.generate(n_records=len(frame), random_state=int(seed))[names].to_numpy(dtype=np.int64)
    np.savez(target, codes=rows, cpu=time.process_time() - begun)


if __name__ == "__main__":
    main(*sys.argv[1:])
