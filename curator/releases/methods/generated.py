"""Trained generators as releases: what DP-MERF and DP-HP do alike after the question is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from curator.releases.files import card_of, distance_to_release, synthetic_files
from curator.releases.method import Finished, Tell
from curator.releases.progress import Progress, Report
from fedkme.errors import ConfigError
from fedkme.releases.file import StoredRelease
from fedkme.releases.settings import HermiteSettings, MerfSettings
from fedkme.tables.schema import Schema

if TYPE_CHECKING:
    from curator.releases.generators import Trained, Training
    from curator.releases.networks import Network

_EARLY_ROWS = 1000


def network_of(settings: MerfSettings | HermiteSettings, schema: Schema) -> Network:
    """The generator before training."""
    from curator.releases.networks import ImageNetwork, TableNetwork

    classes = max(len(schema.classes), 1)
    if settings.generator == "image":
        return ImageNetwork(schema, classes, settings.code)
    return TableNetwork(schema, classes, settings.code, settings.hidden)


def training_of(
    settings: MerfSettings | HermiteSettings, categories: Literal["expectation", "gumbel"]
) -> Training:
    """Training that the settings describe."""
    from curator.releases.generators import Training

    return Training(
        steps=settings.steps,
        batch=settings.batch,
        learning_rate=settings.learning_rate,
        categories=categories,
        seed=settings.seed or 0,
    )


def check_image(settings: MerfSettings | HermiteSettings, schema: Schema) -> None:
    """Refuse an image generator for a table before an owner is asked.

    Raises:
        ConfigError: the schema's columns are no square image.
    """
    side = round(schema.width**0.5)
    if settings.generator == "image" and (
        side**2 != schema.width or side % 4 or schema.encoded_width != schema.width
    ):
        raise ConfigError(
            f"release: 'generator' is 'image', and {schema.width} columns are no square image of numbers",
            "Set it to 'table'; an image has a side that is a multiple of 4.",
        )


def progress_to(tell: Tell, stored: StoredRelease) -> Progress:
    """Reports as lines, each with how good the rows would be if training ended there."""

    def report(state: Report) -> None:
        early = distance_to_release(stored, state.sample(_EARLY_ROWS))
        near, noise = early.values()
        line = f"{state}; {_EARLY_ROWS} rows now are {near:.3g} from the release (its noise is {noise:.3g})"
        tell("training", line, state.step / state.steps)

    return report


def finished_rows(
    stored: StoredRelease, mechanism: str, trained: Trained, settings: MerfSettings | HermiteSettings
) -> Finished:
    """Files of synthetic rows, as many as the settings ask for or as the owners have."""
    table = trained.sample(settings.rows or stored.rows, settings.seed or 0)
    utility = distance_to_release(stored, table)
    return Finished(
        synthetic_files(table, card_of(stored, mechanism, len(table), utility)),
        len(table),
    )
