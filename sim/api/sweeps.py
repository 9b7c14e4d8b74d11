"""Result of a sweep for programs: its table, and the page with its curves."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from fedkme.inputs import read_text
from sim.api.views import framed
from sim.sweep.run import PAGE
from sim.sweep.table import FILE


@dataclass(frozen=True, eq=False, repr=False)
class SweepTable:
    """A sweep and its figures.

    Examples:
        >>> import fedkme as fk
        >>> shown = {"downstream": False, "baselines": [], "progress": False}
        >>> table = fk.sweep("digits", {"protocol": ["uniform"]}, p=10, out="runs/protocols", **shown)
        >>> len(table.rows), len(table.failures)
        (1, 0)

    Attributes:
        folder: folder of the table and the page.
        keys: keys of the runs of this call's grid, in its order; None: all runs of the folder's table.
    """

    folder: Path
    keys: tuple[str, ...] | None = None

    @property
    def rows(self) -> pd.DataFrame:
        """One line a run: `set.KEY` for each axis, the columns of docs/sweeps.md; failures have a `code`."""
        frame = pd.read_parquet(self.folder / FILE)
        if self.keys is None:
            return frame
        return frame.set_index("key", drop=False).loc[list(self.keys)].reset_index(drop=True)

    @property
    def failures(self) -> pd.DataFrame:
        """Runs that failed; `cause` gives the reason."""
        rows = self.rows
        return rows[rows["code"] != 0]

    @cached_property
    def report(self) -> str:
        """The page: `sweep.html` of the folder, one HTML document that loads nothing."""
        return read_text(self.folder / PAGE)

    def __repr__(self) -> str:
        return f"SweepTable({len(self.rows)} runs in {self.folder})"

    def _repr_html_(self) -> str:
        return framed(self.report, f"sweep in {self.folder}")
