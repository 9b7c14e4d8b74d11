"""Tab-PE of Microsoft's DPSDA (not on PyPI), with its authors' settings of an XOR, for tables with a label.

    FILE=lab/referee/programs/entrants/tabpe_rows.py
    fedkme referee --tables xor-2 --python Tab-PE=PATH --rival Tab-PE=$FILE

PATH is the interpreter of an environment that the user made, which can import `pe`. It takes the shares of
the labels as public, and makes 1,000 rows, whatever rows are wanted.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pandas as pd

GENERATIONS, ROWS = 20, 1_000
FOLD = "PE.VARIATION_API_FOLD_ID"

folder = Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
importlib.import_module("numpy.random").seed(task["seed"])  # the tool draws from the global generator
pe = {name: importlib.import_module(f"pe.{name}") for name in ("api", "data", "embedding", "histogram")}
population = importlib.import_module("pe.population")
label = next(column["name"] for column in task["columns"] if column.get("label"))
features = [column for column in task["columns"] if not column.get("label")]
kinds = {
    "cat_columns": [each["name"] for each in features if "categories" in each],
    "int_columns": [each["name"] for each in features if each.get("integer")],
    "float_columns": [each["name"] for each in features if "bounds" in each and not each["integer"]],
    "label_columns": [label],
}
(folder / "kinds.json").write_text(json.dumps(kinds), encoding="utf-8")
private = pe["data"].TabularCSV(str(folder / "train.csv"), str(folder / "kinds.json"))
public = private.get_tab_info()  # in place of what it reads from private rows: the schema's
for each in features:
    stated = public[each["name"]]
    if "categories" in each:
        kind = type(stated["categories"][0])
        stated["categories"] = [kind(category) for category in each["categories"]]
    else:
        stated["min"], stated["max"] = each["bounds"]
api = pe["api"].TabularAPI(
    info=public, mutation_rate_init=0.5, mutation_rate_final=0.01, gamma=0.2, num_iterations=GENERATIONS
)
votes = pe["histogram"].NearestNeighbors(
    embedding=pe["embedding"].TabularEmbedding(info=public), mode="L2", lookahead_degree=0, backend="torch"
)
early = population.PEPopulation(
    api=api, initial_variation_api_fold=0, next_variation_api_fold=1, keep_selected=False,
    selection_mode="sample", histogram_threshold=0,
)  # fmt: skip
late = population.PEPopulation(
    api=api,
    initial_variation_api_fold=3,
    next_variation_api_fold=3,
    keep_selected=True,
    selection_mode="rank",
)
generations = population.CompositePopulation([early] * 5 + [late] * (GENERATIONS - 5))
run = importlib.import_module("pe.runner").PE(private, generations, votes)
made = run.run(
    [ROWS] * GENERATIONS, delta=task["delta"], epsilon=task["epsilon"], save_checkpoint=False
).data_frame
made = made[made[FOLD] == -1]
names = kinds["cat_columns"] + kinds["int_columns"] + kinds["float_columns"]
rows = pd.DataFrame(made["PE.TABULAR"].tolist(), columns=names)
classes = [info["column_values"][label] for info in private.metadata.label_info]
rows[label] = [classes[number] for number in made["PE.LABEL_ID"]]
rows[[column["name"] for column in task["columns"]]].to_csv(folder / "made.csv", index=False)
