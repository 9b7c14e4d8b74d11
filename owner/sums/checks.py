"""Checks of a question: against the owner's own reckoning, what was agreed, and what it may compute.

An owner builds every feature map itself. Length, bound and diameter of a vector are what it finds, not what
the curator says; of an aggregation's noise it asks itself what that promises. 1/multiplier^2 of Gaussian
releases is additive, which is how a run is held to its plan. What its noise promises is reckoned with the
owners that the curator names (n) and with what its policy let in (D, T): a run's owners only grow fewer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedkme.errors import ConfigError, PolicyError, ProtocolError
from fedkme.features.maps import ROW_UNIT
from fedkme.privacy.events import Event, Gaussian, leaves
from fedkme.protocol import Invitation
from fedkme.secagg.noise import LEAST_SHARE
from fedkme.secagg.parameters import Parameters
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Schema

MATRIX_SHARE = 64
"""Entries of the matrices that maps are made of, for each number that a question may ask for."""
_REMEDY = "Look at the curator's software."


def check_parameters(
    invitation: Invitation,
    number: int,
    parameters: Parameters,
    vector: SumVector,
    owner: str,
    rows: int,
    roster: frozenset[str] | None,
) -> None:
    """Refuse an aggregation that is not the one of a question, as the run was agreed on.

    Args:
        invitation: what the owner's policy let in.
        number: of the question.
        parameters: as the curator proposes them.
        vector: of the question, by the owner's own reckoning.
        owner: its name.
        rows: how many it has.
        roster: owners of the run's last aggregation; None before the first.

    Raises:
        ProtocolError: says what does not agree.
    """
    run, security = invitation.run, invitation.security
    if security is None:
        raise ProtocolError(f"{run} asks for secure aggregation, and plain sums were agreed", _REMEDY)
    agreed = (
        (parameters.run == f"{run}/{number}", "has another name"),
        (owner in parameters.owners, f"is not of {owner}"),
        # Who comes in later would be counted on for noise, and nobody of the run has heard of it.
        (roster is None or roster.issuperset(parameters.owners), "has owners that were not in it before"),
        (parameters.dropouts <= security.dropouts, "lets more owners drop out than were agreed"),
        # With fewer, the noise would be sized for more honest owners than there may be.
        (parameters.colluders == security.colluders, "counts other colluders than were agreed"),
        (parameters.noise >= LEAST_SHARE, "has shares of noise that are too small"),
        (parameters.length == vector.length, f"has another length than {vector.length}"),
        (parameters.step == ROW_UNIT, "has another step than sums have"),
        (parameters.bound >= vector.bound(rows), f"has a bound that sums of {owner} may exceed"),
    )
    for holds, how in agreed:
        if not holds:
            raise ProtocolError(f"{run} proposes an aggregation for question {number} that {how}", _REMEDY)


def vector_of(query: SumQuery, schema: Schema, most: int, owner: str) -> SumVector:
    """The vector of a question; its maps are made when they are not too large to be.

    Args:
        query: what is asked.
        schema: the owner's.
        most: numbers that it computes at once.
        owner: its name.

    Raises:
        ProtocolError: the question does not go with the schema.
        PolicyError: it asks for more than the owner computes.
    """
    matrices = numbers = 0
    for spec in query.specs:
        entries, coordinates = spec.numbers(schema)
        matrices += entries
        numbers += query.layout.columns * coordinates
    if matrices > MATRIX_SHARE * most or numbers > most:
        raise _too_long(owner, most)
    try:
        with np.errstate(all="ignore"):  # a peer's numbers: what is not finite is refused, not warned of
            vector = SumVector(query, schema)
        if query.cells is not None:
            query.cells.coalition_of(owner)
    except ConfigError as error:
        raise ProtocolError(f"{owner} is asked for no sums: {error.cause}", error.remedy) from None
    except (ValueError, ArithmeticError):
        raise ProtocolError(f"{owner} is asked for feature maps with numbers out of range", _REMEDY) from None
    if vector.length > most:
        raise _too_long(owner, most)
    return vector


def gaussian_cost(planned: Sequence[Event]) -> float:
    """1/multiplier^2 of all Gaussian releases of a plan."""
    return math.fsum(
        event.count * event.noise_multiplier**-2 for event in leaves(planned) if isinstance(event, Gaussian)
    )


def multiplier(cost: float) -> str:
    """Multiplier of the one Gaussian release that costs as much, for a line."""
    return f"{cost**-0.5:.6g}" if 0 < cost < math.inf else "infinity" if cost == 0 else "0"


def _too_long(owner: str, most: int) -> PolicyError:
    return PolicyError(
        f"{owner} is asked for sums of more than {most} numbers, or of maps with too large matrices",
        "Ask for fewer features, or let the owner raise 'most_sums' of its policy.",
    )
