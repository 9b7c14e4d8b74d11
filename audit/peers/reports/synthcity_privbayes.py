"""PrivBayes of synthcity 0.2.12: each number is a category of its own, and noise is n times too small.

Run: pip install synthcity==0.2.12 opacus==1.5.2 && python synthcity_privbayes.py
Expected: no made value is there because one row has it; a count has noise of scale 2 (d - k) / epsilon.
Seen: `_encode` makes each number a category, since it bins only types object and category: one person's pay
    is made to the cent. `_laplace_noise_parameter` is the scale for shares, 2 (d - k) / (n epsilon), and is
    used on counts, as its docstring says: here .008, and two persons who are ill are told from one each time.
Why: epsilon 1 is in truth about n; categories, and the cells that get noise, are those of the rows.
Remedy: take categories and bounds from the user; leave n out of the scale.
"""

import pandas as pd
from synthcity.plugins.privacy.plugin_privbayes import PrivBayes

DECLARED = ["synthcity.plugins.privacy.plugin_privbayes:PrivBayes._exponential_mechanism"]
ROWS = pd.DataFrame(
    {"ill": [1] * 2 + [0] * 998, "sex": ["f", "m"] * 500, "pay": [123456.78] + [1000.0, 2000.0, 3000.0] * 333}
)
NEIGHBOUR = ROWS.copy()
NEIGHBOUR.loc[0] = [0, "f", 1000.0]


def release(rows):
    return sorted(PrivBayes(epsilon=1.0).fit(rows).sample(5000)["pay"].unique().tolist())


def ill(rows):
    model = PrivBayes(epsilon=1.0)
    model.K = 1
    return model._get_noisy_counts_for_attributes(rows, ["ill"])["count"][1]


if __name__ == "__main__":
    for name, rows in (("with 123456.78", ROWS), ("without", NEIGHBOUR)):
        print(name, release(rows))
        print(sum(ill(rows) > 1.5 for _ in range(1000)), "of 1000 noisy counts of the ill are above 1.5")
