"""Faults planted in the product: one list, with a column for each layer of the audit that finds a fault.

Columns are measured (`python -m audit.planted_faults`, which `make audit` runs): replay finds a fault in its
case, an attack finds it in its subject, a test finds it by failing. Some faults are planted as parts of an
attack's subject; if the same fault is also planted in the product, both share one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from audit.planted_faults import algorithm3, careless, cells, consumers, deaths, sums
from audit.planted_faults.parts import FAULTS as PARTS
from audit.planted_faults.planting import PlantedFault
from audit.planted_faults.stories import STORIES

_TWINS: Mapping[str, str] = {
    "a budget that is looked at when the bytes have left": "a budget that is looked at after the bytes left",
    "Laplace scale half of what is claimed": "h2 with half of the noise",
    "fewer iterations declared than made": "h2 with more iterations than declared",
    "the same noise at every release": "broadcasts with the same noise each time",
    "a release with half of its noise": "a release with half of the noise, at the curator",
    "AIM that measures with half of its noise": "AIM measures with half of its noise",
    "noise planned for all owners": "noise of owners planned for all of them",
    "clock without xi": "a clock without patience",
    "counts with half of the noise": "an owner's counts with half of the noise",
    "no noise in one cell": "an owner's counts with one cell as it is",
    "an owner that leaves where a sale goes over its limit": "an owner that leaves for what its rows are",
    "rows counted again after they were sent": "rows counted in every clock, sent or not",
    "directions picked at twice the epsilon": "directions picked at twice their epsilon",
    "directions picked beside a histogram of the whole epsilon": "picks that the histogram does not pay for",
    "scores of D_v by terms that are not cut": "scores that are cut after their noise",
    "counts of D_v of which a row is in two": "D_v counted twice in its cell",
    "lines towards the curator left out by an owner": "no line towards the curator on either side",
    "Gaussian counts of D_v with 5 % too little noise": "Gaussian counts of D_v with half of the noise",
    "sketch with 4 % too little noise": "half of the noise in a sketch",
}
"""Name of a fault's entry in the product, by the fault's name as a part of an attack's subject."""


def _all() -> dict[str, PlantedFault]:
    faults = {
        **consumers.FAULTS,
        **cells.FAULTS,
        **algorithm3.FAULTS,
        **sums.FAULTS,
        **deaths.FAULTS,
        **careless.FAULTS,
    }
    for name, game in PARTS.items():
        twin = _TWINS.get(name)
        if twin is None:
            faults[name] = PlantedFault(None, lambda patch: None, game=game)
        else:
            faults[twin] = replace(faults[twin], game=game)
    return {
        name: fault if fault.says else replace(fault, says=STORIES[name]) for name, fault in faults.items()
    }


FAULTS: Mapping[str, PlantedFault] = _all()
