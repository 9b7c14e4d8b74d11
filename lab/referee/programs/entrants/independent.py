"""Control: noisy counts of each column alone; numbers in 32 bins, even inside a bin. Replace-one, by zCDP."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd

BINS = 32

folder = Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
texts = {column["name"]: str for column in task["columns"] if "categories" in column}
train = pd.read_csv(folder / "train.csv", dtype=texts, keep_default_na=False)
noise = np.random.default_rng(task["seed"])
log = math.log(1 / task["delta"])
rho = (math.sqrt(log + task["epsilon"]) - math.sqrt(log)) ** 2  # Bun and Steinke 2016: rho + 2 sqrt(rho log)
deviation = math.sqrt(len(task["columns"]) / rho)  # a replaced row moves each histogram by sqrt(2)
made = {}
for column in task["columns"]:
    values, names = train[column["name"]], column.get("categories")
    low, high = (0, 1) if names else column["bounds"]
    edges = np.linspace(low, high, BINS + 1)
    cells = pd.Categorical(values, categories=names).codes if names else np.searchsorted(edges[1:-1], values)
    counts = np.bincount(cells, minlength=len(names) if names else BINS) + 0.0
    counts = np.maximum(counts + noise.normal(0.0, deviation, len(counts)), 1e-9)
    drawn = noise.choice(len(counts), size=task["rows"], p=counts / counts.sum())
    if names:
        made[column["name"]] = np.array(names)[drawn]
    else:
        inside = noise.uniform(edges[drawn], edges[drawn + 1])
        made[column["name"]] = np.rint(inside).astype(np.int64) if column["integer"] else inside
pd.DataFrame(made).to_csv(folder / "made.csv", index=False)
