"""Detection of a text file's layout: separator of cells, lines above the header, totals at the end."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedkme.drafts.words import means_nothing
from fedkme.tables.cells import Cells, texts
from fedkme.tables.csv_rows import are_quoted, with_row_names

_USUAL = ",;\t|"
_NO_SEPARATOR = frozenset("\"'_.-/+%()#&*=<>[]{}$€£?!@\\\r\n ")
"""Signs that stand in names and numbers: no separator unless a file is known to have it."""
_SEP = re.compile(r'"?sep=(.)"?')
"""First line by which a spreadsheet names the separator."""
_HIGHEST = 30
"""Rows among which the header is sought."""
_MOST_AT_END = 5
_MOST = 0.6
"""Share of lines that are as wide as the first, at least, if it is the header."""
_FULL = 0.5
"""Share of a header's cells that hold a name, at least."""
_ALIKE = 0.9
"""Share of lines with as many cells as the header, at least, by a separator that is not usual."""
_TOTAL = re.compile(
    r"(grand |sub)?totals?|sum|summe|gesamt(summe)?|insgesamt|zusammen|somme|ensemble|suma|totale|somma|"
    r"total g[ée]n[ée]ral|totaal|totalt|i alt|yhteensä|razem|ogółem|celkem|spolu|összesen|итого|всего|"
    r"average|mean|mittelwert|durchschnitt|moyenne|promedio|media|gemiddelde|medelvärde|keskiarvo|średnia",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(1[89]|20|21)\d\d")
_RULE = re.compile(r":?(--+|==+):?")
_LOOKED_AT, _LEAST_NUMBERS = 200, 5
_NUMBER = re.compile(r"[+-]?[\d.,' \u00a0\u202f]*\d[.,]?([eE][+-]?\d+)?\s?%?")


@dataclass(frozen=True, slots=True)
class TextLayout:
    """TextLayout of a text file.

    Attributes:
        sep: separator of cells; "" if the lines seem to have one of several characters.
        skip: lines above the header.
        skip_end: rows at the end that are totals or notes.
        longer: separator of several characters.
    """

    sep: str
    skip: int
    skip_end: int
    longer: str = ""


def layout_of(lines: Sequence[str], last: Sequence[str]) -> TextLayout:
    """Detect the layout from the first lines of a file and its last."""
    named = _SEP.fullmatch(lines[0].strip()) if lines else None
    above = 1 if named else 0
    candidates = [named[1]] if named else [*_USUAL]
    fits = [_fit(lines[above:], sep) for sep in candidates]
    best = max(fits, key=lambda fit: fit.rank)
    if best.width == 1 and not named:
        others = [_fit(lines, sep) for sep in _unusual(lines)]
        best = max(others, key=lambda fit: fit.rank, default=best)
        if doubled := _doubled(lines, best.sep):
            return TextLayout("", 0, 0, doubled)
    rows = [row for row, _ in best.rows]
    at_end = _count_at_end(rows[best.header :], rows_of(last, best.sep), best.width)
    return TextLayout(best.sep, above + best.skip, at_end)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Rows of a file by a separator: most have `width` cells, the header is row `header`."""

    sep: str
    rows: Sequence[tuple[list[str], int]]
    width: int
    header: int
    skip: int
    alike: float

    @property
    def rank(self) -> tuple[bool, float, int]:
        """Larger is better: the first line is as wide as most lines, most lines are so, they are wide."""
        first = self.width > 1 and self.header == 0 and self.alike >= _MOST
        return first, self.alike if self.width > 1 else 0.0, self.width


def _fit(lines: Sequence[str], sep: str) -> _Fit:
    rows = list(_numbered_rows(lines, sep))
    if rows:
        names, begun = rows[0]
        quoted = are_quoted(lines)
        rows[0] = with_row_names(names, [row for row, _ in rows[1:]], sep, quoted=quoted), begun
    widths = Counter(len(row) for row, _ in rows[:-1] or rows)
    if not widths:
        return _Fit(sep, rows, 1, 0, 0, 0.0)
    width = max(widths, key=lambda each: (widths[each] if each > 1 else widths[each] / 2, each))
    header = _header(rows, width)
    alike = sum(len(row) == width for row, _ in rows[header:]) / max(1, len(rows) - header)
    return _Fit(sep, rows, width, header, rows[header][1], alike)


def _header(rows: Sequence[tuple[list[str], int]], width: int) -> int:
    """Place of the header: the first row with names that is as wide as most rows, over such a row."""
    wide = [
        place
        for place, (row, line) in enumerate(rows[:_HIGHEST])
        if len(row) == width
        and (place + 1 == len(rows) or (len(rows[place + 1][0]) == width and _follows(rows, place)))
        and (width == 1 or _is_named(row))
        and not _is_comment(rows, place)
    ]
    if not wide:
        return 0
    first = wide[0]
    for place, (row, _) in enumerate(rows[:first]):  # names over a row that is not as wide, by mistake
        cells = [cell.strip() for cell in row]
        if len(row) == width > 1 and all(cells) and not _numbers(row) and _numbers(rows[first][0]):
            return place
    if first and width == 1:
        return 0
    if first and _names_fewer(rows, first, width):
        return first - 1
    if not all(map(str.strip, rows[first][0])):
        # A title that a spreadsheet padded with separators has gaps; a row of names below it has none.
        for place in wide[1:]:
            names = [cell.strip() for cell in rows[place][0]]
            below = rows[place + 1 : place + 3]
            if all(names) and len({*names}) == width and not any(map(_NUMBER.fullmatch, names)):
                between = [row for row, _ in rows[first:place]]
                if any(_numbers(row) for row, _ in below) and not any(map(_numbers, between[1:])):
                    return place
    return first


def _names_fewer(rows: Sequence[tuple[list[str], int]], first: int, width: int) -> bool:
    """True if the first wide row is data below a header that names too few columns.

    Years in it are names of columns.
    """
    names, row = ([cell.strip() for cell in each] for each, _ in rows[first - 1 : first + 1])
    full = 1 < len(names) < width and all(names) and len({*names}) == len(names) and not _numbers(names)
    if not full or not _follows(rows, first - 1):
        return False
    numbers = [cell for cell in row if _NUMBER.fullmatch(cell)]
    years = len(numbers) > 1 and all(map(_YEAR.fullmatch, numbers)) and sorted({*numbers}) == numbers
    below = [cells for cells, _ in rows[first + 1 :] if len(cells) == width and cells != rows[first][0]]
    again = any(cell and cell == cells[place].strip() for cells in below for place, cell in enumerate(row))
    return bool(numbers and not years) or again


def _follows(rows: Sequence[tuple[list[str], int]], place: int) -> bool:
    """True if the next row begins on the next line, or is more than a few cells over several lines."""
    return rows[place + 1][1] == rows[place][1] + 1 + sum(cell.count("\n") for cell in rows[place][0])


def _is_named(row: Sequence[str]) -> bool:
    names = sum(bool(cell.strip()) for cell in row)
    return (
        names >= 2 if len(row) > 2 and names >= _FULL * len(row) else names == len(row) or not row[0].strip()
    )


def _is_comment(rows: Sequence[tuple[list[str], int]], place: int) -> bool:
    """True for a line that begins with #, over a row of names of the same width."""
    row, below = rows[place][0], rows[place + 1 : place + 3]
    if not row[0].startswith("#") or row[0].strip() == "#" or len(below) < 2:
        return False
    return not _numbers(below[0][0]) and _numbers(below[1][0])


def _numbers(row: Iterable[str]) -> bool:
    return any(_NUMBER.fullmatch(cell.strip()) for cell in row)


def _unusual(lines: Sequence[str]) -> Iterator[str]:
    """Signs that each line has as often as the first, then blanks between columns."""
    filled = [line.strip() for line in lines if line.strip()]
    if len(filled) < 2:
        return
    for sign in dict.fromkeys(filled[0]):
        if sign.isalnum() or sign in _NO_SEPARATOR:
            continue
        if sum(line.count(sign) == filled[0].count(sign) for line in filled) >= _ALIKE * len(filled):
            yield sign
    header, *rows = [line.split() for line in filled]
    if '"' in "".join(filled):
        header, *rows = rows_of(filled, " ")
    widths = {len(row) for row in (with_row_names(header, rows, " "), *rows)}
    aligned = any("  " in line for line in filled) or any(_numbers(row) for row in rows[:1])
    if len(widths) == 1 and widths != {1} and aligned:
        yield " "


def _doubled(lines: Sequence[str], sep: str) -> str:
    """Separator that repeats one sign, such as ||, if the sign never stands alone; else empty."""
    runs = {len(run) for line in lines[:20] for run in re.findall(f"{re.escape(sep)}+", line)}
    return sep * min(runs) if sep not in (*_USUAL, " ") and len(runs) == 1 and min(runs) > 1 else ""


_BEGINS_NOTE = re.compile(r"[*†‡#(\[] ?[^\W\d]|[^\W\d][^\d:]*: ")
"""Begin of a note that the separator cuts into cells, such as "Source: ward 3, all rights"."""


def _count_at_end(rows: Sequence[Sequence[str]], last: Sequence[Sequence[str]], width: int) -> int:
    """Number of rows at the end that are totals or notes."""
    if width < 2 or len(rows) < 4 or len(last) < 2:
        return 0
    often = Counter(
        cell.strip().casefold() for row in [*rows[:-_MOST_AT_END], *last[:-_MOST_AT_END]] for cell in row
    )
    in_rows = any(_BEGINS_NOTE.match(row[0].strip()) for row in rows[:-_MOST_AT_END] if row)
    count = 0
    for row in reversed(last[-_MOST_AT_END:]):
        filled = [cell.strip() for cell in row if cell.strip()]
        first = filled[0].rstrip(":") if filled else ""
        total = len(row) <= width and _TOTAL.fullmatch(first) is not None and first.casefold() not in often
        note = len(filled) == 1 and (len(row) == 1 or width > 2) and row[0].strip() and _is_note(first)
        note = note or (_BEGINS_NOTE.match(first) is not None and not in_rows)
        if not (total or note or not filled):
            break
        count += 1
    return count


def _is_note(text: str) -> bool:
    return bool(re.search(r"\w\W* \w", text)) and (":" in text or len(text) > 20 or not text[0].isalnum())


def _numbered_rows(lines: Sequence[str], sep: str) -> Iterator[tuple[list[str], int]]:
    """Rows that are not empty, each with the place of the line on which it begins."""
    reader = csv.reader(lines, delimiter=sep, skipinitialspace=sep == " ")
    begun = 0
    try:
        for row in reader:
            if row:
                yield row, begun
            begun = reader.line_num
    except csv.Error:
        return


def has_no_row_first(columns: Mapping[str, Cells], is_number: Callable[[str, str], bool]) -> bool:
    """Check whether units or types stand in the first row: words in it, numbers in all others; or dashes.

    Args:
        columns: cells by column.
        is_number: tells whether a column's cell is read as a number.
    """
    first = {name: cell for name, cells in columns.items() for cell in texts(cells[:1]) if cell}
    if any(_NUMBER.fullmatch(cell) or is_number(name, cell) for name, cell in first.items()):
        return False
    if first and all(map(_RULE.fullmatch, first.values())):
        return True
    for name in (name for name, cell in first.items() if not means_nothing(cell, among_numbers=True)):
        below = [cell for cell in texts(columns[name][1:_LOOKED_AT]) if cell]
        if len(below) > _LEAST_NUMBERS and all(is_number(name, cell) for cell in below):
            return True
    return False


def rows_of(lines: Sequence[str], sep: str) -> list[list[str]]:
    """Rows of lines that are not empty, as far as they are CSV."""
    return [row for row, _ in _numbered_rows(lines, sep)]
