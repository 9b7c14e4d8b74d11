"""Reading of a file of text (.csv, .tsv, .txt) in parts: rows, each with the line on which it begins.

The csv module reads the file; docs/decisions/019 says why pyarrow does not.
"""

import csv
import gzip
import io
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, TextIO, TypeVar, cast

from fedkme.errors import DataError
from fedkme.inputs import open_input
from fedkme.tables.cells import Cells, as_seen, column_names
from fedkme.tables.data_file import DataFile, whose

T = TypeVar("T")

_LOOKED_AT = 100
"""Rows by which the header's form is told."""
_MOST_OF_LINE = 1 << 24
PART_ROWS = 4096
"""Rows of a part: few enough that garbage collection costs nothing noticeable."""


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Part:
    """Consecutive rows of a file.

    Attributes:
        columns: cells of each column by name; text has no spaces around it.
        lines: number of the line on which each row begins.
        ragged: lines with more or fewer cells than the header; they are not among the rows.
        unnamed: each row begins with a name of the row, for which the header has no cell.
    """

    columns: Mapping[str, Cells]
    lines: Sequence[int]
    ragged: Sequence[int]
    unnamed: bool = False


def read_parts(file: DataFile, party: str) -> Iterator[Part]:
    """Yield the rows of a file of text in parts, at least one part.

    Empty lines, empty cells beyond the header's and lines that repeat it, as in files put one behind the
    other, are ignored. ="01", which keeps a spreadsheet from reading a number, is 01.

    Raises:
        DataError: the header is missing or names a column twice, or the text is not CSV or not in the file's
            encoding, or a compressed file is cut. The error names the line, never a cell.
        OSError: the file cannot be read.
    """
    try:
        with open_text(file.path, file.encoding, f"{party}: ") as text:
            above = len(first_lines(text, file.skip, whose(party, file.path)))
            start = first_lines(text, _LOOKED_AT, whose(party, file.path))
            numbered = _numbered(chain(start, text), above, file, party)
            if file.skip_end:
                numbered = _without_end(numbered, file.skip_end)
            header = header_of(next(numbered, ([], 0))[0])
            ahead = [*islice(numbered, _LOOKED_AT)]
            while header and not header[-1] and not (any(header) and _has_cells(ahead, len(header) - 1)):
                header.pop()  # the line ends in separators
            given = len(header)
            if not header:
                raise DataError(
                    f"{whose(party, file.path)} has no header",
                    "Make the first line the names of the columns.",
                )
            header, numbered = (
                with_row_names(header, [row for row, _ in ahead], file.sep, quoted=are_quoted(start)),
                chain(ahead, numbered),
            )
            unnamed = len(header) > given
            first, header = header, column_names(header, party, str(file.path))
            rows: list[list[str]] = []
            lines: list[int] = []
            ragged: list[int] = []
            width = len(header)
            for row, line in numbered:
                if len(row) > width and _blank(row[width:]):
                    row = row[:width]
                if width > 1 and row[0].strip() == first[0] and header_of(row) == first:
                    continue
                if len(row) == width:
                    rows.append(row)
                    lines.append(line)
                else:
                    ragged.append(line)
                if len(rows) == PART_ROWS:
                    yield Part(_columns(rows, header), lines, ragged, unnamed)
                    rows, lines, ragged = [], [], []
            yield Part(_columns(rows, header), lines, ragged, unnamed)
    except UnicodeError:
        line = _undecodable(file)
        cause = f"{whose(party, file.path)} is not a CSV file in {file.encoding.upper()}, line {line}"
        remedy = 'Say which it is, encoding = "cp1252", "latin-1" or "utf-16", beside the file\'s path.'
        raise DataError(cause, remedy) from None


def _numbered(text: Iterable[str], above: int, file: DataFile, party: str) -> Iterator[tuple[list[str], int]]:
    """Rows that are not empty, each with the number of the line on which it begins."""
    reader = csv.reader(text, delimiter=file.sep, skipinitialspace=file.sep == " ", strict=True)
    line = above + 1
    try:
        for row in reader:
            if row:
                yield row, line
            line = above + reader.line_num + 1
    except csv.Error as error:
        raise no_csv(whose(party, file.path), error, f", from line {line} on") from None


def no_csv(whose: str, error: csv.Error, where: str = "") -> DataError:
    """Make the error for a file that the csv module cannot read."""
    cause = f"{whose} is not a CSV file{where}"
    if "limit" in str(error):
        cause += f": a cell has more than {csv.field_size_limit():,} letters"
    remedy = "A cell that holds a quote or the separator stands in double quotes, a quote in it twice."
    return DataError(cause, remedy)


def _without_end(rows: Iterator[T], count: int) -> Iterator[T]:
    last = deque(islice(rows, count))
    for row in rows:
        last.append(row)
        yield last.popleft()


@contextmanager
def open_text(path: Path, encoding: str, whose: str = "") -> Iterator[TextIO]:
    """Open a file of text, compressed by gzip or not, whatever its name says; line ends stay as they are.

    Raises:
        OSError: the file cannot be read.
    """
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        encoding = "utf-8-sig"
    with open_bytes(path, whose) as content:
        yield io.TextIOWrapper(content, encoding, newline="")


def first_lines(text: TextIO, count: int, whose: str) -> list[str]:
    """Read the next lines of a file, at most `count`.

    Raises:
        DataError: a line has no end, as in a file of zeros: nothing else would be read into memory, either.
    """
    lines: list[str] = []
    while len(lines) < count and (line := text.readline(_MOST_OF_LINE)):
        if len(line) == _MOST_OF_LINE:
            cause = f"{whose} has a line of more than {_MOST_OF_LINE:,} letters"
            raise DataError(cause, "Give a table of lines, with a header above its rows.")
        lines.append(line)
    return lines


@contextmanager
def open_bytes(path: Path, whose: str = "") -> Iterator[BinaryIO]:
    """Open a file of text for its bytes, without the compression by gzip.

    Raises:
        DataError: it is a zip archive, as Excel workbooks are, or its compression is cut or damaged.
        OSError: the file cannot be read.
    """
    with open_input(path) as file:
        packed = file.peek(2).startswith(b"\x1f\x8b")
        if file.peek(4).startswith(b"PK\x03\x04"):
            cause = f"{whose}{path} is a zip archive or an Excel workbook"
            raise DataError(cause, "Save its table as .csv, in UTF-8.")
        try:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file
        except (EOFError, zlib.error, gzip.BadGzipFile):
            cause = f"{whose}{path} is compressed by gzip, and cut or damaged"
            raise DataError(cause, "Compress it again.") from None


def header_of(row: Iterable[str]) -> list[str]:
    """Names of columns in a row, each in one line."""
    return [as_seen(cell.strip()) for cell in row]


def are_quoted(lines: Iterable[str]) -> bool:
    """Check whether each line begins with a quote, as those that R writes."""
    return all(line.startswith('"') for line in lines if line.strip())


def with_row_names(
    header: list[str], rows: Sequence[Sequence[str]], sep: str, *, quoted: bool = False
) -> list[str]:
    """Complete the header of a table as R writes it: each row begins with its name, which no header has.

    Where commas stand between cells, one more in each row may be of decimals, unless names are quoted.
    """
    rows = rows[:_LOOKED_AT]
    wider = all(len(row) == len(header) + 1 for row in rows) and not all(_blank(row[-1:]) for row in rows)
    named = (
        wider and len({row[0] for row in rows}) == len(rows) > 1 and not any(_blank(row[:1]) for row in rows)
    )
    return ["", *header] if named and (quoted or sep != ",") and all(header) else header


def bare_cells(cells: Iterable[str]) -> list[str]:
    """Cells without spaces around them, and without the signs by which spreadsheets keep text: ="01"."""
    stripped = list(map(str.strip, cells))
    if '="' not in "\0".join(stripped):
        return stripped
    return [cell[2:-1] if cell.startswith('="') and cell.endswith('"') else cell for cell in stripped]


def _blank(cells: Sequence[str]) -> bool:
    return not any(cell.strip() for cell in cells)


def _has_cells(rows: Sequence[tuple[Sequence[str], int]], place: int) -> bool:
    """True if more than one row in ten has a cell at a place of the header that names none."""
    return 10 * sum(not _blank(row[place : place + 1]) for row, _ in rows) > len(rows)


def _columns(rows: Sequence[Sequence[str]], header: Sequence[str]) -> dict[str, list[str]]:
    cells = zip(*rows, strict=True) if rows else ((),) * len(header)
    return {name: bare_cells(column) for name, column in zip(header, cells, strict=True)}


def _undecodable(file: DataFile) -> int:
    """Number of the first line that is not in the file's encoding; 1 if no single line is faulty."""
    with open_bytes(file.path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode(file.encoding)
            except UnicodeError:
                return number
    return 1
