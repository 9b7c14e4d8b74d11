"""Settings of a party's own file of rows: its path, and how its columns and cells become those of the schema.

The settings are private: each party has its own, in its configuration, and no other party sees them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from fedkme.config import Settings
from fedkme.errors import ConfigError, DataError
from fedkme.tables.cells import MINUS, Cells, Text, as_seen, plain_number
from fedkme.tables.dates import DateForm
from fedkme.tables.schema import Schema

_MARKS = {"": "", ",": ",", ".": ".", " ": " \u00a0\u202f", "'": "'\u2019"}
"""Signs between thousands by their names: spaces of three widths, apostrophes of two forms."""
_CARRIERS: Mapping[str, Literal["text", "parquet", "npz"]] = {
    **{f".{name}{packed}": "text" for name in ("csv", "tsv", "txt") for packed in ("", ".gz")},
    ".parquet": "parquet",
    ".npz": "npz",
}
OF_TEXT = ("sep", "skip", "skip_end", "encoding")
"""Settings of files of text alone."""
_OF_NAMES = ("decimal", "thousands", "units", "na", "ignore", "columns", "drop_unlabelled")
_UNREAD = {"parquet": OF_TEXT, "npz": (*OF_TEXT, *_OF_NAMES)}
"""Settings that a kind of file has no use for: an .npz has numbers and indices alone."""


def stem_of(path: Path) -> str:
    """Name of a file of rows without the end that says its kind: `north` of north.tsv.gz."""
    ends = [end for end in _CARRIERS if path.name.lower().endswith(end)]
    return path.name[: -len(max(ends, key=len))] if ends else path.stem


def _known_encoding(name: str) -> str:
    try:
        "".encode(name)
    except (LookupError, ValueError):
        raise ValueError(f"{name!r} is no encoding; usual are utf-8, latin-1 and cp1252") from None
    return name


EITHER: Literal["either"] = "either"
"""Decimal sign of a column whose numbers have one or the other."""
_GROUPED = re.compile(r"[+-]?\d{1,3}((\.\d{3})+,|(,\d{3})+\.)\d+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([.,]\d{3})+")
_LEAST, _MANY, _NEARLY_ALL, _TINY = 4, 20, 0.9, 0.02
"""Different numbers that may be thousands, at least, and where only their form tells; share of them in the
bounds; part of the bounds that tiny numbers are."""
_AMBIGUOUS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
"""Patterns of 1.234,5 and 1,234.5; and of 1.234, which may be 1234."""


class FileColumn(Settings):
    """Column of a file, as it says one of the schema."""

    model_config = ConfigDict(populate_by_name=True)

    source: str | None = Field(None, alias="from")
    """Name of the column in the file; none: the schema's name."""
    map: dict[str, str] = Field({})
    """Cells of the file, and the category, class or number that each stands for: Y = "yes"."""
    na: tuple[str, ...] = ()
    """Cells that mean an empty one, besides those of the whole file."""
    decimal: Literal[".", ",", "either"] | None = None
    """Sign before the decimals of a number, where the file's other columns have another."""
    thousands: Literal["", ",", ".", " ", "'"] | None = None
    """Sign between the thousands of a number, where the file's other columns have another."""
    format: DateForm | None = None
    """Form of dates, such as "%d.%m.%Y" (Python's strptime); none: 2024-12-31, with or without a time, or the
    schema's form."""


class DataFile(Settings):
    """A file of rows (.csv, .tsv or .txt, plain or .gz; .parquet; .npz), and how to read it."""

    path: Path
    """The file."""
    sep: str = Field(",", min_length=1, max_length=1)
    """Character between the cells of a line: "," or ";" or "\\t"; " ": one or more. A .tsv has tabs."""
    skip: int = Field(0, ge=0)
    """Lines above the header, such as a title."""
    skip_end: int = Field(0, ge=0)
    """Rows at the end that are none, such as totals."""
    decimal: Literal[".", ",", "either"] = "."
    """Sign before the decimals of a number; "either": the last of 1.5, 1,5 and 1.234,5; 1.234 is refused."""
    thousands: Literal["", ",", ".", " ", "'"] = ""
    """Sign between the thousands of a number, as in "1,234.5"; none: numbers have no such signs."""
    units: tuple[str, ...] = ()
    """Signs before or behind numbers that are left out, such as "$" or "%": "45 %" is 45."""
    encoding: Annotated[str, AfterValidator(_known_encoding)] = "utf-8"
    """Encoding of a .csv: utf-8, latin-1, cp1252."""
    na: tuple[str, ...] = ()
    """Cells that mean an empty one, such as "NA" or "?"."""
    unknown: float = Field(0.01, ge=0, le=1)
    """Share of a column's rows that may have names which are not in the schema's list, where the schema has a
    category for missing ones: they become it. A file with more is refused when it is loaded."""
    ignore: tuple[Text, ...] = ()
    """Columns that are not used, by the file's own names; the schema's `ignore` has those of all files."""
    columns: dict[Text, FileColumn] = Field({})
    """Columns of the schema that the file says otherwise, by the schema's name."""
    drop_unlabelled: bool = False
    """Rows without a label are left out and counted, as with the schema's `drop_unlabelled`."""

    @model_validator(mode="before")
    @classmethod
    def _of_suffix(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or "sep" in values:
            return values
        tabs = str(values.get("path")).lower().endswith((".tsv", ".tsv.gz"))
        return {**values, "sep": "\t"} if tabs else values

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.sep == self.decimal and self.carrier == "text":
            raise ValueError(f"'sep' and 'decimal' are both {self.sep!r}")
        if self.thousands == self.decimal:
            raise ValueError(f"'thousands' and 'decimal' are both {self.decimal!r}")
        unread = _UNREAD.get(self.carrier, ())
        if idle := [key for key in unread if getattr(self, key) != type(self).model_fields[key].default]:
            raise ValueError(f"'{idle[0]}' is no setting of a file such as {self.path.name}. Remove it.")
        sources = [column.source for column in self.columns.values() if column.source is not None]
        if twice := {source for source in sources if sources.count(source) > 1}:
            raise ValueError(f"two columns are 'from' {min(twice)!r}")
        return self

    @property
    def carrier(self) -> Literal["text", "parquet", "npz", "other"]:
        """Kind of the file, by its name: lines of text may be compressed by gzip."""
        name = self.path.name.lower()
        return next((kind for suffix, kind in _CARRIERS.items() if name.endswith(suffix)), "other")

    def column(self, name: str) -> FileColumn:
        """Settings of a column of the schema."""
        return self.columns.get(name, FileColumn())

    def written(self, name: str) -> DataFile:
        """The file, with the signs before decimals and between thousands that a column has in it."""
        own = self.column(name)
        decimal = own.decimal or self.decimal
        thousands = self.thousands if own.thousands is None else own.thousands
        if thousands == decimal:
            thousands = ""
        if (decimal, thousands) == (self.decimal, self.thousands):
            return self
        return self.model_copy(update={"decimal": decimal, "thousands": thousands})

    def if_thousands(
        self, cells: Iterable[str], bounds: tuple[float, float], whole: bool
    ) -> FileColumn | None:
        """Signs of a column whose decimal sign stands between thousands; None where it does not."""
        if self.decimal == EITHER or not perhaps_thousands(cells, self, bounds, whole=whole):
            return None
        return FileColumn(decimal="." if self.decimal == "," else ",", thousands=self.decimal)

    @property
    def plain_numbers(self) -> bool:
        """Numbers have a decimal point and no signs between thousands."""
        return self.decimal == "." and not self.thousands

    def number_reader(self) -> Callable[[str], float]:
        """Function that reads a cell as a number; an empty cell is NaN, any other text a ValueError.

        Numbers in parentheses are negative, as in accounts: (12.50) is -12.5.
        """
        bare = _number_of_either if self.decimal == EITHER else self._bare_reader()
        unit = "|".join(map(re.escape, self.units)) or "(?!)"
        dressed = re.compile(rf"(\()?([+-]?)\s?(?:{unit})?\s?([+-]?)(\d[^()]*?)\s?(?:{unit})?(?(1)\))")

        def number(cell: str) -> float:
            try:
                return bare(cell)
            except ValueError:
                match = dressed.fullmatch(cell.translate(MINUS))
                signs = "" if match is None else f"{'-' if match[1] else ''}{match[2]}{match[3]}"
                if match is None or len(signs) > 1:
                    raise
                return bare(match[4]) * (-1 if signs == "-" else 1)

        return number

    def _bare_reader(self) -> Callable[[str], float]:
        """Function that reads a number without unit or parentheses."""
        if self.plain_numbers:
            return plain_number
        comma, marks = self.decimal == ",", _MARKS[self.thousands]
        grouped = re.compile(
            rf"[+-]?\d{{1,3}}([{marks or 'none'}]\d{{2,3}})*[{marks or 'none'}]\d{{3}}(\{self.decimal}\d*)?"
        )
        no_marks = str.maketrans("", "", marks)

        def number(cell: str) -> float:
            if marks and grouped.fullmatch(cell):
                cell = cell.translate(no_marks)
            if comma and "." in cell:  # 1.234 may be meant as 1234
                raise ValueError
            return plain_number(cell.replace(",", ".") if comma else cell)

        return number


def perhaps_thousands(
    cells: Iterable[str], file: DataFile, bounds: tuple[float, float], *, whole: bool
) -> set[str]:
    """Cells of a column in which the decimal sign may stand between thousands, such as 1.406; mostly none.

    Each has three digits behind the sign, and nearly all are in the bounds as thousands. As decimals they are
    no whole numbers where all are to be `whole`, or all tiny beside the bounds, or beside numbers without a
    sign, which would have decimals, too.
    """
    signed, plain = set[str](), False
    for cell in cells:
        if file.decimal in cell:
            if not _THOUSANDS.fullmatch(cell):
                return set()
            signed.add(cell)
        plain = plain or cell.isdecimal()
    numbers = [float(cell.replace(file.decimal, "")) for cell in signed]
    inside = sum(bounds[0] <= number <= bounds[1] for number in numbers)
    if len(signed) < _LEAST or inside < _NEARLY_ALL * len(signed):
        return set()
    broken = not all(cell.endswith("000") for cell in signed)
    tiny = not plain and max(numbers) / 1000.0 <= _TINY * max(bounds)
    many = plain and len(signed) >= _MANY
    return signed if (whole and (broken or tiny)) or (broken and (tiny or many)) else set()


def _number_of_either(cell: str) -> float:
    """Number whose decimals stand behind a point or a comma."""
    if _GROUPED.fullmatch(cell):
        cell = re.sub(r"[.,](?=.*[.,])", "", cell)
    elif _AMBIGUOUS.fullmatch(cell):
        raise ValueError
    return plain_number(cell.replace(",", "."))


Source = Path | DataFile
"""File of rows: a path alone, or settings with the path."""


def as_file(source: Source) -> DataFile:
    """Settings of a file of rows; defaults for a path alone."""
    return source if isinstance(source, DataFile) else DataFile(path=source)


def placed(source: Source, directory: Path) -> Source:
    """Resolve a file's path relative to a folder."""
    if isinstance(source, DataFile):
        return source.model_copy(update={"path": directory / source.path})
    return directory / source


def path_of(source: Source) -> Path:
    """Path of a file of rows."""
    return source.path if isinstance(source, DataFile) else source


def refuse_text(path: str | Path, party: str) -> None:
    """Refuse the text of a file in place of its path: an error with the path would show the rows.

    Raises:
        ConfigError: the path has several lines.
    """
    if "\n" in str(path):
        cause = f"{party}: text of several lines is no path of a file"
        raise ConfigError(
            cause, "Give the file's path, or the text as a frame: pandas.read_csv(io.StringIO(text))."
        )


def whose(party: str, path: Path) -> str:
    """Begin of an error about a file: the party and the path, or the path alone where that is its name."""
    return str(path) if party in (str(path), path.name) else f"{party}: {path}"


PLAIN = DataFile(path=Path())
"""File without settings: it uses the schema's words throughout."""
MOST_MISSING = 12
"""Missing columns that an error names."""


def named(columns: Mapping[str, Cells], schema: Schema, file: DataFile, party: str) -> dict[str, Cells]:
    """Rename the columns of a file to the schema's names.

    Raises:
        DataError: two columns would have the same name.
    """
    given = {as_seen(own.source): name for name, own in file.columns.items() if own.source is not None}
    if strangers := sorted(set(file.columns) - set(_described(schema))):
        cause = f"{party}: the schema has no column {some(strangers)}, of which the file's settings tell"
        raise DataError(cause, "Name columns there as the schema does, and with 'from' as the file does.")
    renamed: dict[str, Cells] = {}
    for name, cells in columns.items():
        new = given.get(as_seen(name), as_seen(name))
        if new in renamed or (new != name and new in columns):
            cause = f"{party}: two columns of the file are '{new}'"
            raise DataError(cause, "Remove one, or correct 'from'.")
        renamed[new] = cells
    return renamed


def check_names(
    present: Collection[str], needed: Collection[str], allowed: Iterable[str], what: str, party: str
) -> None:
    """Refuse a file that lacks a column, or has one that the schema does not describe.

    Raises:
        DataError: names the missing columns, which are public; else up to three surplus columns.
    """
    missing = sorted(set(needed) - set(present))
    if missing:
        cause = f"{party}: the file has no {what} {some(missing, MOST_MISSING)}"
        remedy = "Say with 'from' what the file calls it, add it, or take the schema of this file's columns."
        if len(missing) == len(set(needed)) and any(map(_is_value, present)):
            cause = f"{party}: the first line of the file has no names of columns"
            remedy = f"Write them above the rows: {some(list(needed), MOST_MISSING)}."
        elif what == "array":
            remedy = "Write it with numpy.savez(FILE, x=rows, y=labels)."
        elif not present:
            cause, remedy = f"{party}: the file has no columns", "Write it again, with its columns."
        elif len(present) == 1 < len(needed):
            remedy = (
                "It has one column: say with 'sep' what stands between cells; `fedkme schema check` finds it."
            )
        raise DataError(cause, remedy)
    extra = sorted(set(present) - set(needed) - set(allowed))
    if extra:
        cause = f"{party}: the schema does not describe {what} {some(extra)} of the file"
        where = "the schema" if what == "array" else "the file's settings or of the schema"
        raise DataError(cause, f"List it under 'ignore' of {where}.")


def _is_value(name: str) -> bool:
    """Check for what is no name of a column: a number with a point or a sign, or bytes that are no text."""
    with suppress(ValueError):
        return math.isfinite(float(name)) and not name.isdecimal()
    return any(sign < " " and not sign.isspace() for sign in name)


def some(names: Sequence[str], most: int = 3) -> str:
    """Up to `most` names in quotes, and the number of further names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"'{name}'" for name in names[:most]) + more


def needed_names(schema: Schema, *, of_persons: bool) -> list[str]:
    """Columns that a file must have."""
    derived = {*schema.differences, *(mark.name for mark, _ in schema.gaps)}
    person = [schema.person.column] if schema.person and of_persons else []
    return [name for name in schema.names if name not in derived] + person


def allowed_names(schema: Schema, file: DataFile = PLAIN) -> list[str]:
    """Columns that a file may have, and names that its settings give to them."""
    sources = [own.source for own in file.columns.values() if own.source is not None]
    return [*_described(schema), *schema.ignore, *file.ignore, *sources]


def _described(schema: Schema) -> list[str]:
    label = [schema.label.name] if schema.label else []
    person = [schema.person.column] if schema.person else []
    return [*schema.names, *label, *person]
