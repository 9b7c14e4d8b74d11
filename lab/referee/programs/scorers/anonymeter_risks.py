"""anonymeter: risks of training rows beside a control of as many rows; each is the point of its interval."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pandas as pd

ATTACKS = 500
evaluators = importlib.import_module("anonymeter.evaluators")

folder = Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
texts = {column["name"]: str for column in task["columns"] if "categories" in column}
train, made, control = (
    pd.read_csv(folder / f"{name}.csv", dtype=texts, keep_default_na=False)
    for name in ("train", "made", "test")
)
importlib.import_module("numpy.random").seed(task["seed"])  # the tool draws from the global generator
names = [column["name"] for column in task["columns"]]
halves = (names[::2], names[1::2])
secret = names[-1]
attacks = {
    "singling out": evaluators.SinglingOutEvaluator(
        train, made, n_attacks=ATTACKS, n_cols=3, control=control, max_attempts=100_000, seed=task["seed"]
    ),
    "linkability": evaluators.LinkabilityEvaluator(
        train, made, aux_cols=halves, n_attacks=ATTACKS, control=control
    ),
    "inference": evaluators.InferenceEvaluator(
        train, made, aux_cols=names[:-1], secret=secret, n_attacks=ATTACKS, control=control
    ),
}
figures = {}
for name, attack in attacks.items():
    try:
        attack.evaluate(**({"mode": "multivariate"} if name == "singling out" else {"n_jobs": 1}))
        figures[f"{name} risk"] = float(attack.risk().value)
    except RuntimeError:  # fewer guesses than the tool needs
        figures[f"{name} risk"] = float("nan")
(folder / "figures.json").write_text(json.dumps(figures), encoding="utf-8")
