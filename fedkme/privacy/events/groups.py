"""Group privacy: events that bound the replacement of several rows at once, of one person or one owner.

Relation: g rows are replaced, the number of rows is public; row level is g = 1. *Proof*, for each event by
itself, so that composition stays adaptive: between two data sets that differ in g rows there are g - 1
others, each a neighbour of the next. A query of sensitivity D moves by at most g D (triangle inequality), so
noise of multiplier s over D has multiplier s/g over g D: Gaussian and Laplace keep their own law. A mechanism
of pure epsilon has a loss of at most g epsilon. If the loss of a choice lies, for neighbours, in an interval
of length r, then its loss for the group is a sum of g such losses, hence lies in an interval of length g r.
h2 and the clock are first taken apart into such pieces.

A histogram's `PureDp(1/b, count=2)` becomes `PureDp(g/b, count=2)`: its loss for g rows is a sum of at most 2
g terms. Each term is the loss of a randomised response of 1/b, and one response of g/b dominates g of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fedkme.errors import ConfigError
from fedkme.privacy.events import mechanisms


def for_group(events: Iterable[mechanisms.Event], rows: int) -> list[mechanisms.Event]:
    """Events that bound the replacement of `rows` rows; events without a bound stay as they are.

    Raises:
        ConfigError: `rows` is below 1.
    """
    if rows < 1:
        raise ConfigError(f"a group cannot have {rows} rows", "A group has at least one row.")
    if rows == 1:
        return list(events)
    return [part for event in mechanisms.leaves(events) for part in _bound_for_group(event, rows)]


def _bound_for_group(event: mechanisms.Event, rows: int) -> list[mechanisms.Event]:
    match event:
        case mechanisms.Gaussian() | mechanisms.Laplace():
            return [replace(event, noise_multiplier=event.noise_multiplier / rows)]
        case mechanisms.BoundedRange() | mechanisms.PureDp():
            return [replace(event, epsilon=event.epsilon * rows)]
        case mechanisms.MwemCall() | mechanisms.Clock():
            return [part for piece in event.pieces() for part in _bound_for_group(piece, rows)]
        case _:
            return [event]
