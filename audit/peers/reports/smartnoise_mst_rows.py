"""Number of rows, exact in smartnoise-synth 1.0.8's MST, whose noise is for tables that differ by a row.

Run: pip install smartnoise-synth==1.0.8 && python smartnoise_mst_rows.py
Expected: sigma^2 = 3 / (2 rho) hides one row that is added or removed (L2 sensitivity 1), so the number of
    rows is private; if one row is replaced, sensitivity is sqrt(2), and the noise is too small for rho.
Seen: the model is fitted with known_total = len(data), and sample() makes exactly len(data) rows.
Why: added or removed, the row shows in the count of every release; replaced, rho is twice what is
    claimed. One of the two relations has to be stated and kept.
Remedy: estimate the total from the noisy counts, and ask for the number of rows in sample().
"""

import pandas as pd
from snsynth.mst import MSTSynthesizer

DECLARED = ["snsynth.mst.mst:MSTSynthesizer.measure", "snsynth.mst.mst:MSTSynthesizer.exponential_mechanism"]
ROWS = pd.DataFrame({"sex": ["f", "m"] * 50, "ill": ["no", "no", "yes", "yes"] * 25})
NEIGHBOUR = ROWS.iloc[1:].reset_index(drop=True)


def release(rows):
    synthesizer = MSTSynthesizer(epsilon=0.1, delta=1e-5)
    synthesizer.fit(rows, categorical_columns=["sex", "ill"])
    return len(synthesizer.sample())


if __name__ == "__main__":
    for name, rows in (("rows", ROWS), ("neighbour", NEIGHBOUR)):
        print(name, {release(rows) for _ in range(3)}, "rows made in 3 releases")
