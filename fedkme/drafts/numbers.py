"""Keys of a column of numbers or dates: bounds, decimals, codes for nothing, atoms, scale, form."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fedkme.drafts.dialect import codes_for_nothing
from fedkme.drafts.samples import ColumnSample
from fedkme.drafts.words import of_calendar
from fedkme.tables.axis import CODES, DAY_CODES, FAR, are_bounds
from fedkme.tables.cells import DAYS, date_of, day_of, days_of
from fedkme.tables.dates import day_in_form, english, of_two_digits
from fedkme.tables.numbers import Numeric

ISO = "%Y-%m-%d"
"""Form that is read without settings: days of ISO 8601, padded or not, with or without a time."""
_ORDERS = {"NNN": ("dmY", "mdY", "Ymd", "dmy", "mdy", "ymd"), "NN": ("mY", "Ym")}
"""Orders of day, month and year by the kinds of a date's parts: N for digits, B for the name of a month."""
_ORDERS |= {"NBN": ("dbY", "Ybd", "dby"), "BNN": ("bdY", "bdy"), "BN": ("bY", "by"), "NB": ("Yb", "yb")}
_TIME = re.compile(
    r"(?P<between>[ T:]|, | - | um | at )\d{1,2}(?P<colon>[:.])\d\d(?P<seconds>(?P=colon)\d\d)?"
    r"(?P<fraction>\.\d{1,6})?(?P<half> ?[AaPp][Mm])?(?P<zone> ?(UTC|GMT|Z|[+-]\d\d:?\d\d))?"
)
_LOG = ("%b %d %H:%M:%S %Y", "%b %d %H:%M:%S %z %Y")
"""Forms of logs, with the year behind the time."""
_SWAPPED = tuple(
    (f"%d{sign}%m{sign}{year}", f"%m{sign}%d{sign}{year}") for sign in "/-" for year in ("%Y", "%y")
)
"""European and American forms of days that may look alike."""
_PART = re.compile(r"\d+|[^\W\d_]+|.", re.DOTALL)
_MONTH = re.compile(r"[A-Z][a-z]{2}")
_PLAIN_NUMBER = re.compile(r"[+-]?\d*[.,]?\d*")
_LONGEST = 48
_MANY_NUMBERS = 33
"""Least count of distinct numbers in a column for which atoms and a scale are proposed."""
_AT_AN_END = 5
"""Least count of rows with the least or the largest of few whole numbers that is a bound as it is."""
_OWN_BINS = 16
"""Whole numbers up to this count have a bin each, so that none of them needs an atom."""
_FEW_NUMBERS, _NEAR = 5, 16
"""Least count of distinct numbers beside atoms for which a scale is proposed, or beside codes; numbers
below a doubtful code that are looked at."""
MOST_VALUES, _ROWS_OF_VALUE, _ONCE = 24, 20, 0.002
"""Most numbers of a column that are listed, the least count of rows for each of them on average, and the
largest share of rows whose number no other row has: else numbers that are not in the sample are likely."""
_MOST_ATOMS = 3
_ATOM = 0.1
"""Least share of rows that have an atom."""
_SKEWED = 0.1
"""Part of the range that holds half of the rows, at most, for a logarithmic scale."""
_MOST_DECIMALS = 6
_BY_ACCIDENT = 0.01
"""Share of numbers that may have more decimals than are drafted."""
_LARGEST_WHOLE = 2.0**63
_TIME_OF_DAY = re.compile(r"[ T](?!0?0:00)\d\d?:\d\d")
"""Pattern of a time other than midnight after a day; a zone such as +02:00 is none."""
_ENDLESS = day_of("2900-01-01")
"""Day from which a date among earlier ones means that there is none."""
_FREQUENT = 5
"""Times as many rows as any other day that a day has which stands for none."""


def number_spec(
    name: str, sample: ColumnSample, point: Counter[float], nullable: bool
) -> tuple[dict[str, Any], str]:
    """Keys of a column, and what was guessed of it; no keys if no schema can hold its numbers.

    Args:
        name: name of the column.
        sample: its cells.
        point: its numbers with the number of their rows; the first few thousand of them.
        nullable: some cells are empty.
    """
    total = point.total()
    remarks = []
    codes = _codes_of(point)
    inside = Counter({value: count for value, count in point.items() if value not in codes})
    low, high = min(sample.low, *inside), max(sample.high, *inside)
    if max(-low, high) > FAR or not are_bounds(*outwards(low, high)):
        return {}, "numbers too far apart, or too near each other"
    if codes:
        which, share = ", ".join(f"{code:g}" for code in codes), sum(point[code] for code in codes) / total
        often = f", in {share:.0%} of the rows," if share >= _ATOM else ""
        remarks.append(f"{which}{often} taken as no value")
    if doubtful := _doubtful_codes(inside):
        which = ", ".join(f"{code:g}" for code in doubtful)
        remarks.append(f"{which}: no value? Then list it under 'missing_codes'")
    bounds = outwards(low, high)
    if sample.whole:
        bounds = of_calendar(name, low, high) or _limits(low, high, inside)
    shape = _shape(inside, total, bounds, high, sample.whole)
    if _are_listed(inside, sample.whole):  # they need no scale, and lie in the bounds
        shape = {"values": sorted(inside)} | ({"atoms": shape["atoms"]} if "atoms" in shape else {})
    bounds = (shape.pop("low", bounds[0]), bounds[1])
    spec: dict[str, Any] = {"kind": "numeric", "name": name, "bounds": _written(bounds, sample.whole)}
    spec["clip"] = True
    if sample.whole:
        spec["integer"] = True
    elif decimals := _decimals(sample.decimals):
        spec["decimals"] = decimals
    for key in shape.keys() & {"atoms", "values"}:
        shape[key] = _written(shape[key], sample.whole)
    gaps = {"nullable": True} if nullable or codes else {}
    return {**spec, **shape, **gaps, **({"missing_codes": codes} if codes else {})}, "; ".join(remarks)


def _codes_of(point: Counter[float]) -> list[float]:
    """Codes for a gap among counted numbers: several at the end, as 98 and 99, are nearer to the others."""
    codes = codes_for_nothing(point)
    numbers = sorted(value for value in point if value not in codes)
    others = [value for value in numbers if value not in CODES]
    several = [value for value in numbers if others and value > others[-1]]
    if len(others) < _FEW_NUMBERS or len(several) < 2 or min(point[code] for code in several) < 2:
        return codes
    return [*codes, *several] if several[0] > others[-1] + (others[-1] - others[0]) / 2.0 else codes


def _doubtful_codes(point: Counter[float]) -> list[float]:
    """Usual codes among the numbers of a column: such as 999 in many rows, or with no number near it."""
    numbers, doubtful = sorted(point), list[float]()
    for place, value in enumerate(numbers[_NEAR:], _NEAR):
        *_, last = below = numbers[place - _NEAR : place]
        alone = value == numbers[-1] and value - last > (last - numbers[0]) / 4.0 and point[value] > 1
        often = 100 <= value < numbers[-1] and point[value] > _ATOM * point.total()
        if value in CODES and (alone or often) and point[value] > max(point[number] for number in below):
            doubtful.append(value)
    return doubtful


def _written(numbers: Any, whole: bool) -> list[float]:
    return [int(number) if whole and abs(number) < _LARGEST_WHOLE else number for number in numbers]


def _are_listed(point: Counter[float], whole: bool) -> bool:
    """Check whether numbers are so few that all are seen, and far apart for whole ones."""
    total, once = point.total(), sum(count == 1 for count in point.values())
    few = 2 <= len(point) <= MOST_VALUES and total >= _ROWS_OF_VALUE * len(point)
    return few and once <= _ONCE * total and not (whole and max(point) - min(point) < 2 * len(point))


def _decimals(counts: Mapping[int, int]) -> int | None:
    """Decimals that all numbers have at most, but for one in a hundred; None if there are too many."""
    total = sum(counts.values())
    above = 0
    for decimals in sorted(counts, reverse=True):
        above += counts[decimals]
        if decimals == 0 or above > _BY_ACCIDENT * total:
            decimals = decimals or min(filter(None, counts), default=_MOST_DECIMALS + 1)
            return decimals if decimals <= _MOST_DECIMALS else None
    return None


def _shape(
    point: Counter[float], total: int, bounds: tuple[float, float], high: float, whole: bool
) -> dict[str, Any]:
    """Propose atoms, and a log scale with its lower bound, from values and their counts.

    An atom is a value that half of all rows have, or one row in ten among many distinct values. A column is
    skewed if half of its other rows lie in a small part of its range, at the lower end.
    """
    small = whole and bounds[1] - bounds[0] < _OWN_BINS
    spike = 2 * point.most_common(1)[0][1] >= total and len(point) > 1 and not small
    if len(point) < _MANY_NUMBERS and not spike:
        return {}
    if whole and high - min(point) < _MANY_NUMBERS and not spike:
        return {}
    atoms = sorted(v for v, count in point.most_common(_MOST_ATOMS) if count >= _ATOM * total)
    rest = np.array(sorted((value, count) for value, count in point.items() if value not in atoms))
    if not len(rest):
        return {"atoms": atoms}
    middle = float(rest[np.searchsorted(rest[:, 1].cumsum(), rest[:, 1].sum() / 2.0), 0])
    least = float(rest[0, 0])
    skewed = len(rest) >= _FEW_NUMBERS and middle - least < _SKEWED * (high - least)
    shape: dict[str, Any] = {"scale": "log"} if skewed else {}
    if shape and least > 0:
        shape["low"] = 10.0 ** math.floor(math.log10(least))
    return shape | ({"atoms": atoms} if atoms else {})


def _limits(low: float, high: float, point: Counter[float]) -> tuple[float, float]:
    """Bounds of whole numbers: rounded outwards, but for an end that many rows have, as months end at 12."""
    lower, upper = outwards(low, high)
    often = max(_AT_AN_END, point.total() / len(point) / 4.0) if len(point) < _MANY_NUMBERS else math.inf
    ends = low if point[low] >= often else lower, high if point[high] >= often else upper
    return ends if are_bounds(*ends) else (lower, upper)


def outwards(low: float, high: float) -> tuple[float, float]:
    """Bounds rounded outwards, to the power of ten of their distance; the lower bound is 0 if 0 is near."""
    apart = min(max(high - low, float(np.finfo(float).tiny)), FAR) if high > low else 1.0
    step = 10.0 ** math.floor(math.log10(apart))
    lower, upper = math.floor(low / step) * step, math.ceil(high / step) * step
    if 0 < low < high - low:
        lower = 0.0
    if lower == upper:
        upper += step
    lower, upper = float(f"{lower:.12g}"), float(f"{upper:.12g}")
    if lower <= low and high <= upper and are_bounds(lower, upper):
        return lower, upper
    beyond = 64.0 * max(math.ulp(low), math.ulp(high))  # numbers of more digits than a power of ten can round
    return (low, high) if are_bounds(low, high) else (low - beyond, high + beyond)


def widened(spec: Numeric, outside: Iterable[float]) -> dict[str, Any]:
    """Bounds and `values` of a column, as a schema file has them, with which more values can be."""
    wider = dict[str, Any]()
    if spec.values:
        values = sorted({*spec.values, *outside})
        wider["values"] = [written_value(spec, value) for value in values if len(values) <= MOST_VALUES]
    bounds = [written_value(spec, bound) for bound in spec.bounds]
    return wider if (new := _wider_bounds(spec, outside)) == bounds else wider | {"bounds": new}


def _wider_bounds(spec: Numeric, values: Iterable[float]) -> list[Any]:
    low, high = spec.bounds
    lower, upper = min(low, *values), max(high, *values)
    if spec.kind == "date":
        start = f"{date_of(lower)[:4]}-01-01" if lower < low else date_of(low)
        return [start, f"{date_of(upper)[:4]}-12-31" if upper > high else date_of(high)]
    wide = outwards(lower, upper)
    if lower < low:
        lower = 10.0 ** math.floor(math.log10(lower)) if lower > 0 else wide[0]
    return [written_value(spec, lower), written_value(spec, wide[1] if upper > high else high)]


def written_value(spec: Numeric, value: float) -> Any:
    """Value of a column as a schema file has it."""
    if spec.kind == "date":
        return date_of(value)
    return int(value) if float(value).is_integer() and (spec.integer or abs(value) < 1e15) else value


def forms_of_dates(texts: Iterable[str], *, month_first: bool = False) -> list[str]:
    """Forms that fit all texts which are not in ISO form, the likeliest first; ISO alone if all are.

    Of two forms that differ in the order of day and month, the likelier has more days in the order of the
    texts, or days that all begin months; else it is the one with the day first, or as `month_first` says.
    """
    listed = list(texts)
    others = [text for text in listed if not _is_iso(text)]
    if not others:
        return [ISO] if listed else []
    fitting = [form for form in _forms_of(others[0]) if _fits(others[0], form)]
    for text in others[1:]:
        if not fitting:
            return []
        fitting = [form for form in fitting if _fits(text, form)]
    american = in_other_order(fitting[0], fitting) if fitting else None
    if american and (month_first or _order(others, american) > _order(others, fitting[0])):
        fitting = [american, *(form for form in fitting if form != american)]
    return fitting


def in_other_order(form: str, fitting: Sequence[str]) -> str | None:
    """The form with day and month in the other order, if it is among the fitting forms."""
    for first, second in _SWAPPED:
        for one, other in ((first, second), (second, first)):
            if form.startswith(one) and (swapped := other + form[len(one) :]) in fitting:
                return swapped
    return None


def is_month_first(forms: Iterable[str]) -> bool:
    """True if one of the forms has digits of the month before the day."""
    return any(form.startswith(second) for form in forms for _, second in _SWAPPED)


def day_in(text: str, form: str) -> float:
    """Days from 1970-01-01 to a date in ISO form, else in the given form."""
    try:
        return min(max(day_of(text), DAYS[0]), DAYS[1])
    except ValueError:
        return days_of(day_in_form(text, form))


def _forms_of(text: str) -> Iterator[str]:
    """Forms that a text may have, by its digits, names and signs."""
    if len(text) > _LONGEST or not any(map(str.isdigit, text)):
        return
    if _PLAIN_NUMBER.fullmatch(text):
        if len(text) == 8:
            yield "%Y%m%d"
        return
    text = english(text)
    time = next((match for match in _TIME.finditer(text) if match.end() == len(text)), None)
    day, behind = (text[: time.start()], _form_of_time(time)) if time else (text, "")
    parts = _PART.findall(day)
    kinds = ["N" if part.isdigit() else "B" if _MONTH.fullmatch(part) else "" for part in parts]
    if any(part.isalpha() and part != "de" and not kind for part, kind in zip(parts, kinds, strict=True)):
        return
    for order in _ORDERS.get("".join(kinds), ()):
        fields = iter(order)
        yield (
            "".join(f"%{next(fields)}" if kind else part for part, kind in zip(parts, kinds, strict=True))
            + behind
        )
    yield from _LOG if ":" in day else ()


def _form_of_time(time: re.Match[str]) -> str:
    hours = "%I" if time["half"] else "%H"
    form = f"{time['between']}{hours}{time['colon']}%M"
    form += f"{time['colon']}%S" if time["seconds"] else ""
    form += ".%f" if time["fraction"] else ""
    form += time["half"][:-2] + "%p" if time["half"] else ""
    zone = time["zone"] or ""
    return form + (zone if zone.strip() in ("", "UTC", "GMT") else " " * zone.count(" ") + "%z")


def _is_iso(text: str) -> bool:
    try:
        day_of(text)
    except ValueError:
        return False
    return True


def _fits(text: str, form: str) -> bool:
    try:
        return day_in_form(text, form).year >= 1000
    except ValueError:
        return False


def _order(texts: Sequence[str], form: str) -> tuple[float, bool]:
    """Share of neighbours among the days that are in order, in the direction of most; all begin months."""
    days = [day_in_form(text, form) for text in texts]
    pairs = list(pairwise(days))
    most = max(sum(a <= b for a, b in pairs), sum(a >= b for a, b in pairs))
    return most / max(1, len(pairs)), len({*days}) > 2 and all(day.day == 1 for day in days)


def date_forms(parts: Sequence[ColumnSample], na: Iterable[str], month_first: bool) -> list[list[str]]:
    """Forms of dates that fit the cells of each sample, the likeliest first; none if one has no dates.

    Samples that can have the same form have it.
    """
    forms = []
    for part in parts:
        cells = [text for text in part.texts() if text and text not in na]
        fitting = forms_of_dates(cells, month_first=month_first)
        if part.grouped or (cells and not fitting):
            return []
        forms.append(fitting)
    others = [each for each in forms if each not in ([], [ISO])]
    common = [form for form in (others[0] if others else []) if all(form in each for each in others)]
    return [common if common and each in others else each for each in forms]


def _days_for_nothing(counts: Mapping[float, int]) -> list[float]:
    """Days that programs write for none: far from all others, or far more frequent than each of them."""
    days, often = np.array([*counts]), np.array([*counts.values()])
    usual = np.isin(days, DAY_CODES) | (days >= _ENDLESS)
    if usual.all():
        return []
    low, high, most = days[~usual].min(), days[~usual].max(), often[~usual].max()
    far = (days < low - (high - low)) | (days > high + (high - low)) | (days >= _ENDLESS)
    codes: list[float] = days[usual & (far | (often >= max(_FREQUENT * most, 3)))].tolist()
    return codes


def date_spec(
    name: str, parts: Sequence[ColumnSample], na: Sequence[str], forms: Sequence[Sequence[str]]
) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Keys of a column of dates, what was guessed of it, and the form that each sample has.

    The schema has the first form that is not ISO.
    """
    chosen = [next(iter(fitting), ISO) for fitting in forms]
    days, counts = dict[str, float](), Counter[float]()
    for part, form in zip(parts, chosen, strict=True):
        read = {text: day_in(text, form) for text in part.texts() if text and text not in na}
        for text, day in read.items():
            counts[day] += part.counts.get(text, 1)
        days |= read
    codes = _days_for_nothing(counts)
    endless = [text for text, day in days.items() if day in codes]
    public = next((form for form in chosen if form != ISO), ISO)
    years: Sequence[int] = [int(date_of(day)[:4]) for day in days.values() if day not in codes]
    years = of_two_digits(years) if "%y" in public else years
    bounds = [f"{min(years):04d}-01-01", f"{max(years):04d}-12-31"]
    spec: dict[str, Any] = {"kind": "date", "name": name, "bounds": bounds, "clip": True}
    whys = [f"{', '.join(endless)} taken as no value"] if endless else []
    if public != ISO:
        spec["format"] = public
        fitting = next(each for each in forms if public in each)
        whys += [f"{other} fits as well" for other in (in_other_order(public, fitting),) if other]
        whys += ["years of two digits are those within the bounds"] if "%y" in public else []
    if any(form not in (ISO, public) for form in chosen):
        whys.append("the samples write dates in different forms")
    if any(_TIME_OF_DAY.search(text) for text in days):
        whys.append("days alone are read: for times of day add a column of hours")
    if endless:
        spec |= {"nullable": True, "na": endless}
    return spec, "; ".join(whys), tuple(chosen)
