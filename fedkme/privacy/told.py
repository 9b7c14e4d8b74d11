"""Nonces of what owners hear of each other's rows in a run, as the curator and each owner write them.

The nonce of a broadcast is of its bytes, which all of them have. That of the auction is of g~, which is drawn
for the run: the noise of the auction is nobody's to see, and g~ tells one run from another of the same name.
"""

from __future__ import annotations

from fedkme.features.fixed_point import MeanVector
from fedkme.privacy.ledger import nonce_of

MEAN, AUCTION = "mean", "auction"
"""Words with which the nonces begin."""
NOT_TOLD = f"{MEAN} not told"
"""Nonce of releases in the silent rounds at the end of a run, which are in one line: a run ends once."""


def mean_nonce(mean: MeanVector) -> str:
    """Nonce of the release g_l that was broadcast, and of those in the silent rounds before it."""
    return f"{MEAN} {nonce_of(mean)}"


def auction_nonce(target: MeanVector) -> str:
    """Nonce of the auction of a run whose g~ is `target`."""
    return f"{AUCTION} {nonce_of(target)}"
