"""Result of a summary for programs: a view of the run's folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from consumer.results import EVALUATION, SUMMARY, TRAIN, alone, place_of
from consumer.summary.forms import REPEATS, WEIGHTED, added_name
from consumer.target.training import MODELS
from fedkme.errors import DataError, FedkmeWarning
from fedkme.inputs import read_text
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Schema, load_schema
from fedkme.tables.table import Table
from fedkme.verdict import QualityVerdict
from sim.api.frames import frame_of, rows_in
from sim.api.views import frame_of_statements, framed, verdict_of
from sim.engines.run_folder import SCHEMA
from sim.formatting import accuracies, reading_lines, verdict
from sim.report.write import read_object

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class SummaryResult:
    """A summary and its figures. Each is read from the run's folder at its first use.

    Examples:
        >>> import fedkme as fk
        >>> run = fk.simulate("digits", p=20, protocol="cells", downstream=False, baselines=[])
        >>> len(run.rows), round(float(run.weights.sum()), 6), len(run.repeats)
        (20, 1.0, 20)
        >>> run.compare().columns[0]
        'mmd2'

    Attributes:
        folder: folder of the run, with its ledgers and report.html.
        received: the consumer's folder, which has the rows.
        schema: schema of the rows.
        metrics: figures of the run; docs/metrics.md explains each figure.
    """

    folder: Path
    received: Path
    schema: Schema
    metrics: Mapping[str, Any]

    @property
    def rows(self) -> pd.DataFrame:
        """The p rows with equal weights: columns by name, categories and the label as categoricals.

        Warns where another form has a better grade: `verdict.grades` has the grade of each.
        """
        graded = self.verdict
        if graded is not None and (alike := graded.grades.get("alike", graded.grade)) != graded.grade:
            better = "weighted with weights" if graded.grades.get("weighted") == graded.grade else "repeats"
            warnings.warn(f"rows alike: {alike}; .{better}: {graded.grade}", FedkmeWarning, stacklevel=2)
        return frame_of(self._table(SUMMARY), self.schema)

    @property
    def weighted(self) -> pd.DataFrame:
        """Rows with weights, at most p; `weights` has the weight of each row."""
        return frame_of(self._table(WEIGHTED), self.schema)

    @property
    def weights(self) -> pd.Series[float]:
        """Weights of `weighted`, row by row; they sum to 1."""
        return pd.Series(np.asarray(self._arrays(WEIGHTED)["w"], np.float64), name="weight")

    @property
    def repeats(self) -> pd.DataFrame:
        """Rows, p with repetitions, for programs that take no weights."""
        return frame_of(self._table(REPEATS), self.schema)

    @property
    def verdict(self) -> QualityVerdict | None:
        """Grades of each form, and what to do next; None if there are no rows, or they were not judged."""
        return verdict_of(self.metrics)

    @property
    def training(self) -> pd.DataFrame:
        """Candidates to train on, the named one first, with accuracy on rows of D_v that were held out.

        Empty where none were compared: only rows for a target have candidates (`fk.match`).
        """
        compared = (self.metrics.get("training") or {}).get("candidates", [])
        lines = [{**each, **each["models"]} for each in compared]
        return pd.DataFrame(lines, columns=["name", "rows", "accuracy", "low", "high", *MODELS])

    @property
    def train(self) -> pd.DataFrame:
        """Rows of the candidate to train on, with a column of weights, the last.

        Raises:
            DataError: no candidates were compared.
        """
        path = self.received / alone(TRAIN)
        if not path.exists():
            raise DataError("nothing says what to train on", "Only rows for a target do: fk.match.")
        arrays = read_arrays(path, "consumer")
        frame = frame_of(rows_in(arrays, self.schema, str(path)), self.schema)
        return frame.assign(**{added_name("weight", self.schema): arrays["w"]})

    @property
    def reading(self) -> list[str]:
        """Lines about columns that were left out and cells that were moved, filled or guessed."""
        return list(reading_lines(self.metrics.get("reading", {})))

    @property
    def privacy(self) -> pd.DataFrame:
        """Statements on what each observer can learn of each data set; only `sound` is proven."""
        return frame_of_statements(self.metrics.get("privacy", ()))

    def compare(self) -> pd.DataFrame:
        """Figures of the summary's forms and of any baselines, one a line.

        The line `fresh_rows` has the average MMD^2 of p fresh rows of D_v's own law.
        """
        m = self.metrics
        columns = {
            "mmd2": m.get("mmd2", {}) | self._fresh_rows(),
            "percent_over_greedy": m.get("percent_over_greedy", {}),
            "mmd2_with_seeds": m.get("mmd2_counted", {}),
            "mmd2_test": m.get("mmd2_test", {}),
            "effective_rows": m.get("effective", {}),
            **self._accuracies(),
        }
        frame = pd.DataFrame(
            {name: pd.Series(cells, dtype=float) for name, cells in columns.items() if cells}
        )
        order = [name for name in columns["mmd2"] if name in frame.index]
        return frame.reindex(order).rename_axis("rows")

    def plot_access(self, ax: Axes | None = None) -> Axes:
        """Draw the number of each owner's rows that the curator or the consumer saw, as bars.

        Raises:
            DataError: the numbers are not known here: a consumer is not told whose rows came.
        """
        from matplotlib import pyplot

        by_owner = self.metrics.get("points_accessed", {}).get("by_owner", {})
        if not by_owner:
            cause = "it is not known whose rows were accessed"
            raise DataError(cause, "A consumer is not told; the curator's record of the run has it.")
        axes = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        names = list(by_owner)
        bars = axes.barh(names[::-1], [by_owner[name] for name in names[::-1]])
        axes.bar_label(bars, padding=3)
        axes.set_xlabel("rows accessed")
        return axes

    @cached_property
    def report(self) -> str:
        """The report: `report.html` of the folder, one HTML page that loads nothing."""
        return read_text(place_of(self.folder, "report.html"))

    def __repr__(self) -> str:
        return f"SummaryResult({len(self._table(SUMMARY))} rows in {self.folder}). {self._outcome()}"

    def _outcome(self) -> str:
        graded = self.verdict
        return verdict(self.metrics if graded is None else {**self.metrics, "verdict": asdict(graded)})

    def _repr_html_(self) -> str:
        return framed(self.report, f"report of {self.folder}")

    def _arrays(self, name: str) -> dict[str, Any]:
        path = place_of(self.received, name)
        if not path.exists():
            remedy = "No rows came, or the rows were not judged: see status and reason in `metrics`."
            raise DataError(f"there is no {path}", remedy)
        return read_arrays(path, "consumer")

    def _table(self, name: str) -> Table:
        if name == SUMMARY and not place_of(self.received, name).exists():
            return Table(np.empty((0, self.schema.width)))
        return rows_in(self._arrays(name), self.schema, name)

    def _fresh_rows(self) -> dict[str, float]:
        path = place_of(self.received, EVALUATION)
        expected = read_object(path).get("expected") if path.exists() else None
        return {} if expected is None else {"fresh_rows": expected}

    def _accuracies(self) -> dict[str, dict[str, float]]:
        by_name = accuracies(self.metrics)
        models = dict.fromkeys(model for scores in by_name.values() for model in scores)
        return {
            f"accuracy_{model}": {name: scores[model] for name, scores in by_name.items() if model in scores}
            for model in models
        }


def load_summary(folder: Path) -> SummaryResult:
    """Read the result of a summary that was simulated, or made from data frames.

    Raises:
        ConfigError: the folder is not the folder of a run, or is too old to have a schema.
        DataError: a file cannot be read.
    """
    schema = load_schema(folder / SCHEMA)
    for place in (folder, folder / "consumer"):
        if (matched := place / alone("metrics.json")).exists():  # rows for a target
            return SummaryResult(place, place, schema, read_object(matched))
    return SummaryResult(folder, folder / "consumer", schema, read_object(folder / "metrics.json"))
