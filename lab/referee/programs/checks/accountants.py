"""Epsilons of fedkme's accountant beside those of dp_accounting's PLD: the largest of 25 differences."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant

from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Event, Gaussian, Laplace

DELTAS = (1e-2, 1e-4, 1e-5, 1e-7, 1e-9)
SETTINGS: tuple[tuple[list[Event], list[dp_event.DpEvent]], ...] = (
    ([Gaussian(3.7306)], [dp_event.GaussianDpEvent(3.7306)]),
    ([Laplace(1.0)], [dp_event.LaplaceDpEvent(1.0)]),
    ([Laplace(20.0, 50)], [dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(20.0), 50)]),
    (
        [Gaussian(5.0, 3), Laplace(10.0, 20), Gaussian(7.0)],
        [
            dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(5.0), 3),
            dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(10.0), 20),
            dp_event.GaussianDpEvent(7.0),
        ],
    ),
)

apart = []
for ours, theirs in SETTINGS:
    accountant = PLDAccountant()
    for event in theirs:
        accountant.compose(event)
    for delta in DELTAS:
        mine, other = Sound().epsilon(ours, delta).epsilon, accountant.get_epsilon(delta)
        print(ours, delta, mine, other)
        apart.append(abs(mine - other) / other)
folder = Path(sys.argv[1])
(folder / "figures.json").write_text(json.dumps({"epsilon off by": max(apart)}), encoding="utf-8")
