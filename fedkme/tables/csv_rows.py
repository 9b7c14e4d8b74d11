"""Reading of a .csv file in parts: rows as text, each with the line on which it begins.

The csv module reads the file; docs/decisions/019 says why pyarrow does not.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from fedkme.errors import DataError
from fedkme.tables.data_file import DataFile

Cells = NDArray[Any] | Sequence[str]
"""Column of a file: numbers with NaN for empty cells, or texts with "" for empty cells."""

PART_ROWS = 4096
"""Rows of a part: few enough that garbage collection costs nothing noticeable."""


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """Consecutive rows of a file.

    Attributes:
        columns: cells of each column by name; text has no spaces around it.
        lines: number of the line on which each row begins.
        ragged: lines with more or fewer cells than the header; they are not among the rows.
    """

    columns: Mapping[str, Cells]
    lines: Sequence[int]
    ragged: Sequence[int]


def read_parts(file: DataFile, party: str) -> Iterator[Part]:
    """Yield the rows of a .csv in parts, at least one part.

    Empty lines, and empty cells beyond the header's, are ignored.

    Raises:
        DataError: the header is missing or names a column twice, or the text is not CSV or not in the file's
            encoding. The error names the line, never a cell.
        OSError: the file cannot be read.
    """
    encoding = "utf-8-sig" if file.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else file.encoding
    with file.path.open(newline="", encoding=encoding) as text:
        reader = csv.reader(text, delimiter=file.sep, strict=True)
        begun = 1
        try:
            header = _header(next(reader, []), file, party)
            rows: list[list[str]] = []
            lines: list[int] = []
            ragged: list[int] = []
            begun, width = reader.line_num + 1, len(header)
            for row in reader:
                if len(row) > width and _blank(row[width:]):
                    row = row[:width]
                if len(row) == width:
                    rows.append(row)
                    lines.append(begun)
                elif row:
                    ragged.append(begun)
                begun = reader.line_num + 1
                if len(rows) == PART_ROWS:
                    yield Part(_columns(rows, header), lines, ragged)
                    rows, lines, ragged = [], [], []
            yield Part(_columns(rows, header), lines, ragged)
        except csv.Error:
            raise DataError(
                f"{party}: {file.path} is not a CSV file, from line {begun} on",
                "A cell that holds a quote or the separator stands in double quotes, a quote in it twice.",
            ) from None
        except UnicodeError:
            line = _undecodable(file)
            raise DataError(
                f"{party}: {file.path} is not a CSV file in {file.encoding.upper()}, line {line}",
                'Say which it is, encoding = "latin-1" or "cp1252", beside the file\'s path.',
            ) from None


def _header(names: Sequence[str], file: DataFile, party: str) -> list[str]:
    header = [name.strip() for name in names]
    while header and not header[-1]:
        header.pop()  # the line ends in separators
    if not header or len(set(header)) < len(header):
        twice = sorted({name for name in header if header.count(name) > 1})
        which = f", '{twice[0]}'" if twice and twice[0] else ""
        where = party if party == str(file.path) else f"{party}: {file.path}"
        cause = f"{where} names a column twice{which}" if header else f"{where} has no header"
        raise DataError(cause, "Make the first line the names of the columns, each once.")
    return header


def _blank(cells: Sequence[str]) -> bool:
    return not any(cell.strip() for cell in cells)


def _columns(rows: Sequence[Sequence[str]], header: Sequence[str]) -> dict[str, list[str]]:
    cells = zip(*rows, strict=True) if rows else ((),) * len(header)
    return {name: list(map(str.strip, column)) for name, column in zip(header, cells, strict=True)}


def _undecodable(file: DataFile) -> int:
    """Number of the first line that is not in the file's encoding; 1 if no single line is faulty."""
    with file.path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode(file.encoding)
            except UnicodeError:
                return number
    return 1
