"""Contingency tables of opendp[mbi] 0.16.0 by AIM: nothing undeclared was found.

Run: pip install 'opendp[mbi]==0.16.0' mbi==1.1.0 polars==1.36.1 && python opendp_aim.py
Expected: keys and cuts are public; what leaves is what the inner queryable released under noise, and
    synthesize() without a number takes its number of rows from noisy counts.
Seen: so it is, for a row replaced by one outside the keys and cuts, with an empty cell.
Why: this file is the check that the method lets a sound release pass.
Remedy: none needed. The seed of synthesize() is NumPy's; it is post-processing.
"""

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib", "honest-but-curious")
DECLARED = ["opendp.mod:Queryable.__call__"]
ROWS = pl.DataFrame(
    {"sex": ["f", "m"] * 100, "ill": ["no", "no", "yes", "no"] * 50, "age": list(range(100)) * 2}
)
NEIGHBOUR = ROWS[1:].extend(pl.DataFrame({"sex": ["x"], "ill": [None], "age": [9999]}))
KEYS = {"sex": ["f", "m"], "ill": ["no", "yes"]}


def release(rows):
    context = dp.Context.compositor(
        data=rows.lazy(),
        privacy_unit=dp.unit_of(changes=1),
        privacy_loss=dp.loss_of(rho=0.1),
        split_evenly_over=1,
    )
    query = context.query().contingency_table(keys=KEYS, cuts={"age": [30, 60]}, algorithm=dp.mbi.AIM())
    return query.release().synthesize().to_dict(as_series=False)


if __name__ == "__main__":
    print({name: len(values) for name, values in release(ROWS).items()})
