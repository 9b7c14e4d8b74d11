"""Croissant metadata of a release's dossier, by mlcroissant: errors, warnings, and rows not read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mlcroissant
import numpy as np
import pandas as pd
from typer.testing import CliRunner

import fedkme as fk
from operate.dossier.cli import app

ROWS = 30

folder = Path(sys.argv[1])
random = np.random.default_rng(0)
owners = {
    name: pd.DataFrame({"age": random.uniform(20, 90, 200), "smoker": random.choice(["yes", "no"], 200)})
    for name in ("north", "south", "west")
}
columns = [
    {"kind": "numeric", "name": "age", "bounds": [0.0, 100.0]},
    {"kind": "category", "name": "smoker", "categories": ["no", "yes"]},
]
fk.release(
    owners, method="marginals", schema={"columns": columns}, epsilon=1.0, delta=1e-5, rows=ROWS, seed=0,
    out=folder / "run", progress=False,
)  # fmt: skip
CliRunner().invoke(app, [str(folder / "run")], catch_exceptions=False)
dataset = mlcroissant.Dataset(jsonld=folder / "run" / "dossier" / "croissant.json")
issues = [*dataset.metadata.issues.errors, *dataset.metadata.issues.warnings]
print(*issues, sep="\n")
unread = abs(len(list(dataset.records("synthetic"))) - ROWS)
figures = {"errors of a dossier": float(len(issues) + unread)}
(folder / "figures.json").write_text(json.dumps(figures), encoding="utf-8")
