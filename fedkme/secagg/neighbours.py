"""Number of neighbours with whom an owner shares masks: few enough for a thousand owners, enough for privacy.

Bell, Bonawitz, Gascon, Lepoint, Raykova 2020, "Secure single-server aggregation with (poly)logarithmic
overhead"; docs/decisions/005 says how this protocol differs and why. Of n owners D drop out and T side with
the curator. Places 0 to n - 1 are joined in a circulant graph M of even degree k; owners are put on places in
an order that nobody chooses (`fedkme.secagg.graph`). A circle is an owner with its k neighbours, q = k + 1
owners in all; t owners of a circle open each secret of its owner. The first q owners of the order are the
committee; at least t of its members endorse the survivors.

**Plan.** Write HG(N, K, m) for the hypergeometric number of marked items in m draws from N items of which K
are marked, and L for the eigenvalues of M except that of the constant vector. `plan_neighbours` finds the
least k for which there are tau, d and t = q - d with

1. n P[HG(n-1, T, k) > tau] + P[HG(n, T, q) > tau] <= 2^-40 / 2^80  (colluders: a circle, the committee),
2. n P[HG(n-1, D, k) >= d] + P[HG(n, D, q) > d] <= 2^-40, or D = 0  (drop-outs: a circle, the committee),
3. 2 t > q + tau, and n > 2 D + T,
4. with m = t - 1 - tau > max L, c the least size with m <= k c/n + max L (1 - c/n), and s the larger of
   n - D - T and 2 c: s > n, or c (s - c) / (n (n - s) + c (s - c)) > (max |L| / k)^2.

The tails are sums of integers, exact; eigenvalues are sums of cosines, with room for their rounding.

**Failure.** If the set of lost owners does not depend on the order, then by 2 every circle and the committee
have t owners left with probability 1 - 2^-40. (A lost owner is in its own circle, hence >= d.)

**Disclosure.** Let T owners, fixed before honest owners' keys are known, side with a curator that deviates at
will, and let them try 2^80 orders (of rosters, whose hash R is the order; every roster contains fresh honest
keys). By 1, except with probability 2^-40, no honest owner has more than tau of the T owners in its circle,
and the committee has no more. Then they learn one sum of the vectors of all honest survivors, at least
n - D - T, or nothing. The curator may tell honest owners different R, different lists H of the owners that
shared, and different lists S of survivors.

(a) *One list a roster.* An owner that was told R opens shares only after t members of R's committee endorsed
what it was told itself. Two lists under R would take 2 (t - tau') honest signatures of the q - tau' honest
members, against 3. So all openers under R were told the same (R, H, S). Shares are sealed under R, and an
owner masks only when the shares of all its circle in H have opened: its honest neighbours in H were told R.
The two secrets of an owner that was told R are never both opened, and tau < t.

(b) *Owners that were told another H.* Let an honest i in S have been told R and have masked under H', not H.
It saw t owners of its circle in H', among them t - 1 - tau' other honest owners; its self-mask opens only
with t - tau' honest openers around it. By 3 both numbers together exceed its k - tau' honest neighbours, so
an honest opener j is in both sets. H' is in the key of the mask of i with j, and j made no mask with this
key: that mask never comes off. Let A be the set of honest survivors that masked under (R, H).

(c) *Components.* Whatever can be unmasked is a combination of vectors with weights a_i. By (b) a_i = 0 for
every owner that was told R and is not in A. Let i be in A and j an honest neighbour in S: j was told R, by
(a), and survives, so its key is not opened, and the mask of i with j cancels only if j is in A and a_j = a_i.
So weights are constant on components U of M on the honest survivors, and 0 unless U is in A.

(d) *There is one component.* Every owner checks that each survivor has t owners of its circle in S: so each
honest survivor has at least m honest surviving neighbours. Let U be a component and V the rest, not empty,
|U| + |V| = s', n - D - T <= s' <= n, and c' <= s'/2 the smaller size. Within a set of size c' the mean degree
is at most k c'/n + max L (1 - c'/n) (the quadratic form of its indicator), and it is at least m: so c' >= c
and s' >= s. No edge joins U and V, so |U| |V| <= (max |L| / k)^2 (n - |U|)(n - |V|) (the expander mixing
lemma for e(U, V) = 0). As (n - |U|)(n - |V|) = n (n - s') + |U| |V|, the left side over the right side grows
with s' and with c' <= s'/2, against 4. So weights are equal on all honest survivors: their sum is all that is
learned under R, and all of them were told R. Sums under two rosters would be over disjoint sets of n - D - T
owners, of at most n - T honest owners, against 3.
"""

import functools
import hashlib
import math
from dataclasses import dataclass

import numpy as np

GRAPH_FROM = 100
"""Least number of owners for which a graph is used; with fewer owners a graph saves little."""
FAILURE_BITS = 40
"""Failure and disclosure each have a probability of 2^-40."""
TRIES_BITS = 80
"""Orders that a curator with its colluders may try: 2^80."""
_MOST = 2000
"""Largest degree of the search: beyond it too many owners would open each secret."""
_ROUNDING = 1e-6
"""Room for the rounding of eigenvalues, which are sums of up to 2000 cosines; the rounding is below 1e-10."""


@dataclass(frozen=True)
class Neighbours:
    """Plan of a graph; see the head of the module.

    Attributes:
        degree: k, even.
        threshold: t.
        colluders: tau, largest number of colluders in a circle or in the committee.
    """

    degree: int
    threshold: int
    colluders: int


@functools.lru_cache(maxsize=64)
def plan_neighbours(owners: int, dropouts: int, colluders: int) -> Neighbours | None:
    """Plan the graph of an aggregation; None where all owners share with all.

    Args:
        owners: n.
        dropouts: D.
        colluders: T.
    """
    if owners < GRAPH_FROM or 2 * dropouts + colluders >= owners:
        return None
    degree = 4
    while degree <= min(owners // 2 - 1, _MOST):
        if (plan := _plan(owners, dropouts, colluders, degree)) is not None:
            return plan
        degree += max(2, degree // 32 * 2)  # larger steps for large degrees
    return None


@functools.lru_cache(maxsize=64)
def offsets(owners: int, degree: int) -> tuple[int, ...]:
    """Distances from a place to its neighbours on both sides; public, since hashes draw them."""
    half = range(1, (owners - 1) // 2 + 1)
    shuffled = sorted(
        half, key=lambda distance: hashlib.sha256(b"%d %d %d" % (owners, degree, distance)).digest()
    )
    return tuple(sorted(shuffled[: degree // 2]))


def eigenvalues(owners: int, degree: int) -> tuple[float, float]:
    """The largest eigenvalue of the graph after k, and the largest absolute value after k, rounded up."""
    row = np.zeros(owners)
    for distance in offsets(owners, degree):
        row[[distance, -distance]] = 1.0
    others = np.fft.rfft(row).real[1:]
    return float(others.max()) + _ROUNDING, float(np.abs(others).max()) + _ROUNDING


def _plan(owners: int, dropouts: int, colluders: int, degree: int) -> Neighbours | None:
    circle = degree + 1
    tau = _least_bound(owners, colluders, degree, FAILURE_BITS + TRIES_BITS)
    threshold = circle - _least_bound(owners, dropouts, degree, FAILURE_BITS, own=1)
    if not 2 * threshold > circle + tau:
        return None
    honest = owners - dropouts - colluders
    if not is_connected(owners, degree, threshold - 1 - tau, honest):
        return None
    return Neighbours(degree, threshold, tau)


def is_connected(owners: int, degree: int, least: int, honest: int) -> bool:
    """Check that no set of remaining owners splits the graph (condition 4, part (d) of the proof).

    Args:
        owners: n.
        degree: k.
        least: m, least number of remaining neighbours of a remaining owner.
        honest: n - D - T, least number of remaining owners.
    """
    above, largest = eigenvalues(owners, degree)
    if least <= above:
        return False
    size = math.ceil(owners * (least - above) / (degree - above) * (1.0 - _ROUNDING))
    remaining = max(honest, 2 * size)
    if remaining > owners:
        return True
    pairs = size * (remaining - size)
    return pairs / (owners * (owners - remaining) + pairs) > (largest / degree) ** 2 * (1.0 + _ROUNDING)


def _least_bound(owners: int, marked: int, degree: int, bits: int, own: int = 0) -> int:
    """The least x >= own with n P[HG(n-1, M, k) > x - own] + P[HG(n, M, k+1) > x] <= 2^-bits, exactly."""
    circle, committee = math.comb(owners - 1, degree), math.comb(owners, degree + 1)
    around, among, bound = 0, 0, degree + 1
    if not marked:
        return 0
    while bound >= own:
        # With a bound less by one, `bound` in the committee, or `bound - own` in a circle, would be over it.
        around += _count_draws(owners - 1, marked, degree, bound - own)
        among += _count_draws(owners, marked, degree + 1, bound)
        if (owners * around * committee + among * circle) << bits > circle * committee:
            return bound
        bound -= 1
    return own


def _count_draws(owners: int, marked: int, drawn: int, of_marked: int) -> int:
    """Number of draws that contain `of_marked` marked items."""
    if not 0 <= of_marked <= drawn:
        return 0
    return math.comb(marked, of_marked) * math.comb(owners - marked, drawn - of_marked)
