"""Faults of what a consumer sends."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

import consumer.gate
import consumer.summary.offers
import consumer.summary.party
import fedkme.cells.directions
from audit.planted_faults.planting import Plant, PlantedFault, around, drawn_once, nothing, scaled
from fedkme.cells.histogram import GaussianNoise, HistogramNoise
from fedkme.privacy.events import OWNERS, BoundedRange

_PICKS = ("cells", "a sketch, of which D_v picks")


def target_with(factor: float) -> Plant:
    """Let the consumer draw g~ with so many times its noise."""
    return around(
        consumer.summary.offers,
        "release_target",
        lambda before, settings, h1, rows, noise, *more: before(
            settings, h1, rows, scaled(noise, factor), *more
        ),
    )


FAULTS: Mapping[str, PlantedFault] = {
    "D_v's counts with half of the noise, at the call": PlantedFault(
        ("cells", "any policy"),
        around(
            consumer.summary.offers,
            "noisy_counts",
            lambda before, cells, size, how, noise: before(cells, size, HistogramNoise(how.scale / 2), noise),
        ),
    ),
    "Gaussian counts of D_v with half of the noise": PlantedFault(
        ("cells", "D_v is asked about often"),
        around(
            consumer.summary.offers,
            "noisy_counts",
            lambda before, cells, size, how, noise: before(
                cells, size, GaussianNoise(how.deviation / 2), noise
            ),
        ),
    ),
    "D_v's counts without noise": PlantedFault(
        ("cells", "any policy"),
        around(
            consumer.summary.offers,
            "noisy_counts",
            lambda before, cells, size, how, noise: before(cells, size, None, noise),
        ),
    ),
    "D_v's counts with noise that was drawn once": PlantedFault(
        ("cells", "any policy"),
        around(consumer.summary.offers, "noisy_counts", functools.partial(drawn_once, draws={})),
    ),
    "D_v's counts with noise that is halved after it was drawn": PlantedFault(
        ("cells", "any policy"),
        around(
            consumer.summary.offers,
            "noisy_counts",
            lambda before, cells, size, how, noise: (
                np.bincount(cells, minlength=size) + noise.discrete_laplace(how.scale, size) // 2
            ),
        ),
    ),
    "D_v counted twice in its cell": PlantedFault(
        ("cells", "any policy"),
        around(
            consumer.summary.offers,
            "noisy_counts",
            lambda before, cells, size, how, noise: before(np.concatenate([cells, cells]), size, how, noise),
        ),
    ),
    "g~ with half of the noise": PlantedFault(("clock", "any policy"), target_with(0.5)),
    "g~ with a tenth less noise": PlantedFault(("clock", "any policy"), target_with(0.9)),
    "g~ by landmarks with a tenth less noise": PlantedFault(("clock", "g~ by landmarks"), target_with(0.9)),
    "no line of g~ towards owners": PlantedFault(
        ("clock", "any policy"),
        around(
            consumer.gate.ConsumerGate,
            "_write",
            lambda before, self, *arguments: before(self, *(value for value in arguments if value != OWNERS)),
        ),
    ),
    "no line of g~ at all": PlantedFault(
        ("clock", "any policy"), nothing(consumer.gate.ConsumerGate, "pass_target")
    ),
    "no line of D_v's counts": PlantedFault(
        ("cells", "any policy"), nothing(consumer.gate.ConsumerGate, "pass_histogram")
    ),
    "no line of D_v's picks": PlantedFault(_PICKS, nothing(consumer.gate.ConsumerGate, "pass_picks")),
    "directions picked at twice their epsilon": PlantedFault(
        _PICKS,
        around(
            consumer.summary.offers,
            "pick",
            lambda before, menu, score, rows, event, noise: before(
                menu, score, rows, BoundedRange(2.0 * event.epsilon), noise
            ),
        ),
    ),
    "the direction that is furthest": PlantedFault(
        _PICKS,
        around(
            fedkme.cells.directions, "choose_one", lambda before, score, event, noise: int(score.argmax())
        ),
    ),
    "scores in which a row counts twice": PlantedFault(
        _PICKS, around(consumer.summary.offers, "scores", lambda before, *given: 2.0 * before(*given))
    ),
    "no line of gamma": PlantedFault(
        ("clock", "gamma of D_v"), nothing(consumer.gate.ConsumerGate, "pass_gamma"), ("corner", "decider")
    ),
    "a size of D_v that is of its rows": PlantedFault(
        ("clock", "any policy"),
        around(
            consumer.summary.party,
            "make_request",
            lambda before, request, schema, validation, gate: replace(
                before(request, schema, validation, gate),
                validation_rows=len(validation) + int(validation.values[:, 0].sum()),
            ),
        ),
    ),
    "an offer that is drawn again for a retry": PlantedFault(
        ("clock", "any policy"),
        around(
            consumer.summary.party.ConsumerParty,
            "offer",
            lambda before, self, request, plan: consumer.summary.offers.make_offer(
                plan,
                self.request,
                self.schema,
                self.validation,
                self.noise_for,
                consumer.gate.ConsumerGate("consumer"),
            ),
        ),
    ),
}
