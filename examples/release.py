# %% [markdown]
# Synthetic rows with the statistics of three clinics together: no row leaves.

# %%
import fedkme as fk

clinics = {name: f"examples/own-files/{name}.csv" for name in ("north", "south", "west")}
rel = fk.release(clinics, epsilon=1, schema="examples/own-files/schema.toml", rows=300)
rel

# %%
rel.why

# %%
rel.rows.head()

# %%
rel.ask(lambda rows: rows["age"] > 60)

# %% [markdown]
# Weighted points know the error of an answer, the noise among it.

# %%
points = fk.release(
    clinics,
    method="balog1",
    epsilon=1,
    schema="examples/own-files/schema.toml",
    points=50,
    gamma=2.0,
    z={"kind": "gaussian"},
)
points.ask(lambda rows: rows["age"] > 60)

# %%
rel.card
