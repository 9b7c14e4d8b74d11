"""Ours: `fedkme.release` of its owners' frames, as a user calls it; `secure` is secure aggregation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fedkme as fk

folder = Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
texts = {column["name"]: str for column in task["columns"] if "categories" in column}
train = pd.read_csv(folder / "train.csv", dtype=texts, keep_default_na=False)
of = np.loadtxt(folder / "owners.txt", dtype=np.int64)
owners = {f"o{owner}": train[of == owner] for owner in np.unique(of).tolist()}
columns = [
    {"kind": "category", "name": each["name"], "categories": each["categories"]}
    if "categories" in each
    else {"kind": "numeric"}
    | {key: each[key] for key in ("name", "bounds", "integer", "atoms", "values") if key in each}
    for each in task["columns"]
    if not each.get("label")
]
labels = [each for each in task["columns"] if each.get("label")]
label = {"label": {"name": labels[0]["name"], "classes": labels[0]["categories"]}} if labels else {}
given: dict[str, Any] = task["options"]
if task["trust"] == "secure":
    given = given | {"pooling": {"security": {"dropouts": 0}}}
made = fk.release(
    owners,
    method="marginals",
    schema={"columns": columns, **label, **task["public_rules"]},
    epsilon=task["epsilon"],
    delta=task["delta"],
    rows=task["rows"],
    seed=task["seed"],
    out=folder / "run",
    progress=False,
    **given,
)
made.rows.to_csv(folder / "made.csv", index=False)
