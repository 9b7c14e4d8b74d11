"""A sweep as a program holds it: its table, and the page with its curves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from sim.api.pages import framed
from sim.sweep.run import PAGE
from sim.sweep.table import FILE


@dataclass(frozen=True, eq=False, repr=False)
class SweepTable:
    """A sweep and its numbers.

    Attributes:
        folder: with the table and the page.
        keys: of the runs of this call's grid, in its order; None: all that the folder has.
    """

    folder: Path
    keys: tuple[str, ...] | None = None

    @property
    def rows(self) -> pd.DataFrame:
        """One line a run: `set.KEY` for each axis, and what docs/sweeps.md names; failures have a `code`."""
        frame = pd.read_parquet(self.folder / FILE)
        if self.keys is None:
            return frame
        return frame.set_index("key", drop=False).loc[list(self.keys)].reset_index(drop=True)

    @property
    def failures(self) -> pd.DataFrame:
        """Runs that failed; `cause` says why."""
        rows = self.rows
        return rows[rows["code"] != 0]

    @cached_property
    def report(self) -> str:
        """The page as one HTML document that loads nothing; it is `sweep.html` of the folder."""
        return (self.folder / PAGE).read_text(encoding="utf-8")

    def __repr__(self) -> str:
        return f"SweepTable({len(self.rows)} runs in {self.folder})"

    def _repr_html_(self) -> str:
        return framed(self.report, f"sweep in {self.folder}")
