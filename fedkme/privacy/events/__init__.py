"""Events: descriptions of what a mechanism did, with all that an accountant needs and nothing it computes.

The meaning of a kind never changes and its fields are never renamed: a ledger holds them for years. A
mechanism that does something else gets another kind. Accountants (fedkme.privacy.accountants) turn events
into figures; this package is light enough for an owner's round path.

Noise multipliers are standard deviation (Gaussian) or scale (Laplace) over the sensitivity *under the
relation of the disclosure*: a sensitivity under replace-one is the diameter, and nobody doubles it again.
`count` is a number of releases, each of which may depend on those before it.
"""

from fedkme.privacy.events.disclosures import (
    CONSUMER,
    CURATOR,
    OWNERS,
    PUBLIC,
    REQUEST,
    RESERVED,
    VALIDATION,
    Disclosure,
    disclosure_from_json,
    is_validation,
    validation_of,
)
from fedkme.privacy.events.mechanisms import (
    CHOICE_SLACK,
    MWEM_ITERATION_COST,
    BoundedRange,
    Clock,
    Composed,
    Event,
    ExactStatistic,
    Gaussian,
    HashedRows,
    Laplace,
    MwemCall,
    MwemRelation,
    PrivAuction,
    PureDp,
    RawRows,
    Relation,
    SealedRows,
    SubsampledGaussian,
    event_from_json,
    leaves,
    repeated,
)

__all__ = [
    "CHOICE_SLACK",
    "CONSUMER",
    "CURATOR",
    "MWEM_ITERATION_COST",
    "OWNERS",
    "PUBLIC",
    "REQUEST",
    "RESERVED",
    "VALIDATION",
    "BoundedRange",
    "Clock",
    "Composed",
    "Disclosure",
    "Event",
    "ExactStatistic",
    "Gaussian",
    "HashedRows",
    "Laplace",
    "MwemCall",
    "MwemRelation",
    "PrivAuction",
    "PureDp",
    "RawRows",
    "Relation",
    "SealedRows",
    "SubsampledGaussian",
    "disclosure_from_json",
    "event_from_json",
    "is_validation",
    "leaves",
    "repeated",
    "validation_of",
]
