"""Values of all rows, stored by dpmm 0.1.9 in the pipeline that its own `store` writes.

Run: pip install dpmm==0.1.9 && python dpmm_stored_rows.py
Expected: the folder that GenerativePipeline.store writes holds what was released under noise.
Seen: PrivTreeBinner.domains keeps the arrays of every node, the root's being the private column;
    joblib writes them to processing.joblib, so whoever gets the model gets the column, exactly.
Why: models are stored to be given away; here epsilon bounds nothing for numeric columns.
Remedy: drop the arrays (and `counts`) when the tree is built; keep `bins` alone.
"""

import tempfile

import numpy as np
import pandas as pd
from dpmm.pipelines import MSTPipeline
from dpmm.processing.table_binner import TableBinner

DECLARED = ["dpmm.models.mst:MST.measure", "dpmm.models.mst:MST.exponential_mechanism"]
DECLARED += ["dpmm.processing.binners:laplace_noise"]
DOMAIN = {"income": {"lower": 0.0, "upper": 1000.0}}
ROWS = pd.DataFrame({"income": np.arange(200) * 5.0})
NEIGHBOUR = ROWS.copy()
NEIGHBOUR.loc[7, "income"] = 36.25


def release(rows):
    pipeline = MSTPipeline(epsilon=0.1, delta=1e-5, proc_epsilon=0.1, n_jobs=1, gen_kwargs={"n_iters": 50})
    pipeline.fit(rows, DOMAIN)
    with tempfile.TemporaryDirectory() as folder:
        pipeline.store(folder)
        return TableBinner.load(f"{folder}/processing.joblib").binners["income"].domains["v_0"][2].ravel()


if __name__ == "__main__":
    print("rows read back from the stored model:", (release(ROWS) == ROWS["income"]).sum(), "of", len(ROWS))
