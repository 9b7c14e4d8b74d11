"""Sensitivity of diffprivlib 0.6.6's nanmean, divided by all entries and not by those that are counted.

Run: pip install diffprivlib==0.6.6 && python diffprivlib_nanmean.py
Expected: a mean of 2 numbers in [0, 1] moves by up to 1/2 when one changes: noise of scale 1/2 at epsilon 1.
Seen: nanmean claims (upper - lower) / array.size, here 1/1000, so the noise is 500 times too small,
    and the two tables are told apart in every run. nanvar and nanstd divide by the same number.
Why: epsilon 1 is in truth epsilon 500; no warning is given.
Remedy: release sum and count of the numbers that are not NaN, each under noise, or let an entry that is NaN
    count as a public value.
"""

import numpy as np
from diffprivlib import tools

DECLARED = ["diffprivlib.mechanisms:LaplaceTruncated.randomise#sensitivity"]
ROWS = np.full(1000, np.nan)
ROWS[:2] = 1.0, 0.0
NEIGHBOUR = ROWS.copy()
NEIGHBOUR[1] = 1.0


def release(rows):
    return tools.nanmean(rows, epsilon=1.0, bounds=(0.0, 1.0))


if __name__ == "__main__":
    for name, rows in (("1 and 0", ROWS), ("1 and 1", NEIGHBOUR)):
        print(name, sum(release(rows) > 0.75 for _ in range(1000)), "of 1000 releases above 0.75")
