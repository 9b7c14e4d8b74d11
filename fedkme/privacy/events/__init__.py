"""Events: descriptions of what a mechanism did, with everything that an accountant needs and no figures.

Ledgers hold events for years. So the meaning of a kind never changes, and no field is ever renamed; a
mechanism that does something else gets another kind. Accountants (fedkme.privacy.accountants) turn events
into figures. This package is light enough for the path of an owner's round.

A noise multiplier is the standard deviation (Gaussian) or scale (Laplace) over the sensitivity *under the
relation of the disclosure*. Under replace-one the sensitivity is the diameter; no accountant doubles it
again. `count` is a number of releases, each of which may depend on earlier releases.
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
