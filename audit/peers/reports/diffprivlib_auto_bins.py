"""Number of bins of diffprivlib 0.6.6's histogram, read from rows without a warning, also with a range.

Run: pip install diffprivlib==0.6.6 && python diffprivlib_auto_bins.py
Expected: with a range, the edges are public; what is computed from rows is under noise or warned of.
Seen: bins="auto" ("fd" and others) lets NumPy choose the number from quartiles of the private rows, and
    the exact edges are returned. PrivacyLeakWarning is raised for a missing range alone.
    The docstring says that a string "defines the method used to calculate the optimal bin width", not that
    it reads the rows in clear.
Why: one row moves the quartile and with it the number of bins, in every run: no epsilon bounds that.
Remedy: refuse a string, or raise PrivacyLeakWarning for it.
"""

import warnings

import numpy as np
from diffprivlib import tools

DECLARED = ["diffprivlib.mechanisms:GeometricTruncated.randomise#sensitivity"]
ROWS = np.concatenate([np.zeros(50), [0.3], np.full(16, 0.3), np.ones(1)])
NEIGHBOUR = ROWS.copy()
NEIGHBOUR[50] = 0.0


def release(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return tools.histogram(rows, epsilon=1.0, bins="auto", range=(0.0, 1.0))[1]


if __name__ == "__main__":
    for name, rows in (("rows", ROWS), ("neighbour", NEIGHBOUR)):
        print(name, {len(release(rows)) - 1 for _ in range(20)}, "bins in 20 releases")
