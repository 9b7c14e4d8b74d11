"""Secure aggregation: the curator learns the sum of the owners' vectors, and of one vector nothing.

Two state machines without any input or output of their own; docs/decisions/006-secure-aggregation.md says who
is protected from whom.
"""

from fedkme.secagg.curator import CuratorAggregator, Stage, Total
from fedkme.secagg.messages import (
    Advertisement,
    Delivery,
    Endorsement,
    Endorsements,
    KeyRoster,
    MaskedInput,
    RevealedShare,
    SealedShare,
    SealedShares,
    Survivors,
    Unmasking,
)
from fedkme.secagg.noise import NoisePlan, plan_noise, plan_of
from fedkme.secagg.owner import OwnerAggregator, Phase
from fedkme.secagg.parameters import Parameters, least_threshold, sharing
from fedkme.secagg.signing import KeyBinding, bind, verify_all, verify_binding

__all__ = [
    "Advertisement",
    "CuratorAggregator",
    "Delivery",
    "Endorsement",
    "Endorsements",
    "KeyBinding",
    "KeyRoster",
    "MaskedInput",
    "NoisePlan",
    "OwnerAggregator",
    "Parameters",
    "Phase",
    "RevealedShare",
    "SealedShare",
    "SealedShares",
    "Stage",
    "Survivors",
    "Total",
    "Unmasking",
    "bind",
    "least_threshold",
    "plan_noise",
    "plan_of",
    "sharing",
    "verify_all",
    "verify_binding",
]
