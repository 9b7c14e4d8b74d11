# %% [markdown]
# A survey: four regions asked the same questions, with gaps, codes for "no answer" and words of their own. What do all
# of them say, without a sheet leaving a region? The answers here are invented.

# %%
import numpy as np
import pandas as pd

import fedkme as fk


def answers(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    age = random.integers(18, 95, rows)
    trust = np.clip(random.normal(5 + (age - 50) / 25, 2, rows).round(), 0, 10)
    trust[random.random(rows) < 0.08] = np.nan
    vote = random.choice(["yes", "no"], rows, p=[0.55, 0.45]).astype(object)
    vote[random.random(rows) < 0.05] = None
    return pd.DataFrame({"age": age, "trust": trust, "vote": vote})


regions = {name: answers(1_200, seed) for seed, name in enumerate(("north", "east", "south", "west"))}
regions["east"]["age"] = regions["east"]["age"].mask(lambda age: age > 93, -9)  # its code for "not said"
pilot = answers(200, 99)  # public: what the schema is drafted from

# %% [markdown]
# The schema comes from the public pilot; `check` finds what does not fit, with the smallest edit.

# %%
schema = fk.draft_schema(pilot)
schema["age"].bounds = [18, 110]
checked = fk.check(schema, regions)
checked

# %%
made = fk.release(regions, epsilon=1, schema=checked.schema, progress=False)
made.reading, made.verdict

# %%
table = made.ask("mean(trust); mean(trust) by vote; share(age >= 65)")
table

# %%
from matplotlib import pyplot

figure, place = pyplot.subplots(figsize=(6, 2.5))
means = table[table["question"].str.startswith("mean")]
place.errorbar(
    means["estimate"],
    range(len(means)),
    xerr=[means["estimate"] - means["low"], means["high"] - means["estimate"]],
    fmt="o",
)
place.set_yticks(range(len(means)), means["question"] + " " + means["group"])
place.set_xlabel("trust, 0 to 10, with 95 % intervals")
