"""Result of a release for programs: a view of the run's folder, which answers questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd

from consumer.releases.estimators import expectation
from consumer.releases.released import Released, load_release
from curator.releases.method import RELEASE
from fedkme.answers.correlations import Target
from fedkme.answers.folder import AskedFolder
from fedkme.config import validate
from fedkme.errors import ConfigError, DataError, QuestionError, typed
from fedkme.inputs import read_text
from fedkme.moments.discriminant import Discriminant, Shape, discriminant_of
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.verdict import QualityVerdict
from sim.api.frames import Rows, frame_of, rows_in, table_of
from sim.api.views import frame_of_statements, framed, verdict_of
from sim.formatting import reading_lines
from sim.report.write import read_object

SYNTHETIC, WEIGHTED = "synthetic.npz", "weighted.npz"

Question = Callable[[pd.DataFrame], Any]
"""Maps a frame of rows to a number, or a truth value, for each row."""


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """Answer to a question.

    Attributes:
        value: estimated mean of the question over the private rows.
        error: standard deviation of `value`, which includes the noise and the sampling of the rows; None if
            it is not known.
        how: source of `value` and `error`.
    """

    value: float
    error: float | None
    how: str


@dataclass(frozen=True, slots=True)
class ReleaseClassifier:
    """Classifier by the Gaussians of a release of moments.

    Attributes:
        discriminant: the classifier over arrays of the schema's columns.
    """

    discriminant: Discriminant

    def predict(self, rows: Rows) -> pd.Series[str]:
        """The likeliest class of each row, by name.

        Raises:
            DataError: rows do not fit the schema.
        """
        return self.predict_proba(rows).idxmax(axis=1).astype(str)

    def predict_proba(self, rows: Rows) -> pd.DataFrame:
        """Probability of each class for each row, one column a class; the released shares are the prior.

        Raises:
            DataError: rows do not fit the schema.
        """
        schema = self.discriminant.features.schema
        label = "" if schema.label is None else schema.label.name  # ignored if the rows have it
        unlabelled = schema.model_copy(update={"label": None, "ignore": (*schema.ignore, label)})
        table = table_of(rows, unlabelled, "rows to classify", private=False)
        chances = np.exp(self.discriminant.log_posterior(table.values))
        index = rows.index if isinstance(rows, pd.DataFrame) else None
        return pd.DataFrame(chances, columns=list(schema.classes), index=index)


class Card(str):
    """The data card of a release, Markdown."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, repr=False)
class ReleaseResult:
    """A release and its figures. Each is read from the release's folder at its first use.

    Examples:
        >>> import fedkme as fk
        >>> folder = "examples/own-files"
        >>> clinics = {name: f"{folder}/{name}.csv" for name in ("north", "south", "west")}
        >>> made = fk.release(clinics, schema=f"{folder}/schema.toml", method="moments", progress=False)
        >>> made.ask("mean(age)")["question"].tolist()
        ['mean(age)']

    Attributes:
        folder: folder of the run, with the files of the release.
        metrics: figures of the run; docs/metrics.md explains each figure.
        why: reason for the method if `auto` chose it; else empty.
    """

    folder: Path
    metrics: Mapping[str, Any]
    why: str = ""

    @cached_property
    def released(self) -> Released:
        """The noisy embeddings and the data made from them, as values of `consumer.releases`.

        Raises:
            DataError: the release has no embeddings, as a release of `marginals`, which has counts.
        """
        return load_release(self.folder)

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.metrics["method"])

    @property
    def rows(self) -> pd.DataFrame:
        """Synthetic rows: columns by name, categories and the label as categoricals.

        Balog's methods without `rows` give weighted points instead; `weights` has the weight of each point.
        """
        return frame_of(self._table, self.schema)

    @property
    def weights(self) -> pd.Series[float] | None:
        """Weights of `rows`, which may be negative; None if all rows have the same weight."""
        if self._unweighted:
            return None
        weights = read_arrays(self.folder / WEIGHTED, "weighted points")["weight"]
        return pd.Series(np.asarray(weights, np.float64), name="weight")

    @property
    def card(self) -> Card:
        """The data card: mechanism, epsilon, settings, and utility measured without reading a row."""
        return Card(read_text(self._card("md")))

    @cached_property
    def schema(self) -> Schema:
        """Schema of the rows, from the card."""
        return validate(Schema, read_object(self._card("json"))["schema"], str(self.folder))

    @property
    def verdict(self) -> QualityVerdict | None:
        """Grades of columns, pairs, models and questions, and what to do next; None if no data were made."""
        return verdict_of(self.metrics)

    @property
    def reading(self) -> list[str]:
        """Lines about columns that were left out and cells that were moved, filled or guessed."""
        return list(reading_lines(self.metrics.get("reading", {})))

    @property
    def privacy(self) -> pd.DataFrame:
        """Statements on what each observer can learn of owners' rows; only `sound` is proven."""
        return frame_of_statements(self.metrics.get("privacy", ()))

    @overload
    def ask(self, question: str | Sequence[str], target: Target | None = None) -> pd.DataFrame: ...

    @overload
    def ask(self, question: Question) -> ReleaseAnswer: ...

    def ask(
        self, question: str | Sequence[str] | Question, target: Target | None = None
    ) -> pd.DataFrame | ReleaseAnswer:
        """Answer questions: `rel.ask("mean(age) by sex; share(ill = 'yes')")`; see docs/answers.md.

        An answer costs no privacy, and may be repeated.

        Args:
            question: text, or texts, for a data frame with a row for each answer: estimate, 95 % interval and
                its parts. Questions without an answer are its last rows, and `method` gives the reason. Or a
                function of rows, `lambda rows: rows["age"] > 50`, for its mean over the private rows.
            target: subject of the intervals: the owners' "rows", or the "population" from which the rows are
                drawn; None: the rows for count and sum, the population for all else.

        Raises:
            QuestionError: no question can be parsed, or every question names something not in the schema.
            DataError: the release has no answers, or a function does not give one number for each row.
        """
        if not callable(question):
            if not isinstance(question, str) and not (
                isinstance(question, Sequence) and all(isinstance(each, str) for each in question)
            ):
                raise QuestionError(
                    "a question is neither text nor a function of rows", 'Ask for example "mean(age) by sex".'
                )
            answers, failures = self._asked.ask(question, target)
            if failures and not answers:
                raise next(iter(failures.values()))
            why = [{"question": text, "method": f"not answered: {error}"} for text, error in failures.items()]
            return pd.DataFrame([asdict(answer) for answer in answers] + why)
        if not (self.folder / WEIGHTED).exists():
            values = self._answers(question, self._table.values)
            return ReleaseAnswer(float(values.mean()), None, "mean over synthetic rows")
        released = self.released
        estimate = expectation(released.release, released.on_rows(partial(self._answers, question)))
        return ReleaseAnswer(estimate.value, estimate.error, "weighted points, with the noise of the release")

    def distance(self, other: ReleaseResult) -> pd.DataFrame:
        """Tell how far apart two releases are: the squared MMD of their rows, less the noise of both.

        It costs no privacy. `rel.distance(fk.load("runs/2026"))` has one row with the columns of `ask`. There
        is an interval where both have features in common: one method, with the same settings and seed.

        Raises:
            DataError: the schemas differ, or there are neither common features nor synthetic rows of both.
        """
        if not isinstance(other, ReleaseResult):
            raise ConfigError(
                f"a value of type {type(other).__name__} is no release", "Give fk.load(FOLDER)."
            )
        return pd.DataFrame([asdict(self._asked.distance(other._asked))])

    def classifier(self, shape: Shape = "quadratic") -> ReleaseClassifier:
        """Make a classifier from the released moments, without synthetic rows and without training.

        Args:
            shape: `quadratic`: a covariance for each class; `linear`: one covariance for all classes.

        Raises:
            ConfigError: the release is not of moments, or its schema has no label.
        """
        if self.method != "moments":
            cause = f"a release of {self.method} has no moments to classify by"
            raise ConfigError(cause, "Train a model on its `rows`, or ask for a release of moments.")
        return ReleaseClassifier(discriminant_of(self.released.stored, shape))

    @cached_property
    def _asked(self) -> AskedFolder:
        return AskedFolder(self.folder)

    def _answers(self, question: Question, values: Any) -> Any:
        given = question(frame_of(Table(values), self.schema))
        try:
            series = pd.Series(given)
            if series.index.is_unique and series.index.isin(range(len(values))).all():
                series = series.sort_index()  # back to the order of the rows, which may have weights
            answers = series.astype("Float64").to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError, NotImplementedError):  # text, names, a frame
            answers = np.empty(0)
        if answers.shape != (len(values),) or not np.isfinite(answers).all():
            remedy = 'Give a function such as lambda rows: rows["age"].fillna(0) > 50.'
            raise DataError("a question gave no number for each row", remedy)
        return answers

    @property
    def _unweighted(self) -> bool:
        return (self.folder / SYNTHETIC).exists()

    @cached_property
    def _table(self) -> Table:
        path = self.folder / (SYNTHETIC if self._unweighted else WEIGHTED)
        if not path.exists():
            raise _no_data_error(self.folder)
        return rows_in(read_arrays(path, "synthetic"), self.schema, str(path))

    def _card(self, ending: str) -> Path:
        cards = sorted(self.folder.glob(f"*.card.{ending}"))
        if not cards:
            raise _no_data_error(self.folder)
        return cards[0]

    @cached_property
    def report(self) -> str:
        """The report: `report.html` of the folder, one HTML page that loads nothing."""
        return read_text(self.folder / "report.html")

    def __repr__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"ReleaseResult({self.metrics['rows']} rows by {self.method}{why} in {self.folder})"

    def _repr_html_(self) -> str:
        return framed(self.report, f"report of {self.folder}")


def _no_data_error(folder: Path) -> DataError:
    if (folder / RELEASE).exists():
        return DataError(f"{folder} has only the released numbers", f"Run: fedkme report {typed(folder)}")
    return DataError(f"{folder} holds no data", "No release was made: `metrics` has status and reason.")


def load_release_result(folder: Path) -> ReleaseResult:
    """Read the result of a release that was simulated, or made from data frames.

    Raises:
        ConfigError: the folder is not the folder of a run.
    """
    metrics = read_object(folder / "metrics.json")
    return ReleaseResult(folder, metrics, (metrics.get("plan") or {}).get("why", ""))
