"""dpmm: its AIM or MST, by options, with its own bins (PrivTree, a tenth of epsilon)."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pandas as pd

folder = Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
texts = {column["name"]: str for column in task["columns"] if "categories" in column}
train = pd.read_csv(folder / "train.csv", dtype=texts, keep_default_na=False)
public = {}
for column in task["columns"]:
    name = column["name"]
    if "categories" in column:
        public[name] = {"categories": column["categories"]}
        train[name] = pd.Categorical(train[name], categories=column["categories"])
    else:
        public[name] = {"lower": column["bounds"][0], "upper": column["bounds"][1]}
module = importlib.import_module(f"dpmm.pipelines.{task['options']['mechanism'].lower()}")
pipeline = getattr(module, f"{task['options']['mechanism']}Pipeline")(
    epsilon=0.9 * task["epsilon"], delta=task["delta"], proc_epsilon=0.1 * task["epsilon"], n_jobs=1
)
pipeline.fit(train, domain=public, random_state=task["seed"])
made = pipeline.generate(n_records=task["rows"], random_state=task["seed"])
for column in task["columns"]:
    if column.get("integer"):
        low, high = column["bounds"]
        made[column["name"]] = made[column["name"]].astype(float).round().clip(low, high).astype(int)
made.to_csv(folder / "made.csv", index=False)
