"""Files that a consumer receives; equal values give equal bytes, as no file holds a time."""

import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator.releases.method import Making
from curator.releases.synthetic import DataCard, csv_bytes, json_bytes, parquet_bytes
from fedkme.answers.answer import Answer
from fedkme.answers.card import usual_answers
from fedkme.answers.evidence import Evidence
from fedkme.answers.made_rows import WeightedTable
from fedkme.answers.sums import SumEvidence
from fedkme.arrays import FloatArray
from fedkme.errors import DataError
from fedkme.features.sums import pooled_sum
from fedkme.releases.file import StoredRelease
from fedkme.tables.names import NO_GAP
from fedkme.tables.npz import npz_bytes
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.tables.text import Cell, cell_columns

MEASURED_ROWS = 20_000
"""Most synthetic rows whose distance to the release is measured."""


def card_of(
    stored: StoredRelease,
    mechanism: str,
    table: Table,
    utility: Callable[[], Mapping[str, float]],
    making: Making,
    weights: FloatArray | None = None,
) -> DataCard:
    """Make the card, without notes, of rows that follow from a release.

    Args:
        stored: the release.
        mechanism: its name.
        table: the rows that were made.
        utility: computes figures that read no private row.
        making: runs the steps.
        weights: weights of the rows, with sum 1; None: all rows weigh the same.
    """
    settings = dict(stored.settings)
    z = settings.get("z")
    if isinstance(z, dict):
        settings["z"] = {key: value for key, value in z.items() if key != "values"}  # may have megabytes
    return DataCard(
        mechanism,
        stored.schema,
        len(table),
        stored.rows,
        stored.owners,
        stored.event,
        "replace-one",
        stored.delta,
        settings,
        making.step("figures of utility", utility) or {},
        "the release itself; no row was read",
        answers=card_answers(lambda: SumEvidence(stored), WeightedTable(table, weights), making),
    )


def card_answers(evidence: Callable[[], Evidence], made: WeightedTable, making: Making) -> list[Answer]:
    """Compute the answers of a card, as `fedkme ask` computes them from the same files; skip failures."""

    def answers() -> list[Answer]:
        known = evidence()
        rows = replace(made, table=with_gaps(made.table, known.schema))
        return usual_answers(known, rows, making.step)

    return making.step("answers of the card", answers) or []


def make_synthetic(table: Table, card: DataCard, making: Making) -> None:
    """Make `synthetic.npz`, `.csv`, `.parquet` where pyarrow is installed, and the card.

    Raises:
        DataError: the rows do not fit the card's schema, or their number is not the card's.
    """
    table = with_gaps(table, card.schema)
    card.schema.check(table, "synthetic data")
    if len(table) != card.rows:
        raise DataError("the data card is about other rows", "Make the card from the table that you write.")
    arrays = {"x": table.values} if table.labels is None else {"x": table.values, "y": table.labels}
    making.rows = len(table)
    _make_files("synthetic", arrays, lambda: cell_columns(table, card.schema), card, making)


def with_gaps(table: Table, schema: Schema) -> Table:
    """Replace each number that its mark says is a gap by the public stand-in value, as owners do."""
    values, names = table.values.copy(), schema.names
    for mark, number in schema.gaps:
        gaps = values[:, names.index(mark.name)] != NO_GAP
        values[gaps, names.index(number.name)] = number.missing
    return Table(values, table.labels)


def make_weighted(table: Table, weights: FloatArray, gamma: float, card: DataCard, making: Making) -> None:
    """Make `weighted.npz` (x, weight, gamma) of points (M, c) in the schema's units.

    The other forms have one more column.

    Raises:
        DataError: the points do not fit the card's schema.
    """
    card.schema.check(table, "weighted points")
    name = weight_column(card.schema)

    def columns() -> dict[str, list[Cell]]:
        return {**cell_columns(table, card.schema), name: [float(weight) for weight in weights]}

    notes = (
        f"Every row has a weight, column '{name}', which may be negative: the sum of weight * h(row) "
        "estimates the mean of h over the private rows.",
        "Read with consumer.releases.released.load_release for errors, tests and rows of equal weight.",
    )
    arrays = {"x": table.values, "weight": weights, "gamma": np.array(gamma)}
    making.rows = len(table)
    _make_files("weighted", arrays, columns, replace(card, notes=notes), making)


def weight_column(schema: Schema) -> str:
    """Choose a name for the weights that no column of the schema has."""
    taken, name = {*schema.names, *schema.ignore, *([schema.label.name] if schema.label else [])}, "weight"
    while name in taken:
        name += "_"
    return name


def distance_to_release(stored: StoredRelease, table: Table) -> dict[str, float]:
    """Distance of the rows' mean embedding from the released embedding, and the length of the noise.

    Args:
        stored: the release.
        table: rows, with labels where the release has classes; the first MEASURED_ROWS are taken.
    """
    part = table.take(np.arange(min(len(table), MEASURED_ROWS)))
    squared = noise = 0.0
    for embedding in stored.embeddings:
        at = pooled_sum(part, embedding.map_spec.make(stored.schema), embedding.layout).sum / len(part)
        squared += float(np.square(at - embedding.mean).sum())
        noise += embedding.mean.size * embedding.sigma**2
    return distances(squared, noise)


def distances(squared: float, noise: float) -> dict[str, float]:
    """Convert two squared lengths in feature space to figures of a card."""
    return {
        "distance to the released embedding": math.sqrt(max(squared, 0.0)),
        "length of the noise in it": math.sqrt(noise),
    }


def _make_files(
    name: str,
    arrays: Mapping[str, NDArray[Any]],
    columns: Callable[[], Mapping[str, list[Cell]]],
    card: DataCard,
    making: Making,
) -> None:
    making.file(f"{name}.npz", lambda: npz_bytes(arrays))
    cells = making.step(f"cells of {name}.csv", columns)
    if cells is not None:
        making.file(f"{name}.csv", lambda: csv_bytes(cells))
        if importlib.util.find_spec("pyarrow") is not None:
            making.file(f"{name}.parquet", lambda: parquet_bytes(cells))
    make_card(name, card, making)


def make_card(name: str, card: DataCard, making: Making) -> None:
    """Make both forms of a card, which lists the failed steps; if figures fail, make it without figures."""

    def texts(card: DataCard) -> tuple[bytes, bytes]:
        """Markdown and JSON, both or none."""
        notes = (*card.notes, *(f"{loss.cause}." for loss in making.losses))
        noted = replace(card, notes=notes)
        return noted.to_markdown().encode(), json_bytes(noted.to_json())

    bare = replace(card, utility={}, answers=())
    both = making.step("the data card", lambda: texts(card)) or making.step(
        "the data card without its figures", lambda: texts(bare)
    )
    if both is not None:
        making.file(f"{name}.card.md", lambda: both[0])
        making.file(f"{name}.card.json", lambda: both[1])
