"""Families of protocols whose runs make a summary, with their words."""

from __future__ import annotations

from collections.abc import Mapping

from fedkme.errors import ConfigError
from fedkme.protocols import PROTOCOLS, Family, fault_of_protocol
from sim.families import auction, cells, uniform
from sim.families.words import Words

FAMILIES: Mapping[Family, Words] = {"auction": auction.WORDS, "uniform": uniform.WORDS, "cells": cells.WORDS}
"""Words by family; runs of sums make a release, which has a page of its own."""


def words_of(protocol: str) -> Words:
    """Look up the words of a protocol by its name.

    Raises:
        ConfigError: no protocol of this name makes a summary.
    """
    row = PROTOCOLS.get(protocol)
    if row is None or row.family not in FAMILIES:
        fault = fault_of_protocol(protocol) or f"{protocol!r} makes no summary"
        raise ConfigError(fault, "Install the package that the run's protocol comes from.")
    return FAMILIES[row.family]
