"""Rows of a .csv file, as text, a part at a time, each with the line it begins on.

By the csv module: docs/decisions/019 says why not by pyarrow.
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
"""A column of a file: numbers with NaN for an empty cell, or text with "" for one."""

PART_ROWS = 4096
"""Rows of a part: few enough that the collector of garbage has nothing to walk through."""


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """Rows that follow one another.

    Attributes:
        columns: cells of each column by its name; text has no spaces around it.
        lines: on which each row begins.
        ragged: lines that have more or fewer cells than the header, and are no rows of the part.
    """

    columns: Mapping[str, Cells]
    lines: Sequence[int]
    ragged: Sequence[int]


def read_parts(file: DataFile, party: str) -> Iterator[Part]:
    """Rows of a .csv, a part at a time, at least one part.

    An empty line is no row, and empty cells beyond the header's are none.

    Raises:
        DataError: a header that is missing or names a column twice, text that is not CSV or not in the file's
            encoding. Names the line, never a cell.
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
    """Line of the first bytes that are not in the file's encoding; 1 where none is by itself."""
    with file.path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode(file.encoding)
            except UnicodeError:
                return number
    return 1
