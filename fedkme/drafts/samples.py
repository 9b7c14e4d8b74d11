"""Samples of columns for a draft, in one pass and bounded memory; columns that identify rows or persons."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from zlib import crc32

from fedkme.drafts.dialect import detect_file
from fedkme.drafts.layout import has_no_row_first
from fedkme.drafts.words import NOUNS, words_of
from fedkme.errors import DataError
from fedkme.tables.axis import MAY_BE_CODES
from fedkme.tables.cells import Cells, columns_of, normal, plain_number, texts
from fedkme.tables.data_file import DataFile, refuse_text
from fedkme.tables.files import read_parts_of

_MOST_TEXTS = 5000
_GROUPED = re.compile(r"\d{1,3}([,.' \u00a0\u202f\u2019]\d{3})+")


@dataclass(slots=True)
class ColumnSample:
    """Statistics of one column's cells.

    Attributes:
        rows: number of cells, empty cells included.
        counts: number of cells with each text, until there are too many distinct texts; words, empty cells
            and codes for nothing are counted beside numbers.
        values: number that each of these texts states, if it states a finite one.
        many: there were too many distinct numbers or words.
        words: number of cells that are neither empty nor a finite number.
        numbers: number of cells that are numbers.
        low: smallest number that is no code for nothing.
        high: largest such number.
        whole: all numbers are whole.
        decimals: number of cells by the decimals of their numbers.
        consecutive: each number is its predecessor and 1, or begins anew with 0 or 1.
        restarts: how often they begin anew.
        grouped: some numbers have signs between their thousands, as no date has.
        beyond: words beyond those that are counted, drawn evenly from all.
    """

    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    values: dict[str, float] = field(default_factory=dict)
    many: bool = False
    words: int = 0
    numbers: int = 0
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True
    decimals: Counter[int] = field(default_factory=Counter)
    consecutive: bool = True
    restarts: int = 0
    grouped: bool = False
    beyond: set[str] = field(default_factory=set)
    _last: float | None = None
    _thin: int = 0

    def add(self, cells: Cells, read: Callable[[str], float]) -> None:
        """Count more cells of a file; `read` reads a text as a number, or raises ValueError."""
        words = texts(cells)
        self.rows += len(words)
        values: dict[str, float] = {}
        for word, count in Counter(words).items():
            text, number = normal(word, read), _number(word, read)
            if number is not None:
                values[word] = number
                self.grouped |= text != word and bool(_GROUPED.fullmatch(word))
                self._count_number(number, count)
            elif text:
                self.words += count
            listed = text in self.counts or not text or (number in MAY_BE_CODES)
            held = len(self.counts) - len(self.values) if number is None else len(self.values)
            if listed or held < _MOST_TEXTS:
                self.counts[text] += count
                if number is not None:
                    self.values.setdefault(text, number)
            else:
                self.many = True
                self._draw(text if number is None else "")
        if self.consecutive:
            self._follow(words, values)

    def texts(self) -> Iterator[str]:
        """Distinct texts, as far as they are held, in the order of the rows."""
        yield from self.counts
        yield from self.beyond

    def number(self, text: str) -> float:
        """Number that a text states.

        Raises:
            ValueError: it states none.
        """
        try:
            return self.values[text]
        except KeyError:
            raise ValueError from None

    def merge(self, other: ColumnSample) -> None:
        """Add the statistics of another file."""
        self.rows += other.rows
        self.counts.update(other.counts)
        self.values = {**other.values, **self.values}
        self.many |= other.many
        self.words += other.words
        self.numbers += other.numbers
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.whole &= other.whole
        self.decimals.update(other.decimals)
        self.consecutive &= other.consecutive
        self.restarts += other.restarts
        self.grouped |= other.grouped
        self.beyond |= other.beyond

    def _draw(self, word: str) -> None:
        """Hold a word if its checksum has enough zeros; fewer pass the more words there are."""
        if word and crc32(word.encode(errors="surrogatepass")) & ((1 << self._thin) - 1) == 0:
            self.beyond.add(word)
            if len(self.beyond) > _MOST_TEXTS:
                self._thin += 1
                held, self.beyond = self.beyond, set()
                for each in held:
                    self._draw(each)

    def _count_number(self, number: float, count: int) -> None:
        self.numbers += count
        if number not in MAY_BE_CODES:
            self.low, self.high = min(self.low, number), max(self.high, number)
        whole = number.is_integer()
        self.whole = self.whole and whole
        self.decimals[0 if whole else decimals_of(number)] += count

    def _follow(self, cells: Iterable[str], values: Mapping[str, float]) -> None:
        for text in cells:
            number = values.get(text)
            if number is None or (self._last is not None and number not in (self._last + 1, 0, 1)):
                self.consecutive = False
                return
            self.restarts += self._last is not None and number != self._last + 1
            self._last = number


def decimals_of(number: float) -> int:
    """Decimals of a number that is written with at most 12 digits."""
    text = f"{Decimal(f'{number:.12g}'):f}"
    return len(text.partition(".")[2])


def _number(text: str, read: Callable[[str], float]) -> float | None:
    try:
        number = read(text)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@dataclass(slots=True)
class Sample:
    """Public rows of a file or a frame.

    Attributes:
        columns: statistics by column.
        file: settings of the file; None for a frame.
        remarks: what was guessed of the file, or left out of it.
    """

    columns: dict[str, ColumnSample] = field(default_factory=dict)
    file: DataFile | None = None
    remarks: list[str] = field(default_factory=list)


def sample_of(rows: Any) -> Sample:
    """Read a sample: a frame, columns by name, or the path of a file.

    Raises:
        DataError: the rows are of another kind, or the file cannot be read.
    """
    if isinstance(rows, str | Path):
        refuse_text(rows, "the sample")
        return _sample_of_file(detect_file(Path(rows)))
    sample = Sample()
    for name, cells in columns_of(rows, "the sample").items():
        sample.columns.setdefault(name, ColumnSample()).add(cells, plain_number)
    return sample


def _sample_of_file(file: DataFile) -> Sample:
    sample, ragged, name = Sample(file=file), list[int](), file.path.name
    readers: dict[str, Callable[[str], float]] = {}

    def reads(column: str, cell: str) -> bool:
        return _number(cell, readers[column]) is not None

    for part in read_parts_of(file, name):
        ragged += part.ragged
        first = 0
        if not readers:
            readers = {column: file.written(column).number_reader() for column in part.columns}
            if part.unnamed:
                what = "the header has one cell fewer than the rows, whose first are taken for their names"
                sample.remarks.append(f"{name}: {what}, as R writes them")
            if first := int(has_no_row_first(part.columns, reads)):
                what = "units or types below the header, to remove"
                sample.remarks.append(f"{name}: line {part.lines[0]} is no row: {what}")
        for column, cells in part.columns.items():
            sample.columns.setdefault(column, ColumnSample()).add(cells[first:], readers[column])
    if file.skip:
        sample.remarks.append(f"{name}: lines above the header that are left out: {file.skip}")
    if file.skip_end:
        sample.remarks.append(f"{name}: totals or notes at the end that are left out: {file.skip_end}")
    if ragged:
        what = "lines with more or fewer cells than the header"
        if not any(column.rows for column in sample.columns.values()):
            cause = f"{name} has nothing but {what}, from line {ragged[0]} on"
            remedy = "Name each column in the header; put a cell that holds a separator in double quotes."
            raise DataError(cause, remedy)
        sample.remarks.append(f"{name}: {what}, to correct: {len(ragged)}, the first is line {ragged[0]}")
    return sample


_LEAST_ROWS = 20
"""Rows from which a column that counts the rows is taken for their numbers, whatever its name."""
_MOST_RESTARTS = 0.05
"""Share of rows at which so named numbers of rows may begin anew: a file made of several has such rows."""


_IS_MAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^\W\d_]{2,}")
_IS_PHONE = re.compile(
    r"(\+|00)\d[\d ()/.-]{6,}\d|\(\d{2,5}\) ?\d[\d /-]{3,}\d|\d{3}[-. ]\d{3}[-. ]\d{4}|"
    r"0\d{1,4}[ /-]\d[\d -]{3,}\d"
)
_HAS_PHONE = re.compile(r"\+?[\d ()/.-]*\d([ ()/.-]*\d){5,}[ ()/.-]*")
_IS_STREET = re.compile(
    r"\d+\w?,? [^\d,;]+ (street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|court|ct|square|way)"
    r"\.?(,.*)?|"
    r"[^\d,;]+(stra(ß|ss)e|str\.|weg|platz|gasse|allee|ring|damm|ufer|straat|laan|plein|gatan|vägen|vej|gade|"
    r"katu|utca|út) ?\d+.*|(\d+\w?,? )(rue|avenue|boulevard|chemin|impasse|allée|quai) .*|"
    r"(calle|avenida|plaza|paseo|via|viale|piazza|corso|rua|praça|travessa|ulica|ul\.|al\.) \D+\d+.*",
    re.IGNORECASE,
)
_IS_NUMBERED = re.compile(r".*[^\W\d_]{2}.*\d|\d.*[^\W\d_]{2}.*", re.DOTALL)
_IS_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}|[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)
_IS_SECRET = re.compile(r"[A-Z]{2}\d{2}( ?[A-Z0-9]{4}){3,7}( ?[A-Z0-9]{1,4})?|\d{3}-\d{2}-\d{4}")
_IS_TITLED = re.compile(
    r"(.*, )?((Mr|Mrs|Ms|Dr|Prof|Hr|Fr|Sr|Sra|Srta|Sig|Dott|Dhr|M|Mme|Mlle)\.|Mr|Mrs|Ms|Miss|Dr|Herr|Frau|"
    r"Monsieur|Madame|Señora?|Signora?|Pan|Pani|Fru) [^\W\d_].*"
)
_IS_NAME = re.compile(r"[^\W\d_]([^\W\d_]|[.'’-])*(,? [^\W\d_]([^\W\d_]|[.'’-])*){1,4}")
_IS_SURNAME = re.compile(r"[^\W\d_]([^\W\d_]|['’-])+")

_LEAST_PERSONS, _BALANCED = 40, 0.9
"""Least count of numbers that may be persons; share of them that are in equally many rows where they are."""
PERSONS = "of persons?"
"""End of the reason why a column of persons is left out."""


def counts_rows(name: str, sample: ColumnSample) -> bool:
    """True for a column that numbers the rows of its file, in any order."""
    if sample.numbers < sample.rows or not sample.whole:
        return False
    compact, words = _compact(name)
    named = (
        name.startswith("Unnamed:")
        or compact in NOUNS["row"]
        or not compact
        or bool(_NAMELESS.fullmatch(name))
    )
    if sample.consecutive and sample.restarts <= (_MOST_RESTARTS * sample.rows if named else 0):
        return named or (sample.rows >= _LEAST_ROWS and not words & NOUNS["times"])
    distinct = sample.many or len(sample.counts) == sample.rows
    least, most = (end(sample.low, sample.high, *sample.values.values()) for end in (min, max))
    if sample.rows >= _LEAST_ROWS and least in (0, 1) and most - least == sample.rows - 1:
        return distinct and not words & NOUNS["times"]
    return distinct and (name.startswith("Unnamed:") or (named and sample.rows < _LEAST_ROWS))


def persons_in(name: str, cells: Collection[str], most: int) -> tuple[str, bool]:
    """Check whether a column seems to hold names, addresses or numbers of persons.

    Args:
        name: name of the column.
        cells: its distinct cells that are not empty.
        most: largest number of rows with one cell.

    Returns:
        The reason, "" if there is none, and True if a cell seems to stand for one person.
    """
    compact, words = _compact(name)
    if {cell.casefold() for cell in cells} <= NOUNS["truth"]:
        return "", False

    def mostly(pattern: re.Pattern[str]) -> bool:
        return 2 * sum(pattern.fullmatch(cell) is not None for cell in cells) > len(cells)

    if mostly(_IS_MAIL) or (
        words and words <= NOUNS["mail"] | NOUNS["person"] | {"e", "address"} and words & NOUNS["mail"]
    ):
        return "mail addresses of persons?", True
    if mostly(_IS_SECRET) or (
        compact in NOUNS["secret"] and any(any(map(str.isdigit, cell)) for cell in cells)
    ):
        return "numbers of persons?", True
    if mostly(_IS_PHONE) or (
        words & NOUNS["phone"]
        and words <= NOUNS["phone"] | NOUNS["person"] | NOUNS["id"] | NOUNS["where"]
        and mostly(_HAS_PHONE)
    ):
        return "telephone numbers of persons?", True
    if mostly(_IS_STREET) or (words & NOUNS["street"] and mostly(_IS_NUMBERED)):
        return "addresses of persons?", False
    if mostly(_IS_ADDRESS):
        return "addresses of machines?", False
    if _is_name(compact, words) and not any(any(map(str.isdigit, cell)) for cell in cells):
        return "names of persons?", True
    if mostly(_IS_TITLED) or (
        words & NOUNS["name"] and words <= NOUNS["name"] | {"full"} and mostly(_IS_NAME)
    ):
        return "names of persons?", True
    if _are_persons(cells) and _ends_in(compact, words, NOUNS["person"] | NOUNS["role"]):
        return "names of persons?", True
    coded = all(any(map(str.isdigit, cell)) for cell in cells)
    named = words & NOUNS["subject"] or (words & NOUNS["person"] and words & NOUNS["id"])
    if coded and named and words <= NOUNS["person"] | NOUNS["id"] and len(cells) > 2 and most > 1:
        return "numbers of persons?", True
    return "", False


def surnames(name: str, cells: Collection[str]) -> str:
    """Doubt whether a column named after a role, such as a surgeon, has names of persons; "" for no doubt."""
    compact, words = _compact(name)
    single = len(cells) > 2 and all(cell[:1].isupper() and _IS_SURNAME.fullmatch(cell) for cell in cells)
    if (single and _ends_in(compact, words, NOUNS["role"])) or (
        words & (NOUNS["person"] | NOUNS["role"]) and _are_persons(cells)
    ):
        return "names of persons? Then list it under 'ignore'"
    return ""


def numbers_of_persons(name: str, counts: Mapping[str, int]) -> str:
    """Doubt whether whole numbers stand for persons, by name or as each has as many rows; "" for no doubt."""
    words, rows = words_of(name), Counter(counts.values())
    each, values = rows.most_common(1)[0]
    balanced = 2 <= each <= len(counts) / 2 and values >= _BALANCED * len(counts)
    named = (
        max(rows) > 1 and not NOUNS["person"].isdisjoint(words) and {*words} <= NOUNS["person"] | NOUNS["id"]
    )
    if len(counts) >= _LEAST_PERSONS and NOUNS["times"].isdisjoint(words) and (balanced or named):
        return "numbers of persons? Then name it as person (at the end), not as a column"
    return ""


def _ends_in(compact: str, words: frozenset[str], nouns: frozenset[str]) -> bool:
    """True for "operating surgeon" and "doctor, second", but not for "surgeon's specialty"."""
    named = words & nouns
    return bool(named) and (words <= nouns | NOUNS["where"] or any(map(compact.endswith, named)))


def _are_persons(cells: Collection[str]) -> bool:
    """True for first and last names; "first class" and "second class" end alike."""
    if len(cells) < 2 or not all(map(_IS_NAME.fullmatch, cells)):
        return False
    last = {cell.split()[-1] for cell in cells}
    return 2 * len(last) > len(cells) and all(word[0].isupper() for word in {*cells, *last})


def _is_name(compact: str, words: frozenset[str]) -> bool:
    """True for "surname", "patient name", "Patientenname", "first name of the customer"."""
    if compact in NOUNS["part_of_name"] or words & NOUNS["part_of_name"]:
        return True
    if words & NOUNS["name"] and words & (
        NOUNS["person"] | {"first", "last", "full", "middle", "maiden", "birth", "family"}
    ):
        return True
    return any(
        compact == person + name for person in NOUNS["person"] for name in NOUNS["name"] if len(name) > 2
    )


def _compact(name: str) -> tuple[str, frozenset[str]]:
    """Letters of a column's name in small letters without accents, joined and as words."""
    words = words_of(name)
    return "".join(words), frozenset(words)


_NAMELESS = re.compile(r"column( \d+)?")
