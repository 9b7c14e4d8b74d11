"""Columns of numbers and dates."""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, FiniteFloat, field_serializer, model_validator

from fedkme.arrays import FloatArray
from fedkme.config import Settings
from fedkme.tables.axis import FAR, Axis, are_bounds, codes_beyond, equal_to, nearest_of
from fedkme.tables.cells import DAYS, Name, date_of, day_of, days_of
from fedkme.tables.dates import DateForm
from fedkme.tables.names import EMPTY_OR_CODED, GAPS, Fault, Swallowed

CODE = "a number that usually stands for a missing value"
"""Description of cells beyond the bounds that `clip` does not move."""
CODE_REMEDY = (
    "Say so with 'missing_codes' or the file's 'na'; else list it under 'atoms' or widen the bounds."
)
CLIPPED = "beyond the bounds or 'values', moved to the nearest"
"""Description of cells that `clip` moved."""

FILL_GAPS = "Remove these rows, or give the schema's column 'nullable = true' or a public 'missing' value."
"""Remedy for empty cells of a column that may have none."""


def _days(value: object) -> object:
    """Days from 1970-01-01 to a date or ISO 8601 text; any other value is returned unchanged."""
    if isinstance(value, str):
        return day_of(value)
    return days_of(value) if isinstance(value, date) else value


def _unchanged(value: object) -> object:
    return value


Number = Annotated[FiniteFloat, BeforeValidator(_unchanged, json_schema_input_type=FiniteFloat | date)]
"""A number; the value of a date column may be written as a date."""


class Numeric(Settings):
    """A number, a date, or a block of like numbers such as the pixels of an image."""

    kind: Literal["numeric", "date"] = "numeric"
    """`date`: a day. Bounds, `missing` and `missing_codes` are dates; a table holds days since 1970-01-01."""
    name: Name
    """Name of the column."""
    bounds: tuple[Number, Number]
    """Smallest and largest value, or date, that there can be, known without looking at rows."""
    count: int = Field(default=1, ge=1)
    """Columns in the block; with more than one they are called name0, name1, ..."""
    missing: Number | None = None
    """Public value in place of NaN, infinity, an empty cell or one of `missing_codes`; none: refuse them."""
    missing_codes: tuple[Number, ...] = ()
    """Numbers that mean that there is no value, such as -9."""
    clip: bool = False
    """Move a value outside the bounds to the nearest bound instead of refusing it."""
    integer: bool = False
    """Values are whole numbers, as those of dates are; a file's others are rounded, and counted."""
    decimals: int | None = Field(None, ge=0, le=12)
    """Decimals that made values are rounded to; none: as they come."""
    scale: Literal["linear", "log"] = "linear"
    """`log`: asinh(x / unit), for columns whose values differ by orders of magnitude; holds 0 and negative
    numbers. The unit is public: the bound nearest to 0 if all values have one sign, else 10^-decimals, 1 for
    whole numbers, or a thousandth of the longer bound."""
    cuts: tuple[Number, ...] = ()
    """Public cut points, increasing, inside the bounds; bins between them are equally long in model space."""
    atoms: tuple[Number, ...] = ()
    """Values that many rows have, such as 0 or -1, inside the bounds or not: each is a bin of its own, and a
    category in model space."""
    values: tuple[Number, ...] = ()
    """All values that there can be, where they are few, such as 1, 2.5 and 10: each is a bin of its own, and
    `clip` moves any other to the nearest."""
    nullable: bool = False
    """Empty cells are told apart: a category NAME_missing (NAME_missing_2 where that is taken) of no and yes
    (or of no, empty and each of several codes) stands beside the column, which has `missing`, by default the
    middle of the bounds, in its gaps."""
    na: tuple[str, ...] = ()
    """Cells that mean an empty one in any party's file, such as "NA" or "?"."""
    format: DateForm | None = None
    """Form of dates in files that do not write 2024-12-31, such as "%d.%m.%Y" (Python's strptime)."""

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        filled = dict(values)
        if filled.get("kind") == "date":
            for key in ("bounds", "missing_codes", "cuts", "atoms", "values"):
                if isinstance(given := filled.get(key), list | tuple):
                    filled[key] = tuple(map(_days, given))
            filled |= {"missing": _days(filled.get("missing")), "integer": True}
        if filled.get("nullable") is True and filled.get("missing") is None:
            match filled.get("bounds"):
                case [int() | float() as low, int() | float() as high]:
                    middle = (low + high) / 2
                    filled["missing"] = math.floor(middle) if filled.get("integer") else middle
            match filled.get("values"):
                case [*given] if given and all(isinstance(each, int | float) for each in given):
                    filled["missing"] = given[len(given) // 2]
        return filled

    @field_serializer("bounds", "missing", "missing_codes", "cuts", "atoms", "values")
    def _written(self, value: Any) -> Any:
        if self.kind != "date" or value is None:
            return value
        return date_of(value) if isinstance(value, float) else tuple(map(date_of, value))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        low, high = self.bounds
        if self.kind == "date" and not DAYS[0] <= low <= high <= DAYS[1]:
            raise ValueError(f"the bounds of column '{self.name}' are not [first, last], in years 1 to 9999")
        if not are_bounds(low, high):
            raise ValueError(
                f"the bounds of column '{self.name}' are not [lower, upper] within {FAR:g}, well apart"
            )
        fits = not self.values and self.missing is not None and low <= self.missing <= high
        if self.missing is not None and not fits and self.missing not in self.singles:
            raise ValueError(
                f"'missing' of column '{self.name}' is outside its bounds, or none of its values"
            )
        if self.missing_codes and self.missing is None:
            raise ValueError(f"column '{self.name}' has 'missing_codes' and no 'missing' in their place")
        if self.integer and not (low.is_integer() and high.is_integer()):
            raise ValueError(f"column '{self.name}' is 'integer' and its bounds are not whole numbers")
        if self.count > 1 and (self.nullable or self.atoms or self.kind == "date"):
            raise ValueError(f"block '{self.name}': a date, or a number with atoms or gaps, stands by itself")
        if self.format and self.kind != "date":
            raise ValueError(f"column '{self.name}' has a 'format' and is no date")
        if (self.format or "").startswith("%Y-%d"):
            raise ValueError(f"give the 'format' of column '{self.name}' to the files: %Y-%m-%d looks alike")
        if self.integer and self.decimals:
            raise ValueError(f"column '{self.name}' is 'integer' and has 'decimals'")
        if len(set(self.atoms)) < len(self.atoms) or any(abs(atom) > FAR for atom in self.atoms):
            raise ValueError(f"column '{self.name}' lists an atom twice, or one beyond {FAR:g}")
        for key, numbers in (("cuts", (low, *self.cuts, high)), ("values", self.values)):
            whole = not self.integer or all(number.is_integer() for number in numbers)
            if not (whole and all(a < b for a, b in pairwise(numbers))) or numbers != self._inside(numbers):
                why = "do not increase inside its bounds, whole if it is"
                raise ValueError(f"'{key}' of column '{self.name}' {why}")
        if self.values and (self.cuts or self.count > 1 or not {*self.atoms} <= {*self.values}):
            raise ValueError(f"column '{self.name}' has 'values' beside 'cuts', 'count' or other 'atoms'")
        return self

    def _inside(self, numbers: Iterable[float]) -> tuple[float, ...]:
        return tuple(number for number in numbers if self.bounds[0] <= number <= self.bounds[1])

    @property
    def singles(self) -> tuple[float, ...]:
        """Values that have a bin of their own: `values`, else the atoms."""
        return self.values or self.atoms

    @property
    def names(self) -> list[str]:
        """Name of each column of the block."""
        return [self.name] if self.count == 1 else [f"{self.name}{i}" for i in range(self.count)]

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Parts in model space: levels, 0 for numbers, and columns."""
        levels = len(self.atoms) + 1
        return [(0, self.count), (levels, levels)] if self.atoms else [(0, self.count)]

    @property
    def encoded_width(self) -> int:
        """Columns in model space."""
        return sum(width for _, width in self.parts)

    @property
    def mean_squared_distance(self) -> float:
        """Mean squared distance in model space of two values drawn uniformly, from the bounds and atoms."""
        if not self.atoms:
            return self.count / 6.0
        levels, places = len(self.atoms) + 1, self.atom_places
        both = 1.0 / 6.0 + 2.0 * sum(1.0 / 3.0 - p + p * p for p in places)  # E (U - V)^2, E (U - p)^2
        apart = sum((p - q) ** 2 for p in places for q in places)
        return (both + apart) / levels**2 + 1.0 - 1.0 / levels

    @cached_property
    def axis(self) -> Axis:
        """Scale of the column's values."""
        low, high = self.bounds
        unit = None
        if self.scale == "log":
            near = low if low > 0 else -high if high < 0 else None
            step = 1.0 if self.integer else max(-low, high) / 1000.0
            unit = near or (step if self.decimals is None else 10.0**-self.decimals)
        return Axis(low, high, self.cuts, unit, self.integer)

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest possible value, atoms included."""
        return min(self.bounds[0], *self.atoms, math.inf), max(self.bounds[1], *self.atoms, -math.inf)

    @property
    def atom_places(self) -> tuple[float, ...]:
        """Place of each atom in [0, 1]; an atom outside the bounds has the nearest bound's place."""
        return tuple(self.axis.place(np.clip(np.array(self.atoms, np.float64), *self.bounds)).tolist())

    def rounded(self, values: FloatArray) -> FloatArray:
        """Round values to `values`, to whole numbers, or to `decimals`."""
        if self.values:
            return nearest_of(self.values, values)
        if self.integer:
            return np.rint(values)
        return values if self.decimals is None else np.clip(np.round(values, self.decimals), *self.bounds)

    def levels_of(self, values: FloatArray, among: tuple[float, ...] | None = None) -> NDArray[np.int64]:
        """Number of each value among some, or `singles`, from 1; 0 if the value is none of them."""
        levels = np.zeros(np.shape(values), dtype=np.int64)
        for level, single in enumerate(self.singles if among is None else among, 1):
            levels[equal_to(values, single)] = level
        return levels

    def moved(self, values: FloatArray) -> FloatArray:
        """Possible values that are nearest, which `clip` takes; without it, the values."""
        if not self.clip:
            return values
        return self.rounded(values) if self.values else np.clip(values, *self.bounds)

    def gaps(self, block: FloatArray) -> NDArray[np.bool_]:
        """Mark the cells of (m, count) values that `missing` would fill."""
        gaps: NDArray[np.bool_] = ~np.isfinite(block)
        for code in self.missing_codes:
            gaps |= equal_to(block, code)
        return gaps

    @property
    def gap_names(self) -> tuple[str, ...]:
        """Categories of the column that marks gaps: of several codes each is told apart."""
        codes = [date_of(code) if self.kind == "date" else f"{code:.15g}" for code in self.missing_codes]
        return (*EMPTY_OR_CODED, *codes) if len(codes) > 1 else GAPS

    def _filled(self, block: FloatArray) -> FloatArray:
        return block if self.missing is None else np.where(self.gaps(block), self.missing, block)

    def encode(self, block: FloatArray) -> FloatArray:
        """Places of (m, count) values in [0, 1], followed by their atoms, one-hot / sqrt(2)."""
        filled = self._filled(block)
        if not self.atoms:
            return self.axis.place(np.clip(self.moved(filled), *self.bounds))  # a bound may be a float32
        # An atom may lie outside the bounds; any other value there is a fault, or is clipped.
        places = self.axis.place(np.clip(filled, *self.bounds))
        hot = self.levels_of(filled, self.atoms) == np.arange(len(self.atoms) + 1)
        return np.concatenate([places, np.where(hot, math.sqrt(0.5), 0.0)], axis=1)

    def decode(self, block: FloatArray) -> FloatArray:
        """Values of points of model space, (m, encoded width) -> (m, count): atoms, or inside the bounds."""
        values = self.rounded(self.axis.value(block[:, : self.count]))
        if not self.atoms:
            return values
        atoms = np.array([0.0, *self.atoms])[level := block[:, self.count :].argmax(axis=1)]
        return np.where(level[:, None] > 0, atoms[:, None], values)

    def faults(self, block: FloatArray) -> Iterator[Fault]:
        """Yield each possible fault of (m, count) values with a mask of the faulty values."""
        filled = self._filled(block)
        finite = np.isfinite(filled)
        yield "NaN, infinity or an empty cell", FILL_GAPS, ~finite
        if self.clip:
            yield CODE, CODE_REMEDY, self._codes(filled)
        else:
            remedy = (
                "Correct the rows, say with 'na' which mean nothing, set 'clip', or agree on wider bounds."
            )
            what = "none of the public 'values'" if self.values else "outside the public bounds"
            yield what, remedy, self.outside(block)

    def swallowed(self, block: FloatArray) -> Iterator[Swallowed]:
        """Yield masks of the (m, count) values that `missing` and `clip` replace."""
        if self.missing is not None and not self.nullable:
            yield "empty, taken as the public 'missing'", self.gaps(block)
        if self.clip:
            yield CLIPPED, self.outside(block)

    def outside(self, block: FloatArray) -> NDArray[np.bool_]:
        """Mark the (m, count) impossible values that are no gaps, atoms or, under `clip`, codes."""
        values, (low, high) = self._filled(block), self.bounds
        beyond = (values < low) | (values > high)
        if self.values:
            beyond[:] = True
        elif beyond.any():
            beyond &= ~(equal_to(values, low) | equal_to(values, high))
        outside: NDArray[np.bool_] = beyond & (self.levels_of(values) == 0)
        return outside & ~self._codes(values) if self.clip else outside

    def _codes(self, values: FloatArray) -> NDArray[np.bool_]:
        codes = codes_beyond(values, self.bounds, day=self.kind == "date")
        codes &= self.levels_of(values) == 0
        return codes
