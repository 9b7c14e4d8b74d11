"""Accountant of proven bounds for the code as it is; only its figures are called a guarantee.

Every method below bounds adaptive composition. The accountant reports the smallest of their bounds:

| method               | events                                        | source                    |
|----------------------|-----------------------------------------------|---------------------------|
| exact Gaussian       | Gaussian only                                 | Balle and Wang 2018       |
| sum of pure epsilons | Laplace, bounded range, pure DP               | basic composition         |
| Gaussian and pure    | Gaussian, and those of the line before        | fedkme.privacy.gaussian   |
| zCDP                 | all                                           | fedkme.privacy.accounting |
| PLD                  | all; delta >= 1e-11, up to 100,000 releases,  | accountants.pld           |
|                      | 512 of them different                         |                           |

h2 counts as its selections and its values, the clock as one pure release a run. A release without noise and a
mechanism without a proof have epsilon = inf, with the reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from fedkme.privacy.accountants.bound import Accountant, Bound, check_delta
from fedkme.privacy.accountants.pld import Counts, numerical_epsilon
from fedkme.privacy.accounting import zcdp_epsilon
from fedkme.privacy.events import (
    BoundedRange,
    Clock,
    Composed,
    Event,
    ExactStatistic,
    Gaussian,
    HashedRows,
    Laplace,
    MwemCall,
    PrivAuction,
    PureDp,
    RawRows,
    SealedRows,
    leaves,
)
from fedkme.privacy.gaussian import Responses, gaussian_epsilon, responses_epsilon

_PROVEN = {Gaussian, Laplace, BoundedRange, PureDp, MwemCall, Clock, SealedRows}
"""Types of events with a proof. A type derived from one of them may mean something else."""
_MOST_LOSSES = 256
"""Largest number of different losses of randomised responses that is computed."""
_NAMED = 3
"""Number of figures without noise that a reason names."""


class Sound(Accountant):
    """Accountant of proven bounds."""

    name: ClassVar[str] = "sound"

    def refusal(self, event: Event) -> str:
        """Refuse events without a proof, and events under different neighbouring relations."""
        reasons = dict.fromkeys(_refusal(leaf) for leaf in leaves([event]) if type(leaf) not in _PROVEN)
        if len(event.assumes) > 1:
            reasons["the events assume different neighbouring relations"] = None
        return "; ".join(_merged_reasons(reasons))

    def epsilon(self, events: Iterable[Event], delta: float) -> Bound:
        """The smallest valid epsilon at delta; inf with the reason where there is none.

        This epsilon is at most a part 1e-4 above the smallest of `figures`: once a method is known to be that
        close, the other methods are not computed.
        """
        return min(self._figures(events, delta, lambda bound: bound.exact(delta)), key=lambda f: f.epsilon)

    def figures(self, events: Iterable[Event], delta: float) -> list[Bound]:
        """Bounds at delta, one for each method that applies; never empty."""
        return self._figures(events, delta, lambda bound: False)

    def _figures(
        self, events: Iterable[Event], delta: float, enough: Callable[[_Bound], bool]
    ) -> list[Bound]:
        """Bounds at delta, method by method, until `enough` accepts one."""
        check_delta(delta)
        whole = Composed(tuple(events))
        if refusal := self.refusal(whole):
            return [Bound(math.inf, delta, "none", refusal)]
        bounds = []
        for bound in _bounds(_counts(whole)):
            bounds.append(Bound(bound.epsilon(delta), delta, bound.method))
            if enough(bound):
                break
        finite = [figure for figure in bounds if math.isfinite(figure.epsilon)]
        reason = f"no method has a finite epsilon for these events at delta = {delta:g}"
        return finite or [Bound(math.inf, delta, "none", reason)]


def _merged_reasons(reasons: Iterable[str]) -> list[str]:
    """Merge reasons of the same kind into one, which names the first few figures."""
    groups: dict[str, list[str]] = {}
    for reason in reasons:
        kind, colon, what = reason.partition(": ")
        groups.setdefault(kind + colon, []).append(what)
    return [
        kind
        + ", ".join(details[:_NAMED])
        + (f" and {len(details) - _NAMED} more" if len(details) > _NAMED else "")
        for kind, details in groups.items()
    ]


def _refusal(event: Event) -> str:
    match event:
        case PrivAuction():
            return (
                "PRIVAUCTION is not private: the best bidder is always asked, so not being asked proves "
                "that another owner holds a better row"
            )
        case RawRows():
            return "rows are seen as they are"
        case HashedRows():
            return "h1 of single rows is seen without noise"
        case ExactStatistic(what):
            return f"released without noise: {what}"
        case _:
            return f"nothing is proven for events of kind '{event.kind}'"


def _counts(whole: Composed) -> Counts:
    """Count how often each single release was made; no bound depends on the order."""
    counter: Counter[Event] = Counter()
    for piece in _pieces(whole):
        counter[replace(piece, count=1)] += piece.count
    return tuple(sorted(counter.items(), key=repr))


def _pieces(whole: Composed) -> Iterator[Any]:
    for leaf in leaves([whole]):
        if isinstance(leaf, MwemCall | Clock):
            yield from leaf.pieces()
        elif not isinstance(leaf, SealedRows):  # ciphertext alone costs nothing: see `SealedRows`
            yield leaf


@dataclass(frozen=True)
class _Bound:
    """One method that bounds all events together.

    Attributes:
        method: name of the method.
        epsilon: computes epsilon at a delta; inf where the method gives no bound.
        exact: tells for a delta whether no other method has an epsilon smaller by more than a part 1e-4. The
            later methods take a second to import and another to compute.
    """

    method: str
    epsilon: Callable[[float], float]
    exact: Callable[[float], bool] = lambda delta: False


def _bounds(counts: Counts) -> Iterator[_Bound]:
    if not counts:
        yield _Bound("nothing released", lambda _: 0.0)
        return
    if all(isinstance(event, Gaussian) for event, _ in counts):
        yield _gaussian(2.0 * _rho(counts))
        return
    pure = sum(count * _pure_epsilon(event) for event, count in counts)
    if math.isfinite(pure):
        yield _Bound(
            "sum of pure epsilons",
            lambda _: pure,
            lambda delta: delta <= _chance_of_largest_loss(counts) * -math.expm1(-1e-4 * pure),
        )
    elif (responses := _gaussian_and_pure(counts)) is not None:
        yield responses
    rho = _rho(counts)
    yield _Bound("zCDP", lambda delta: zcdp_epsilon(rho, delta) if delta > 0 else math.inf)
    yield _Bound("PLD", lambda delta: numerical_epsilon(counts, delta))


def _gaussian(precision: float) -> _Bound:
    """Bound of Gaussians, which are exactly one Gaussian of the same sum of 1/noise_multiplier^2.

    Dong, Roth, Su 2019. `precision` is that sum.
    """
    sigma = 1.0 / math.sqrt(precision)
    return _Bound("exact Gaussian", lambda delta: gaussian_epsilon(sigma, delta) if delta > 0 else math.inf)


def _gaussian_and_pure(counts: Counts) -> _Bound | None:
    """Bound of Gaussians as one Gaussian, and of pure events as the randomised responses that dominate them.

    None where there are other events, or no Gaussian. Next to a Gaussian a pure event costs at most its
    epsilon more. Without this bound zCDP would decide where epsilons are large, and it grows with their
    square.
    """
    gaussians = [(event, count) for event, count in counts if isinstance(event, Gaussian)]
    pure = [(_pure_epsilon(event), count) for event, count in counts if not isinstance(event, Gaussian)]
    if not gaussians or any(math.isinf(epsilon) for epsilon, _ in pure):
        return None
    sigma = 1.0 / math.sqrt(2.0 * _rho(tuple(gaussians)))
    losses = _response_losses(pure)
    return _Bound(
        "Gaussian and pure",
        lambda delta: responses_epsilon(sigma, losses, delta) if delta > 0 else math.inf,
        lambda _: _are_responses(counts) and len(losses) > 1,
    )


def _are_responses(counts: Counts) -> bool:
    """Check that all events are Gaussian or `PureDp`, whose worst case is a randomised response."""
    return all(isinstance(event, Gaussian | PureDp) for event, _ in counts)


def _chance_of_largest_loss(counts: Counts) -> float:
    """Chance q that all randomised responses lose their whole epsilon; 0 unless all events are `PureDp`.

    The responses' delta at epsilon e is at least q (1 - exp(e - sum)), with the sum of their epsilons. So at
    a delta of at most q (1 - exp(-x)) no bound is below sum - x.
    """
    if not all(isinstance(event, PureDp) for event, _ in counts):
        return 0.0
    return math.prod((1.0 + math.exp(-_pure_epsilon(event))) ** -count for event, count in counts)


def _response_losses(pure: Sequence[tuple[float, int]]) -> Responses:
    """Losses of randomised responses (epsilon, count) with their chances.

    Where there are more than _MOST_LOSSES, the largest loss has chance 1.
    """
    if math.prod(count + 1 for _, count in pure) > _MOST_LOSSES:
        return [(1.0, sum(epsilon * count for epsilon, count in pure))]
    losses = [(1.0, 0.0)]
    for epsilon, count in pure:
        up = 1.0 / (1.0 + math.exp(-epsilon))
        down = math.exp(-epsilon) * up
        losses_of_event = [
            (math.comb(count, ups) * up**ups * down ** (count - ups), (2 * ups - count) * epsilon)
            for ups in range(count + 1)
        ]
        losses = [(a * b, first + loss) for a, first in losses for b, loss in losses_of_event]
    return losses


def _pure_epsilon(event: Event) -> float:
    match event:
        case BoundedRange(epsilon) | PureDp(epsilon):
            return epsilon
        case Laplace(noise):
            return 1.0 / noise
        case _:
            return math.inf


def _rho(counts: Counts) -> float:
    """Parameter rho of zero-concentrated DP of all events together.

    Gaussian and pure DP: Bun and Steinke 2016, propositions 1.6 and 1.4; bounded range: Cesar and Rogers
    2021.
    """
    return sum(count * _single_rho(event) for event, count in counts)


def _single_rho(event: Event) -> float:
    match event:
        case Gaussian(noise) | Laplace(noise):
            return noise**-2 / 2.0
        case PureDp(epsilon):
            return epsilon**2 / 2.0
        case BoundedRange(epsilon):
            return epsilon**2 / 8.0
        case _:
            return math.inf
