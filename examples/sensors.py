# %% [markdown]
# Sensors: three factories record vibrations of machines, 16 samples a window, and label those that failed soon after.
# No window leaves a factory; the release has means and covariances of each class. The signals here are invented.

# %%
import numpy as np
import pandas as pd

import fedkme as fk


def windows(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    fails = random.random(rows) < 0.3
    time = np.arange(16) / 16
    speed = np.where(fails, 3.0, 2.0) + random.normal(0, 0.2, rows)
    signal = np.sin(2 * np.pi * speed[:, None] * time + random.uniform(0, 0.8, (rows, 1)))
    signal += random.normal(0, 0.2, signal.shape)
    frame = pd.DataFrame(signal.round(3), columns=[f"t{k}" for k in range(16)])
    return frame.assign(state=np.where(fails, "fails", "works"))


factories = {f"factory-{k}": windows(1_500, k) for k in range(3)}
fresh = windows(1_000, 99)

# %%
schema = fk.Schema(
    columns=tuple({"kind": "numeric", "name": f"t{k}", "bounds": [-2, 2], "clip": True} for k in range(16)),
    label={"name": "state", "classes": ["works", "fails"]},
)
made = fk.release(factories, method="moments", epsilon=1, schema=schema, rows=2_000, progress=False)
made.verdict

# %% [markdown]
# The release is a classifier already, without training.

# %%
model = made.classifier()
float((model.predict(fresh.drop(columns="state")) == fresh["state"]).mean())

# %%
from matplotlib import pyplot

figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3), sharey=True)
for place, name, rows in ((left, "real", factories["factory-0"]), (right, "made up", made.rows)):
    for state, color in (("works", "tab:blue"), ("fails", "tab:red")):
        some = rows[rows["state"] == state].drop(columns="state").astype(float).head(8)
        place.plot(some.to_numpy().T, color=color, alpha=0.5)
    place.set(title=name, xlabel="sample")
