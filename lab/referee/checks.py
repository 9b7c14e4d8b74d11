"""Checks: figures that need no made rows of a table: chosen rows, heads, a running curator, units, a dossier.

A check is a table of a few figures, and an entrant whose file is run on a folder as makers of rows are. The
file writes figures.json; a figure that it could not measure is a text, the reason, which is said and is no
line. Epsilon is inf: nothing is drawn. What a test demands in full stands in published.toml, so that one
vector missed is a row lost.

Rows that stand for all rows (`mnist-64`): 64 of 4,096 images, all in one place; every method reads every
row, so that the rows accessed are equal. MMD^2 is a thousandfold, in float64, of the kernel itself. "alike"
are the chosen rows with equal weights; "weighted" those with the best weights on the simplex, which are
computed here for tools that give none; "unseen" is "weighted" to held-back rows. Accuracy is of a logistic
regression on the weighted rows alone, on held-back rows.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedkme.errors import ConfigError
from fedkme.tables.files import read_arrays
from lab.referee.entrants import OURS, Entrant, run_file
from lab.referee.figures import MADE, Figure, RunKey, append_figures
from sim.data.folder import data_file

HERE = Path(__file__).parent / "programs" / "checks"
CHOSEN, ROWS, UNSEEN = 64, 4_096, 2_000
"""Rows to choose, rows to choose from, and held-back rows of `mnist-64`."""
_CHOICE = ("MMD^2 alike", "MMD^2 weighted", "MMD^2 unseen", "accuracy of chosen rows")
_IMAGES = "mnist.npz"
GIVEN = ("sigstore-conformance", "promtool")
"""Names of `--given NAME=PATH`: the folder of a checkout, and a program that is not on the path."""

_Found = Mapping[str, float | str]


def _nothing(folder: Path, seed: int) -> None:
    """Prepare no file."""


def _written(folder: Path, seed: int) -> _Found:
    """Figures that the file wrote."""
    figures: Any = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    return {str(name): value if isinstance(value, str) else float(value) for name, value in figures.items()}


@dataclass(frozen=True)
class RefereeCheck:
    """Figures of one entrant, without made rows.

    Attributes:
        table: name of what is checked.
        entrant: whose file is run.
        names: names of the figures, in `lab.referee.scores.KINDS`.
        needs: name in `GIVEN` without which the check is left out; a program is looked for on the path, too.
        data: file of the folder of the data that it needs.
        prepare: writes what the file reads, given the folder and the seed.
        score: figures, of what the file wrote.
        costs: whether CPU seconds and memory are figures.
    """

    table: str
    entrant: Entrant
    names: tuple[str, ...]
    needs: str = ""
    data: str = ""
    prepare: Callable[[Path, int], None] = _nothing
    score: Callable[[Path, int], _Found] = _written
    costs: bool = False


@dataclass(frozen=True)
class ChecksPlan:
    """Checks to make.

    Attributes:
        checks: which.
        seeds: seeds of what is drawn.
        interpreters: Python interpreters by environment.
        given: paths by name, of `GIVEN`.
        limit: CPU seconds of a check.
    """

    checks: Sequence[RefereeCheck]
    seeds: Sequence[int]
    interpreters: Mapping[str, Path]
    given: Mapping[str, Path] = field(default_factory=dict)
    limit: float = 300.0


def run_checks(plan: ChecksPlan, out: Path, have: list[Figure], say: Callable[[str], None]) -> list[Figure]:
    """Run the checks whose lines a folder lacks; return all its figures."""
    done = {(figure.run, figure.name) for figure in have}
    for check in plan.checks:
        if check.entrant.environment not in plan.interpreters:
            continue
        if reason := _lacks(check, plan.given):
            say(f"{check.table} is left out: {reason}")
            continue
        version = check.entrant.version(plan.interpreters)
        for seed in plan.seeds if check.data else plan.seeds[:1]:
            key = RunKey(check.table, check.entrant.name, math.inf, "trusted", seed, version)
            if all((key, name) in done for name in check.names) or (key, MADE) in done:
                continue
            say(f"{key.table}, {key.entrant}, seed {key.seed}")
            figures = _figures(plan, check, key, out / "made" / key.folder, say)
            append_figures(out, figures)
            have += figures
    return have


def _lacks(check: RefereeCheck, given: Mapping[str, Path]) -> str:
    if check.data and not data_file(check.data).is_file():
        return f"{check.data} is not in the folder of the data ($FEDKME_DATA)"
    if check.needs and check.needs not in given:
        return f"give --given {check.needs}=PATH"
    return ""


def _figures(
    plan: ChecksPlan, check: RefereeCheck, key: RunKey, folder: Path, say: Callable[[str], None]
) -> list[Figure]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    check.prepare(folder, key.seed)
    task = asdict(key) | {"options": dict(check.entrant.options), "epsilon": None, "rows": CHOSEN}
    paths = {name: str(path.resolve()) for name, path in plan.given.items()}
    (folder / "task.json").write_text(json.dumps(task | {"given": paths}), encoding="utf-8")
    cost = run_file(plan.interpreters[check.entrant.environment], check.entrant.file, folder, plan.limit)
    if cost.failure:
        return [Figure(key, MADE, "", math.nan, cost.failure)]
    values = check.score(folder, key.seed)
    figures = []
    for name in check.names:
        value = values.get(name, "the file gave none")
        if isinstance(value, str):
            say(f"{key.table}, {name} is left out: {value}")
        else:
            figures.append(Figure(key, name, "", value))
    if check.costs:
        figures.append(Figure(key, "CPU seconds", "", round(cost.seconds, 2)))
        figures.append(Figure(key, "memory MB", "", round(cost.megabytes, 1)))
    return figures


def _draw_images(seed: int) -> tuple[Any, Any, Any, Any]:
    """Rows to choose from with labels, and held-back rows with theirs."""
    arrays = read_arrays(data_file(_IMAGES), "referee")
    images = (np.concatenate([arrays["x_train"], arrays["x_test"]]).reshape(-1, 784) / 255.0).astype(
        np.float32
    )
    labels = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(np.int64)
    drawn = np.random.default_rng(np.random.SeedSequence([seed, 38])).permutation(len(images))
    rows, unseen = drawn[:ROWS], drawn[ROWS : ROWS + UNSEEN]
    return images[rows], labels[rows], images[unseen], labels[unseen]


def _write_images(folder: Path, seed: int) -> None:
    from fedkme.embeddings.kernels import median_gamma

    rows = _draw_images(seed)[0]
    np.savez(folder / "rows.npz", rows=rows, gamma=median_gamma(rows), p=CHOSEN)


def _score_choice(folder: Path, seed: int) -> _Found:
    """Distances and accuracy of chosen.npz: `indices`, and `weighted` and `weights` of tools that weigh."""
    from sklearn.linear_model import LogisticRegression

    from fedkme.embeddings.kernels import kernel_mean_at
    from fedkme.embeddings.simplex_fit import fit_simplex
    from lab.bench.select import Selecting

    rows, labels, unseen, answers = _draw_images(seed)
    gamma = float(read_arrays(folder / "rows.npz", "referee")["gamma"])
    task = Selecting(rows, CHOSEN, gamma, kernel_mean_at(rows, rows, gamma), 0.0)
    chosen = read_arrays(folder / "chosen.npz", "referee")
    alike = chosen["indices"].astype(np.int64)
    if len(alike) != CHOSEN or np.unique(alike).size != CHOSEN:
        return dict.fromkeys(_CHOICE, f"{len(alike)} rows, {np.unique(alike).size} of them different")
    if "weights" in chosen:
        places, weights = chosen["weighted"].astype(np.int64), chosen["weights"].astype(np.float64)
    else:
        places, weights = alike, fit_simplex(task.gram(alike), task.means[alike]).weights
    equal = np.full(len(alike), 1.0 / len(alike))
    there = kernel_mean_at(rows[places], unseen, gamma)
    apart = weights @ task.gram(places) @ weights - 2.0 * weights @ there
    apart += float(np.mean(kernel_mean_at(unseen, unseen, gamma)))
    used = weights > 0
    model = LogisticRegression(max_iter=2_000)
    model.fit(rows[places[used]], labels[places[used]], sample_weight=weights[used] * used.sum())
    return {
        "MMD^2 alike": 1e3 * task.mmd2(alike, equal),
        "MMD^2 weighted": 1e3 * task.mmd2(places, weights),
        "MMD^2 unseen": 1e3 * float(apart),
        "accuracy of chosen rows": float(model.score(unseen, answers)),
    }


def _choice(name: str, environment: str = "") -> RefereeCheck:
    tool = name.partition(" ")[0]
    entrant = Entrant(
        name, HERE / "chosen_rows.py", environment, {"tool": tool}, promise="reads every row; no privacy"
    )
    return RefereeCheck("mnist-64", entrant, _CHOICE, "", _IMAGES, _write_images, _score_choice, costs=True)


def _heads(name: str, reader: str, environment: str = "") -> RefereeCheck:
    entrant = Entrant(name, HERE / "heads.py", environment, {"reader": reader})
    return RefereeCheck("heads", entrant, ("checkpoint vectors right",), "sigstore-conformance")


CHECKS: tuple[RefereeCheck, ...] = (
    _choice(OURS),
    _choice("goodpoints kernel thinning", "goodpoints"),
    _choice("coreax kernel herding", "coreax"),
    _choice("apricot facility location", "apricot"),
    _heads(OURS, "ours"),
    _heads("sigstore-python", "sigstore", "sigstore"),
    RefereeCheck(
        "wire", Entrant(OURS, HERE / "wire.py"), ("answers to grpc's clients", "complaints about metrics")
    ),
    RefereeCheck(
        "deploy", Entrant(OURS, HERE / "deploy.py"), ("image labels there", "complaints about units")
    ),
    RefereeCheck("dossier", Entrant(OURS, HERE / "dossier.py"), ("errors of a dossier",)),
    RefereeCheck("accountants", Entrant(OURS, HERE / "accountants.py"), ("epsilon off by",)),
)
"""All checks."""


def paths_given(given: Mapping[str, Path]) -> dict[str, Path]:
    """Paths that a user gave, with promtool of the path where none was.

    Raises:
        ConfigError: a name is not in `GIVEN`, or nothing is at its path.
    """
    for name, path in given.items():
        if name not in GIVEN or not path.exists():
            raise ConfigError(f"--given {name[:40]}={path} is of no use", f"Give {' or '.join(GIVEN)}=PATH.")
    program = shutil.which("promtool")
    return ({"promtool": Path(program)} if program else {}) | dict(given)
