"""SDMetrics: its quality report of one table, made rows beside training rows."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pandas as pd

QualityReport = importlib.import_module("sdmetrics.reports.single_table").QualityReport

folder = Path(sys.argv[1])
columns = json.loads((folder / "task.json").read_text(encoding="utf-8"))["columns"]
texts = {column["name"]: str for column in columns if "categories" in column}
train, made = (
    pd.read_csv(folder / f"{name}.csv", dtype=texts, keep_default_na=False) for name in ("train", "made")
)
kinds = {each["name"]: {"sdtype": "categorical" if "categories" in each else "numerical"} for each in columns}
report = QualityReport()
report.generate(train, made, {"columns": kinds}, verbose=False)
pairs = dict(report.get_properties().itertuples(index=False, name=None))["Column Pair Trends"]
figures = {"SDMetrics quality": float(report.get_score()), "SDMetrics pair trends": float(pairs)}
(folder / "figures.json").write_text(json.dumps(figures), encoding="utf-8")
