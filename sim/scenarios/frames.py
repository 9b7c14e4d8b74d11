"""Scenario `frames`: a program's own rows, given to `fedkme.summarize` or `fedkme.release`."""

from __future__ import annotations

from typing import Literal

from fedkme.config import Settings
from fedkme.errors import ConfigError


class Frames(Settings):
    """Data frames of a program; the run's settings name this kind, and do not contain the rows."""

    kind: Literal["frames"] = "frames"


def refuse_frames() -> ConfigError:
    """Make the error for a run that a file cannot repeat, since a program gave its rows."""
    return ConfigError(
        "the rows of scenario 'frames' were data frames of a program",
        'Call fedkme.summarize or fedkme.release again, or write the rows to files and use kind = "csv".',
    )
