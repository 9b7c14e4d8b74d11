"""Detection of a file's dialect: encoding, separator, signs of numbers, words for empty cells."""

import codecs
import csv
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal

import numpy as np

from fedkme.drafts import words
from fedkme.drafts.layout import layout_of, rows_of
from fedkme.errors import DataError, on_disk
from fedkme.tables.axis import CODES, codes_apart
from fedkme.tables.cells import MINUS
from fedkme.tables.csv_rows import (
    are_quoted,
    bare_cells,
    first_lines,
    header_of,
    no_csv,
    open_bytes,
    open_text,
    read_parts,
    with_row_names,
)
from fedkme.tables.data_file import EITHER, DataFile, FileColumn

_PADDED = re.compile(r"0\d")
_MANY_NUMBERS = 10
"""Distinct numbers from which words among them may be more than a few."""
_MOST_WORDS, _FEW_WORDS = 0.5, 0.1
_ANSWERS, _KINDS = 0.25, 5
"""Largest share of rows, and number, of words beside many numbers that are answers without a number."""
_WORD = re.compile(r"[^\W\d_]{3,}([ '\u2019-][^\W\d_]+)*")
_REFUSALS, _OFTEN, _BESIDES = (7.0, 8.0, 9.0), 0.1, 3
"""Codes of surveys, which are usual numbers elsewhere; share of rows from which -1 is a class; numbers beside
which there may be codes."""
_CODES_APART, _ROUND = 20, 2
"""Common steps by which whole numbers that are codes lie apart, on average, and digits of a round number."""
_SUMMED, _ROUNDED = 5, 1e-4
"""Numbers above a sum, at least, that are not 0; difference from their sum of a sum of rounded numbers."""
_LINES, _LAST = 200, 20
"""Lines at the beginning and at the end of a file that are looked at."""
_WIDE = {(False, True, False, True): "utf-16-le", (True, False, True, False): "utf-16-be"}
"""Encodings by the places of zeros in the first four bytes, of files that do not say so."""
_DECIMAL = {point: re.compile(rf"[+-]?\d+\{point}\d+") for point in ".,"}
_GROUPED = {
    ",": re.compile(r"[+-]?\d{1,3}(,\d{2,3})*,\d{3}(\.\d+)?"),
    ".": re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?"),
    " ": re.compile(r"[+-]?\d{1,3}([ \u00a0\u202f]\d{3})+([.,]\d+)?"),
    "'": re.compile(r"[+-]?\d{1,3}(['\u2019]\d{3})+([.,]\d+)?"),
}
"""Patterns of numbers with signs between thousands, by the sign; in India also between hundreds of these."""
_SIGNED = re.compile(r"(\(?[+-]?) ?([$€£¥₹])? ?([+-]?\d[\d.,'\u2019\u00a0\u202f ]*?)\s?([$€£¥₹%])?\)?")
"""Pattern of a number with the sign of a currency or % before or after it, or in parentheses."""
_DRESSED = re.compile(r"([^\d\s.,+-][^\d]*?)?\s*([+-]?[\d.,'\u2019\u00a0\u202f ]*\d)\s*([^\d\s.,][^\s]*)?")
"""Pattern of a number with a unit before or behind it."""
_NUMBER = r"[+-]?\d[\d.,'\u2019\u00a0\u202f]*"
_NOT_ONE_NUMBER = {
    "days in several forms, or with other text among them: write all alike": re.compile(
        r"(\d{4}([-/. ])\d\d?\2\d\d?|\d\d?([-/. ])\d\d?\3\d{4})([ T].*)?"
    ),
    "times or durations: give hours or minutes as a number": re.compile(
        r"(\d+ days?,? )?\d+:\d\d(:\d\d(\.\d+)?)?( ?[ap]m)?|(\d+ ?(d|h|hrs?|min|m|sec|s)\b ?)+|"
        r"P(\d+[YMWD])*(T(\d+[HMS])+)?",
        re.IGNORECASE,
    ),
    "two numbers in a cell: give each a column": re.compile(rf"{_NUMBER} ?[/x×,;|] ?{_NUMBER}"),
    "numbers with text behind them: give the numbers alone": re.compile(rf"{_NUMBER} ?[^\d\s]\D*"),
}
"""Patterns of texts that stand for numbers and cannot be read as such, by what they are."""
_UNKNOWN_UNIT = re.compile(r"[^\W\d_¼-¾⅐-⅟][^\d_]*")
_SAME_UNIT = 0.9
"""Least share of a column's cells that have its unit."""
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
            lines = first_lines(text, _LINES, str(path))
            last = list(deque(chain(lines, text), _LAST))
    layout = layout_of(lines, last)
    if layout.longer:
        cause = f"the cells of {path} are separated by {layout.longer!r}, which is not one character"
        raise DataError(cause, "Write the file again with commas, semicolons or tabs between its cells.")
    reader = csv.reader(lines[layout.skip :], delimiter=layout.sep, skipinitialspace=layout.sep == " ")
    try:
        header, *rows = [header_of(next(reader, [])), *map(bare_cells, reader)]
        header = with_row_names(header, rows, layout.sep, quoted=are_quoted(lines[layout.skip :]))
    except csv.Error as error:
        raise no_csv(str(path), error) from None
    columns = zip_longest(header, *([cell.translate(MINUS) for cell in row] for row in rows), fillvalue="")
    numbers, units = {}, set[str]()
    for name, *cells in columns:
        numbers[name], own_units = bare_numbers(cells)
        units |= own_units
    decimal, thousands = _signs([number for each in numbers.values() for number in each], layout.sep)
    file = DataFile(
        path=path,
        sep=layout.sep,
        skip=layout.skip,
        skip_end=layout.skip_end,
        decimal=decimal,
        thousands=thousands,
        units=tuple(sorted(units)),
        encoding="utf-8" if encoding == "utf-8-sig" else encoding,
    )
    own = {name: signs for name, each in numbers.items() if name and (signs := own_signs(each, file))}
    file = file.model_copy(update={"columns": own})
    end = rows_of(last, layout.sep)[: -layout.skip_end or None][-1:]
    summed = False
    if end and len(end[0]) == len(header):
        with suppress(DataError):  # whoever reads the file is told
            summed = _are_sums(file, dict(zip(header, bare_cells(end[0]), strict=True)))
    return file.model_copy(update={"skip_end": file.skip_end + summed})


def _are_sums(file: DataFile, last: Mapping[str, str]) -> bool:
    """True if at least half of the numbers in the last row are the sums of several numbers above them."""
    readers = {name: file.written(name).number_reader() for name in last}
    ends = {
        name: readers[name](cell) for name, cell in last.items() if cell and is_number(cell, readers[name])
    }
    sums, counts, least = dict.fromkeys(ends, 0.0), Counter[str](), max(1, math.ceil(len(ends) / 2))
    for part in read_parts(file, file.path.name):
        for name, end in ends.items():
            for cell in part.columns.get(name, ()) if name in sums else ():
                number = readers[name](cell) if cell and is_number(cell, readers[name]) else 0.0
                sums[name] += number
                counts[name] += number != 0.0
                if number < 0.0 or not sums[name] <= 3.0 * end:
                    del sums[name]
                    break
        if len(sums) < least:
            return False
    return least <= sum(
        counts[name] > _SUMMED and math.isclose(total - ends[name], ends[name], rel_tol=_ROUNDED)
        for name, total in sums.items()
    )


def bare_numbers(cells: Sequence[str]) -> tuple[list[str], set[str]]:
    """Numbers of a column without their units, and these: currencies, %, or the known unit of nearly all."""
    if units := units_of(Counter(filter(None, cells))):
        return [match[2] for match in map(_DRESSED.fullmatch, cells) if match], units
    numbers = [match for match in map(_SIGNED.fullmatch, cells) if match]
    signs = Counter(match[2] or match[4] for match in numbers if match[3].strip("0.,"))
    bare = signs.pop(None, 0)
    return [match[3] for match in numbers], set(signs) if len(signs) == 1 and _fit(signs, bare) else set()


def unread_kind(texts: Collection[str]) -> str:
    """Kind of text that nearly all cells of a column are, which no setting reads as a number, or ""."""
    for what, pattern in _NOT_ONE_NUMBER.items():
        if sum(pattern.fullmatch(text) is not None for text in texts) >= _SAME_UNIT * len(texts):
            return what
    return ""


def _fit(units: Iterable[str], bare: int) -> bool:
    """False for units that make numbers other than the bare ones of the column: 1.2k beside 900, not 0."""
    return not (bare and any(words.plain(unit) in words.SCALES for unit in units))


def units_of(cells: Mapping[str, int], beside: int = 0) -> set[str]:
    """Units of numbers, if nearly all cells are numbers and their units are of one kind.

    A word behind many numbers is a unit, whatever it is; beside few numbers a letter is none without a
    blank: 2A and 7A may be rooms. A letter right before whole numbers is none: s01 and s14 are codes.

    Args:
        cells: number of cells with each text.
        beside: number of other cells of the column, which are numbers without a unit.
    """
    units: Counter[tuple[str, str]] = Counter()
    many = len(cells) >= _MANY_NUMBERS
    for cell, count in cells.items():
        match = _DRESSED.fullmatch(cell)
        before, behind = ((sign or "").strip() for sign in match.group(1, 3)) if match else ("", "")
        letter = 1 in map(len, filter(str.isalpha, (before, behind))) and " " not in cell
        known = all(words.plain(sign) in words.UNITS for sign in (before, behind) if sign)
        word = many and not before and not letter and _UNKNOWN_UNIT.fullmatch(behind)
        beside += count if match and not (before or behind) and cell.strip("0.,") else 0
        code = letter and before and match and match[2].isdigit()
        if (before or behind) and ((known and (many or not letter) and not code) or word):
            units[before, behind] += count
    kinds = {tuple(words.plain(sign).removesuffix("s") for sign in pair) for pair in units}
    if len(kinds) != 1 or units.total() < _SAME_UNIT * sum(cells.values()):
        return set()
    signs = {sign for pair in units for sign in pair if sign}
    return signs if _fit(signs, beside) else set()


def own_signs(numbers: Sequence[str], file: DataFile) -> FileColumn | None:
    """Signs of a column's numbers, where they clearly differ from the file's.

    Such a column has numbers that the file's signs do not read, and its own signs read them all.
    """
    read = file.number_reader()
    if all(is_number(number, read) for number in numbers):
        return None
    decimal, thousands = _signs(numbers, file.sep, alone=True)
    surely = _has_decimals(numbers, decimal) or any(map(_TWO_SIGNS.fullmatch, numbers))
    if decimal != file.decimal and not surely:
        return None
    for own in (FileColumn(decimal=decimal, thousands=thousands or None), FileColumn(decimal=EITHER)):
        signs = {"decimal": own.decimal, "thousands": own.thousands or ""}
        read = file.model_copy(update=signs).number_reader()
        if all(is_number(number, read) for number in numbers):
            return own
    return None


def _signs(
    cells: Sequence[str], sep: str, *, alone: bool = False
) -> tuple[Literal[".", ","], Literal["", ",", ".", " ", "'"]]:
    """Sign before decimals, and sign between thousands.

    1,234 is ambiguous if the file has no other number with a comma. It is then read as a decimal number,
    unless commas separate the file's cells. These may stand before decimals of a single column (`alone`).
    """
    commas, points = (sum(bool(_DECIMAL[each].fullmatch(cell)) for cell in cells) for each in ",.")
    decimal: Literal[".", ","] = "," if (alone or sep != ",") and commas > points else "."
    pairs: tuple[tuple[Literal[".", ","], Literal[",", "."]], ...] = ((".", ","), (",", "."))
    for point, mark in pairs:
        grouped = [cell for cell in cells if _GROUPED[mark].fullmatch(cell)]
        unambiguous = _has_decimals(cells, point) or any(map(_TWO_SIGNS.fullmatch, grouped)) or mark == sep
        if grouped and unambiguous and (alone or point != sep) and not _has_decimals(cells, mark):
            return point, mark
    signs: tuple[Literal[" ", "'"], ...] = (" ", "'")
    return decimal, next((each for each in signs if any(map(_GROUPED[each].fullmatch, cells))), "")


def _has_decimals(cells: Iterable[str], point: Literal[".", ","]) -> bool:
    """Check whether a sign stands before decimals in some cell, and surely not between thousands."""
    return any(_DECIMAL[point].fullmatch(cell) and not _GROUPED[point].fullmatch(cell) for cell in cells)


def _encoding(path: Path) -> str:
    with open_bytes(path) as file:
        start = file.read(4)
        if start in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
            return "utf-32"
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        nothing = tuple(byte == 0 for byte in start)
        if nothing in _WIDE:
            return _WIDE[nothing]
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


def words_for_nothing(counts: Counter[str], read: Callable[[str], float]) -> list[str]:
    """Texts of a column that stand for an empty cell.

    A single word in a column of numbers does, whatever the word is, and so do a few words such as "refused"
    in up to a quarter of many numbers, and 000 where no other of many numbers of several lengths is padded.

    Args:
        counts: number of cells with each text.
        read: reads a text as a number.
    """
    nothing = {text for text in counts if text.lower() in words.ANYWHERE or words.is_no_day(text)}
    others = [text for text in counts if text and text not in nothing and not is_number(text, read)]
    many = len(counts) - len(nothing) - len(others) >= _MANY_NUMBERS
    share = sum(counts[text] for text in others) / max(1, counts.total())
    if share <= (_MOST_WORDS if many else _FEW_WORDS):
        alone = len(others) == 1 and others[0].isalpha()
        answers = many and share <= _ANSWERS and len(others) <= _KINDS and all(map(_WORD.fullmatch, others))
        nothing |= {text for text in others if alone or answers or _is_no_number(text, many)}
        padded = [text for text in counts if _PADDED.match(text)]
        if many and len(padded) == 1 and re.fullmatch("000+", padded[0]):
            unlike = {len(text) for text in counts if text not in nothing} - {len(padded[0])}
            nothing |= {*padded} if unlike else set()
    return sorted(nothing)


def _is_no_number(text: str, many: bool) -> bool:
    """Check for a word for nothing among numbers; 3+ beside few numbers is a name."""
    return words.means_nothing(text, among_numbers=True) and (many or not text.endswith("+"))


def words_for_no_class(counts: Mapping[str, int], read: Callable[[str], float]) -> list[str]:
    """Texts of a public label that stand for no class: words and codes, as long as two classes are left.

    Words such as "none", which may be a class, stand for none beside numbers, yes and no alone.
    """
    texts = [text for text in counts if text]
    nothing = {*words_for_nothing(Counter(counts), read)}
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


def are_codes(numbers: Iterable[float]) -> bool:
    """Check whether whole numbers are names, as 4111 and 5812: far apart, and not round as 20 and 500."""
    values = np.array(sorted(numbers))
    if np.abs(values).max() >= 2.0**53 or codes_for_nothing(values):
        return False
    if np.mean([len(f"{abs(value):.0f}".rstrip("0")) > _ROUND for value in values]) < 0.5:
        return False
    steps = np.diff(values).astype(np.int64)
    return bool(steps.mean() > _CODES_APART * np.gcd.reduce(steps))
