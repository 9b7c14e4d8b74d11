# %% [markdown]
# Your own files: name a public sample and the owners' files, and run the cells. They are three clinics' here.

# %%
from pathlib import Path

import fedkme as fk

sample = Path("examples/own-files/validation.csv")  # public, or your own rows
owners = {name: Path(f"examples/own-files/{name}.csv") for name in ("north", "south", "west")}
label = "ill"  # what a model learns; None where there is nothing to learn

# %% [markdown]
# Rows, columns, words for nothing, dates, decimals: the draft says what it saw. Read it: bounds come FROM DATA of the
# sample, and are public from now on.

# %%
schema = fk.draft_schema(sample, label)
schema

# %% [markdown]
# Each owner checks its own file; what does not fit comes with the smallest edit.

# %%
checked = fk.check(schema, owners)
checked

# %%
schema = checked.schema
made = fk.release(owners, epsilon=1, schema=schema, progress=False)
made.verdict

# %%
made.rows.head()

# %%
from matplotlib import pyplot

numbers = made.rows.select_dtypes("number")
numbers.hist(bins=20, figsize=(8, 3))
pyplot.tight_layout()

# %%
Path(made.folder) / "consumer"  # synthetic.csv, the card, the release
