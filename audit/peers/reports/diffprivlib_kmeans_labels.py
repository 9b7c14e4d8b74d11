"""Labels and inertia of diffprivlib 0.6.6's KMeans: exact functions of the private rows in the fitted model.

Run: pip install diffprivlib==0.6.6 && python diffprivlib_kmeans_labels.py
Expected: a fitted model, which people pickle and share, holds what was released under noise.
Seen: KMeans.fit keeps labels_ (the nearest centre of every row) and inertia_ (the exact sum of
    their distances) without noise or a warning. Both are documented
    as attributes ("labels_ : Labels of each point").
Why: inertia_ moves with each row, and labels_ has an entry a row: no epsilon bounds either.
Remedy: do not keep them, or say beside each that it is not differentially private.
"""

import numpy as np
from diffprivlib.models import KMeans

DECLARED = ["diffprivlib.mechanisms:GeometricFolded.randomise#sensitivity"]
DECLARED += ["diffprivlib.mechanisms:LaplaceBoundedDomain.randomise"]
ROWS = np.linspace(0.0, 1.0, 200).reshape(100, 2)
NEIGHBOUR = ROWS.copy()
NEIGHBOUR[0] = 1.0, 1.0


def release(rows):
    model = KMeans(2, epsilon=1.0, bounds=(0.0, 1.0)).fit(rows)
    return [model.cluster_centers_, model.inertia_, model.labels_]


if __name__ == "__main__":
    centres, inertia, labels = release(ROWS)
    exact = ((ROWS[:, None] - centres) ** 2).sum(axis=2)
    print("labels are exact:", (exact.argmin(axis=1) == labels).all())
    print("inertia is exact:", np.isclose(exact.min(axis=1).sum(), inertia))
