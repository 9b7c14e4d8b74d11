"""Run entrants and scores: a figure a line; what the file has already is not run again."""

from __future__ import annotations

import csv
import json
import math
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from fedkme.errors import DataError, FedkmeError
from fedkme.tables.files import read_columns, table_from_columns
from fedkme.tables.table import Table
from lab.referee.entrants import Entrant, ProcessCost, run_file
from lab.referee.environments import environments, version_of
from lab.referee.figures import MADE, Figure, RunKey, append_figures, read_figures
from lab.referee.scores import SCORES, MadeRows, RefereeScore
from lab.referee.tables import RefereeSplit, RefereeTable, columns_as_plain, columns_of_table, rules_as_plain

Said = Callable[[str], None]


@dataclass(frozen=True)
class RefereePlan:
    """Runs to make: all combinations.

    Attributes:
        tables: tables by name.
        entrants: entrants by name of the table.
        epsilons: epsilons of the releases.
        seeds: seeds of everything random.
        interpreters: Python interpreters by environment.
        limit: CPU seconds that an entrant may take, and four times that on the clock.
        scores: names of the scores to compute.
    """

    tables: Mapping[str, RefereeTable]
    entrants: Mapping[str, Sequence[Entrant]]
    epsilons: Sequence[float]
    seeds: Sequence[int]
    interpreters: Mapping[str, Path]
    limit: float = 900.0
    scores: Sequence[RefereeScore] = SCORES


@dataclass(frozen=True)
class _Draw:
    """Split of a table, drawn when it is first needed."""

    table: RefereeTable
    seed: int

    @cached_property
    def split(self) -> RefereeSplit:
        return self.table.split(self.seed)


def referee(plan: RefereePlan, out: Path, say: Said) -> list[Figure]:
    """Make the rows and figures that a folder lacks.

    Args:
        plan: what to run.
        out: the folder.
        say: is told of each entrant before it runs, and of what is left out.

    Returns:
        Figures of the plan's runs, and those that the file has of other entrants on the same tables.
    """
    have = read_figures(out)
    done = {(figure.run, figure.name, figure.scored) for figure in have}
    for name, table in plan.tables.items():
        for seed, epsilon in product(plan.seeds, plan.epsilons):
            draw = _Draw(table, seed)
            for entrant in plan.entrants[name]:
                if entrant.environment not in plan.interpreters:
                    continue
                version = entrant.version(plan.interpreters)
                for trust in entrant.trusts:
                    key = RunKey(name, entrant.name, epsilon, trust, seed, version)
                    for figures in _missing(plan, entrant, key, draw, done, out, say):
                        append_figures(out, figures)
                        have += figures
    return have


def _missing(
    plan: RefereePlan,
    entrant: Entrant,
    key: RunKey,
    draw: _Draw,
    done: Collection[object],
    out: Path,
    say: Said,
) -> Iterator[list[Figure]]:
    """Figures of one run that the file lacks: first figures of the making, then score by score."""
    folder = out / "made" / key.folder
    limited = f"limit {plan.limit:g}"  # another limit is another try
    if (key, MADE, "") not in done and (key, MADE, limited) not in done:
        say(f"{key.table}, {entrant.name} ({key.trust}), epsilon {key.epsilon:g}, seed {key.seed}")
        write_task(folder, draw.table, draw.split, key, entrant)
        cost = run_file(plan.interpreters[entrant.environment], entrant.file, folder, plan.limit)
        yield _made(key, cost, folder, limited)
    if not (folder / "made.csv").is_file():
        return
    yield from score_rows(plan, key, draw.table, lambda: draw.split, folder, done)


def _made(key: RunKey, cost: ProcessCost, folder: Path, limited: str) -> list[Figure]:
    failure = cost.failure
    if not failure and not (folder / "made.csv").is_file():
        failure = "it wrote no made.csv"
    if failure:
        (folder / "made.csv").unlink(missing_ok=True)
        return [Figure(key, MADE, limited if cost.late else "", math.nan, failure)]
    shutil.rmtree(folder / "run", ignore_errors=True)  # of a release of ours: the rows are enough
    with (folder / "made.csv").open("rb") as file:
        count = sum(1 for _ in file) - 1
    return [
        Figure(key, MADE, "", float(count)),
        Figure(key, "CPU seconds", "", round(cost.seconds, 2)),
        Figure(key, "memory MB", "", round(cost.megabytes, 1)),
    ]


def score_rows(
    plan: RefereePlan,
    key: RunKey,
    table: RefereeTable,
    split: Callable[[], RefereeSplit],
    folder: Path,
    done: Collection[object],
) -> Iterator[list[Figure]]:
    """Score the rows of a folder by all scores that fit; a score that fails is a line with its reason."""
    made: Table | None = None
    for score in plan.scores:
        if not score.fits(key.table, table) or score.environment not in plan.interpreters:
            continue
        python, scored = plan.interpreters[score.environment], score.version
        if score.environment:
            scored += f" {version_of(python, environments()[score.environment].package)}"
        if all((key, name, scored) in done for name in score.names):
            continue
        try:
            made = read_made(folder / "made.csv", table) if made is None else made
            figures = score.measure(MadeRows(table, split(), made, folder, key.seed), python)
            yield [Figure(key, name, scored, figures.get(name, math.nan)) for name in score.names]
        except (FedkmeError, RuntimeError) as error:
            yield [Figure(key, name, scored, math.nan, str(error)[:200]) for name in score.names]


def read_made(path: Path, table: RefereeTable) -> Table:
    """Read made rows; numbers outside the public bounds are moved to the nearest.

    Raises:
        DataError: columns are missing, or a name is not in the schema.
    """
    schema, cells = table.schema, read_columns(path, path.parent.name)
    names = [*schema.names, *([schema.label.name] if schema.label else [])]
    if missing := [name for name in names if name not in cells]:
        raise DataError(f"{path} has no column '{missing[0]}'", f"Give {', '.join(names)}.")
    return table_from_columns({name: cells[name] for name in names}, schema, path.parent.name)


def write_task(
    folder: Path, table: RefereeTable, split: RefereeSplit, key: RunKey, entrant: Entrant | None = None
) -> None:
    """Write what an entrant or a scorer reads: train.csv, test.csv, owners.txt and task.json."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, rows in (("train", split.train), ("test", split.test)):
        _write_csv(folder / f"{name}.csv", rows, table)
    np.savetxt(folder / "owners.txt", split.owners, fmt="%d")
    task = asdict(key) | {
        "columns": columns_as_plain(table.schema),
        "public_rules": rules_as_plain(table.schema),
        "delta": table.delta,
        "rows": len(split.train),
        "options": dict(entrant.options) if entrant else {},
    }
    (folder / "task.json").write_text(json.dumps(task, indent=1), encoding="utf-8")


def _write_csv(path: Path, rows: Table, table: RefereeTable) -> None:
    columns = columns_of_table(rows, table.schema)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
