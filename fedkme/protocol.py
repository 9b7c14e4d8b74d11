"""The values that owners, curator and consumer exchange, free of any transport.

Field names are the words of the protocol; `fedkme.wire.codecs` turns them into messages and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedkme.features.fixed_point import MeanVector
from fedkme.features.fourier import FourierSpec, SecretFourierSpec
from fedkme.privacy.events import Disclosure, Event
from fedkme.sealed.group import Gift


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """What an owner needs before round 1.

    Attributes:
        run: name of the run.
        features: the draw of h1, or what is public of it.
        schema: digest of the public schema that the rows must follow.
        target: g~, the released mean of h1 over D_v, (d,).
        consumer: who will receive the summary.
        protocol: by which protocol it is made.
        rows: p.
        planned: what owners' rows will cost towards other owners in the whole run.
        heard: what owners will hear of each other's rows, as the curator's ledger will say it of round 1.
        gift: the group secret for this owner, where rows go sealed.
    """

    run: str
    features: FourierSpec | SecretFourierSpec
    schema: str
    target: MeanVector
    consumer: str = "consumer"
    protocol: str = "algorithm3"
    rows: int = 0
    planned: tuple[Event, ...] = ()
    heard: tuple[Disclosure, ...] = ()
    gift: Gift | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CellAssignment:
    """What an owner needs before a summary by cells (docs/decisions/008).

    Attributes:
        run: name of the run.
        schema: digest of the public schema that the rows must follow.
        code_book: a public partition of rows into cells, as `CodeBook.to_json` has it.
        gamma: of the exact kernel.
        scale: b of the discrete Laplace noise on each count.
        consumer: who will receive the summary.
        rows: that all owners will be asked for together, rho p.
        planned: what an owner's rows will cost towards other owners in the whole run.
        classes: of the label by which each cell is counted; 0 for cells alone.
        protocol: by which the owner's policy decides.
        gift: the group secret for this owner, where rows go sealed.
    """

    run: str
    schema: str
    code_book: Mapping[str, Any]
    gamma: float
    scale: float
    consumer: str
    rows: int
    planned: tuple[Event, ...]
    classes: int = 0
    protocol: str = "cells"
    gift: Gift | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Broadcast:
    """What the curator tells every owner in a round (Algorithm 3, step 5).

    Attributes:
        round: l, from 1.
        size: q, rows in the current summary with its seed set.
        mean: g_l, the released mean of h1 over them, (d,).
    """

    round: int
    size: int
    mean: MeanVector


@dataclass(frozen=True, slots=True)
class Bid:
    """An owner's best unsent row (Algorithm 3, step 6).

    Attributes:
        value: its marginal gain; larger is better.
        token: a name for the row that says nothing about it; the same row keeps its token in a run.
    """

    value: float
    token: int


@dataclass(frozen=True, slots=True)
class Closing:
    """An owner's own count at the end of a run, from its gate: the curator's must agree."""

    rows_sent: int
