# %% [markdown]
# What does privacy cost? A simulation once for each epsilon and seed; given again, the table is read.

# %%
import fedkme as fk

table = fk.sweep(
    "digits",
    {"privacy.epsilon": [0.3, 3.0]},
    seeds=range(2),
    p=30,
    protocol="cells",
    downstream=False,
    baselines=[],
)
table

# %%
table.rows.groupby("set.privacy.epsilon")["mmd2.summary"].mean()
