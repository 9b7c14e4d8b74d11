"""Directions that D_v chooses for the first sign bits of a code book (docs/decisions/009).

A plan names a public menu. A direction u of it has a cut c, a width w > 0 and a level e, and with the origin
o of the code book

    f(z) = clip((u'(z - o) - c) / w, -1, 1) / 2,        score(u) = | sum over D_v of f(z) - m e |:

how far D_v is from the pool along u, in rows. For an axis of a category w is so small that f is the sign bit
less 1/2, and e is the pool's share of ones less 1/2; a cut in a number's tail is one too, with the share that
a law of the number has there (fedkme.cells.menu); for other directions e is 0, as at the pool's mean. Where z
is a projection of the row, a column of the encoded row x is a direction by itself: x_i in place of u'(z - o).

Relation: replace one row of D_v, m and the menu public. Unit: rows. Sensitivity: 1 for every direction at
once. *Proof*: f is in [-1/2, 1/2] for any row and any menu, one term of the sum changes, and | | is
1-Lipschitz. Terms are whole multiples of 2^-21 and are added as integers, so this holds for what is computed:
of numbers of a menu and a code book that are in their domains (`fedkme.arrays`; e in [-1/2, 1/2]), by which
(u'(z - o) - c) / w is a finite function of the row alone. Others are refused, whatever the rows are.

**Mechanism.** A pick has probability proportional to exp(epsilon_s / 2 score): its loss lies in an interval
of length epsilon_s (`BoundedRange`), so it is (epsilon_s, 0)-DP, for any menu, that of a curator that lies as
well. Beside the directions there is the choice of no other, whose score FAR m + 2 ln M / epsilon_s is public:
where nothing is far, M directions that are not are seldom chosen by chance. A pick leaves the menu with those
that say the same of the pool (`close`), which is public given the picks before: at most k picks and the
histogram, whose cells follow from them, compose adaptively to k epsilon_s + (epsilon_v - k epsilon_s) =
epsilon_v. What a pick changes of a party's behaviour: the cells of all owners, by the offer, and nothing
else; an owner's histogram has the same sensitivity in any cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedkme.arrays import COORDINATES, WIDTHS, FloatArray, Numbers, Rows, whole
from fedkme.cells.codebook import CodeBook
from fedkme.cells.histogram import HistogramNoise, histogram_noise
from fedkme.cells.projection import Projection
from fedkme.errors import ConfigError, ProtocolError
from fedkme.privacy.events import CHOICE_SLACK, BoundedRange, Event
from fedkme.privacy.noise import NoiseSource, choose

SENSITIVITY = 1
"""Sensitivity of every score, replace-one."""
FAR = 0.1
"""Share of D_v's rows that is far."""
MOST_PICKS = 4
MOST_OF_PICKS = 0.5
"""Share of D_v's epsilon that all picks may cost."""
USUAL_PICKS = 2
MOST_SHARE = 0.25
"""Share of D_v's epsilon for a pick where nobody says another, at most."""
ENOUGH_OF_MANY = 1.5
"""Times ENOUGH where rows are projected: hundreds of directions, and what the pool has of them less sure."""
LEAST_REACH = 75.0
"""Rows of D_v times its epsilon from which on picks are worth what they cost."""
ENOUGH = 25.0
"""Rows times epsilon for a pick that is seldom chance: a direction in which all of D_v is far has odds of
e^12 over one in which none is."""
MOST_OFFERED = 1024
"""Directions of a menu."""
LEVELS = Numbers(-0.5, 0.5)
"""Levels of a menu, as f is."""
_PLACES = Numbers(0, 2**31)
_SHARES = Numbers(2.0**-60, MOST_OF_PICKS)
_STEPS = 2.0**20
"""Steps of f in a half of its range."""


@dataclass(frozen=True, eq=False)
class Menu:
    """A public menu of directions.

    Attributes:
        leading: directions in full, (d, q).
        axes: coordinates of z that are directions, too.
        columns: coordinates of the encoded row that are directions where z is a projection of it; o is 0.
        cuts: c, (M,) for these M = q + len(axes) + len(columns) in that order.
        widths: w, (M,).
        levels: e, (M,), in [-1/2, 1/2].
        close: for each direction those that say nearly the same of the pool.
        picks: k, as many as D_v chooses.
        share: of D_v's epsilon for each pick.
    """

    leading: FloatArray
    axes: tuple[int, ...]
    cuts: FloatArray
    widths: FloatArray
    levels: FloatArray
    close: tuple[tuple[int, ...], ...]
    picks: int
    share: float
    columns: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        leading = COORDINATES.array(self.leading, (None, None), "a menu's directions")
        axes, columns = (_PLACES.counts(each, "a menu's places") for each in (self.axes, self.columns))
        size = leading.shape[1] + len(axes) + len(columns)
        if not 1 <= size <= MOST_OFFERED or max(axes, default=0) >= len(leading) or len(self.close) != size:
            raise ConfigError("a menu's directions do not fit each other", "Compare the parties' versions.")
        near = Numbers(0, size - 1)
        checked = {
            "leading": leading,
            "axes": axes,
            "columns": columns,
            "cuts": COORDINATES.array(self.cuts, (size,), "a menu's cuts"),
            "widths": WIDTHS.array(self.widths, (size,), "a menu's widths"),
            "levels": LEVELS.array(self.levels, (size,), "a menu's levels"),
            "close": tuple(near.counts(each, "a menu's close directions") for each in self.close),
            "picks": Numbers(1, min(MOST_PICKS, size)).count(self.picks, "the number of picks of a menu"),
            "share": _SHARES.real(self.share, "the share of a pick"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.share * self.picks > MOST_OF_PICKS:
            raise ConfigError(
                f"{self.picks} picks of {size} directions for {self.share} of epsilon each",
                f"Take 1 to {MOST_PICKS} picks for at most half of epsilon.",
            )

    def __len__(self) -> int:
        return self.of_z + len(self.columns)

    @property
    def of_z(self) -> int:
        """Directions of z: all before the columns."""
        return int(self.leading.shape[1]) + len(self.axes)

    @property
    def none(self) -> int:
        """The choice of no other direction, after which nothing is picked."""
        return len(self)

    @property
    def left(self) -> float:
        """Share of D_v's epsilon that is left for its histogram."""
        return 1.0 - self.picks * self.share

    @property
    def vectors(self) -> FloatArray:
        """Directions of z, (d, of_z)."""
        axes = np.eye(len(self.leading))[:, list(self.axes)]
        return np.concatenate([self.leading, axes], axis=1)

    def event(self, epsilon: float) -> BoundedRange:
        """Event of one pick for the ledger, where D_v costs epsilon in all."""
        return BoundedRange(self.share * epsilon)

    def events(self, epsilon: float) -> list[Event]:
        """Events of all picks."""
        return [self.event(epsilon)] * self.picks

    def to_json(self) -> dict[str, Any]:
        """Plain values; `menu_from_json` reads them back."""
        arrays = {name: getattr(self, name).tolist() for name in ("leading", "cuts", "widths", "levels")}
        places = {"axes": [*self.axes], **({"columns": [*self.columns]} if self.columns else {})}
        close = [list(each) for each in self.close]
        return {**arrays, **places, "close": close, "picks": self.picks, "share": self.share}


def menu_from_json(plain: Mapping[str, Any]) -> Menu:
    """Read what `Menu.to_json` wrote.

    Raises:
        ConfigError: it is none.
    """
    names = ("leading", "axes", "cuts", "widths", "levels", "close", "picks", "share")
    try:
        return Menu(**{name: plain[name] for name in names}, columns=plain.get("columns", ()))
    except (KeyError, TypeError, AttributeError):
        raise ConfigError("this is no menu of directions", "Compare the parties' versions.") from None


def pick_rule(rows: int, epsilon: float, columns: bool, projected: bool = False) -> tuple[int, float]:
    """Number of picks and the share of epsilon for each, of public facts, where nobody says them.

    Args:
        rows: m, of D_v.
        epsilon: of D_v in all.
        columns: a menu has columns of the encoded row (fedkme.cells.menu).
        projected: z is a projection of it.
    """
    reach = rows * epsilon
    picks = USUAL_PICKS if columns and reach >= LEAST_REACH else 0
    enough = ENOUGH_OF_MANY * ENOUGH if projected else ENOUGH
    return picks, min(enough / max(reach, 1e-9), MOST_SHARE)


def histogram_of(menu: Menu, epsilon: float) -> HistogramNoise:
    """The noise of D_v's histogram where D_v costs epsilon in all, with what it picks of a menu."""
    return histogram_noise(menu.left * epsilon)


def scores(menu: Menu, book: CodeBook, rows: Rows) -> FloatArray:
    """Score of each direction, (M,).

    Args:
        menu: of the plan.
        book: of the plan, of z.
        rows: D_v, encoded, (m, n).

    Raises:
        ConfigError: the menu's directions are not of the book's z.
    """
    _check_fit(menu, book)
    z = Projection(book.spec, book.schema)(rows) - book.arrays["origin"]
    values = np.concatenate([z @ menu.vectors, np.asarray(rows, np.float64)[:, menu.columns]], axis=1)
    along = np.clip((values - menu.cuts) / menu.widths, -1.0, 1.0)
    total = whole(np.rint(_STEPS * along), _STEPS).sum(axis=0)
    expected = whole(np.rint(2.0 * _STEPS * len(rows) * menu.levels))
    apart: FloatArray = np.abs(total - expected) / (2.0 * _STEPS)
    return apart


def pick(
    menu: Menu, score: FloatArray, rows: int, event: BoundedRange, noise: NoiseSource
) -> tuple[int, ...]:
    """Choose directions by the exponential mechanism, the first one first, until it chooses no other.

    Args:
        menu: what there is to choose from.
        score: of each direction, (M,).
        rows: m, public.
        event: of one pick.
        noise: of the coins.

    Returns:
        What was chosen, each at the price of `event`; `menu.none` only as the last.
    """
    rate = _rate(event)
    scores_of_all = np.append(score, FAR * rows + (math.log(len(menu)) / rate if rate else 0.0))
    left, picked = np.arange(len(scores_of_all)), list[int]()
    while len(picked) < menu.picks and menu.none not in picked:
        picked.append(int(left[choose_one(scores_of_all[left], event, noise)]))
        near = () if picked[-1] == menu.none else menu.close[picked[-1]]
        left = np.setdiff1d(left, [picked[-1], *near])
    return tuple(picked)


def choose_one(score: FloatArray, event: BoundedRange, noise: NoiseSource) -> int:
    """Choose by scores, (k,), each of sensitivity SENSITIVITY or public, at the price of the event."""
    return choose(_rate(event) * score, float(noise.uniform(1)[0]), noise)


def _rate(event: BoundedRange) -> float:
    return max(event.epsilon - CHOICE_SLACK, 0.0) / (2.0 * SENSITIVITY)  # 0: the choice is blind


def chosen_book(book: CodeBook, menu: Menu | None, picks: Sequence[int]) -> CodeBook:
    """The code book of which these are the first sign bits; the plan's own where there are none.

    Every party makes the same of it, to the last bit.

    Raises:
        ProtocolError: they are no picks of this menu.
    """
    if not picks:
        return book
    if menu is None or not _is_pick(menu, picks):
        raise ProtocolError("directions were picked that no menu has", "Check the peer's software.")
    _check_fit(menu, book)
    directions = book.arrays["directions"]
    places = [place for place in picks if place < menu.of_z]
    columns = [place for place in picks if menu.of_z <= place < menu.none]
    rest = directions[:, : directions.shape[1] - len(places) - len(columns)]
    arrays = {
        **book.arrays,
        "directions": np.concatenate([menu.vectors[:, places], rest], axis=1),
        "cuts": np.concatenate([menu.cuts[places], np.zeros(rest.shape[1])]),
    }
    if columns:
        which = [menu.columns[place - menu.of_z] for place in columns]
        arrays["columns"] = np.stack([np.array(which, np.float64), menu.cuts[columns]])
    return replace(book, arrays=arrays)


def _is_pick(menu: Menu, picks: Sequence[int]) -> bool:
    known = all(0 <= place <= menu.none for place in picks) and menu.none not in picks[:-1]
    return known and len(set(picks)) == len(picks) <= menu.picks


def _check_fit(menu: Menu, book: CodeBook) -> None:
    """Refuse a menu of which some picks, or their number, could not be the first sign bits of the book.

    So no pick is refused once D_v has made it: that would tell of it and cost nothing.
    """
    fits = max(menu.columns, default=0) < book.spec.width and len(menu.leading) == book.spec.dimension
    bits = book.arrays["directions"].shape[1] if "directions" in book.arrays else 0
    if "columns" in book.arrays or not fits or menu.picks > bits:
        raise ConfigError("a menu's directions do not fit its code book", "Compare the parties' versions.")
