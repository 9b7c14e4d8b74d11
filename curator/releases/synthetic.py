"""Files of synthetic rows: a table in the columns and units of the schema, with a data card.

The card says how the rows were made, their privacy cost, the domain of every column, and the rows' utility.
Utility on private rows would be a further disclosure. So a card names the rows on which utility was measured,
and the caller is responsible for them: the consumer's own rows, public rows, or none (the distance to the
released embedding reads no row).
"""

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fedkme.answers.answer import Answer
from fedkme.answers.card import rounded, rows_of, verdict_on
from fedkme.errors import MissingDependencyError
from fedkme.exchange import Participation
from fedkme.privacy.accountants import Bound, Sound
from fedkme.privacy.accounting import ONE_ROW, person_of
from fedkme.privacy.events import Event, Relation
from fedkme.privacy.events.groups import for_group
from fedkme.tables.cells import date_of
from fedkme.tables.schema import Category, Schema, rows_of_person
from fedkme.tables.text import Cell, csv_encoded, harmless
from fedkme.verdict import QualityVerdict, at_most_fair, lines_of


def json_bytes(card: Mapping[str, Any]) -> bytes:
    """Encode a card as JSON for people, too."""
    return (json.dumps(card, indent=2) + "\n").encode()


@dataclass(frozen=True)
class DataCard:
    """Data card, which travels with a synthetic table.

    Attributes:
        mechanism: name and paper, such as `DP-MERF (Harder 2021)`.
        schema: schema of the rows.
        rows: synthetic rows in the file.
        source_rows: rows behind the release; None where the number is not public.
        owners: number of owners pooled; None where the number is not public.
        event: event of the release, for an accountant; None: without noise, so epsilon is infinite.
        relation: neighbouring relation of the event.
        delta: delta at which epsilon is stated.
        settings: settings to repeat the release: feature maps, seeds, training.
        utility: figures by name; the name says whether larger or smaller is better.
        utility_rows: rows on which the figures were measured.
        notes: further facts that a reader must know.
        answers: answers of the release itself to a few questions, with intervals; no row was read.
        models: grade of models and its reason, by a screen for what the rows lack; None without a screen.
    """

    mechanism: str
    schema: Schema
    rows: int
    source_rows: int | None
    owners: int | None
    event: Event | None
    relation: Relation
    delta: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    utility: Mapping[str, float] = field(default_factory=dict)
    utility_rows: str = "none"
    notes: Sequence[str] = ()
    answers: Sequence[Answer] = ()
    models: tuple[str, str] | None = None

    def figures(self) -> dict[str, Bound]:
        """Epsilon at delta, and for a person where the schema names one; inf without noise."""
        if self.event is None:
            return {Sound.name: Bound(float("inf"), self.delta, "none", "released without noise")}
        figures = {Sound.name: Sound().epsilon([self.event], self.delta)}
        if (group := rows_of_person(self.schema)) > 1:
            together = for_group([self.event], group)
            figures[f"{Sound.name}, {person_of(group)}"] = Sound().epsilon(together, self.delta)
        return figures

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "mechanism": self.mechanism,
            "rows": self.rows,
            "source_rows": self.source_rows,
            "owners": self.owners,
            "privacy": {
                "relation": self.relation,
                "event": None if self.event is None else self.event.to_json(),
                "epsilon": {name: figure.to_json() for name, figure in self.figures().items()},
            },
            "schema": self.schema.model_dump(mode="json"),
            "schema_sha256": self.schema.digest(),
            "settings": dict(self.settings),
            "utility": {"measured_on": self.utility_rows, **dict(self.utility)},
            "notes": list(self.notes),
            "answers": [rounded(answer) for answer in self.answers],
            "verdict": None if (verdict := self._verdict()) is None else asdict(verdict),
        }

    def to_markdown(self) -> str:
        """Description for people, in Markdown."""
        unknown = "not public"
        lines = [
            "# Synthetic data card",
            "",
            f"- Mechanism: {self.mechanism}",
            f"- Synthetic rows: {self.rows}",
            f"- Rows behind the release: {unknown if self.source_rows is None else self.source_rows}",
            f"- Owners pooled: {unknown if self.owners is None else self.owners}",
            "",
            "## Privacy",
            "",
            f"Neighbouring relation: {self.relation}, for {ONE_ROW} unless a line names another unit. "
            "More rows or another training cost nothing more.",
            "",
            "| accountant | epsilon | delta | method |",
            "|---|---|---|---|",
        ]
        for name, figure in self.figures().items():
            method = figure.method if not figure.reason else f"{figure.method} ({figure.reason})"
            lines.append(f"| {name} | {figure.epsilon:.4g} | {figure.delta:g} | {method} |")
        lines += ["", "## Columns", "", "| column | kind | domain |", "|---|---|---|"]
        lines += [
            f"| {_cell(name)} | {kind} | {_cell(domain)} |"
            for name, kind, domain in _column_rows(self.schema)
        ]
        lines += self._answer_lines()
        lines += ["", "## Utility", "", f"Measured on: {self.utility_rows}.", ""]
        if self.utility:
            lines += ["| figure | value |", "|---|---|"]
            lines += [f"| {_cell(name)} | {value:.4g} |" for name, value in self.utility.items()]
        if self.settings:
            lines += [
                "",
                "## Settings",
                "",
                "```json",
                json.dumps(dict(self.settings), indent=2, sort_keys=True),
                "```",
            ]
        if self.notes:
            lines += ["", "## Notes", "", *(f"- {_cell(note)}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def _answer_lines(self) -> list[str]:
        if not self.answers:
            return []
        lines = [
            "",
            "## Answers",
            "",
            "From the release itself, with 95 % intervals; `fedkme ask` answers more.",
            "",
        ]
        header = ("question", "group", "estimate", "95 % interval", "noise", "sampling", "unseen", "about")
        lines += [f"| {' | '.join(header)} |", "|---|---|---|---|---|---|---|---|"]
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows_of(self.answers)]
        return [
            *lines,
            "",
            "noise, sampling: standard deviations; unseen: a bound, which the interval counts.",
            *(["", judged_text(asdict(verdict))] if (verdict := self._verdict()) else []),
        ]

    def _verdict(self) -> QualityVerdict | None:
        return verdict_on(self.answers, self.schema.label is not None, self.models)


def judged_text(verdict: Mapping[str, Any]) -> str:
    """The two lines of a verdict in a card for people."""
    return "\n\n".join(lines_of(verdict))


def with_lost_owners(files: Mapping[str, bytes], participation: Participation) -> dict[str, bytes]:
    """Name the lost owners of a release in its cards, whose verdict is then at most fair.

    Returns:
        The changed cards by name: both forms of each card among the files.
    """
    changed: dict[str, bytes] = {}
    for name in filter(lambda name: name.endswith(".card.json"), files):
        card, for_people = json.loads(files[name]), name.replace(".json", ".md")
        text = files[for_people].decode()
        if (before := card.get("verdict")) is not None:
            card["verdict"] = at_most_fair(before, participation.doubts)
            text = text.replace(judged_text(before), judged_text(card["verdict"]))
        line = f"- Owners of the run: {participation.line}"
        changed[for_people] = text.replace("\n\n## ", f"\n{line}\n\n## ", 1).encode()
        changed[name] = json_bytes({**card, "participation": asdict(participation)})
    return changed


def csv_bytes(columns: Mapping[str, list[Cell]]) -> bytes:
    """Encode columns as CSV in UTF-8, names first; no cell is a formula of a spreadsheet."""
    safe = {
        harmless(name): [harmless(cell) if isinstance(cell, str) else cell for cell in cells]
        for name, cells in columns.items()
    }
    return csv_encoded(safe)


def parquet_bytes(columns: Mapping[str, list[Cell]]) -> bytes:
    """Encode columns as Parquet.

    Raises:
        MissingDependencyError: pyarrow is not installed.
    """
    try:
        from pyarrow import array, parquet, table
    except ImportError:
        cause = "writing Parquet needs the package pyarrow"
        raise MissingDependencyError(cause, "Run: pip install 'fedkme[sim]'.") from None
    out = io.BytesIO()
    parquet.write_table(table({name: array(cells) for name, cells in columns.items()}), out)
    return out.getvalue()


def _column_rows(schema: Schema) -> list[tuple[str, str, str]]:
    described = []
    for column in schema.columns:
        name = column.name if column.count == 1 else f"{column.names[0]} to {column.names[-1]}"
        if isinstance(column, Category):
            described.append((name, "category", ", ".join(column.categories)))
        else:
            dated = column.kind == "date"
            kind = "date" if dated else "whole number" if column.integer else "number"
            low, high, *singles = (
                date_of(value) if dated else f"{value:g}" for value in (*column.bounds, *column.singles)
            )
            beside = f"; by itself: {', '.join(singles)}" if singles else ""
            scale = "; on a log scale" if column.scale == "log" else ""
            text = ", ".join(singles) if column.values else f"{low} to {high}{scale}{beside}"
            described.append((name, kind, text))
    if schema.label is not None:
        described.append((schema.label.name, "label", ", ".join(schema.label.classes)))
    return described


def _cell(text: str) -> str:
    """Text in one cell of a Markdown table: a name of a schema is no markup, link, image or new line."""
    line = " ".join(text.split("\n"))
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", line)
