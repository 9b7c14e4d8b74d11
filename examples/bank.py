# %% [markdown]
# Banks: four of them share what tells who repays, and no customer's row. The rows here are invented.

# %%
import numpy as np
import pandas as pd

import fedkme as fk


def customers(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    income = random.lognormal(10.4, 0.5, rows).round(-2)
    debt = (income * random.beta(2, 5, rows)).round(-2)
    job = random.choice(["employed", "own business", "retired", "none"], rows, p=[0.6, 0.15, 0.15, 0.1])
    risk = 4 * debt / income - 1.5 + (job == "none") + random.logistic(0, 0.5, rows)
    return pd.DataFrame(
        {"income": income, "debt": debt, "job": job, "repaid": np.where(risk > 0, "no", "yes")}
    )


banks = {f"bank-{k}": customers(2_500, k) for k in range(4)}
fresh = customers(2_000, 99)
fresh.head()

# %% [markdown]
# Columns and bounds are agreed on in public: no bank's rows are read for them.

# %%
schema = fk.Schema(
    columns=(
        {"kind": "numeric", "name": "income", "bounds": [0, 250_000], "clip": True},
        {"kind": "numeric", "name": "debt", "bounds": [0, 150_000], "clip": True},
        {"kind": "category", "name": "job", "categories": ["employed", "own business", "retired", "none"]},
    ),
    label={"name": "repaid", "classes": ["no", "yes"]},
)
made = fk.release(banks, epsilon=1, schema=schema, pooling={"security": {"dropouts": 1}}, progress=False)
made.verdict

# %% [markdown]
# The curator saw sums with noise alone (secure aggregation, one bank may drop out). What each party can learn:

# %%
made.privacy[made.privacy.accountant == "sound"]

# %%
made.ask("share(repaid = 'no') by job; median(income); corr(income, debt)")

# %% [markdown]
# Does a model of the made-up rows work on real ones? Beside it, one of all real rows in one place.

# %%
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score


def auc(rows: pd.DataFrame) -> float:
    def numbers(frame: pd.DataFrame) -> pd.DataFrame:
        jobs = pd.Categorical(frame["job"], schema.columns[2].categories)
        return frame[["income", "debt"]].astype(float).assign(job=jobs.codes)

    model = HistGradientBoostingClassifier(max_depth=3).fit(numbers(rows), rows["repaid"] == "no")
    return roc_auc_score(fresh["repaid"] == "no", model.predict_proba(numbers(fresh))[:, 1])


pooled = pd.concat(banks.values())
{"made-up rows": round(auc(made.rows), 3), "all real rows": round(auc(pooled), 3)}

# %%
from matplotlib import pyplot

figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3), sharex=True, sharey=True)
for place, name, rows in ((left, "real", pooled), (right, "made up", made.rows)):
    place.scatter(rows["income"], rows["debt"], s=1, alpha=0.3)
    place.set(title=name, xlabel="income", ylabel="debt", xlim=(0, 150_000), ylim=(0, 70_000))
