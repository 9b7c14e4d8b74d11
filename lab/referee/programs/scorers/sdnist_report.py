"""SDNist: K-marginal of pairs of columns, areas left out (0 to 1000); records that it calls inconsistent."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pandas as pd

binning = importlib.import_module("sdnist.report.dataset.binning")
kmarginal = importlib.import_module("sdnist.metrics.kmarginal")
inconsistency = importlib.import_module("sdnist.metrics.inconsistency")

folder = Path(sys.argv[1])
train, made = (
    pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False) for name in ("train", "made")
)
made = made[train.columns]
target = binning.percentile_rank_target(train, ["AGEP"])
ranked = binning.percentile_rank_synthetic(made, train, target, ["AGEP"])
figures = {"K-marginal": float(kmarginal.KMarginal(target, ranked).compute_score())}

whole = made.astype(dict.fromkeys(("AGEP", "HOUSING_TYPE", "OWN_RENT"), int))
(folder / "sdnist").mkdir(exist_ok=True)
found = inconsistency.Inconsistencies(whole, folder / "sdnist")
found.compute()
groups = {entry[1]: entry[0] for entry in inconsistency.ic_types}
for letter, name in (("a", "inconsistent, age"), ("h", "inconsistent, housing")):
    rows: set[int] = set()
    for entry in found.report_data["age"]["inconsistencies"]:  # the tool puts all groups there
        if groups[entry["inconsistency_name"]] == letter:
            rows |= set(entry["inconsistent_data_indexes"])
    figures[name] = len(rows) / len(whole)
(folder / "figures.json").write_text(json.dumps(figures), encoding="utf-8")
