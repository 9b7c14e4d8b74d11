# %% [markdown]
# A summary of three clinics: rows of theirs that together look like a small sample of your patients.
# Open this file as a notebook (VS Code, Jupyter with jupytext), or run it as it is.

# %%
import pandas as pd

import fedkme as fk

clinics = {name: pd.read_csv(f"examples/own-files/{name}.csv") for name in ("north", "south", "west")}
ours = pd.read_csv("examples/own-files/validation.csv")
clinics["north"].head()

# %% [markdown]
# Bounds and categories are public and agreed on: `examples/own-files/schema.toml`. These rows are somebody's: every
# party's noise comes from the operating system.

# %%
run = fk.summarize(
    clinics,
    validation=ours,
    rows=40,
    epsilon=1,
    schema="examples/own-files/schema.toml",
    test="examples/own-files/test.csv",
    kernel={"gamma": 2.0},
)
run

# %%
run.rows.head()

# %%
run.compare()

# %% [markdown]
# What each party can learn, by the ledgers of the run. Rows that are seen are outside any epsilon.

# %%
run.privacy

# %% [markdown]
# Train with weights: at most 40 rows, and closer to your patients than 40 rows alike.

# %%
from sklearn.linear_model import LogisticRegression

columns = ["age", "pressure"]
known = run.weighted.dropna(subset=columns)
model = LogisticRegression().fit(
    known[columns].astype(float), known["ill"], sample_weight=run.weights[known.index]
)
model.coef_.round(3)

# %%
run.plot_access()
