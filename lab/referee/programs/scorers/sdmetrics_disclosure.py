"""SDMetrics: how much oftener CAP guesses secrets of training rows than of held-back ones, by made rows."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pandas as pd

Estimate = importlib.import_module("sdmetrics.single_table").DisclosureProtectionEstimate

folder = Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
columns = task["columns"]
texts = {column["name"]: str for column in columns if "categories" in column}
train, made, control = (
    pd.read_csv(folder / f"{name}.csv", dtype=texts, keep_default_na=False)
    for name in ("train", "made", "test")
)
names = [column["name"] for column in columns]
protection = {}
for name, real in (("train", train), ("control", control)):
    importlib.import_module("numpy.random").seed(task["seed"])  # the tool draws from the global generator
    protection[name] = Estimate.compute_breakdown(
        real, made, names[::2], names[1::2], verbose=False,
        continuous_column_names=[column["name"] for column in columns if "bounds" in column],
    )["cap_protection"]  # fmt: skip
print(protection)
figures = {"disclosure risk": float(protection["control"] - protection["train"])}
(folder / "figures.json").write_text(json.dumps(figures), encoding="utf-8")
