"""Mechanisms with a planted fault. A layer of the audit must catch every fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from audit.attacks import auctions, cells, cells_run, clock, h2, joint, means, public
from audit.attacks.consumers import landmarks, picks, repeated_requests
from audit.attacks.curators import payouts, pooled
from audit.attacks.finding import Layer, Subject
from audit.attacks.owners import budgets_and_ledgers, coalitions, limits, timing
from audit.planted_faults.parts.auction_faults import (
    AnswersEarly,
    FixedThreshold,
    HalfCoin,
    ImpatientClock,
    LeavesAtLimit,
    StaleEpoch,
    WrongSign,
    off_by_one_tau,
)
from audit.planted_faults.parts.counts import (
    CountsAgain,
    FirstIsExact,
    OfOneLandmark,
    ScaledIntegers,
    SkipsLast,
    WeakerCounts,
    counted_twice,
    doubled_steps,
    half_counted,
    hasty_aim,
    hasty_rounds,
    in_both_coalitions,
    in_two_cells,
    often_deviation,
    planned_for_all,
    release_with,
    responder_with,
    sketched_cheaply,
    sketched_with,
    unbudgeted,
)
from audit.planted_faults.parts.directions import uncut_scores, whole_histogram
from audit.planted_faults.parts.mean_faults import (
    AwayFromZero,
    BatchMean,
    HalfLaplace,
    IntegerCategories,
    NormOne,
    PrivateOneHot,
    ReplayedNoise,
    RereadSeedBudget,
    ScaledNoise,
    UndeclaredIterations,
    gaussian_with,
    round_up,
)
from fedkme.cells.directions import pick
from fedkme.cells.histogram import GaussianNoise
from fedkme.privacy.events import CURATOR
from fedkme.privacy.noise import simulated

FAULTS: Mapping[str, tuple[Layer, Callable[[], Subject]]] = {
    "a budget that is looked at when the bytes have left": (
        "recount",
        lambda: budgets_and_ledgers.budgets(unbudgeted),
    ),
    "lines towards the curator left out by an owner": (
        "recount",
        lambda: budgets_and_ledgers.ledgers(
            lambda party, line: party != budgets_and_ledgers.HOLDER or line.observer != CURATOR
        ),
    ),
    "lines about an owner left out by the curator": (
        "recount",
        lambda: budgets_and_ledgers.ledgers(
            lambda party, line: party != CURATOR or line.protected != budgets_and_ledgers.HOLDER
        ),
    ),
    "Laplace scale half of what is claimed": ("sensitivity", lambda: h2.h2(make=HalfLaplace)),
    "T releases counted instead of 2 T": ("recount", half_counted),
    "seed budget spent on private rows": ("recount", lambda: h2.h2(make=RereadSeedBudget)),
    "fewer iterations declared than made": ("recount", lambda: h2.h2(make=UndeclaredIterations)),
    "quantizer that rounds up": ("law", lambda: h2.h2(quantizer=round_up)),
    "Gaussian sigma for 1/q instead of 2/q": (
        "sensitivity",
        lambda: means.gaussian(make=gaussian_with(lambda noise: ScaledNoise(noise, 0.5))),
    ),
    "Gaussian sigma for one of two releases": (
        "recount",
        lambda: means.gaussian(make=gaussian_with(lambda noise: ScaledNoise(noise, math.sqrt(0.5)))),
    ),
    "Gaussian sigma 1 % too small": (
        "law",
        lambda: means.gaussian(make=gaussian_with(lambda noise: ScaledNoise(noise, 0.99))),
    ),
    "landmarks with the norm for the diameter": (
        "sensitivity",
        lambda: landmarks.by_landmarks(OfOneLandmark),
    ),
    "the same noise at every release": ("law", lambda: means.gaussian(make=gaussian_with(ReplayedNoise))),
    "mean of batch means": ("sensitivity", lambda: means.gaussian(make=BatchMean)),
    "norm of the offset form taken for 1": ("sensitivity", lambda: public.h1("offset", NormOne)),
    "features rounded away from zero": ("sensitivity", lambda: public.h1("paired", AwayFromZero)),
    "one-hot learnt from private rows": ("sensitivity", lambda: public.schema_encoding(PrivateOneHot)),
    "categories as integers": (
        "sensitivity",
        lambda: public.schema_encoding(lambda rows: IntegerCategories()),
    ),
    "seeded noise where secure noise is due": (
        "law",
        lambda: public.secure_noise(lambda: simulated(1, "curator", "broadcast")),
    ),
    "noise with a scale 1 % off": (
        "law",
        lambda: public.simulated_noise(lambda seed: ScaledNoise(simulated(seed, "a", "b"), 1.01)),
    ),
    "a release with half of its noise": ("sensitivity", lambda: pooled.pooled_sums(release_with(0.5))),
    "AIM that measures with half of its noise": ("recount", lambda: pooled.adaptive_marginals(hasty_aim)),
    "rounds of double the epsilon": ("recount", lambda: pooled.noisy_rounds(hasty_rounds)),
    "noise planned for all owners": ("law", lambda: pooled.distributed_noise(planned_for_all)),
    "wins paid at twice the epsilon": ("recount", lambda: payouts.wins(2.0)),
    "gains paid at twice the epsilon": ("recount", lambda: payouts.winning_gains(2.0)),
    "clock without xi": ("black box", lambda: clock.clock(make=FixedThreshold)),
    "clock with too small a xi": ("black box", lambda: clock.clock(make=ImpatientClock)),
    "clock whose coin has half the rate": ("law", lambda: clock.clock(make=HalfCoin)),
    "clock whose coin has the wrong sign": ("law", lambda: clock.clock(make=WrongSign)),
    "broadcasts with a tenth of the noise, beside a clock": (
        "black box",
        lambda: joint.clock_and_broadcasts(mean=gaussian_with(lambda noise: ScaledNoise(noise, 0.1))),
    ),
    "clock without xi, beside broadcasts": (
        "black box",
        lambda: joint.clock_and_broadcasts(make=FixedThreshold),
    ),
    "rows counted again after they were sent": ("sensitivity", lambda: clock.clock(bidder=StaleEpoch)),
    "an owner that leaves where a sale goes over its limit": (
        "black box",
        lambda: limits.limited_clock(lambda name, policy: LeavesAtLimit(name, policy=policy)),
    ),
    "an owner that answers at once where it has no row of the cells": (
        "black box",
        lambda: timing.answer_times(AnswersEarly),
    ),
    "tau fires one round late": ("law", lambda: auctions.privauction_rule(off_by_one_tau)),
    "counts with half of the noise": (
        "sensitivity",
        lambda: cells.owner_histogram(responder_with(lambda noise: ScaledIntegers(noise, 0.5))),
    ),
    "counts with 10 % too little noise": (
        "law",
        lambda: cells.owner_histogram(responder_with(lambda noise: ScaledIntegers(noise, 0.9))),
    ),
    "no noise in one cell": ("sensitivity", lambda: cells.owner_histogram(responder_with(FirstIsExact))),
    "a second histogram": ("recount", lambda: cells.owner_histogram(CountsAgain)),
    "counts of D_v of which a row is in two": (
        "sensitivity",
        lambda: cells.validation_histogram(in_two_cells),
    ),
    "Gaussian counts of D_v of which a row is in two cells": (
        "sensitivity",
        lambda: repeated_requests.often(in_two_cells),
    ),
    "Gaussian counts of D_v with 5 % too little noise": (
        "law",
        lambda: repeated_requests.often(noise=GaussianNoise(0.95 * often_deviation())),
    ),
    "Gaussian counts of D_v of which two were drawn": (
        "recount",
        lambda: repeated_requests.often(counted_twice),
    ),
    "scores of D_v by terms that are not cut": ("sensitivity", lambda: picks.picked(score=uncut_scores)),
    "directions picked at twice the epsilon": (
        "law",
        lambda: picks.picked(choose=lambda menu, score, *rest: pick(menu, 2.0 * score, *rest)),
    ),
    "directions picked beside a histogram of the whole epsilon": (
        "recount",
        lambda: picks.picked(make=whole_histogram),
    ),
    "sketch of another sensitivity": (
        "sensitivity",
        lambda: cells.sketched(cells.SketchParts(coordinates=doubled_steps)),
    ),
    "sketch with 4 % too little noise": ("law", lambda: sketched_with(0.96)),
    "sketch that takes more than its share": ("recount", sketched_cheaply),
    "counts with a tenth of the noise, beside a sketch": (
        "black box",
        lambda: cells.joint(responder_with(lambda noise: ScaledIntegers(noise, 0.1))),
    ),
    "counts with a tenth of the noise, seen in orders": (
        "black box",
        lambda: cells_run.orders(responder_with(lambda noise: ScaledIntegers(noise, 0.1))),
    ),
    "counts in two coalitions": ("sensitivity", lambda: coalitions.counted(in_both_coalitions)),
    "counts of coalitions with 5 % too little noise, beside a sketch": (
        "recount",
        lambda: coalitions.counted(spend=partial(coalitions.events_of_a_run, tally=WeakerCounts)),
    ),
    "the last bidder is not asked": ("sensitivity", lambda: auctions.ask_everyone(lambda noise: SkipsLast())),
}
"""Layer that must catch each fault, and the audit of the faulty mechanism."""
