"""Scenario `frames`: rows that a program holds and gives to `fedkme.summarize` or `fedkme.release`."""

from __future__ import annotations

from typing import Literal

from fedkme.config import Settings
from fedkme.errors import ConfigError


class Frames(Settings):
    """Data frames of a program; what was run with them says so, and holds none of them."""

    kind: Literal["frames"] = "frames"


def refuse_frames() -> ConfigError:
    """Make the error of who would run again what a program ran."""
    return ConfigError(
        "the rows of scenario 'frames' were data frames of a program",
        'Call fedkme.summarize or fedkme.release again, or write the rows to files and use kind = "csv".',
    )
