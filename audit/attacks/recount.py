"""Layer 4: epsilon from actual disclosures, against the claimed figure."""

from __future__ import annotations

from collections.abc import Sequence

from audit.attacks.finding import CheckResult, Claim
from audit.attacks.scripted import TalliedNoise
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Event, Gaussian, MwemCall, leaves

_SLACK = 1.0 + 1e-6


def recount(
    claim: Claim, events: Sequence[Event], expected: Sequence[type[Event]], of: str = "the disclosures made"
) -> CheckResult:
    """Check that the proven cost of events is at most their claim.

    Args:
        claim: statement for all events together.
        events: recorded disclosures.
        expected: kinds of events that must be among `events`: a record without them proves nothing.
        of: source of the events, in words.
    """
    figure = Sound().epsilon(events, claim.delta)
    kinds = {type(leaf) for leaf in leaves(events)}
    missing = sorted(kind.kind for kind in expected if kind not in kinds)
    violated = bool(missing) or figure.epsilon > claim.epsilon * _SLACK
    note = f"no event of kind {' or '.join(missing)}" if missing else figure.reason or figure.method
    what = f"epsilon at delta = {claim.delta:g} of {of}"
    return CheckResult("recount", what, violated, claim.epsilon, figure.epsilon, note=note)


def mwem_events(noise: TalliedNoise, intervals: int) -> list[Event]:
    """Disclosures of h2, from its Laplace noise: one draw of scale 1/(eta e) is an iteration with e.

    Args:
        noise: tallied source of h2.
        intervals: 2/eta, the largest change of a sum in steps of the grid.
    """
    return [
        MwemCall(intervals / (2.0 * scale), count, "replace-one")
        for scale, count in sorted(noise.laplace_draws.items())
    ]


def gaussian_events(noise: TalliedNoise, sensitivity: float) -> list[Event]:
    """Disclosures of a Gaussian mechanism, from its noise.

    Args:
        noise: tallied source of the mechanism.
        sensitivity: L2, replace-one, in the units of the noise.
    """
    return [Gaussian(scale / sensitivity, count) for scale, count in sorted(noise.gaussian_calls.items())]
