"""The arithmetic of Sarpatwar 2019, to reproduce the paper's figures; these figures are no guarantee.

The paper counts one release of cost e for an iteration of h2 with parameter e, and composes with theorem 7
(Kairouz, Oh, Viswanath 2017). With the releases' epsilons e_l and  S = sum of e_l^2  the theorem gives the
least of

    first form     sum e_l
    middle form    sum e_l (exp(e_l) - 1)/(exp(e_l) + 1)  +  sqrt(2 S log(1/delta))
    last form      sum e_l (exp(e_l) - 1)/(exp(e_l) + 1)  +  sqrt(2 S log(exp(1) + sqrt(2 S)/delta))

(the last form as the paper prints it; Kairouz et al. have sqrt(S) inside the logarithm). The paper's figures
1.4 and 0.043 are the middle form with S in place of the first sum, which makes that term twice as large. The
auction has the figure that theorem 6 claims.
"""

import math
from collections.abc import Iterable
from typing import ClassVar

from fedkme.privacy.accountants.bound import Accountant, Bound, check_delta
from fedkme.privacy.accounting import published_epsilon
from fedkme.privacy.events import Composed, Event, MwemCall, PrivAuction, leaves

_LARGEST_DELTA = math.exp(-1.0)  # theorem 7 is stated up to here


class Published(Accountant):
    """Accountant with the paper's claims for its two mechanisms, h2 and PRIVAUCTION."""

    name: ClassVar[str] = "published"

    def refusal(self, event: Event) -> str:
        """Refuse all but the two mechanisms of the paper."""
        strange = sorted({leaf.kind for leaf in leaves([event]) if type(leaf) not in (MwemCall, PrivAuction)})
        return f"the paper has no arithmetic for {', '.join(strange)}" if strange else ""

    def epsilon(self, events: Iterable[Event], delta: float) -> Bound:
        """The middle form for h2, or the plain sum where it is smaller, plus the claim for the auction.

        The auction spends its own delta out of `delta`; theorem 7 gets the rest.
        """
        check_delta(delta)
        whole = Composed(tuple(events))
        if reason := self.refusal(whole):
            return Bound(math.inf, delta, "none", reason)
        calls, auctions = _calls_and_auctions(whole)
        unspent = delta - sum(auction.delta for auction in auctions)
        if unspent < 0:
            reason = f"theorem 6 is claimed at a larger delta than {delta:g}"
            return Bound(math.inf, delta, "none", reason)
        epsilon = _h2(calls, unspent) + sum(auction.epsilon for auction in auctions)
        return Bound(epsilon, delta, "theorems 6 and 7 as published")

    def steps(self, events: Iterable[Event], delta: float) -> list[str]:
        """Derivation of the figure at delta, one line a step."""
        listed = tuple(events)
        figure = self.epsilon(listed, delta)
        if math.isinf(figure.epsilon):
            return [f"no figure: {figure.reason}"]
        calls, auctions = _calls_and_auctions(Composed(listed))
        unspent = delta - sum(auction.delta for auction in auctions)
        lines = [*_h2_steps(calls, unspent)] if calls else []
        for auction in auctions:
            lines.append(f"theorem 6 claims ({auction.epsilon:g}, {auction.delta:g}) for PRIVAUCTION: added")
        return [*lines, f"published: epsilon = {figure.epsilon:.5g} at delta = {delta:g}"]


def _calls_and_auctions(whole: Composed) -> tuple[list[MwemCall], list[PrivAuction]]:
    parts = list(leaves([whole]))
    calls = [part for part in parts if isinstance(part, MwemCall)]
    return calls, [part for part in parts if isinstance(part, PrivAuction)]


def _sum_of_squares(calls: Iterable[MwemCall]) -> float:
    return sum(call.iterations * call.epsilon**2 for call in calls)


def _plain_sum(calls: Iterable[MwemCall]) -> float:
    return sum(call.iterations * call.epsilon for call in calls)


def _h2(calls: list[MwemCall], delta: float) -> float:
    if not delta > 0 or not calls:
        return _plain_sum(calls)
    middle = published_epsilon(math.sqrt(_sum_of_squares(calls)), 1, min(delta, _LARGEST_DELTA))
    return min(_plain_sum(calls), middle)


def _h2_steps(calls: list[MwemCall], delta: float) -> list[str]:
    releases = sum(call.iterations for call in calls)
    squares, plain = _sum_of_squares(calls), _plain_sum(calls)
    lines = [
        f"h2 makes {releases} iterations (calls: {len(calls)}): the paper counts one release for each, "
        "though an iteration releases a selection and a value",
        f"theorem 7, first form: the sum of epsilon is {plain:.5g}",
    ]
    if not delta > 0:
        return lines
    delta = min(delta, _LARGEST_DELTA)
    exact = sum(call.iterations * call.epsilon * math.tanh(call.epsilon / 2.0) for call in calls)
    root = math.sqrt(2.0 * squares * math.log(1.0 / delta))
    last = math.sqrt(2.0 * squares * math.log(math.e + math.sqrt(2.0 * squares) / delta))
    return [
        *lines,
        f"S = the sum of epsilon^2 = {squares:.5g}; sqrt(2 S log(1/{delta:g})) = {root:.5g}",
        f"the sum of epsilon (e^epsilon - 1)/(e^epsilon + 1) is {exact:.5g}",
        f"theorem 7, middle form: {exact:.5g} + {root:.5g} = {exact + root:.5g}",
        f"theorem 7, last form as printed: {exact:.5g} + {last:.5g} = {exact + last:.5g}",
        f"the paper's figure, S for the sum in the middle form: "
        f"{squares:.5g} + {root:.5g} = {squares + root:.5g}",
    ]
