"""Sensitivity of diffprivlib 0.6.6's histogram with weights, claimed to be 1 for every weight.

Run: pip install diffprivlib==0.6.6 && python diffprivlib_weights.py
Expected: a row that weighs 1000 moves a bin by 1000, and is hidden by noise of that scale, or refused.
Seen: histogram passes the weights to NumPy and adds noise of scale 1 / epsilon.
    histogramdd and histogram2d do the same.
Why: at epsilon 1 the row's bin is certain in every run; no warning is given.
Remedy: ask for a bound on weights, clip to it, and use it as the sensitivity; refuse weights without one.
"""

import numpy as np
from diffprivlib import tools

DECLARED = ["diffprivlib.mechanisms:GeometricTruncated.randomise#sensitivity"]
WEIGHTS = np.array([1000.0] + [1.0] * 99)
ROWS = np.full(100, 0.25)
NEIGHBOUR = ROWS.copy()
NEIGHBOUR[0] = 0.75


def release(rows):
    return tools.histogram(rows, epsilon=1.0, bins=2, range=(0.0, 1.0), weights=WEIGHTS)[0]


if __name__ == "__main__":
    for name, rows in (("left", ROWS), ("right", NEIGHBOUR)):
        print(
            name, sum(release(rows)[1] > 500 for _ in range(1000)), "of 1000 releases above 500 at the right"
        )
