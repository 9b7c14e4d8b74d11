# %% [markdown]
# Images: five owners hold handwritten digits, you hold a hundred of your own. Which of theirs look like yours, and what
# can be made if no image may leave? The digits come with scikit-learn, 8 x 8 pixels.

# %%
import fedkme as fk

run = fk.simulate("digits", p=40, seed=1, baselines=["uniform"], progress=False)
run.verdict.sentence

# %%
from matplotlib import pyplot

figure, places = pyplot.subplots(4, 10, figsize=(8, 3.4))
for place, (_, row) in zip(places.flat, run.weighted.iterrows()):
    place.imshow(row.drop(run.schema.label.name).to_numpy(float).reshape(8, 8), cmap="gray_r")
for place in places.flat:
    place.axis("off")

# %% [markdown]
# What it costs: rows that are seen are outside any epsilon, and are counted.

# %%
run.plot_access()
# %%
run.compare()

# %% [markdown]
# Where no image may leave: owners' sums with noise, and made-up images of each class.

# %%
from sklearn.datasets import load_digits

digits = load_digits(as_frame=True).frame
owners = {f"owner-{k}": digits[k::5] for k in range(5)}
schema = fk.draft_schema(digits, "target")  # public; bounds of private rows are written by hand
made = fk.release(owners, method="moments", schema=schema, epsilon=3, rows=40, progress=False)
figure, places = pyplot.subplots(4, 10, figsize=(8, 3.4))
pixels = made.rows.sort_values("target").reindex(columns=digits.columns[:64], fill_value=0)
for place, row in zip(places.flat, pixels.to_numpy(float)):
    place.imshow(row.reshape(8, 8), cmap="gray_r")
for place in places.flat:
    place.axis("off")
