"""Ranking of our figures beside rivals' and published ones, lost rows first; list of rows won before."""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedkme.errors import DataError
from lab.referee.entrants import CONTROL, OURS
from lab.referee.figures import MADE, Figure, RunKey
from lab.referee.scores import KINDS, FigureKind

WON = Path(__file__).parent / "won.csv"
"""Rows that were won when somebody last wrote the file with `--keep`, each with its margin.

The margin is three standard deviations between seeds, ours and the best rival's together, in the runs of that
time. A row behind by less than margin and slack is behind by the noise drawn, not by the code.
"""
_WON_HEAD = ("table", "epsilon", "trust", "figure", "margin")
_DEVIATIONS = 3.0
LOST, ALONE, WINS = "lost", "alone", "won"
_ORDER = (LOST, ALONE, WINS)

_Entry = tuple[str, str, float, str]
"""Table, entrant, epsilon, trust."""
Place = tuple[str, float, str, str]
"""Row of the table: table, epsilon, trust, figure."""


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """Figure that others printed."""

    table: str
    epsilon: float
    figure: str
    value: float
    who: str


@dataclass(frozen=True, slots=True)
class RowStanding:
    """Row of the table.

    Attributes:
        place: table, epsilon, trust and figure.
        verdict: lost, alone or won.
        ours: mean over seeds; NaN where we failed.
        seeds: number of ours.
        rival: best rival's name and mean; None without one.
        published: best figure of others.
        control: mean of independent columns; NaN where it was not run.
        margin: `_DEVIATIONS` between seeds; 0 where neither ours nor the rival has two.
    """

    place: Place
    verdict: str
    ours: float
    seeds: int
    rival: tuple[str, float] | None
    published: PublishedFigure | None
    control: float
    margin: float = 0.0

    def is_behind(self, margin: float) -> bool:
        """Check whether ours is behind the rival or the published figure by more than slack and margin."""
        theirs = [self.rival[1]] if self.rival else []
        theirs += [self.published.value] if self.published else []
        return any(self.kind.behind(self.ours, each, margin) for each in theirs)

    @property
    def kind(self) -> FigureKind:
        """Kind of the figure."""
        return KINDS[self.place[3]]


def published_figures() -> list[PublishedFigure]:
    """Figures of published.toml."""
    text = (Path(__file__).parent / "published.toml").read_text(encoding="utf-8")
    return [PublishedFigure(**entry) for entry in tomllib.loads(text)["figures"]]


def newest(figures: Iterable[Figure]) -> list[Figure]:
    """Figures of the newest version of each entrant and score, which is the last in the file."""
    figures = list(figures)
    versions: dict[_Entry, str] = {}
    scored: dict[tuple[_Entry, int, str], str] = {}
    for figure in figures:
        versions[_entry(figure.run)] = figure.run.version
        scored[_entry(figure.run), figure.run.seed, figure.name] = figure.scored
    return [
        figure
        for figure in figures
        if figure.run.version == versions[_entry(figure.run)]
        and figure.scored == scored[_entry(figure.run), figure.run.seed, figure.name]
    ]


class _Means:
    """Means over seeds."""

    def __init__(self, figures: Iterable[Figure]) -> None:
        self._values: dict[tuple[_Entry, str], dict[int, float]] = {}
        for figure in newest(figures):
            self._values.setdefault((_entry(figure.run), figure.name), {})[figure.run.seed] = figure.value
        self.entries = tuple(dict.fromkeys(entry for entry, _ in self._values))

    def of(self, table: str, entrant: str, epsilon: float, trust: str, figure: str) -> float | None:
        """Mean of a figure, NaN if a seed has none; None where it was not measured."""
        values = self._values.get(((table, entrant, epsilon, trust), figure))
        return None if values is None else float(np.mean(list(values.values())))

    def variance(self, table: str, entrant: str, epsilon: float, trust: str, figure: str) -> float:
        """Variance of a figure between seeds; 0 where it has one."""
        values = list(self._values.get(((table, entrant, epsilon, trust), figure), {}).values())
        return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0

    def seeds(self, table: str, epsilon: float, trust: str, figure: str) -> int:
        """Number of seeds of a figure of ours."""
        return len(self._values.get(((table, OURS, epsilon, trust), figure), {}))


def _entry(run: RunKey) -> _Entry:
    return run.table, run.entrant, run.epsilon, run.trust


def standings(figures: Sequence[Figure], published: Sequence[PublishedFigure]) -> list[RowStanding]:
    """Compare our default with rivals, figure by figure; lost rows first."""
    means, rows = _Means(figures), list[RowStanding]()
    for table, entrant, epsilon, trust in means.entries:
        if entrant != OURS:
            continue
        for name in KINDS:
            place = (table, epsilon, trust, name)
            ours = means.of(table, OURS, epsilon, trust, name)
            failed = math.isnan(means.of(table, OURS, epsilon, trust, MADE) or 0.0)
            if ours is None and not failed:
                continue
            quoted = [x for x in published if (x.table, x.epsilon, x.figure) == (table, epsilon, name)]
            if (row := _standing(means, place, math.nan if ours is None else ours, quoted)) is not None:
                rows.append(row)
    return sorted(rows, key=lambda row: (_ORDER.index(row.verdict), row.place))


def _standing(means: _Means, place: Place, ours: float, quoted: list[PublishedFigure]) -> RowStanding | None:
    table, epsilon, trust, name = place
    kind = KINDS[name]
    rivals = {
        (entrant, security): value
        for of, entrant, at, security in means.entries
        if (of, at) == (table, epsilon) and not entrant.startswith(OURS) and entrant != CONTROL
        if (value := means.of(table, entrant, epsilon, security, name)) is not None and not math.isnan(value)
    }
    best = max(rivals, key=lambda rival: kind.better * rivals[rival], default=None)
    others = max(quoted, key=lambda figure: kind.better * figure.value, default=None)
    theirs = [*([rivals[best]] if best else []), *([others.value] if others else [])]
    if math.isnan(ours) and not theirs:
        return None
    verdict = ALONE if not theirs else LOST if any(kind.behind(ours, x) for x in theirs) else WINS
    control = means.of(table, CONTROL, epsilon, "trusted", name)
    runs = [(OURS, trust), *([best] if best else [])]
    variance = sum(means.variance(table, entrant, epsilon, security, name) for entrant, security in runs)
    return RowStanding(
        place,
        verdict,
        ours,
        means.seeds(table, epsilon, trust, name),
        None if best is None else (best[0], rivals[best]),
        others,
        math.nan if control is None else control,
        _DEVIATIONS * math.sqrt(variance) if math.isfinite(variance) else 0.0,
    )


def read_won() -> dict[Place, float]:
    """Read the rows of `WON` with their margins.

    Raises:
        DataError: the file has another form.
    """
    if not WON.exists():
        return {}
    with WON.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    try:
        if tuple(lines[0]) != _WON_HEAD:
            raise ValueError(lines[0])
        return {
            (table, float(epsilon), trust, figure): float(margin)
            for table, epsilon, trust, figure, margin in lines[1:]
        }
    except (IndexError, ValueError):
        raise DataError(f"{WON} is no list of rows that were won", "Take it from the repository.") from None


def write_won(rows: Sequence[RowStanding]) -> None:
    """Rewrite `WON`: rows won now, and rows won before and not lost by more than a margin.

    A row with noise needs two seeds, which measure its margin; with one seed, its older margin stays.
    """
    before = read_won()
    lost = {row.place for row in lost_again(rows, before)}
    won = {place: margin for place, margin in before.items() if place not in lost}
    for row in rows:
        is_measured = row.seeds > 1 or math.isinf(row.place[1])
        if row.place in won or (row.verdict == WINS and is_measured):
            won[row.place] = row.margin if is_measured else won[row.place]
    with WON.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_WON_HEAD)
        writer.writerows(
            [table, f"{epsilon:g}", trust, figure, f"{margin:.3g}"]
            for (table, epsilon, trust, figure), margin in sorted(won.items())
        )


def lost_again(rows: Sequence[RowStanding], won: Mapping[Place, float]) -> list[RowStanding]:
    """Rows that were won before, and are lost now by more than their margin."""
    return [row for row in rows if row.verdict == LOST and row.place in won and row.is_behind(won[row.place])]


_HEADS = ("", "table", "figure", "test by", "published", "best rival run", "ours", "control")


def as_markdown(rows: Sequence[RowStanding]) -> str:
    """Table for people, in Markdown, + where larger is better."""
    lines = [_line(_HEADS), _line(["---"] * len(_HEADS))]
    for row in rows:
        table, epsilon, trust, name = row.place
        cells = (
            f"**{row.verdict}**" if row.verdict == LOST else row.verdict,
            table if math.isinf(epsilon) else f"{table} {epsilon:g} {trust}",
            f"{name} {'+' if row.kind.better > 0 else '-'}",
            row.kind.by,
            f"{_shown(row.published.value)} {row.published.who}" if row.published else "",
            f"{_shown(row.rival[1])} {row.rival[0]}" if row.rival else "",
            _shown(row.ours) + (f" ({row.seeds} seeds)" if row.seeds > 1 else ""),
            _shown(row.control),
        )
        lines.append(_line(cells))
    return "\n".join(lines) + "\n"


def counted(rows: Sequence[RowStanding]) -> str:
    """Table of how many rows of each table have each verdict, in Markdown."""
    many: dict[str, list[int]] = {}
    for row in rows:
        many.setdefault(row.place[0], [0] * len(_ORDER))[_ORDER.index(row.verdict)] += 1
    lines = [_line(("table", *_ORDER)), _line(["---"] * (1 + len(_ORDER)))]
    lines += [_line((table, *map(str, numbers))) for table, numbers in sorted(many.items())]
    return "\n".join(lines) + "\n"


def failures(figures: Iterable[Figure]) -> list[str]:
    """Lines of what could not be made or scored, with reasons."""
    reasons: Mapping[str, None] = {
        f"{x.run.table}, {x.run.entrant} ({x.run.trust}), epsilon {x.run.epsilon:g}, seed {x.run.seed}, "
        f"{x.name}: {x.note}": None
        for x in newest(figures)
        if x.note
    }
    return list(reasons)


def _shown(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
