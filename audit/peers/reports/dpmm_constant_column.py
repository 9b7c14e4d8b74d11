"""Column with one value, released exactly by dpmm 0.1.9 although its domain is given.

Run: pip install dpmm==0.1.9 && python dpmm_constant_column.py
Expected: hiv is a column of two categories, counted under noise; both tables give similar releases.
Seen: TableBinner.fit drops a column whose rows are all equal and writes its value back, so
    everybody's value is certain in 5 of 5 releases, and one other row ends that.
Why: (epsilon, delta)-DP allows that outcome at most e^epsilon times as often for the neighbour, plus delta.
Remedy: treat a column as constant where the given domain has one value, never because the rows do.
"""

import pandas as pd
from dpmm.pipelines import MSTPipeline

DECLARED = ["dpmm.models.mst:MST.measure", "dpmm.models.mst:MST.exponential_mechanism"]
DOMAIN = {"hiv": {"categories": ["no", "yes"]}, "sex": {"categories": ["f", "m"]}}
ROWS = pd.DataFrame({"hiv": ["no"] * 40, "sex": ["f", "m"] * 20}, dtype=str)
NEIGHBOUR = ROWS.copy()
NEIGHBOUR.loc[0, "hiv"] = "yes"


def release(rows):
    pipeline = MSTPipeline(epsilon=0.1, delta=1e-5, proc_epsilon=None, n_jobs=1, gen_kwargs={"n_iters": 50})
    pipeline.fit(rows, DOMAIN)
    return sorted(pipeline.generate(n_records=200)["hiv"].unique())


if __name__ == "__main__":
    for name, rows in (("all no", ROWS), ("one yes", NEIGHBOUR)):
        print(name, sum(release(rows) == ["no"] for _ in range(5)), "of 5 releases have no yes")
