"""OpenDP: `contingency_table` by AIM or MST of options; numbers in public bins of one width.

Rows are sampled: by the tool's default, "round" of mbi 1.1, the children of a parent's value come in one
order for each child, shuffled for none, and columns that are independent given their parent are copies of
each other (on even bits a two-way error of .177). The bounds are cuts, too: beyond its cuts the tool draws
numbers from a bin of width 1 wherever the bounds are, and many columns have a spike at a bound.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path

import numpy as np

BINS = 16

dp = importlib.import_module("opendp.prelude")
pl = importlib.import_module("polars")

folder = Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
types = {column["name"]: pl.String if "categories" in column else pl.Float64 for column in task["columns"]}
dp.enable_features("contrib")
keys = {each["name"]: each["categories"] for each in task["columns"] if "categories" in each}
cuts = {
    each["name"]: np.linspace(each["bounds"][0], each["bounds"][1], BINS + 1).tolist()
    for each in task["columns"]
    if "bounds" in each
}
alphas = np.geomspace(1e-3, 1e4, 20_000) + 1.0
lost = np.log(alphas - 1) + alphas * np.log(alphas / (alphas - 1)) + math.log(task["delta"])
rho = float(np.max((task["epsilon"] + lost / (alphas - 1)) / alphas))  # Canonne et al. 2020, Corollary 13
algorithm = getattr(dp.mbi, task["options"]["mechanism"])()
for attempt in range(8):  # at some budgets the tool exceeds its own by one rounding
    context = dp.Context.compositor(
        data=pl.scan_csv(folder / "train.csv", schema_overrides=types, missing_utf8_is_empty_string=True),
        privacy_unit=dp.unit_of(changes=1),  # replace-one
        privacy_loss=dp.loss_of(rho=rho),  # it takes no delta where keys and cuts span all columns
        split_evenly_over=1,
    )
    try:
        table = context.query().contingency_table(keys=keys, cuts=cuts, algorithm=algorithm).release()
        break
    except Exception as error:
        if attempt == 7 or "insufficient budget" not in str(error):
            raise
        rho *= 1 - 1e-4
importlib.import_module("numpy.random").seed(task["seed"])  # the tool draws from the global generator
made = table.synthesize(rows=task["rows"], method="sample")
made = made.fill_null(strategy="forward").fill_null(
    strategy="backward"
)  # it makes empty cells: the row before
for column in task["columns"]:
    if "bounds" in column:
        low, high = column["bounds"]
        values = pl.col(column["name"]).cast(pl.Float64).clip(low, high)
        made = made.with_columns(values.round().cast(pl.Int64) if column["integer"] else values)
made.write_csv(folder / "made.csv")
