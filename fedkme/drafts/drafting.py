"""Draft of a schema from public rows: kinds, bounds and names of columns are taken from the rows.

Bounds and names that come from rows disclose these rows without any epsilon: each is marked `FROM_DATA`.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from fedkme.drafts.dialect import codes_for_nothing, detect_file, form_of_dates, words_for_nothing
from fedkme.drafts.samples import ColumnSample
from fedkme.errors import DataError, FedkmeWarning
from fedkme.tables.cells import columns_of, date_of, day_of, days_of
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import read_parts_of
from fedkme.tables.schema import Schema, schema_from

MOST_NAMES = 50
"""Distinct names in a column that is drafted as a category, at most."""
_FEW_NUMBERS = 6
_OFTEN = 5
"""Least number of rows of each number, if a few numbers are drafted as categories."""
_TAIL = 0.1
"""Share of rows below which the largest number, if it is the rarest, suggests that larger numbers exist."""
_MANY_NUMBERS = 33
"""Least count of distinct numbers in a column for which atoms and a scale are proposed."""
_MOST_ATOMS = 3
_ATOM = 0.1
"""Least share of rows that have an atom."""
_SKEWED = 0.1
"""Part of the range that holds half of the rows, at most, for a logarithmic scale."""
_ID = re.compile(r"(^|[_\W])(id|uuid|key|nr|no|number|code|mrn|name|email|phone)$|Id$|ID$", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d{1,3}([.,' ]\d{3})*([.,]\d+)?")
_CODE = re.compile(r"0\d+")
"""Pattern of digits that are no number: a postal code, a key of a register."""
_LONG = 1e10
"""Whole numbers from here on that differ in every row are identifiers, not measurements."""
_HALVES = ["low", "high"]
"""Classes of a label that is a number."""
_PERSON = re.compile(r"(^|[_\W])(id|uuid|mrn|person|patient|subject)([_\W]|$)|Id$|ID$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """A column of the draft.

    Attributes:
        name: name of the column.
        spec: keys of the schema file; empty for a column that is left out.
        why: remark for readers of the draft.
        na: texts of the file that mean an empty cell.
        format: form of the dates in the file; "" for the schema's form.
        most: largest number of rows with one value, if values seem to be persons; else 0.
    """

    name: str
    spec: Mapping[str, Any]
    why: str = ""
    na: tuple[str, ...] = ()
    format: str = ""
    most: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """Draft of a schema, with the settings of the file that it was made from.

    Attributes:
        columns: columns in the order of the file.
        file: encoding, separator and decimal sign of the file.
        label: column that a model learns to predict; "" for none.
        from_data: bounds and names come from rows.
    """

    columns: tuple[DraftColumn, ...]
    file: DataFile
    label: str = ""
    from_data: bool = True

    def schema(self) -> Schema:
        """The schema that the draft writes."""
        return schema_from(self._values(), "the draft")

    def reading(self) -> DataFile:
        """Settings by which the file is read through the schema."""
        own = {
            column.name: {k: v for k, v in (("na", column.na), ("format", column.format or None)) if v}
            for column in self.columns
            if column.spec and (column.na or column.format)
        }
        return DataFile.model_validate({**self.file.model_dump(), "columns": own})

    def classes(self) -> dict[str, Any]:
        """Keys of [label]; for a number, with the threshold of its two classes. Empty without a label.

        Raises:
            DataError: the label is a date.
        """
        spec = next((column.spec for column in self.columns if column.name == self.label), {})
        if spec.get("kind") == "date":
            raise DataError(f"column '{self.label}' is a date and cannot be the label", "Name another.")
        if "bounds" in spec:  # of a dictionary
            spec = {"categories": _HALVES, "positive_above": sum(spec["bounds"]) / 2.0}
        if not spec:
            return {}
        cut = {"positive_above": spec["positive_above"]} if "positive_above" in spec else {}
        return {"name": self.label, "classes": spec["categories"], **cut}

    def _values(self) -> dict[str, Any]:
        used = [column for column in self.columns if column.spec]
        values: dict[str, Any] = {"columns": [column.spec for column in used if column.name != self.label]}
        if label := self.classes():
            values["label"] = label
        if ignored := [column.name for column in self.columns if not column.spec]:
            values["ignore"] = ignored
        return values


def draft_schema(rows: Any, label: str | None = None) -> Schema:
    """Draft a schema from public rows: a pandas DataFrame, columns by name, or .csv or .parquet files.

    Bounds are rounded outwards, and names are taken from the rows; both disclose the rows, so give public
    rows.

    Args:
        rows: the sample; a path or a sequence of paths for files.
        label: column that a model learns to predict; it is left out of model space.

    A `FedkmeWarning` names the columns that the schema ignores, with reasons.

    Raises:
        DataError: there are no rows, no column can be used, or a file cannot be read.
    """
    new_draft = draft(rows, label)
    if ignored := [f"{column.name} ({column.why})" for column in new_draft.columns if not column.spec]:
        warnings.warn(f"columns that the schema ignores: {', '.join(ignored)}", FedkmeWarning, stacklevel=2)
    return new_draft.schema()


def draft(rows: Any, label: str | None = None) -> Draft:
    """Draft a schema as `draft_schema` does, with remarks and with the files' settings.

    Raises:
        DataError: see `draft_schema`.
    """
    if isinstance(rows, str | Path):
        rows = [rows]
    if isinstance(rows, Sequence) and rows and all(isinstance(each, str | Path) for each in rows):
        return draft_of_files([Path(each) for each in rows], label or "")
    columns = columns_of(rows, "the sample")
    samples = {name: ColumnSample() for name in columns}
    for name, cells in columns.items():
        samples[name].add(cells, float)
    return _of_samples(samples, DataFile(path=Path()), label or "")


def draft_of_files(paths: Sequence[Path], label: str) -> Draft:
    """Draft a schema from files of public rows, which have the same columns.

    Raises:
        DataError: see `draft_schema`.
    """
    samples: dict[str, ColumnSample] = {}
    files = [detect_file(path) for path in paths]
    for file in files:
        read = file.number_reader()
        for part in read_parts_of(file, file.path.name):
            for name, cells in part.columns.items():
                samples.setdefault(name, ColumnSample()).add(cells, read)
    return _of_samples(samples, files[0], label)


def _of_samples(samples: Mapping[str, ColumnSample], file: DataFile, label: str) -> Draft:
    if label and label not in samples:
        raise DataError(f"there is no column '{label}'", f"The columns are {', '.join(samples)}.")
    if not any(sample.rows for sample in samples.values()):
        raise DataError("there are no rows to draft a schema from", "Give a public sample with some rows.")
    if unnamed := [name for name in samples if not name.isprintable()]:
        raise DataError(
            f"the first line of {file.path} is not the names of columns: {unnamed[0][:40]!r}",
            "Give a .csv or .parquet file whose first line is names.",
        )
    drafted = [_column(name, sample, file, name == label) for name, sample in samples.items()]
    columns = tuple(_with_gaps(drafted, label))
    if not any(column.spec for column in columns if column.name != label):
        raise DataError("no column can be used: each differs in every row", "Give a larger sample.")
    return Draft(columns, file, label)


def _with_gaps(columns: Sequence[DraftColumn], label: str) -> Iterable[DraftColumn]:
    """Make every number nullable if half of the numbers have gaps: other files may have gaps in the rest."""
    numbers = [column for column in columns if column.spec.get("kind") == "numeric" and column.name != label]
    gaps = [column for column in numbers if "nullable" in column.spec]
    most = len(numbers) >= _FEW_NUMBERS and 2 * len(gaps) >= len(numbers)
    for column in columns:
        yield (
            replace(column, spec={**column.spec, "nullable": True}) if most and column in numbers else column
        )


def _column(name: str, sample: ColumnSample, file: DataFile, label: bool) -> DraftColumn:
    na = words_for_nothing(sample.counts, file.number_reader(), public=True)
    counts = Counter({text: count for text, count in sample.counts.items() if text and text not in na})
    filled = sample.rows if sample.many else counts.total()
    nullable = {"nullable": True} if (na or "" in sample.counts) and not label else {}
    if not counts:
        return DraftColumn(name, {}, "empty in every row", tuple(na))
    if label:
        return DraftColumn(name, _classes(name, sample, counts, file), "", tuple(na))
    distinct = sample.many or len(counts) == filled
    coded = any(map(_CODE.fullmatch, counts))
    numeric = sample.numbers >= filled and not coded
    if not (numeric or coded) and all(map(_NUMBER.fullmatch, counts)):
        return DraftColumn(name, {}, "numbers with signs between thousands", tuple(na))
    if not distinct and len(counts) > MOST_NAMES and (sample.whole or not numeric) and _PERSON.search(name):
        return DraftColumn(name, {}, "names of persons?", tuple(na), most=max(counts.values()))
    if len(counts) == 1 and filled >= 20:
        return DraftColumn(name, {}, "the same in every row", tuple(na))
    form = None if sample.many else form_of_dates(counts)
    if form and not (numeric and form != "%Y%m%d"):
        return _date(name, counts, form, tuple(na), nullable)
    if (
        distinct
        and filled >= 20
        and (not numeric or (sample.whole and (_ID.search(name) or sample.low >= _LONG)))
    ):
        return DraftColumn(name, {}, "another in every row: a name of rows?", tuple(na))
    if numeric and not (sample.whole and _are_names(counts, file)):
        return _number(name, sample, counts, file, tuple(na), nullable)
    listed = _sorted_names(counts)
    if not all(text.isprintable() for text in listed):
        return DraftColumn(name, {}, "free text", tuple(na))
    if len(listed) > MOST_NAMES:
        remark = "names of persons or of rows?" if _ID.search(name) else "too many different names"
        return DraftColumn(name, {}, remark, tuple(na))
    return DraftColumn(
        name, {"kind": "category", "name": name, "categories": listed, **nullable}, "", tuple(na)
    )


def _are_names(counts: Counter[str], file: DataFile) -> bool:
    """Check whether a column's few whole numbers stand for names, as 0 and 1 do, rather than counts.

    Counts may have further values in other files. In samples of 300 rows of 20 tables, seven such columns are
    taken for names: one of them has further values in the table's other files, six have none.
    """
    read = file.number_reader()
    often = {read(text): count for text, count in counts.items()}
    least, most, rarest = min(often), max(often), min(often.values())
    if len(often) > _FEW_NUMBERS or counts.total() < _OFTEN * len(often):
        return False
    if len(often) == 2 and most - least == 1:
        return True
    return rarest >= _OFTEN and not (often[most] == rarest < _TAIL * counts.total())


def _classes(name: str, sample: ColumnSample, counts: Counter[str], file: DataFile) -> dict[str, Any]:
    """Classes of a label: its names; for a number, two classes divided at the median."""
    listed = _sorted_names(counts)
    few = not sample.many and len(listed) <= MOST_NAMES
    if sample.numbers >= counts.total() and len(listed) > 2 and not (few and sample.whole):
        values = np.array(sorted(map(file.number_reader(), counts.elements())))
        middle = values[values < values[-1]][-1:].min(initial=np.median(values))
        return {"categories": _HALVES, "positive_above": float(f"{middle:.12g}")}
    if few and len(listed) >= 2:
        return {"categories": listed}
    remedy = "A label has 2 to 50 classes, or is a number, which is cut in two."
    raise DataError(f"column '{name}' has {len(counts)} different values and cannot be the label", remedy)


def _sorted_names(counts: Iterable[str]) -> list[str]:
    def place(text: str) -> tuple[int, float, str]:
        try:
            return 0, float(text), text
        except ValueError:
            return 1, 0.0, text

    return sorted(counts, key=place)


def _date(
    name: str, counts: Iterable[str], form: str, na: tuple[str, ...], nullable: Mapping[str, Any]
) -> DraftColumn:
    iso = form == "%Y-%m-%d"
    days = [day_of(text) if iso else days_of(datetime.strptime(text, form).date()) for text in counts]
    years = sorted(int(date_of(day)[:4]) for day in days)
    bounds = [f"{years[0]}-01-01", f"{years[-1]}-12-31"]
    spec = {"kind": "date", "name": name, "bounds": bounds, **nullable}
    return DraftColumn(name, spec, "", na, "" if iso else form)


def _number(
    name: str,
    sample: ColumnSample,
    counts: Counter[str],
    file: DataFile,
    na: tuple[str, ...],
    nullable: Mapping[str, Any],
) -> DraftColumn:
    low, high, why = sample.low, sample.high, ""
    point, read = Counter[float](), file.number_reader()
    for text, count in counts.items():
        point[read(text)] += count
    if not sample.many and (codes := codes_for_nothing(list(point))):
        point = Counter({value: count for value, count in point.items() if value not in codes})
        low, high, nullable = min(point), max(point), {"nullable": True, "missing_codes": codes}
        why = f"{', '.join(f'{code:g}' for code in codes)} taken as no value"
    shape = _shape(point, high, sample.whole)
    low, high = outwards(low, high)
    low = shape.pop("low", low)
    bounds = [int(low), int(high)] if sample.whole else [low, high]
    spec = {"kind": "numeric", "name": name, "bounds": bounds, "clip": True}
    spec |= {"integer": True} if sample.whole else {}
    if sample.whole and "atoms" in shape:
        shape["atoms"] = [int(atom) for atom in shape["atoms"]]
    return DraftColumn(name, {**spec, **shape, **nullable}, why, na)


def _shape(point: Counter[float], high: float, whole: bool) -> dict[str, Any]:
    """Propose atoms, and a log scale with its lower bound, from values and their counts.

    An atom is a value that many rows have among many distinct values, or half of all rows have among few. A
    column is skewed if half of its other rows lie in a small part of its range, at the lower end.
    """
    if not point or not all(map(math.isfinite, point)):
        return {}
    rare = 2 * point.most_common(1)[0][1] >= point.total() and len(point) >= _FEW_NUMBERS
    if whole and high - min(point) < _MANY_NUMBERS:  # each has a bin of its own
        return {}
    if len(point) < _MANY_NUMBERS and not rare:
        return {}
    atoms = sorted(v for v, count in point.most_common(_MOST_ATOMS) if count >= _ATOM * point.total())
    rest = np.array(sorted((value, count) for value, count in point.items() if value not in atoms))
    middle = float(rest[np.searchsorted(rest[:, 1].cumsum(), rest[:, 1].sum() / 2.0), 0])
    least = float(rest[0, 0])
    shape: dict[str, Any] = {"scale": "log"} if middle - least < _SKEWED * (high - least) else {}
    if shape and least > 0:
        shape["low"] = 10.0 ** math.floor(math.log10(least))
    return shape | ({"atoms": atoms} if atoms else {})


def outwards(low: float, high: float) -> tuple[float, float]:
    """Bounds rounded outwards, to the power of ten of their distance; the lower bound is 0 if 0 is near."""
    step = 10.0 ** (math.floor(math.log10(high - low)) if high > low else 0)
    lower, upper = math.floor(low / step) * step, math.ceil(high / step) * step
    if 0 < low < high - low:
        lower = 0.0
    if lower == upper:
        upper += step
    return float(f"{lower:.12g}"), float(f"{upper:.12g}")
