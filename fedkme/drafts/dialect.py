"""Detection of a file's dialect: encoding, separator, signs of numbers, dates, words for empty cells."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from fedkme.drafts import words
from fedkme.drafts.layout import layout_of
from fedkme.errors import DataError, on_disk
from fedkme.tables.axis import CODES, codes_apart
from fedkme.tables.cells import DAYS, day_of, days_of
from fedkme.tables.csv_rows import open_bytes, open_text
from fedkme.tables.data_file import DataFile
from fedkme.tables.dates import day_in_form, english

NOTHING = frozenset(
    (
        "na",
        "n/a",
        "#n/a",
        "n.a.",
        "k.a.",
        "<na>",
        "nan",
        "null",
        "none",
        "nil",
        "missing",
        "?",
        ".",
        "-",
        "--",
        *("inf", "+inf", "-inf", "infinity", "-infinity", "(null)", "#null!", "#div/0!", "#value!", "#ref!"),
        *("0000-00-00", "0000-00-00 00:00:00", "00.00.0000", "00/00/0000", "99/99/9999", "99.99.9999"),
        *("#num!", "#name?", "not available", "not applicable", "keine angabe", "k. a.", "sin dato", "s/d"),
    )
)
"""Words for an empty cell, in small letters."""
NOT_MEASURED = frozenset(
    (
        *("nd", "n.d.", "n/d", "bdl", "lod", "<lod", "..", "...", "*", "x", "unknown", "unk", "not measured"),
        *("not done", "not recorded", "unbekannt", "inconnu", "desconocido", "sconosciuto", "onbekend"),
    )
)
"""Words for an empty cell in columns of numbers alone: elsewhere ND may be a state."""
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
_LIMIT = re.compile(r"[<>]=? ?\d+([.,]\d+)?")
"""Pattern of a number that is only known to lie below or above a limit."""
_MANY_NUMBERS = 10
"""Distinct numbers from which words among them may be more than a few."""
_MOST_WORDS, _FEW_WORDS = 0.5, 0.1
_REFUSALS, _OFTEN, _BESIDES = (7.0, 8.0, 9.0), 0.1, 3
"""Codes of surveys, which are usual numbers elsewhere; share of rows from which -1 is a class; numbers beside
which there may be codes."""
_LINES, _LAST = 200, 20
"""Lines at the beginning and at the end of a file that are looked at."""
_DECIMAL = {point: re.compile(rf"[+-]?\d+\{point}\d+") for point in ".,"}
_GROUPED = {
    ",": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?"),
    ".": re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?"),
    " ": re.compile(r"[+-]?\d{1,3}([ \u00a0\u202f]\d{3})+([.,]\d+)?"),
    "'": re.compile(r"[+-]?\d{1,3}(['\u2019]\d{3})+([.,]\d+)?"),
}
"""Patterns of numbers with signs between thousands, by the sign."""
_UNIT = re.compile(r"(\(?[+-]?) ?([$€£¥₹])? ?([+-]?\d[\d.,'\u2019\u00a0\u202f ]*?)\s?([$€£¥₹%])?\)?")
"""Pattern of a number with a unit before or after it, or in parentheses."""
_TWO_SIGNS = re.compile(r".*\d\D\d{3}\D\d.*")
"""Pattern of a number with two signs: the first of them is between thousands."""


def detect_file(path: Path) -> DataFile:
    """Detect layout, encoding, separator and signs of numbers of a file of text; others need no settings.

    Raises:
        DataError: the file cannot be read, or its cells are separated by more than one character.
    """
    if DataFile(path=path).carrier != "text":
        return DataFile(path=path)
    with on_disk(f"{path} cannot be read", "Check the path.", DataError):
        encoding = _encoding(path)
        with open_text(path, encoding) as text:
            lines = list(islice(text, _LINES))
            last = list(deque((*lines, *text) if len(lines) < _LAST else text, _LAST)) or lines[-_LAST:]
    layout = layout_of(lines, last)
    if layout.longer:
        cause = f"the cells of {path} are separated by {layout.longer!r}, which is not one character"
        raise DataError(cause, "Write the file again with commas, semicolons or tabs between its cells.")
    reader = csv.reader(lines[layout.skip :], delimiter=layout.sep, skipinitialspace=layout.sep == " ")
    cells = [cell.strip() for row in reader for cell in row]
    numbers = [match for match in map(_UNIT.fullmatch, cells) if match]
    decimal, thousands = _signs([match[3] for match in numbers], layout.sep)
    units = tuple(sorted({match[place] for match in numbers for place in (2, 4)} - {None}))
    return DataFile(
        path=path,
        sep=layout.sep,
        skip=layout.skip,
        skip_end=layout.skip_end,
        decimal=decimal,
        thousands=thousands,
        units=units,
        encoding="utf-8" if encoding == "utf-8-sig" else encoding,
    )


def _signs(cells: Sequence[str], sep: str) -> tuple[Literal[".", ","], Literal["", ",", ".", " ", "'"]]:
    """Sign before decimals, and sign between thousands.

    1,234 is ambiguous if the file has no other number with a comma. It is then read as a decimal number,
    unless commas separate the file's cells.
    """
    commas, points = (sum(bool(_DECIMAL[each].fullmatch(cell)) for cell in cells) for each in ",.")
    decimal: Literal[".", ","] = "," if sep != "," and commas > points else "."
    pairs: tuple[tuple[Literal[".", ","], Literal[",", "."]], ...] = ((".", ","), (",", "."))
    for point, mark in pairs:
        grouped = [cell for cell in cells if _GROUPED[mark].fullmatch(cell)]
        unambiguous = _has_decimals(cells, point) or any(map(_TWO_SIGNS.fullmatch, grouped)) or mark == sep
        if grouped and unambiguous and point != sep and not _has_decimals(cells, mark):
            return point, mark
    signs: tuple[Literal[" ", "'"], ...] = (" ", "'")
    return decimal, next((each for each in signs if any(map(_GROUPED[each].fullmatch, cells))), "")


def _has_decimals(cells: Iterable[str], point: Literal[".", ","]) -> bool:
    """Check whether a sign stands before decimals in some cell, and surely not between thousands."""
    return any(_DECIMAL[point].fullmatch(cell) and not _GROUPED[point].fullmatch(cell) for cell in cells)


def _encoding(path: Path) -> str:
    with open_bytes(path) as file:
        start = file.read(4)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while block := file.read(1 << 20):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            file.seek(0)
            undefined = set(b"\x81\x8d\x8f\x90\x9d")  # bytes that cp1252 leaves out, and Latin-1 has
            return (
                "latin-1"
                if any(undefined & set(block) for block in iter(lambda: file.read(1 << 20), b""))
                else "cp1252"
            )
    return "utf-8-sig"


def words_for_nothing(
    counts: Counter[str], read: Callable[[str], float], *, public: bool = False
) -> list[str]:
    """Texts of a column that stand for an empty cell.

    Args:
        counts: number of cells with each text.
        read: reads a text as a number.
        public: the texts may be shown: a single word in a column of numbers counts, whatever the word is.
    """
    words = {text for text in counts if text.lower() in NOTHING}
    others = [text for text in counts if text and text not in words and not is_number(text, read)]
    numbers = len(counts) - len(words) - len(others)
    most = _MOST_WORDS if numbers >= _MANY_NUMBERS else _FEW_WORDS
    if sum(counts[text] for text in others) <= most * counts.total():
        alone = public and len(others) == 1 and others[0].isalpha()
        words |= {text for text in others if alone or text.lower() in NOT_MEASURED or _LIMIT.fullmatch(text)}
    return sorted(words)


def words_for_no_class(counts: Mapping[str, int], read: Callable[[str], float]) -> list[str]:
    """Texts of a public label that stand for no class: words and codes, as long as two classes are left.

    Words such as "none", which may be a class, stand for none beside numbers, yes and no alone.
    """
    texts = [text for text in counts if text]
    nothing = {*words_for_nothing(Counter(counts), read, public=True)}
    nothing |= {text for text in texts if words.plain(text) in words.NOTHING}
    clear = {text for text in texts if text not in nothing and not is_number(text, read)}
    if not {words.plain(text) for text in clear} <= words.YES | words.NO:
        nothing -= {text for text in texts if words.plain(text) in words.STATES}
    codes = codes_of_few(counts, nothing, read)
    for chosen in (nothing.union(codes), nothing):
        if len({*texts} - chosen) >= 2:
            return sorted(chosen)
    return []


def codes_of_few(
    counts: Mapping[str, int], nothing: Collection[str], read: Callable[[str], float], most: int | None = None
) -> list[str]:
    """Texts that are codes for a missing value among names, or among a few numbers.

    -1 in a tenth of the cells is a name.

    Args:
        counts: number of cells with each text.
        nothing: texts that stand for an empty cell.
        read: reads a text as a number.
        most: other numbers, at most; None: any number of them, as the column is a label. Outside of labels 7,
            8 and 9 beside words may be rooms.
    """
    texts = [text for text in counts if text and text not in nothing]
    often = _OFTEN * sum(counts[text] for text in texts)
    codes = codes_among(texts, read)
    others = [text for text in texts if text not in codes]
    if most is not None and not all(is_number(text, read) for text in others):
        codes = {text: code for text, code in codes.items() if code in CODES}
    elif most is not None and len(others) > most:
        return []
    return [text for text, code in codes.items() if code != -1.0 or counts[text] < often]


def codes_among(names: Iterable[str], read: Callable[[str], float]) -> dict[str, float]:
    """Usual codes for a missing value, by the texts of those names that are such: beside words, or far away.

    7, 8 and 9 are codes beside two words, 0 and 1, or 1 and 2, as in surveys.
    """
    names = [*names]
    numbers = {name: read(name) for name in names if is_number(name, read)}
    values = {*numbers.values()}
    if len(numbers) + 1 < len(names) and values <= {*CODES, *_REFUSALS}:
        codes = values
    elif len(numbers) != len(names) - 1:  # a single word stands for none itself
        refusals = {*_REFUSALS} if sorted(values - CODES - {*_REFUSALS}) in ([0, 1], [1, 2]) else set()
        others = np.array(sorted(values - refusals))
        apart = others[codes_apart(others)].tolist()
        codes = {*apart} | (values & refusals) if len(others) - len(apart) > 1 else set()
    else:
        codes = set()
    return {name: number for name, number in numbers.items() if number in codes}


def is_number(text: str, read: Callable[[str], float]) -> bool:
    """Check whether a cell can be read as a number."""
    try:
        read(text)
    except ValueError:
        return False
    return True


def codes_for_nothing(numbers: Iterable[float]) -> list[float]:
    """Numbers of a column that are codes for a gap: far from all others, or the only negative numbers."""
    values = np.array(sorted(set(numbers)), np.float64)
    apart = codes_apart(values)
    codes: list[float] = values[apart].tolist()
    return codes if len(values) - len(codes) >= _BESIDES else []


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
