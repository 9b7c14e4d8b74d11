"""Checks of a question against the owner's own figures, the run's terms, and the limits of its policy.

An owner builds every feature map itself, and computes length, bound and diameter of a vector rather than
believe the curator. It also computes the privacy of an aggregation's noise: with the owners that the curator
names (n) and with the terms that its policy let in (D, T). A run's owners only grow fewer. 1/multiplier^2 of
Gaussian releases is additive, and so a run is held to its plan.
"""

import math
from collections.abc import Sequence

import numpy as np

from fedkme.errors import ConfigError, PolicyError, ProtocolError, fault_of_curator
from fedkme.features.maps import ROW_UNIT
from fedkme.privacy.events import Event, Gaussian, leaves
from fedkme.protocol import Invitation
from fedkme.secagg.noise import LEAST_SHARE
from fedkme.secagg.parameters import Parameters
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Schema

MATRIX_SHARE = 64
"""Most entries in the matrices of feature maps, per number that a question may ask for."""


def check_parameters(
    invitation: Invitation,
    number: int,
    parameters: Parameters,
    vector: SumVector,
    owner: str,
    rows: int,
    roster: frozenset[str] | None,
) -> None:
    """Refuse an aggregation that does not fit its question and the terms of the run.

    Args:
        invitation: the invitation that the owner's policy let in.
        number: number of the question.
        parameters: parameters as the curator proposes them.
        vector: the question's vector, as the owner computed it.
        owner: the owner's name.
        rows: number of its rows.
        roster: owners of the run's last aggregation; None before the first.

    Raises:
        ProtocolError: names what does not agree.
    """
    run, security = invitation.run, invitation.security
    if security is None:
        raise fault_of_curator(f"{run} asks for secure aggregation, and plain sums were agreed")
    agreed = (
        (parameters.run == f"{run}/{number}", "has another name"),
        (owner in parameters.owners, f"is not of {owner}"),
        # An owner that comes in later would count as a source of noise, and nobody in the run knows it.
        (roster is None or roster.issuperset(parameters.owners), "has owners that were not in it before"),
        (parameters.dropouts <= security.dropouts, "lets more owners drop out than were agreed"),
        # Fewer colluders would size the noise for more honest owners than there may be.
        (parameters.colluders == security.colluders, "counts other colluders than were agreed"),
        (parameters.noise >= LEAST_SHARE, "has shares of noise that are too small"),
        (parameters.length == vector.length, f"has another length than {vector.length}"),
        (parameters.step == ROW_UNIT, "has another step than sums have"),
        (parameters.bound >= vector.bound(rows), f"has a bound that sums of {owner} may exceed"),
    )
    for holds, how in agreed:
        if not holds:
            raise fault_of_curator(f"{run} proposes an aggregation for question {number} that {how}")


def vector_of(query: SumQuery, schema: Schema, most: int, owner: str) -> SumVector:
    """Make the vector of a question, with its feature maps, unless they are too large.

    Args:
        query: the question.
        schema: the owner's schema.
        most: numbers that the owner computes at once.
        owner: the owner's name.

    Raises:
        ProtocolError: the question does not fit the schema.
        PolicyError: the question asks for more numbers than the owner computes.
    """
    matrices = numbers = 0
    for spec in query.specs:
        entries, coordinates = spec.numbers(schema)
        matrices += entries
        numbers += query.layout.columns * coordinates
    if matrices > MATRIX_SHARE * most or numbers > most:
        raise _too_long(owner, most)
    try:
        with np.errstate(all="ignore"):  # a peer's numbers: infinite ones are refused, without a warning
            vector = SumVector(query, schema)
        if query.cells is not None:
            query.cells.coalition_of(owner)
    except ConfigError as error:
        raise ProtocolError(f"{owner} is asked for no sums: {error.cause}", error.remedy) from None
    except (ValueError, ArithmeticError):
        raise fault_of_curator(f"{owner} is asked for feature maps with numbers out of range") from None
    if vector.length > most:
        raise _too_long(owner, most)
    return vector


def gaussian_cost(planned: Sequence[Event]) -> float:
    """1/multiplier^2 of all Gaussian releases of a plan."""
    return math.fsum(
        event.count * event.noise_multiplier**-2 for event in leaves(planned) if isinstance(event, Gaussian)
    )


def multiplier(cost: float) -> str:
    """Noise multiplier of one Gaussian release at this cost, as text."""
    return f"{cost**-0.5:.6g}" if 0 < cost < math.inf else "infinity" if cost == 0 else "0"


def _too_long(owner: str, most: int) -> PolicyError:
    cause = f"{owner} is asked for sums of more than {most} numbers, or of maps with too large matrices"
    return PolicyError(cause, "Ask for fewer features, or let the owner raise 'most_sums' of its policy.")
