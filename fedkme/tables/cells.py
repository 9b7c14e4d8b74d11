"""Cells of any carrier in one normal form: of text files, Parquet, data frames and lists of Python's values.

A column is either an array of numbers, NaN where there is nothing, or texts in their normal form:

- nothing (None, NaN, NaT, pandas.NA, blanks): "";
- a number: the shortest decimal that reads back, a whole one without point: "1", "0", "2.5";
- a truth value: "True" or "False";
- a day or an instant: ISO 8601, in its own time zone: "2021-01-13", "2021-01-13 10:00:00";
- text: without spaces around it.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from fedkme.errors import DataError

Cells = NDArray[Any] | Sequence[str]
"""Column of a file: numbers with NaN for empty cells, or texts with "" for empty cells."""

_EXACT = 2**53
"""Whole numbers up to this one are exact as float64."""
_MOST_DIGITS = 400
"""Digits of a whole number from which it is beyond float64, and Python may refuse to write it."""
_NO_CELL = "\0"
"""Beginning of a text that stands for what no cell can hold, such as a list; the kind follows."""
_BYTES, _DIGITS, _OBJECT = "bytes that are no text in UTF-8", "a number of hundreds of digits", "an object"
_CONTAINERS: Mapping[str, tuple[type, ...]] = {
    "a list": (list, tuple, set, frozenset, np.ndarray),
    "a record": (dict, np.void),
    "a complex number": (complex, np.complexfloating),
    "a duration": (timedelta, np.timedelta64),
}
_KINDS = frozenset((_BYTES, _DIGITS, _OBJECT, *_CONTAINERS))
_NUMBERS, _NO_NUMBERS = (int, float, np.floating, np.integer), (bool, np.timedelta64)
_GAPS = ("NoneType", "NAType", "NaTType", "MaskedConstant")
"""Names of the types of nothing, of Python, pandas and numpy."""
_CODE = re.compile(r"\+|-?0\d", re.ASCII)
"""Beginning of digits that may be a code, such as a postal one."""
_BLANK = re.compile(r"\s*[\r\n]+\s*|\s")
_NO_WIDTH = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
TRUTH: Mapping[str, str] = {"True": "1", "False": "0", "1": "True", "0": "False"}
"""Truth values, and the numbers that some tools write in their place."""
DAYS = (-719162.0, 2932896.0)
"""First and last day of the years 1 to 9999."""
_EPOCH = np.datetime64("1970-01-01")
_TIME = r"(?:(?:[01]?\d|2[0-3]):[0-5]\d(?::(?:[0-5]\d|60)(?:[.,]\d+)?)?|24:00(?::00(?:[.,]0+)?)?)"
_ZONE = r"(?: ?(?:Z|UTC|[+-](?:0\d|1[0-4])(?::?[0-5]\d)?))?"
_YEAR = r"(-\d{3,12}|\d{4}|[1-9]\d{4,11})"
_DAY = re.compile(rf"{_YEAR}-(\d\d?)-(\d\d?)(?:(?: +|T){_TIME}{_ZONE})?", re.ASCII)
"""Pattern of a day in ISO 8601, padded or not, alone or before a time with or without its zone."""


def day_of(text: str) -> float:
    """Days from 1970-01-01 to a date such as 2024-12-31 or 2024-7-1; a time may follow.

    Raises:
        ValueError: the text is no date.
    """
    match = _DAY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:20]!r} is no date; write it as 2024-12-31")
    year, month, day = match.groups()
    return float((np.datetime64(f"{year}-{month:0>2}-{day:0>2}") - _EPOCH).astype(np.int64))


def days_of(day: date) -> float:
    """Days from 1970-01-01."""
    return float(day.toordinal() - date(1970, 1, 1).toordinal())


def date_of(days: float) -> str:
    """ISO 8601 date at a number of days after 1970-01-01."""
    return str(_EPOCH + round(days))


MINUS = str.maketrans("\u2212\u2013\uff0d", "---")
"""Signs that typesetters put for a minus."""


def plain_number(text: str) -> float:
    """Number that a text states: nothing is NaN.

    Raises:
        ValueError: the text is no number of decimal digits, or one beyond the range of float64.
    """
    if not text:
        return math.nan
    number = float(text.translate(MINUS))
    if "_" in text or (math.isinf(number) and any(map(str.isdigit, text))):
        raise ValueError("could not convert the text to a number")
    return number


def plain_numbers(texts: Sequence[str]) -> NDArray[np.float64]:
    """Numbers that texts state, as `plain_number` reads each.

    Raises:
        ValueError: some text states none.
    """
    joined = "".join(texts)
    if "_" not in joined and joined.isascii():
        numbers = np.fromiter(
            map(float, texts) if all(texts) else (float(t or "nan") for t in texts), np.float64
        )
        if not np.isinf(numbers).any():
            return numbers
    return np.fromiter(map(plain_number, texts), np.float64, len(texts))


def normal(text: str, read: Callable[[str], float] = plain_number) -> str:
    """Normal form of a text: whole numbers without decimals, truth values capitalized, others as seen.

    Decimals other than zeros, exponents and leading zeros stay: 1.10, 2E3 and 007 may be codes.

    Args:
        text: a cell.
        read: reader of the file's numbers.
    """
    if not any(map(str.isdigit, text)) or any(map(str.isalpha, text)):
        return text.capitalize() if text.lower() in ("true", "false") else as_seen(text)
    if text.isdecimal() or _CODE.match(text):
        return text
    try:
        number = read(text)
    except ValueError:
        return as_seen(text)
    return str(int(number)) if number.is_integer() and abs(number) <= _EXACT else text


def as_seen(text: str) -> str:
    """Text that equals all that look like it: composed letters, plain blanks, no signs without width."""
    if text.isascii() and text.isprintable():
        return text
    return _BLANK.sub(" ", unicodedata.normalize("NFC", _NO_WIDTH.sub("", text)))


Text = Annotated[str, AfterValidator(as_seen)]
"""Text of a setting that is compared with names."""


def _plain_name(name: str) -> str:
    if not name or name != name.strip() or not name.isprintable():
        raise ValueError("a name is printable text without spaces around it")
    return as_seen(name)


Name = Annotated[str, AfterValidator(_plain_name)]
"""Name of a column, category or class."""


def foreign(text: str) -> str:
    """Kind of what a cell cannot hold, for the text that stands for it; "" for any other text."""
    return text[1:] if text.startswith(_NO_CELL) and text[1:] in _KINDS else ""


def texts(cells: Cells) -> Sequence[str]:
    """Normal text of each cell; "" for an empty one."""
    if not isinstance(cells, np.ndarray):
        return cells
    words, places = distinct(cells)
    return [words[place] for place in places.tolist()]


def distinct(values: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """Normal texts of the distinct values of an array, and for each cell the place of its text."""
    different, places = np.unique(values, return_inverse=True)
    kind = different.dtype.kind
    write = _number_text if kind == "f" else _moment_text if kind == "M" else str
    return list(map(write, different if kind in "fM" else different.tolist())), places


def _number_text(number: Any) -> str:
    if number != number:
        return ""
    if abs(float(number)) <= _EXACT and float(number).is_integer():  # _EXACT is beyond float16
        return str(int(number))
    return str(float(str(number)))  # a float32 in its own digits


def _moment_text(value: np.datetime64) -> str:
    return "" if np.isnat(value) else _moment(str(value))


def _moment(text: str) -> str:
    """Instant without a time, or decimals of a second, that say nothing."""
    day, _, clock = text.replace("T", " ").partition(" ")
    if "." in clock:
        clock = clock.rstrip("0").rstrip(".")
    return day if clock in ("", "00:00", "00:00:00") else f"{day} {clock}"


def cells_of(column: Any) -> Cells:
    """Cells of a column of pyarrow, pandas, polars or numpy, or of a sequence of Python's values.

    Raises:
        TypeError: it is no column.
    """
    if type(column).__module__.partition(".")[0] == "pyarrow":
        return _of_arrow(column)
    if hasattr(column, "__arrow_c_stream__") and not hasattr(column, "iloc"):  # polars
        try:
            from pyarrow import ArrowException, chunked_array

            return _of_arrow(chunked_array(column))
        except (ImportError, ArrowException):
            column = column.to_list()
    kind = getattr(column, "dtype", None)
    if getattr(kind, "tz", None) is not None:  # pandas
        column = column.dt.tz_localize(None)
    elif getattr(kind, "kind", "") in ("i", "u") and not isinstance(kind, np.dtype) and column.hasnans:
        column = list(column)  # or whole numbers beside a gap lose digits
    if isinstance(column, str | bytes | Mapping | set | frozenset) or not hasattr(column, "__len__"):
        raise TypeError
    if isinstance(column, np.ma.MaskedArray):
        column = list(column)
    if not hasattr(column, "dtype"):
        return _of_objects(list(column))
    values = np.asarray(column)
    if values.ndim != 1:
        raise TypeError
    if values.dtype.kind in "iufb":
        return values
    return texts(values) if values.dtype.kind == "M" else _of_objects(list(values))


def _of_arrow(column: Any) -> Cells:
    import pyarrow
    from pyarrow import compute, types

    if not isinstance(column, pyarrow.ChunkedArray):
        column = pyarrow.chunked_array([column])
    kind = column.type
    try:
        if types.is_string(kind) or types.is_large_string(kind):
            column = column.dictionary_encode()
        if types.is_dictionary(column.type):
            column = column.unify_dictionaries().combine_chunks()
            places = column.indices.cast("int64").fill_null(-1).to_numpy()
            listed = _of_objects(column.dictionary.to_pylist())
            if isinstance(listed, np.ndarray):
                numbers: NDArray[Any] = np.append(listed, math.nan)[places]
                return numbers
            words = [*listed, ""]
            return [words[place] for place in places.tolist()]
        if types.is_timestamp(kind) and kind.tz is not None:
            column = compute.local_timestamp(column)
        whole = types.is_integer(kind) and _exact(compute.min_max(column).as_py().values())
        complete = (types.is_integer(kind) or types.is_boolean(kind)) and not column.null_count
        if types.is_floating(kind) or whole or complete or types.is_date(kind) or types.is_timestamp(kind):
            values: NDArray[Any] = column.to_numpy()
            return texts(values) if values.dtype.kind == "M" else values
        return _of_objects(column.to_pylist())
    except (pyarrow.ArrowException, OverflowError, ValueError):  # lists of far dates, unknown time zones
        return [_NO_CELL + _OBJECT] * len(column)


def _exact(numbers: Iterable[Any]) -> bool:
    return all(number is None or -_EXACT <= number <= _EXACT for number in numbers)


def _of_objects(values: Sequence[Any]) -> Cells:
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return list(map(str.strip, values))
    gaps = {kind for kind in kinds if kind.__name__ in _GAPS}
    numbers = {kind for kind in kinds if issubclass(kind, _NUMBERS) and not issubclass(kind, _NO_NUMBERS)}
    if numbers and kinds == numbers | gaps:
        filled = [math.nan if type(value) in gaps else value for value in values]
        if _exact(value for value in filled if not isinstance(value, float | np.floating)):
            return np.array(filled, np.float64)
    return list(map(_text, values))


def _text(value: Any) -> str:
    """Normal text of a Python value."""
    if type(value).__name__ in _GAPS:
        return ""
    match value:
        case str():
            return value.strip()
        case bool() | np.bool_():
            return str(bool(value))
        case float() | np.floating():
            return _number_text(value)
        case np.timedelta64():
            return "" if np.isnat(value) else _NO_CELL + _kind(value)
        case int() | np.integer():
            return str(int(value)) if abs(int(value)) < 10**_MOST_DIGITS else _NO_CELL + _DIGITS
        case Decimal() if not value.is_finite():
            return "" if value.is_nan() else str(float(value))
        case Decimal():
            return normal(f"{value:f}") if abs(value.adjusted()) < _MOST_DIGITS else _NO_CELL + _DIGITS
        case datetime():
            return _moment(value.replace(tzinfo=None).isoformat(" "))
        case date() | time():
            return value.isoformat()
        case np.datetime64():
            return _moment_text(value)
        case bytes() | bytearray() | memoryview():
            try:
                return bytes(value).decode().strip()
            except UnicodeDecodeError:
                return _NO_CELL + _BYTES
    kind = _kind(value)
    return _NO_CELL + kind if kind else str(value).strip()


def _kind(value: Any) -> str:
    """Kind of a value that no cell can hold; "" for other values."""
    kind = next((kind for kind, types in _CONTAINERS.items() if isinstance(value, types)), "")
    return kind or (_OBJECT if getattr(type(value), "__str__", None) is object.__str__ else "")


def columns_of(rows: Any, party: str, index: Container[str] | None = None) -> dict[str, Cells]:
    """Columns of a data frame of pandas, polars or pyarrow, of a mapping by name, or of a list of mappings.

    Args:
        rows: the rows.
        party: party that the rows belong to, for errors.
        index: levels of a pandas index that are columns, too; None: all that have a name.

    Raises:
        DataError: the rows are something else, two columns have one name, or a column is none; names the
            party and the column.
    """
    remedy = "Give a data frame, columns by name, or a list of rows by name."
    columns = _named_columns(rows, index)
    if not columns:
        empty = hasattr(rows, "columns") or isinstance(rows, Mapping)
        what = "have no columns" if empty else "are neither a data frame nor columns by name"
        raise DataError(f"{party}: the rows {what}", remedy)
    if any(isinstance(name, tuple) for name, _ in columns):
        cause = f"{party}: the columns of the data frame have names of several levels"
        raise DataError(cause, "Give each one name, such as frame.columns.map('_'.join).")
    names = column_names(("" if name is None or name != name else str(name) for name, _ in columns), party)
    cells: dict[str, Cells] = {}
    for name, (_, column) in zip(names, columns, strict=True):
        try:
            cells[name] = cells_of(column)
        except TypeError:
            kind = type(column).__name__
            raise DataError(f"{party}: column '{name}' cannot be read: it is a {kind}", remedy) from None
    if len(set(map(len, cells.values()))) > 1:
        raise DataError(f"{party}: the columns have different numbers of rows", "Give each as many.")
    return cells


def is_table(rows: Any) -> bool:
    """Check whether rows are a data frame, columns by name or a list of rows by name."""
    return bool(_named_columns(rows, ()))


def _named_columns(rows: Any, index: Container[str] | None) -> list[tuple[Any, Any]]:
    if isinstance(rows, Mapping):
        return list(rows.items())
    if isinstance(rows, list | tuple):
        if not all(isinstance(row, Mapping) for row in rows):
            return []
        return [(name, [row.get(name) for row in rows]) for name in dict.fromkeys(chain.from_iterable(rows))]
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):  # pandas
        levels = [
            (name, rows.index.get_level_values(level))
            for level, name in enumerate(rows.index.names)
            if isinstance(name, str) and name not in rows.columns and (index is None or name in index)
        ]
        return levels + [(name, rows.iloc[:, place]) for place, name in enumerate(rows.columns)]
    if hasattr(rows, "column_names") and hasattr(rows, "column"):  # pyarrow
        return [(name, rows.column(place)) for place, name in enumerate(rows.column_names)]
    names = getattr(getattr(rows, "dtype", None), "names", None)  # numpy
    try:
        return [(name, rows[name]) for name in (getattr(rows, "columns", ()) if names is None else names)]
    except (TypeError, KeyError):
        return []


def column_names(names: Iterable[str], party: str, source: str = "") -> list[str]:
    """Names of a table's columns; one without a name is "column", several are "column 3" by their places.

    Raises:
        DataError: two are alike; names the party and the source.
    """
    header = [as_seen(name).strip() for name in names]
    several = header.count("") + header.count("column") > 1
    header = [name or (f"column {place}" if several else "column") for place, name in enumerate(header, 1)]
    if twice := sorted(name for name, times in Counter(header).items() if times > 1):
        where = f"{party}: {source}" if source and source != party else party
        cause = f"{where} names a column twice, '{twice[0]}'"
        raise DataError(cause, "Give each column a name of its own.")
    return header
