"""Detection of a .csv file's dialect: encoding, separator, decimal sign, dates, words for empty cells."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Literal

from fedkme.errors import DataError, on_disk
from fedkme.tables.data_file import DataFile

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
        *("inf", "+inf", "-inf", "infinity", "-infinity"),
    )
)
"""Words for an empty cell, in small letters."""
CODES = frozenset((-1, -7, -8, -9, -99, -999, -9999, 99, 999, 9999, 99999))
"""Numbers that may stand for an empty cell, if all other values of the column are far from them."""
NOT_MEASURED = frozenset(("nd", "n.d.", "n/d", "bdl", "lod", "<lod", "..", "*"))
"""Words for an empty cell in columns of numbers alone: elsewhere ND may be a state."""
_DAYS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d", "%d.%m.%y")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
DATE_FORMS = tuple(day + time for time in _TIMES for day in _DAYS)
"""Forms of dates; a column has the first form that fits all of its cells. The first is ISO 8601."""

_SEPARATORS = ",;\t|"
_LINES = 200
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
    """Detect encoding, separator and signs of numbers of a .csv; other files need no settings.

    Raises:
        DataError: the file cannot be read.
    """
    if path.suffix != ".csv":
        return DataFile(path=path)
    with on_disk(f"{path} cannot be read", "Check the path.", DataError):
        encoding = _encoding(path)
        with path.open(newline="", encoding=encoding) as text:
            lines = list(islice(text, _LINES))
    sep = _separator(lines)
    cells = [cell.strip() for row in _rows(lines, sep) for cell in row]
    numbers = [match for match in map(_UNIT.fullmatch, cells) if match]
    decimal, thousands = _signs([match[3] for match in numbers], sep)
    units = tuple(sorted({match[place] for match in numbers for place in (2, 4)} - {None}))
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    return DataFile(path=path, sep=sep, decimal=decimal, thousands=thousands, units=units, encoding=name)


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
    with path.open("rb") as file:
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


def _separator(lines: Sequence[str]) -> str:
    """Separator for which most lines have as many cells as the first line, and more than one."""

    def fit(sep: str) -> tuple[float, int]:
        widths = [len(row) for row in _rows(lines, sep) if row]
        width = widths[0] if widths else 1
        alike = sum(each == width for each in widths) / max(1, len(widths))
        return (alike if width > 1 else 0.0), width

    return max(_SEPARATORS, key=fit)


def _rows(lines: Sequence[str], sep: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=sep))
    except csv.Error:
        return []


def form_of_dates(texts: Iterable[str]) -> str | None:
    """First form of dates that fits all texts; None if no form fits, or without texts."""
    fitting = list(DATE_FORMS)
    some = False
    for text in texts:
        some = True
        fitting = [form for form in fitting if _fits(text, form)]
        if not fitting:
            return None
    return fitting[0] if some else None


def _fits(text: str, form: str) -> bool:
    if form == DATE_FORMS[0]:
        text = text[:10]  # a time may follow
    if form == "%Y%m%d" and len(text) != 8:
        return False
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


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
    if 10 * sum(counts[text] for text in others) <= counts.total():
        alone = public and len(others) == 1 and others[0].isalpha()
        words |= {text for text in others if alone or text.lower() in NOT_MEASURED}
    return sorted(words)


def is_number(text: str, read: Callable[[str], float]) -> bool:
    """Check whether a cell can be read as a number."""
    try:
        read(text)
    except ValueError:
        return False
    return True


def codes_for_nothing(numbers: Iterable[float]) -> list[float]:
    """Numbers of a column that are codes for a gap: far from all others, or the only negative numbers."""
    values = sorted(set(numbers))
    codes = [value for value in values if value in CODES]
    others = [value for value in values if value not in codes]
    if not others or len(others) < 3:
        return []
    low, high = others[0], others[-1]
    return [value for value in codes if (value < 0 <= low) or value > high + 2 * (high - low)]
