"""Noise of DataSynthesizer 0.1.13, drawn from seed 0 by default: anybody can draw it again.

Run: pip install datasynthesizer==0.1.13 && python datasynthesizer_seed.py
Expected: two descriptions of the same rows at epsilon 0.1 differ, as their noise does.
Seen: describe_dataset_in_independent_attribute_mode has seed=0 and seeds NumPy with it, as does the
    correlated mode; the description is a function of the rows. The parameter is documented as "Seed the
    random number generator.", not as one that ends privacy.
Why: noise that is known hides nothing: the two tables never have the same description, whatever epsilon is.
Remedy: no seed by default, noise from the system's source; a seed for tests alone, with a warning.
"""

import tempfile
from pathlib import Path

import pandas as pd
from DataSynthesizer.DataDescriber import DataDescriber

DECLARED = ["DataSynthesizer.datatypes.AbstractAttribute:AbstractAttribute.inject_laplace_noise"]
ROWS = pd.DataFrame({"ill": ["no", "yes"] * 50, "sex": ["f"] * 50 + ["m"] * 50})
NEIGHBOUR = ROWS.copy()
NEIGHBOUR.loc[0, "ill"] = "yes"


def release(rows):
    with tempfile.TemporaryDirectory() as folder:
        rows.to_csv(table := Path(folder) / "rows.csv", index=False)
        (domains := Path(folder) / "domains.json").write_text('{"ill": ["no", "yes"], "sex": ["f", "m"]}')
        describer = DataDescriber()
        describer.describe_dataset_in_independent_attribute_mode(
            table, epsilon=0.1, categorical_attribute_domain_file=domains
        )
        return describer.data_description["attribute_description"]["ill"]["distribution_probabilities"]


if __name__ == "__main__":
    for name, rows in (("rows", ROWS), ("neighbour", NEIGHBOUR)):
        print(name, {tuple(release(rows)) for _ in range(5)}, "in 5 releases")
