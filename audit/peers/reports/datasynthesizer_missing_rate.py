"""Shares of missing cells and the number of rows, exact in DataSynthesizer 0.1.13's description.

Run: pip install datasynthesizer==0.1.13 && python datasynthesizer_missing_rate.py
Expected: at epsilon 0.1 whatever is counted in the rows is under noise.
Seen: missing_rate and meta.num_tuples are written without noise in both private modes, and the generator
    leaves exactly that share of cells empty. A column's domain can be given; its missing rate cannot.
Why: "does Bob's row have a diagnosis" is answered in every run, when the other rows are known.
Remedy: count missing cells as a category under the column's noise; publish a noisy number of rows.
"""

import tempfile
from pathlib import Path

import pandas as pd
from DataSynthesizer.DataDescriber import DataDescriber

DECLARED = ["DataSynthesizer.datatypes.AbstractAttribute:AbstractAttribute.inject_laplace_noise"]
ROWS = pd.DataFrame({"ill": ["no", "yes", "yes", None] * 25, "sex": ["f"] * 50 + ["m"] * 50})
NEIGHBOUR = ROWS.copy()
NEIGHBOUR.loc[0, "ill"] = None


def release(rows):
    with tempfile.TemporaryDirectory() as folder:
        rows.to_csv(table := Path(folder) / "rows.csv", index=False)
        (domains := Path(folder) / "domains.json").write_text('{"ill": ["no", "yes"], "sex": ["f", "m"]}')
        describer = DataDescriber()
        describer.describe_dataset_in_independent_attribute_mode(
            table, epsilon=0.1, categorical_attribute_domain_file=domains, seed=None
        )
        return describer.data_description["attribute_description"]["ill"]["missing_rate"]


if __name__ == "__main__":
    for name, rows in (("rows", ROWS), ("neighbour", NEIGHBOUR)):
        print(name, {release(rows) for _ in range(5)}, "in 5 releases")
