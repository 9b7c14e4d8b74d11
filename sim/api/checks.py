"""Check of frames and files against a schema: all faults, and the smallest edit that makes them fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkme.answers.rules import RowRules
from fedkme.config import UTF_8
from fedkme.drafts.checking import (
    Checked,
    FileFault,
    FileReport,
    guessed,
    python_line,
    report_lines,
    settings_of,
)
from fedkme.drafts.checking import check as check_all
from fedkme.drafts.edits import Change, SchemaChange, edited, place_of, plain_schema
from fedkme.drafts.reading import RowsToCheck
from fedkme.errors import ConfigError
from fedkme.inputs import read_text
from fedkme.pages.html import joined, plain_table, tag
from fedkme.tables.data_file import DataFile
from sim.api.drafts import SchemaDraft
from sim.api.frames import NO_SCHEMA, Rows, SchemaLike, rows_to_check, with_settings

_EDIT = "the smallest edit, made in .schema and .owners:"
_LEFT = "read so, these are left:"


@dataclass(frozen=True, eq=False)
class SchemaCheck:
    """Findings of `fk.check`.

    Examples:
        >>> import fedkme as fk
        >>> schema = fk.draft_schema({"age": [20, 31, 47], "sex": ["f", "m", "f"]})
        >>> found = fk.check(schema, {"north": {"age": [25], "sex": ["x"]}})
        >>> [(fault.file, fault.column) for fault in found.faults]
        [('north', 'sex')]

    Attributes:
        reports: findings of each frame or file.
        edit: smallest edit that makes all fit, a line of Python for each change of the schema, and the
            settings of each frame and file; "" if nothing is to be done. It may have names and bounds of
            private rows.
        schema: the schema after the edit, which can be edited further.
        owners: the rows as given, with their settings after the edit, for `fk.release` and `fk.summarize`;
            not with settings where columns are guessed.
    """

    reports: tuple[FileReport, ...]
    edit: str
    schema: SchemaDraft
    owners: Mapping[str, Rows]

    @property
    def faults(self) -> tuple[FileFault, ...]:
        """Faults of all frames and files, with columns, rows, and what to do."""
        return tuple(fault for report in self.reports for fault in report.faults)

    @property
    def left(self) -> tuple[FileFault, ...]:
        """Faults that remain after the edit."""
        return tuple(fault for report in self.reports for fault in report.left)

    def __repr__(self) -> str:
        lines = [line for report in self.reports for line in report_lines(report) if "  hint  " not in line]
        edit = ["", _EDIT, self.edit] if self.edit else []
        left = [f"{fault.file}: {fault}" for fault in self.left if self.edit]
        return "\n".join([*lines, *edit, *(["", _LEFT, *left] if left else [])])

    def _repr_html_(self) -> str:
        parts = [tag("p", next(report_lines(report))) for report in self.reports]
        rows = [
            (fault.file, fault.column, fault.what, str(len(fault.lines) or ""), fault.remedy)
            for fault in self.faults
        ]
        if rows:
            parts.append(plain_table(("rows of", "column", "fault", "rows", "remedy"), rows))
        if self.edit:
            parts += [tag("p", _EDIT), tag("pre", self.edit)]
            parts += [tag("p", f"{_LEFT} {fault.file}: {fault}") for fault in self.left]
        return joined(parts)


def check(
    schema: SchemaLike, rows: Mapping[str, Rows] | Rows | Sequence[Rows], *, show_values: bool = False
) -> SchemaCheck:
    """Find every fault of frames and files: `fk.check(schema, {"north": north, "south": south})`.

    The findings are those of `fedkme schema check`. Nothing is changed: `.schema` and `.owners` of the result
    are the schema and the rows with their settings after the edit, for `fk.release` and `fk.summarize`.

    Examples:
        >>> from sim.api.drafts import draft_schema
        >>> schema = draft_schema({"age": [20, 31, 47], "sex": ["f", "m", "f"]})
        >>> check(schema, {"age": [33, 28], "sex": ["m", "m"]}).faults
        ()

    Args:
        schema: schema that the rows should match.
        rows: a frame or file, several in a list, or by their owners' names.
        show_values: whether faults have the faulty cells, and the edit any word of them; they are private.

    Raises:
        FedkmeError: the schema is wrong, or rows are neither frames nor files; by number in docs/errors.md.
    """
    draft = _draft_of(schema)
    named = _named(rows)
    values, agreed = draft.values(), draft.schema()
    RowRules(agreed)  # refuses rules that name what is not there
    subjects = [rows_to_check(each, agreed, name) for name, each in named.items()]
    checked = check_all(subjects, values, agreed, asked=show_values, show_values=show_values)
    changes = [
        Change((*place_of(values, each.column), each.key), each.value, each.remark)
        for each in checked.changes
    ]
    fixed = SchemaDraft(edited(draft.to_toml(), changes, "the schema"))
    edit = checked.fitted.edit
    owners = {
        name: _with_settings(each, subject, added) if added and not guesses else each
        for (name, each), subject, added, guesses in zip(
            named.items(), subjects, edit.files, edit.guesses, strict=True
        )
    }
    return SchemaCheck(tuple(checked.reports), "\n".join(_edit_lines(checked, subjects)), fixed, owners)


def _draft_of(schema: SchemaLike) -> SchemaDraft:
    if isinstance(schema, SchemaDraft):
        return schema
    if isinstance(schema, str | Path):
        path = Path(schema)
        values = plain_schema(path)
        if path.suffix == ".json":
            return SchemaDraft.of(values)
        return SchemaDraft(read_text(path, encoding=UTF_8))
    if schema is None:
        raise ConfigError("there is no schema", NO_SCHEMA)
    return SchemaDraft.of(schema)


def _are_rows(rows: Any) -> bool:
    """Tell lists and dicts that are the rows of one table from several tables."""
    if isinstance(rows, Mapping):
        return bool(rows) and all(
            isinstance(cells, list | tuple) and not _are_rows(cells) for cells in rows.values()
        )
    return bool(rows) and all(
        isinstance(row, Mapping)
        and not any(isinstance(cell, Mapping | list | tuple) for cell in row.values())
        and not _has_settings(row)
        for row in rows
    )


def _has_settings(rows: Mapping[str, Any]) -> bool:
    """Tell a file or frame with settings, as `with_settings` takes it, from several frames by name."""
    return isinstance(rows.get("path"), str | Path) or (
        "frame" in rows and rows.keys() <= {"frame", *DataFile.model_fields}
    )


def _named(rows: Any) -> Mapping[str, Rows]:
    if isinstance(rows, Mapping) and not _has_settings(rows) and not _are_rows(rows):
        return {str(name): each for name, each in rows.items()}
    if isinstance(rows, list | tuple) and not _are_rows(rows):
        return {
            str(each) if isinstance(each, str | Path) else f"rows {place}": each
            for place, each in enumerate(rows, 1)
        }
    return {str(rows) if isinstance(rows, str | Path) else "rows": rows}


def _python(change: SchemaChange) -> str:
    """Line of Python that changes a drafted schema."""
    place = f"schema[{change.column!r}]" if change.column else "schema"
    return f"{place}.{change.key} = {change.value!r}{f'  {change.remark}' if change.remark else ''}"


def _edit_lines(checked: Checked, subjects: Sequence[RowsToCheck]) -> list[str]:
    lines = [_python(change) for change in checked.changes]
    for subject, settings, guesses in zip(
        subjects, checked.fitted.edit.files, checked.fitted.edit.guesses, strict=True
    ):
        doubt = f"  # confirm: {guessed(guesses)}" if guesses else ""
        if settings:
            lines.append(f"{python_line(subject, settings)}{doubt}")
    return lines


def _with_settings(rows: Rows, subject: RowsToCheck, added: Mapping[str, Any]) -> dict[str, Any]:
    """Rows with their settings after the edit, as a call takes them."""
    frame = {} if subject.frame is None else {"frame": with_settings(rows, subject.party)[0]}
    return {**frame, **settings_of(subject, added)}
