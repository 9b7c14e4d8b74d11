"""Directions that D_v chooses, whose columns give the first bins of a code book (docs/decisions/009).

A plan has a public menu of directions, which are axes of z. An axis i has a cut c, a width w > 0 and a level
e. With the origin o of the code book,

    f(z) = clip((z_i - o_i - c) / w, -1, 1) / 2,        score(i) = | sum over D_v of f(z) - m e |:

which is the distance of D_v from the pool along the axis, in rows. For an axis of a category, w is so small
that f is the sign bit less 1/2, and e is the pool's share of ones less 1/2. For a cut in a number's tail, f
is a sign bit less 1/2, too, and e follows from a law of the number (fedkme.cells.menu). For a number as a
whole e is 0, the value at the pool's mean. Where z is a projection of the row, directions are columns of the
encoded row x: x_i takes the place of z_i - o_i.

**Bins.** A pick cuts the whole column of its direction, in two bins or three: the picked name, the most
frequent other name, and the rest; or below the picked cut of a number, and two bins beyond it. Sign bits take
what the bins leave of the menu's `cells`.

Relation: replace one row of D_v, m and the menu public. Unit: rows. Sensitivity: 1 for every direction at
once. *Proof*: f is in [-1/2, 1/2] for any row and any menu, one term of the sum changes, and | | is
1-Lipschitz. Terms are whole multiples of 2^-21 and are added as integers, so the proof holds for the computed
scores, too. It needs numbers of menu and code book within their domains (`fedkme.arrays`; e in [-1/2, 1/2]),
so that (z_i - o_i - c) / w is a finite function of the row alone. Other numbers are refused, whatever the
rows are.

**Mechanism.** A pick has probability proportional to exp(epsilon_s / 2 score): its loss lies in an interval
of length epsilon_s (`BoundedRange`), so it is (epsilon_s, 0)-DP for any menu, even that of a lying curator.
D_v may also choose to end its picks; the score of that choice, FAR m + 2 ln M / epsilon_s, is public. So
where D_v is far from the pool along none of the M directions, chance seldom picks one. A picked direction
leaves the menu together with its `close` directions, which are of its number or correlated with it in the
pool; given the earlier picks, the rest of the menu is public. So at most k picks and the histogram, whose
cells follow from the picks, compose adaptively to k epsilon_s + (epsilon_v - k epsilon_s) = epsilon_v. The
picks change nothing in the behaviour of any party but the cells of all owners, by the offer. An owner's
histogram has the same sensitivity in any cells.

**The other sign bits, given the picks.** Rows on D_v's side of a cut have other means along the book's own
directions, so that D_v would be on one side of these, too, and their cells empty. With the pool's covariance
W = F F' + D, from the sketch, and picks P of axes, G = F'P and C = P'WP = G'G + D:

    W_P = F (1 - G C^-1 G') F'      covariance that remains given P'z,
    u - P C^-1 G'F'u                for the leading eigenvectors u of W_P

is uncorrelated in the pool with every pick. These directions take the place of the book's own. They are
functions of menu and picks alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedkme.arrays import COORDINATES, WIDTHS, FloatArray, Numbers, Rows, whole
from fedkme.cells.codebook import BEYOND, MOST_CELLS, MOST_PICKS, CodeBook, principal
from fedkme.cells.disclosures import PICK_SENSITIVITY
from fedkme.cells.histogram import HistogramNoise, histogram_noise
from fedkme.cells.projection import Projection
from fedkme.errors import ConfigError, ProtocolError
from fedkme.privacy.events import CHOICE_SLACK, BoundedRange, Event
from fedkme.privacy.noise import NoiseSource, choose

FAR = 0.1
"""Share of D_v's rows, as a score over m, at which a direction counts as far."""
MOST_OF_PICKS = 0.5
"""Largest share of D_v's epsilon for all picks together."""
USUAL_PICKS = 2
LEAST_REACH, TWO_REACH = 25.0, 75.0
"""Least rows of D_v times epsilon at which one pick, and two picks, are worth their cost."""
ENOUGH = 37.5
"""Rows times epsilon of a pick that is seldom due to chance: a direction along which all of D_v is far has
odds of e^18 over a direction along which no row is far. Menus have a hundred directions, many of them half as
far as the first one."""
MOST_OFFERED = 1024
"""Most directions of a menu."""
MOST_BINS = 3
"""Most bins of a pick."""
THIRD = 36
"""Least cells of a menu at which picks have more than two bins: two picks of three leave four for signs."""
PRESENT = math.sqrt(0.5)
"""Value of a category's column of the encoded row in rows of the category."""
LEVELS = Numbers(-0.5, 0.5)
"""Domain of levels, that of f."""
_PLACES = Numbers(0, 2**31)
_SHARES = Numbers(2.0**-60, MOST_OF_PICKS)
DIGITS = 9
"""Decimals of directions that each party computes by itself."""
_LEAST = 1e-12
_STEPS = 2.0**20
"""Integer steps of f in half of its range."""


class PaidPicks:
    """Choices of D_v among public ones.

    Attributes:
        picks: k, the number of choices.
        share: share of D_v's epsilon for each.
    """

    picks: int
    share: float

    @property
    def histograms(self) -> int:
        """Number of histograms of D_v that go with the picks."""
        return 1

    def event(self, epsilon: float) -> BoundedRange:
        """Event of one pick for the ledger, where picks and histograms cost D_v epsilon in all."""
        return BoundedRange(self.share * epsilon)

    def events(self, epsilon: float) -> list[Event]:
        """Events of all picks."""
        return [self.event(epsilon)] * self.picks


@dataclass(frozen=True, eq=False)
class Menu(PaidPicks):
    """A public menu of directions.

    Attributes:
        axes: coordinates of z that are directions.
        columns: coordinates of the encoded row that are directions, with o = 0, where z is a projection of
            the row.
        factor: F, (d, f), of the pool's covariance; with f = 0 the book keeps its own directions.
        rests: D, variance along each axis that F leaves, (len(axes),).
        cuts: c of the M = len(axes) + len(columns) directions, in that order, (M,).
        widths: w, (M,).
        levels: e, (M,), in [-1/2, 1/2].
        close: for each direction, those of its number, or highly correlated with it in the pool.
        picks: k, the number of directions that D_v may choose.
        share: share of D_v's epsilon for each pick.
        cells: most cells of each class: the picks' bins times the sign bits' cells.
        edges: for each direction of a number, edges of its bins beyond its cut; empty for others.
        groups: for each direction that is a category's name, columns of the encoded row of this category: the
            name's own, then the others, the most frequent first; empty for others.
    """

    axes: tuple[int, ...]
    cuts: FloatArray
    widths: FloatArray
    levels: FloatArray
    close: tuple[tuple[int, ...], ...]
    picks: int
    share: float
    cells: int
    edges: tuple[tuple[float, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    columns: tuple[int, ...] = ()
    factor: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    rests: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        axes, columns = (_PLACES.counts(each, "a menu's places") for each in (self.axes, self.columns))
        size = len(axes) + len(columns)
        factor = COORDINATES.array(self.factor, (None, None), "a menu's factor")
        fits = not factor.size or max(axes, default=0) < len(factor)
        lists = [len(self.close), len(self.edges), len(self.groups)]
        if not 1 <= size <= MOST_OFFERED or lists != [size] * 3 or not fits:
            raise ConfigError("a menu's directions do not fit each other", "Compare the parties' versions.")
        near, rests = Numbers(0, size - 1), len(axes) if factor.size else 0
        checked = {
            "factor": factor,
            "rests": WIDTHS.array(self.rests, (rests,), "a menu's rests"),
            "axes": axes,
            "columns": columns,
            "cuts": COORDINATES.array(self.cuts, (size,), "a menu's cuts"),
            "widths": WIDTHS.array(self.widths, (size,), "a menu's widths"),
            "levels": LEVELS.array(self.levels, (size,), "a menu's levels"),
            "close": tuple(near.counts(each, "a menu's close directions") for each in self.close),
            "edges": tuple(_edges(each) for each in self.edges),
            "groups": tuple(_PLACES.counts(each, "a menu's groups") for each in self.groups),
            "cells": Numbers(2, MOST_CELLS).count(self.cells, "the cells of a menu"),
            "picks": Numbers(1, min(MOST_PICKS, size)).count(self.picks, "the number of picks of a menu"),
            "share": _SHARES.real(self.share, "the share of a pick"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.cells < 2**self.picks:
            raise ConfigError(f"{self.picks} picks for {self.cells} cells", "Compare the parties' versions.")
        if self.share * self.picks > MOST_OF_PICKS:
            cause = f"{self.picks} picks of {size} directions for {self.share} of epsilon each"
            raise ConfigError(cause, f"Take 1 to {MOST_PICKS} picks for at most half of epsilon.")

    def __len__(self) -> int:
        return len(self.axes) + len(self.columns)

    @property
    def none(self) -> int:
        """Number of the choice to end the picks."""
        return len(self)

    @property
    def histogram_share(self) -> float:
        """Share of D_v's epsilon that remains for its histogram."""
        return 1.0 - self.picks * self.share

    def to_json(self) -> dict[str, Any]:
        """Plain values; `menu_from_json` reads them back."""
        arrays = {name: getattr(self, name).tolist() for name in ("cuts", "widths", "levels")}
        places = {"axes": [*self.axes], **({"columns": [*self.columns]} if self.columns else {})}
        pool = {name: getattr(self, name).tolist() for name in ("factor", "rests") if self.factor.size}
        lists = {name: list(map(list, getattr(self, name))) for name in ("close", "edges", "groups")}
        numbers = {"picks": self.picks, "share": self.share, "cells": self.cells}
        return {**arrays, **pool, **places, **lists, **numbers}


def _edges(plain: Sequence[float]) -> tuple[float, ...]:
    return tuple(COORDINATES.array(list(plain), (None,), "a menu's edges").tolist())


def menu_from_json(plain: Mapping[str, Any]) -> Menu:
    """Read what `Menu.to_json` wrote.

    Raises:
        ConfigError: the values are not a menu.
    """
    lists = ("axes", "cuts", "widths", "levels", "close", "edges", "groups")
    try:
        added = {name: plain[name] for name in ("columns", "factor", "rests") if name in plain}
        return Menu(**{name: plain[name] for name in (*lists, "picks", "share", "cells")}, **added)
    except (KeyError, TypeError, AttributeError):
        raise ConfigError("this is no menu of directions", "Compare the parties' versions.") from None


def pick_rule(rows: int, epsilon: float, columns: bool) -> tuple[int, float]:
    """Choose the number of picks, and the share of epsilon for each, from public facts.

    Args:
        rows: m, rows of D_v.
        epsilon: epsilon of D_v in all.
        columns: whether the menu has columns of the encoded row (fedkme.cells.menu).
    """
    reach = rows * epsilon
    picks = USUAL_PICKS if reach >= TWO_REACH else 1 if reach >= LEAST_REACH else 0
    share = min(ENOUGH / max(reach, 1e-9), MOST_OF_PICKS / max(picks, 1))
    return picks if columns else 0, share


def histogram_of(menu: Menu, epsilon: float) -> HistogramNoise:
    """Noise of D_v's histogram, where picks and histogram cost D_v epsilon in all."""
    return histogram_noise(menu.histogram_share * epsilon)


def scores(menu: Menu, book: CodeBook, rows: Rows) -> FloatArray:
    """Score of each direction, (M,).

    Args:
        menu: menu of the plan.
        book: code book of the plan.
        rows: rows of D_v, encoded, (m, n).

    Raises:
        ConfigError: the menu's directions do not fit the z of the code book.
    """
    _check_fit(menu, book)
    z = Projection(book.spec, book.schema)(rows) - book.arrays["origin"]
    values = np.concatenate([z[:, menu.axes], np.asarray(rows, np.float64)[:, menu.columns]], axis=1)
    along = np.clip((values - menu.cuts) / menu.widths, -1.0, 1.0)
    total = whole(np.rint(_STEPS * along), _STEPS).sum(axis=0)
    expected = whole(np.rint(2.0 * _STEPS * len(rows) * menu.levels))
    apart: FloatArray = np.abs(total - expected) / (2.0 * _STEPS)
    return apart


def pick(
    menu: Menu, score: FloatArray, rows: int, event: BoundedRange, noise: NoiseSource
) -> tuple[int, ...]:
    """Choose directions one by one with the exponential mechanism, until it chooses to end.

    Args:
        menu: directions on offer.
        score: score of each direction, (M,).
        rows: m, public.
        event: event of one pick.
        noise: source of the coins.

    Returns:
        The choices, each at the cost of `event`; only the last may be `menu.none`.
    """
    rate = _rate(event)
    scores_of_all = np.append(score, FAR * rows + (math.log(len(menu)) / rate if rate else 0.0))
    choices, picked = np.arange(len(scores_of_all)), list[int]()
    while len(picked) < menu.picks and menu.none not in picked:
        picked.append(int(choices[choose_one(scores_of_all[choices], event, noise)]))
        near = () if picked[-1] == menu.none else menu.close[picked[-1]]
        choices = np.setdiff1d(choices, [picked[-1], *near])
    return tuple(picked)


def choose_one(score: FloatArray, event: BoundedRange, noise: NoiseSource) -> int:
    """Choose by scores, (k,), each public or of sensitivity PICK_SENSITIVITY, at the cost of the event."""
    return choose(_rate(event) * score, float(noise.uniform(1)[0]), noise)


def _rate(event: BoundedRange) -> float:
    return max(event.epsilon - CHOICE_SLACK, 0.0) / (2.0 * PICK_SENSITIVITY)  # 0: the choice is blind


def chosen_book(book: CodeBook, menu: Menu | None, picks: Sequence[int]) -> CodeBook:
    """Code book with the bins of the picked directions first; without picks, the plan's own code book.

    Every party gets the same code book: bins to the last bit, other directions to DIGITS decimals.

    Raises:
        ProtocolError: the picks are not on this menu.
    """
    if not picks:
        return book
    if menu is None or not _is_pick(menu, picks):
        cause = "the peer picked directions that are not on the menu"
        raise ProtocolError(cause, "Check the peer's software.")
    _check_fit(menu, book)
    places = [place for place in picks if place < menu.none]
    if not places:
        return book
    directions, sizes = book.arrays["directions"], _sizes(menu, places)
    bits = (menu.cells // math.prod(sizes)).bit_length() - 1
    of_z = [at for at in places if at < len(menu.axes)]
    rest = _remaining(menu, directions, of_z, min(bits, directions.shape[1]))
    along = np.zeros((book.spec.width + len(directions), len(places)))
    edges = np.full((len(places), max(sizes) - 1), BEYOND)
    for pick_, (place, size) in enumerate(zip(places, sizes, strict=True)):
        group = list(menu.groups[place])
        if group:
            along[group, pick_] = np.arange(len(group))
            edges[pick_, : size - 1] = PRESENT * (np.arange(size - 1) + 0.5)
            continue
        column = [*(book.spec.width + axis for axis in menu.axes), *menu.columns][place]
        along[column, pick_] = 1.0
        edges[pick_, : size - 1] = [menu.cuts[place], *menu.edges[place]][: size - 1]
    return replace(book, arrays={**book.arrays, "directions": rest, "along": along, "edges": edges})


def _sizes(menu: Menu, places: Sequence[int]) -> list[int]:
    """Bins of each pick: two, or as many as its column has, where the menu has cells for them."""
    most = [min(MOST_BINS, len(menu.groups[place]) or 2 + len(menu.edges[place])) for place in places]
    if menu.cells < max(THIRD, MOST_BINS ** len(places)):
        return [2] * len(places)
    return [max(2, each) for each in most]


def _remaining(menu: Menu, directions: FloatArray, places: Sequence[int], count: int) -> FloatArray:
    """Directions for the sign bits that picks leave, (d, count); see the head of this module.

    A menu whose numbers cannot be computed with keeps the book's own directions: no picks may be refused.
    """
    own = directions[:, :count]
    if not menu.factor.size or not places or not count:
        return own
    factor, picked = menu.factor, np.eye(len(directions))[:, [menu.axes[place] for place in places]]
    along = factor.T @ picked
    try:
        solved = np.linalg.solve(along.T @ along + np.diag(menu.rests[list(places)]), along.T)
        vectors = principal(factor @ (factor.T - along @ (solved @ factor.T)), count)
    except np.linalg.LinAlgError:
        return own
    vectors = vectors * np.where(np.take_along_axis(vectors, np.abs(vectors).argmax(0)[None], 0) < 0, -1, 1)
    apart = vectors - picked @ (solved @ (factor.T @ vectors))
    apart = np.round(apart / np.maximum(np.linalg.norm(apart, axis=0), _LEAST), DIGITS)
    return apart if np.isfinite(apart).all() else own


def _is_pick(menu: Menu, picks: Sequence[int]) -> bool:
    on_menu = all(0 <= place <= menu.none for place in picks) and menu.none not in picks[:-1]
    return on_menu and len(set(picks)) == len(picks) <= menu.picks


def _check_fit(menu: Menu, book: CodeBook) -> None:
    """Refuse a menu if some of its picks could not be the first sign bits of the code book.

    So no pick is refused once D_v has made it: such a refusal would disclose the pick without a cost.
    """
    furthest = max((*menu.columns, *(at for group in menu.groups for at in group)), default=0)
    fits = furthest < book.spec.width and max(menu.axes, default=0) < book.spec.dimension
    fits = fits and (not menu.factor.size or len(menu.factor) == book.spec.dimension)
    bits = book.arrays["directions"].shape[1] if "directions" in book.arrays else 0
    most = menu.cells * (book.cells >> bits)
    if "along" in book.arrays or not fits or menu.picks > bits or most > MOST_CELLS:
        raise ConfigError("a menu's directions do not fit its code book", "Compare the parties' versions.")
