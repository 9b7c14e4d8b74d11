"""A release as a program holds it: a view of a run's folder, and questions to it."""

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
from fedkme.answers.answer import Target
from fedkme.answers.card import ReleaseVerdict
from fedkme.answers.folder import AskedFolder
from fedkme.config import validate
from fedkme.errors import ConfigError, DataError
from fedkme.moments.discriminant import Discriminant, Shape, discriminant_of
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table, table_from_arrays
from sim.api.frames import Rows, frame_of, table_of
from sim.api.pages import framed
from sim.api.statements import frame_of_statements
from sim.report.write import read_object

SYNTHETIC, WEIGHTED = "synthetic.npz", "weighted.npz"

Question = Callable[[pd.DataFrame], Any]
"""Takes rows with names and categories to a number, or a truth value, for each."""


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """Answer to a question.

    Attributes:
        value: mean of the question over the private rows, estimated.
        error: standard deviation of `value`, the noise and the rows being a sample among it; None where it is
            not known.
        how: source of both.
    """

    value: float
    error: float | None
    how: str


@dataclass(frozen=True, slots=True)
class ReleaseClassifier:
    """Classifier by the Gaussians of a release of moments.

    Attributes:
        discriminant: the same over arrays of the schema's columns.
    """

    discriminant: Discriminant

    def predict(self, rows: Rows) -> pd.Series[str]:
        """The likeliest class of each row, by name.

        Raises:
            DataError: rows that do not fit the schema.
        """
        return self.predict_proba(rows).idxmax(axis=1).astype(str)

    def predict_proba(self, rows: Rows) -> pd.DataFrame:
        """Probability of each class, a column each, with the released shares as the prior.

        Raises:
            DataError: rows that do not fit the schema.
        """
        schema = self.discriminant.features.schema
        label = "" if schema.label is None else schema.label.name  # rows may have it; it is not looked at
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
    """A release and what is known of it; everything is read from its folder when it is asked for.

    Attributes:
        folder: of the run, with the files of the release.
        metrics: what was measured; docs/metrics.md says what each number means.
        why: reason for the method, where it was chosen by its rule; else empty.
    """

    folder: Path
    metrics: Mapping[str, Any]
    why: str = ""

    @cached_property
    def released(self) -> Released:
        """The noisy embeddings and what was made of them, as `consumer.releases` has them.

        Raises:
            DataError: the release is none of embeddings: `marginals` has counts.
        """
        return load_release(self.folder)

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.metrics["method"])

    @property
    def rows(self) -> pd.DataFrame:
        """Synthetic rows: columns by name, categories and the label as categoricals.

        Of Balog's methods without `rows`: points, of which `weights` has the weight of each.
        """
        return frame_of(self._table, self.schema)

    @property
    def weights(self) -> pd.Series[float] | None:
        """Weights of `rows`, which may be negative; None where all count alike."""
        if self._alike:
            return None
        weights = read_arrays(self.folder / WEIGHTED, "weighted points")["weight"]
        return pd.Series(np.asarray(weights, np.float64), name="weight")

    @property
    def card(self) -> Card:
        """The data card: mechanism, epsilon, settings, and utility that read no row."""
        return Card(self._card("md").read_text(encoding="utf-8"))

    @cached_property
    def schema(self) -> Schema:
        """Schema of the rows, as the card has it."""
        return validate(Schema, read_object(self._card("json"))["schema"], str(self.folder))

    @property
    def verdict(self) -> ReleaseVerdict | None:
        """Grade, sentence and advice, by the card's answers; None where nothing was made."""
        said = self.metrics.get("verdict")
        return None if said is None else ReleaseVerdict(**said)

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
        """Answer questions: `rel.ask("mean(age) by sex; share(ill = 'yes')")`, as docs/answers.md has them.

        It is computed from the release, costs nothing, and may be repeated.

        Args:
            question: text, or texts, for a data frame with a row for each answer: estimate, 95 % interval and
                its parts; at its end, texts that cannot be answered, and `method` says why. Or a function of
                rows, `lambda rows: rows["age"] > 50`, for the estimate of its mean over the private rows.
            target: what intervals are about: "rows", those held, or the "population" that they are drawn
                from; None: the rows for count and sum, the population for all else.

        Raises:
            QuestionError: no text is understood, or all name what the schema does not have.
            DataError: the release cannot be asked, or a function does not give one number for each row.
        """
        if not callable(question):
            answers, failures = self._asked.ask(question, target)
            if failures and not answers:
                raise next(iter(failures.values()))
            why = [{"question": text, "method": f"not answered: {error}"} for text, error in failures.items()]
            return pd.DataFrame([asdict(each) for each in answers] + why)
        if not (self.folder / WEIGHTED).exists():
            values = self._answers(question, self._table.values)
            return ReleaseAnswer(float(values.mean()), None, "mean over synthetic rows")
        released = self.released
        found = expectation(released.release, released.on_rows(partial(self._answers, question)))
        return ReleaseAnswer(found.value, found.error, "weighted points, with the noise of the release")

    def classifier(self, shape: Shape = "quadratic") -> ReleaseClassifier:
        """A classifier straight from the released moments: no rows are made, nothing is trained.

        Args:
            shape: `quadratic`, a covariance for each class, or `linear`, one for all.

        Raises:
            ConfigError: the release is not of moments, or its schema has no label.
        """
        if self.method != "moments":
            raise ConfigError(
                f"a release of {self.method} has no moments to classify by",
                "Train a model on its `rows`, or ask for a release of moments.",
            )
        return ReleaseClassifier(discriminant_of(self.released.stored, shape))

    @cached_property
    def _asked(self) -> AskedFolder:
        return AskedFolder(self.folder)

    def _answers(self, question: Question, values: Any) -> Any:
        given = pd.Series(question(frame_of(Table(values), self.schema)))
        answers = given.astype("Float64").to_numpy(np.float64, na_value=np.nan)
        if answers.shape != (len(values),) or not np.isfinite(answers).all():
            raise DataError(
                "a question gave no number for each row",
                'Give a function such as lambda rows: rows["age"].fillna(0) > 50.',
            )
        return answers

    @property
    def _alike(self) -> bool:
        return (self.folder / SYNTHETIC).exists()

    @cached_property
    def _table(self) -> Table:
        path = self.folder / (SYNTHETIC if self._alike else WEIGHTED)
        if not path.exists():
            raise _nothing(self.folder)
        arrays = read_arrays(path, "synthetic")
        return table_from_arrays(arrays["x"], arrays.get("y"))

    def _card(self, ending: str) -> Path:
        cards = sorted(self.folder.glob(f"*.card.{ending}"))
        if not cards:
            raise _nothing(self.folder)
        return cards[0]

    @cached_property
    def report(self) -> str:
        """The report as one HTML page that loads nothing; it is `report.html` of the folder."""
        return (self.folder / "report.html").read_text(encoding="utf-8")

    def __repr__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"ReleaseResult({self.metrics['rows']} rows by {self.method}{why} in {self.folder})"

    def _repr_html_(self) -> str:
        return framed(self.report, f"report of {self.folder}")


def _nothing(folder: Path) -> DataError:
    if (folder / RELEASE).exists():
        return DataError(f"{folder} has the released numbers alone", f"Run: fedkme report {folder}")
    return DataError(f"{folder} holds no data", "No release was made: `metrics` has status and reason.")


def load_release_result(folder: Path) -> ReleaseResult:
    """A release that was simulated, or made of data frames.

    Raises:
        ConfigError: the folder is not that of a run.
    """
    metrics = read_object(folder / "metrics.json")
    return ReleaseResult(folder, metrics, (metrics.get("plan") or {}).get("why", ""))
