"""Draft of a schema from public rows: kinds, bounds and names of columns are taken from the rows.

Bounds and names that come from rows disclose these rows without any epsilon: each is marked `FROM_DATA`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedkme.drafts.dialect import are_codes, codes_of_few, unread_kind, words_for_no_class, words_for_nothing
from fedkme.drafts.numbers import ISO, date_forms, date_spec, forms_of_dates, is_month_first, number_spec
from fedkme.drafts.samples import (
    PERSONS,
    ColumnSample,
    Sample,
    counts_rows,
    numbers_of_persons,
    persons_in,
    sample_of,
    surnames,
)
from fedkme.drafts.words import doubts, no_days
from fedkme.errors import DataError
from fedkme.tables.cells import foreign
from fedkme.tables.data_file import DataFile, FileColumn
from fedkme.tables.schema import Schema, schema_from

MOST_NAMES = 50
"""Distinct names in a column that is drafted as a category, at most."""
_MOST_ROWS = 0.8
"""Share of rows that the most frequent of more names than these have, at least, if they are drafted."""
_FEW_NUMBERS = 6
_SEVERAL = 3
"""Names of a category from which others may exist."""
_OFTEN = 5
"""Least number of rows of each name, or of each number that is one, if there seem to be no others."""
_GAPS_OF_MANY = 2
"""Columns with gaps from which any column may have some."""
_TAIL = 0.1
"""Share of rows below which the largest number, if it is the rarest, suggests that larger numbers exist."""
_ID = re.compile(r"(^|[_\W])(id|uuid|key|nr|no|number|code|mrn|name|email|phone)$|Id$|ID$", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d{1,3}([.,' ]\d{3})*([.,]\d+)?")
_CODE = re.compile(r"0\d+")
"""Pattern of digits that are no number: a postal code, a key of a register."""
_LONG = 1e10
"""Whole numbers from here on that differ in every row are identifiers, not measurements."""
_IDENTIFIER = "differs in every row: an identifier? Then list it under 'ignore'"
_LEAST_ROWS = 20
"""Rows from which a column that is alike, or differs, in all of them is left out."""
_AMOUNT = re.compile(
    r"(^|[_\W])(num|count|rate|ratio|share|percent|pct|amount|total|sum|price|cost|fee|fare|toll|anzahl|anteil|"
    r"preis|kosten|betrag|prix|montant|taux|precio|importe|prezzo|costo)([_\W]|$)",
    re.IGNORECASE,
)
"""Pattern of names of numbers: their few values stand for no names."""
_MOST_REASONS = 8
"""Columns whose reasons are named if no column can be used."""
_HALVES = ["low", "high"]
"""Classes of a label that is a number."""
_PERSON = re.compile(r"(^|[_\W])(id|uuid|mrn|person|patient|subject)([_\W]|$)|Id$|ID$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """A column of the draft.

    Attributes:
        name: name of the column.
        spec: keys of the schema file; empty for a column that is left out.
        why: what was guessed of the column, or why it is left out.
        most: largest number of rows with one value, if values seem to be persons; else 0.
        forms: form of the dates in each sample that has the column.
    """

    name: str
    spec: Mapping[str, Any]
    why: str = ""
    most: int = 0
    forms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """Draft of a schema, with the settings of the files that it was made from.

    Attributes:
        columns: columns in the order of the files.
        files: settings by which each file is read through the schema; without one for rows that are no file.
        label: column that a model learns to predict; "" for none.
        from_data: bounds and names come from rows.
        remarks: what was guessed of the files, or left out of them.
    """

    columns: tuple[DraftColumn, ...]
    files: tuple[DataFile, ...] = ()
    label: str = ""
    from_data: bool = True
    remarks: tuple[str, ...] = ()

    @property
    def left_out(self) -> dict[str, str]:
        """Reasons by the name of each column that is not used."""
        return {column.name: column.why for column in self.columns if not column.spec}

    @property
    def guesses(self) -> dict[str, str]:
        """Guesses by the name of each column that is used."""
        return {column.name: column.why for column in self.columns if column.spec and column.why}

    def schema(self) -> Schema:
        """The schema that the draft writes."""
        return schema_from(self._values(), "the draft")

    def classes(self) -> dict[str, Any]:
        """Keys of [label]; for a number, with the threshold of its two classes. Empty without a label.

        Raises:
            DataError: the label is a date.
        """
        spec = dict(next((column.spec for column in self.columns if column.name == self.label), {}))
        if spec.get("kind") == "date":
            raise DataError(f"column '{self.label}' is a date and cannot be the label", "Name another.")
        if "bounds" in spec:  # of a dictionary
            spec = {"categories": _HALVES, "positive_above": sum(spec["bounds"]) / 2.0}
        if not spec:
            return {}
        keys = ("positive_above", "na", "drop_unlabelled")
        own: dict[str, Any] = {key: spec[key] for key in keys if key in spec}
        return {"name": self.label, "classes": spec["categories"], **own}

    def _values(self) -> dict[str, Any]:
        used = [column for column in self.columns if column.spec]
        values: dict[str, Any] = {"columns": [column.spec for column in used if column.name != self.label]}
        if label := self.classes():
            values["label"] = label
        if ignored := list(self.left_out):
            values["ignore"] = ignored
        return values


def draft(rows: Any, label: str | None = None, *, gaps: bool = False) -> Draft:
    """Draft a schema from public rows: a pandas DataFrame, columns by name, or files; or several of these.

    Bounds are rounded outwards, and names are taken from the rows; both disclose the rows, so give public
    rows.

    Args:
        rows: the sample; a frame, columns by name or the path of a file, or a sequence of samples.
        label: column that a model learns to predict; it is left out of model space.
        gaps: any column may have empty cells in other files, whether the sample has any or not.

    Raises:
        DataError: there are no rows, no column can be used, or a file cannot be read.
    """
    several = isinstance(rows, list | tuple) and all(
        isinstance(each, str | Path) or hasattr(each, "columns") for each in rows
    )
    samples = [sample_of(each) for each in (rows if several else [rows])]
    return _draft_of(samples, label or "", gaps)


def _draft_of(samples: Sequence[Sample], label: str, gaps: bool) -> Draft:
    parts: dict[str, dict[int, ColumnSample]] = {}
    for place, sample in enumerate(samples):
        for name, cells in sample.columns.items():
            parts.setdefault(name, {})[place] = cells
    if label and label not in parts:
        raise DataError(f"there is no column '{label}'", f"The columns are {', '.join(parts)}.")
    if unnamed := [name for name in parts if not name.isprintable()]:
        source = next((sample.file.path for sample in samples if sample.file), "the rows")
        cause = f"the first line of {source} is not the names of columns: {unnamed[0][:40]!r}"
        raise DataError(cause, "Give a .csv, .tsv, .txt or .parquet file whose first line is names.")
    if not any(cells.rows for each in parts.values() for cells in each.values()):
        raise DataError("there are no rows to draft a schema from", "Give a public sample with some rows.")
    drafted = {name: _column(name, [*each.values()], name == label) for name, each in parts.items()}
    if any(is_month_first(column.forms) for column in drafted.values()):
        for name, column in drafted.items():
            if column.forms and not is_month_first(column.forms):
                drafted[name] = _column(name, [*parts[name].values()], name == label, month_first=True)
    for name, column in drafted.items():
        if column.spec and len(parts[name]) < len(samples):
            missing = f"missing in {len(samples) - len(parts[name])} of {len(samples)} samples"
            drafted[name] = replace(column, why="; ".join(filter(None, (column.why, missing))))
    if not any(column.spec for column in drafted.values() if column.name != label):
        for name, column in drafted.items():
            if column.why.endswith(PERSONS):
                drafted[name] = _column(name, [*parts[name].values()], name == label, persons=True)
    columns = tuple(_with_gaps([*drafted.values()], label, gaps))
    if not any(column.spec for column in columns if column.name != label):
        reasons = [f"'{column.name}' ({column.why})" for column in columns if column.name != label]
        more = f" and {len(reasons) - _MOST_REASONS} more" if len(reasons) > _MOST_REASONS else ""
        cause = f"no column can be used: {', '.join(reasons[:_MOST_REASONS])}{more}"
        raise DataError(cause, "Give a larger sample, or one that has other columns.")
    files = tuple(
        _with_forms(place, sample.file, columns, parts) for place, sample in enumerate(samples) if sample.file
    )
    return Draft(
        columns, files, label, True, tuple(remark for sample in samples for remark in sample.remarks)
    )


def _with_forms(
    place: int,
    file: DataFile,
    columns: Iterable[DraftColumn],
    parts: Mapping[str, Mapping[int, ColumnSample]],
) -> DataFile:
    """Settings of a sample's file, with the forms of its dates where they are not the schema's."""
    own = {}
    for column in columns:
        if column.spec and column.name in file.columns:
            own[column.name] = file.columns[column.name]
        if column.forms and place in parts[column.name]:
            form = column.forms[list(parts[column.name]).index(place)]
            if form not in (ISO, column.spec.get("format")):
                own[column.name] = FileColumn(format=form)
    return file.model_copy(update={"columns": own})


def _with_gaps(columns: Sequence[DraftColumn], label: str, gaps: bool) -> Iterable[DraftColumn]:
    """Lend gaps to every column if two columns have some: in other files any may (lab/tried)."""
    used = [column for column in columns if column.spec and column.name != label]
    lent = gaps or sum("nullable" in column.spec for column in used) >= _GAPS_OF_MANY
    for column in columns:
        yield replace(column, spec={**column.spec, "nullable": True}) if lent and column in used else column


def _column(
    name: str, parts: Sequence[ColumnSample], label: bool, *, month_first: bool = False, persons: bool = False
) -> DraftColumn:
    """Draft a column of all samples.

    Args:
        name: name of the column.
        parts: its cells in each sample that has it.
        label: it is the label.
        month_first: dates may be read with the month first.
        persons: names of persons are drafted as other names are.
    """
    sample = ColumnSample()
    for part in parts:
        sample.merge(part)
    if label:
        na = words_for_no_class(sample.counts, sample.number)
    else:
        na = words_for_nothing(sample.counts, sample.number)
        na += codes_of_few(sample.counts, na, sample.number, _FEW_NUMBERS)
        na += no_days(sample.counts, na, forms_of_dates)
    counts = Counter({text: count for text, count in sample.counts.items() if text and text not in na})
    filled = sample.numbers + sample.words - sum(sample.counts[word] for word in na)
    remark = f"{', '.join(na)} taken as no value" if na else ""
    gaps: dict[str, Any] = {"nullable": True} if filled < sample.rows else {}
    gaps |= {"na": na} if na else {}

    def out(why: str, most: int = 0) -> DraftColumn:
        return DraftColumn(name, {}, why, most)

    numbered = ""

    def drafted(spec: Mapping[str, Any], *whys: str) -> DraftColumn:
        persons = max(counts.values()) if numbered else 0
        return DraftColumn(name, spec, "; ".join(filter(None, (remark, *whys))), most=persons)

    if not counts:
        return out("empty in every row")
    if label:
        spec = _classes(name, sample, counts, filled)
        why = "" if "positive_above" in spec else doubts(spec["categories"])
        return drafted(spec | ({"na": na} if na else {}), why)
    if counts_rows(name, sample):
        return out("numbers of rows?")
    if strange := foreign(next(iter(counts))):
        return out(f"{strange} in its cells, which no schema holds")
    distinct = sample.many or len(counts) == filled
    coded = any(map(_CODE.fullmatch, counts))
    codes = sum(sample.counts[word] for word in na if word in sample.values)
    numeric = sample.numbers - codes >= filled and not coded
    most = max(counts.values())
    if not (numeric or coded) and all(map(_NUMBER.fullmatch, counts)):
        return out("numbers with decimal commas, or signs between thousands")
    of_numbers = "" if numeric else unread_kind(counts)
    if len(counts) == 1 and filled >= _LEAST_ROWS and (numeric or filled == sample.rows):
        return out("the same in every row" + ("" if filled == sample.rows else " that has any"))
    if (forms := date_forms(parts, na, month_first)) and any(forms):
        spec, why, chosen = date_spec(name, parts, na, forms)
        words = [*na, *spec.get("na", ())]
        return replace(drafted({**spec, **gaps, **({"na": words} if words else {})}, why), forms=chosen)
    if not numeric or sample.whole:
        why, person = persons_in(name, list(counts), most)
        if why and not persons:
            return out(why, most if person and most > 1 else 0)
        remark = "; ".join(filter(None, (why and f"{why} Nothing else is left", remark)))
        if not distinct and len(counts) > MOST_NAMES and _PERSON.search(name):
            return out("names of persons?", most)
    numbered = numbers_of_persons(name, counts) if numeric and sample.whole else ""
    named_or_long = sample.whole and (_ID.search(name) or sample.low >= _LONG)
    if distinct and filled >= _LEAST_ROWS and (not numeric or named_or_long):
        return out(of_numbers or "differs in every row: an identifier?")
    if numeric and not (sample.whole and _are_names(name, counts, sample)):
        point = Counter[float]()
        for text, count in counts.items():
            point[sample.number(text)] += count
        spec, why = number_spec(name, sample, point, bool(gaps))
        if "missing_codes" in spec:
            gaps |= {"nullable": True}
        alike = distinct and sample.whole and 5 <= len(f"{sample.low:.0f}") == len(f"{sample.high:.0f}")
        doubt = _IDENTIFIER if alike and filled >= _LEAST_ROWS else doubts(counts) or numbered
        return drafted({**spec, **gaps}, why, doubt) if spec else out(why)
    if not all(text.isprintable() for text in counts):
        return out("cells with signs that cannot be printed")
    words, own = [word for word in na if word != "missing"], list[str]()  # the name of the gaps' own category
    if len(words) == 1 and sample.counts[""] == 0 and words[0].isprintable():
        gaps, own = {"nullable": True, "missing": words[0]}, words  # made rows have the word, too
    elif words:
        gaps |= {"na": words}
    else:
        gaps.pop("na", None)
    spec = {"kind": "category", "name": name, "categories": [*_sorted_names(counts), *own]}
    doubt = "; ".join(filter(None, (doubts(counts), surnames(name, counts), numbered)))
    if len(counts) > MOST_NAMES:
        if _ID.search(name):
            return out("names of persons or of rows?")
        frequent = Counter(dict(counts.most_common(MOST_NAMES)))
        if frequent.total() < _MOST_ROWS * filled:
            return out(of_numbers or "too many different names")
        why = f"{len(counts) - len(frequent)} rarer names are taken as 'other'"
        spec["categories"] = [*_sorted_names(frequent), *own]
        return drafted({**spec, "other": True, **gaps}, doubt, why)
    if _is_open(counts):
        return drafted({**spec, "other": True, **gaps}, doubt, "other files may have other names")
    return drafted({**spec, **gaps}, doubt)


def _is_open(counts: Counter[str]) -> bool:
    """Check whether other files may have further names: a few rows have one of several names."""
    return len(counts) >= _SEVERAL and min(counts.values()) < _OFTEN


def _are_names(name: str, counts: Counter[str], sample: ColumnSample) -> bool:
    """Check whether a column's few whole numbers stand for names, as 0 and 1 do, rather than counts.

    Counts may have further values in other files. In samples of 300 rows of 20 tables, seven such columns are
    taken for names: one of them has further values in the table's other files, six have none.
    """
    often = {sample.number(text): count for text, count in counts.items()}
    least, most, rarest = min(often), max(often), min(often.values())
    if counts.total() < _OFTEN * len(often) or _AMOUNT.search(name):
        return False
    if len(often) > _FEW_NUMBERS:
        return len(often) <= MOST_NAMES and rarest >= _OFTEN and are_codes(often)
    if len(often) == 2 and most - least == 1:
        return True
    return rarest >= _OFTEN and not (often[most] == rarest < _TAIL * counts.total())


def _classes(name: str, sample: ColumnSample, counts: Counter[str], filled: int) -> dict[str, Any]:
    """Classes of a label: its names; for a number, two classes divided at the median."""
    listed = _sorted_names(counts)
    few = not sample.many and len(listed) <= MOST_NAMES
    unlabelled = {"drop_unlabelled": True} if filled < sample.rows else {}
    numeric = sample.numbers >= filled and counts.keys() <= sample.values.keys()
    if numeric and len(listed) > 2 and not (few and sample.whole):
        values = np.array(sorted(map(sample.number, counts.elements())))
        middle = values[values < values[-1]][-1:].min(initial=np.median(values))
        return {"categories": _HALVES, "positive_above": float(f"{middle:.12g}"), **unlabelled}
    if few and len(listed) >= 2:
        return {"categories": listed, **unlabelled}
    remedy = "A label has 2 to 50 classes, or is a number, which is cut in two."
    many = "one value" if len(counts) == 1 else f"{len(counts)} different values"
    raise DataError(f"column '{name}' has {many} and cannot be the label", remedy)


def _sorted_names(counts: Iterable[str]) -> list[str]:
    def place(text: str) -> tuple[int, float, str]:
        try:
            return 0, float(text), text
        except ValueError:
            return 1, 0.0, text

    return sorted(counts, key=place)
