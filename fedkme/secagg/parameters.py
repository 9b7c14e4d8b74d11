"""Parameters that all parties of an aggregation agree on; they bind every key and every signature."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from dataclasses import dataclass

from fedkme.errors import ConfigError
from fedkme.secagg.neighbours import plan_neighbours

MAX_LENGTH = 2**24
MAX_OWNERS = 2**16
_TAIL = 2.0**-40


@dataclass(frozen=True)
class Parameters:
    """Parameters of one aggregation, which adds one vector of each owner.

    Raises:
        ConfigError: on construction, for parameters under which no statement of docs/decisions/005 holds.
    """

    run: str
    """Name of this aggregation and no other: a run of several rounds has a name for each round."""
    owners: tuple[str, ...]
    """All n invited owners, in order of their names."""
    threshold: int
    """t: owners that open the masks, over (n + T) / 2, so that no two sets of survivors are endorsed.

    With neighbours: members of a circle that open its owner's masks, and of the committee that endorse.
    """
    dropouts: int
    """D: owners that may be missing at the end; if more are missing, owners refuse to open the sum."""
    colluders: int
    """T: owners that may tell the curator everything they know and send whatever it wants."""
    length: int
    """Entries of the vector, J x C."""
    bits: int
    """k: sums are integers modulo 2**k."""
    bound: int
    """Largest absolute coordinate of an owner's vector before noise, in steps."""
    step: float
    """Worth of one step; a power of two, so that scaling rounds nothing."""
    noise: float
    """Standard deviation of the noise that each owner adds to each coordinate, in steps. Without noise, two
    totals that differ by one owner would reveal this owner's vector (docs/decisions/005)."""
    neighbours: int = 0
    """k: number of owners with whom an owner shares masks (`fedkme.secagg.neighbours`); 0: with all."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and type(value) is not int:
                raise _invalid(f"a {field.name} that is no whole number")
        self._check_owners()
        if not is_name(self.run):
            raise _invalid("no name")
        if not (1 <= self.length <= MAX_LENGTH and 8 <= self.bits <= 64 and self.bound >= 1):
            raise _invalid(f"a length outside 1 to {MAX_LENGTH}, bits outside 8 to 64, or no bound")
        if not (_positive(self.step) and math.frexp(self.step)[0] == 0.5):
            raise _invalid("a step that is no power of two")
        if not _positive(self.noise):
            raise _invalid("noise of no finite deviation")
        if self.largest_total >= 2 ** (self.bits - 1):
            needed = math.ceil(math.log2(self.largest_total)) + 1
            cause = f"sums of {len(self.owners)} owners do not fit {self.bits} bits, they need {needed}"
            raise ConfigError(cause, "Take a coarser step, a smaller bound or more bits, 64 at most.")

    def _check_owners(self) -> None:
        names = self.owners
        if not (isinstance(names, tuple) and all(map(is_name, names))):
            raise _invalid("owners without names")
        if list(names) != sorted(set(names)) or not 2 <= len(names) <= MAX_OWNERS:
            raise _invalid("owners that are not two or more different names in order")
        n, t, d, c = len(names), self.threshold, self.dropouts, self.colluders
        if d < 0 or c < 0 or n - d - c < 2:
            raise _invalid("fewer than two honest owners left in the sum")
        if self.neighbours:
            self._check_neighbours()
            return
        if not 2 * t > n + c:
            cause = f"a threshold of {t} for {n} owners and {c} colluders: it must exceed {(n + c) / 2:g}"
            raise _invalid(cause)
        if t > n - d:
            raise _invalid(f"a threshold of {t} that {d} drop-outs of {n} owners may miss")

    def _check_neighbours(self) -> None:
        if (self.neighbours, self.threshold) != sharing(len(self.owners), self.dropouts, self.colluders):
            raise _invalid(
                f"{self.neighbours} neighbours and a threshold of {self.threshold}, which this release does "
                f"not plan for {len(self.owners)} owners"
            )

    @functools.cached_property
    def context(self) -> bytes:
        """SHA-256 of all parameters, (32,) bytes; it binds keys, signatures and messages."""
        values = dataclasses.asdict(self)
        if not self.neighbours:  # same bytes as before the field existed
            del values["neighbours"]
        plain = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(b"fedkme secure aggregation 1\0" + plain.encode("ascii")).digest()

    @property
    def least_survivors(self) -> int:
        """Least number of survivors, n - D, which is at least the threshold."""
        return len(self.owners) - self.dropouts

    @property
    def largest_total(self) -> int:
        """Bound on every coordinate of the sum, except with probability 2**-40 over the noise."""
        return len(self.owners) * self.bound + self.noise_tail

    @property
    def noise_tail(self) -> int:
        """Bound on the sum of all owners' noise in all coordinates, except with probability 2**-40.

        A discrete Gaussian is subgaussian with its parameter (Canonne, Kamath, Steinke 2020, lemma 12), so
        the sum of n exceeds r with probability at most 2 exp(-r^2 / (2 n s^2)); the union over coordinates.
        """
        variance = len(self.owners) * self.noise**2
        return math.ceil(math.sqrt(2.0 * variance * math.log(2.0 * self.length / _TAIL)))

    def includes(self, owner: str) -> bool:
        """Check whether a party is one of the owners."""
        return owner in self._points

    def point(self, owner: str) -> int:
        """Point at which an owner's Shamir shares are evaluated."""
        return self._points[owner]

    @functools.cached_property
    def _points(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.owners, start=1)}


def is_name(name: object) -> bool:
    """Check whether a value is a valid name of an owner: 1 to 200 printable characters."""
    return isinstance(name, str) and 0 < len(name) <= 200 and name.isprintable()


def least_threshold(owners: int, colluders: int) -> int:
    """The smallest t with 2 t > n + T."""
    return (owners + colluders) // 2 + 1


def sharing(owners: int, dropouts: int, colluders: int) -> tuple[int, int]:
    """Number of neighbours of each owner (0: all owners) and the threshold.

    Args:
        owners: n.
        dropouts: D.
        colluders: T.
    """
    plan = plan_neighbours(owners, dropouts, colluders)
    return (0, least_threshold(owners, colluders)) if plan is None else (plan.degree, plan.threshold)


def _positive(value: object) -> bool:
    return isinstance(value, float) and 0.0 < value < math.inf


def _invalid(what: str) -> ConfigError:
    cause = f"secure aggregation cannot run with {what}"
    return ConfigError(cause, "See docs/decisions/005-secure-aggregation.md.")
