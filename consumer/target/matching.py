"""Rows for a target from a release: synthetic rows that the consumer chooses and weighs by exact D_v.

A release holds for all owners' rows and knows no target. The consumer draws many rows from it, which is
free, and on her own machine takes the p that are together closest to D_v, with weights. No real row is among
them, and no party is asked.

Who may see what. Towards owners, curator and public, D_v costs nothing: no byte that depends on D_v leaves
this machine (epsilon 0, a test compares all that a consumer sends). The rows and their weights are a function
of *exact* D_v: whoever has them can search for the D_v that yields them. So they are **for the consumer
alone**, and every file that depends on D_v has that in its name (`ALONE`). A result for everybody would need
noise on D_v. Every way that was tried at epsilon 1 was 2 to 22 times as far as exact greedy (a tilt by noisy
margins of D_v, sums of owners weighted by noisy margins, D_v released alone), so none is made.

What the distance says. A close fit in a smooth kernel can be bought with rubbish: rows whose columns are
independent, with labels at random, come as close on some tables. So the same choice is made from such rows
(`independent_columns`), and where they come about as close, and no model tells them apart from ours, no grade
is good (`consumer.target.training` trains the models).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from consumer.results import EVALUATION, SUMMARY, alone
from consumer.summary.evaluation import evaluator
from consumer.summary.judging import Judged, cross_validated, judge_tables
from consumer.target.choosing import PoolChoice
from consumer.target.training import TrainingAdvice, train_on_what, why_untrained
from fedkme.arrays import IntArray
from fedkme.embeddings.kernels import kernel_mean_at
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.errors import ConfigError, DataError
from fedkme.tables.files import table_bytes
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.verdict import QualityVerdict, at_most_fair

DRAWN, RARE_DRAWN = 50_000, 425_000
"""Rows that are drawn from a release, and for a rare target. Drawing is free; four times as many as the
latter came no nearer (lab/results/targets.md)."""
MOST_NUMBERS = 50_000_000
"""Numbers of encoded rows that bound RARE_DRAWN for wide rows, such as images."""
RARE = 0.05
"""Share of drawn rows that are as near to D_v as half of its own rows are, below which D_v is rare. It was
.005 to .02 for D_v like 1 to 3 % of the pool, and .03 to .5 on eleven other layouts of owners' rows."""
CONTROL = 20_000
"""Most rows of independent columns."""
AS_NEAR = 1.25
"""MMD^2 of the control over ours, both to held-out rows of D_v, up to which they are not told apart."""
AUDIENCE = "for the consumer alone"


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """Rows for a target, and their measured quality.

    Attributes:
        judged: forms of the rows, their quality, and the verdict, whose advice is the training's.
        drawn: number of rows of the release that they were chosen from.
        gamma: gamma of the kernel.
        control: MMD^2 to D_v of rows of independent columns, chosen and weighed likewise.
        training: rows to train on, with what each candidate reached; None where no models were compared.
        untrained: reason for that.
        as_near: True where the control is about as near to rows of D_v that neither was fitted to.
        rare: True where few of the drawn rows are as near to D_v as half of its own rows are.
    """

    judged: Judged
    drawn: int
    gamma: float
    control: float
    training: TrainingAdvice | None
    untrained: str = ""
    as_near: bool = False
    rare: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain values, explained in docs/metrics.md."""
        return self.judged.to_json() | {
            "audience": AUDIENCE,
            "points_accessed": 0,
            "drawn": self.drawn,
            "gamma": self.gamma,
            "control": self.control,
            "as_near": self.as_near,
            "rare": self.rare,
            "untrained": self.untrained,
            "training": None if self.training is None else self.training.to_json(),
        }

    def files(self, schema: Schema) -> dict[str, bytes]:
        """Contents of the files by name, each named as for the consumer alone; the evaluation is last."""
        files = {SUMMARY: table_bytes(self.judged.forms.summary)} | self.judged.files(schema)
        if self.training is not None:
            files |= self.training.rows.files(schema)
        files[EVALUATION] = (json.dumps(self.to_json(), indent=2) + "\n").encode()
        return {alone(name): content for name, content in files.items()}


def match_rows(
    chosen: PoolChoice,
    *,
    test: Table | None = None,
    real: Table | None = None,
    persons: Sequence[str] = (),
    train: bool = True,
    doubts: Sequence[str] = (),
    note: Callable[[str], None] = lambda line: None,
) -> Matched:
    """Choose and weigh rows of a release for a target, judge them, and find what to train on.

    Args:
        chosen: rows drawn from the release, at least p, and D_v.
        test: held-back rows, or None.
        real: real rows of a summary that the consumer holds as well, or None.
        persons: person of each row of D_v, if the schema has one: a person's rows are held out together.
        train: True to find what to train on, where there are labels.
        doubts: reasons why the grade is at most fair.
        note: is told what is being done.

    Raises:
        ConfigError: the release has fewer rows than p.
        DataError: D_v has no rows.
    """
    schema, drawn, validation = chosen.schema, chosen.pool, chosen.validation
    p, gamma = chosen.p, chosen.gamma
    if not len(validation):
        raise DataError("D_v has no rows", "Give at least one row to look like.")
    if len(drawn) < p:
        raise ConfigError(f"{p} rows cannot be chosen of {len(drawn)}", "Ask for fewer, or draw more.")
    note(f"choosing {p} of {len(drawn):,} synthetic rows by exact D_v, on this machine")
    shortlist = drawn.take(chosen.short(chosen.everything))
    summary = shortlist.take(chosen.pruned(chosen.everything))
    judge = evaluator(schema, validation, test, None, gamma, test is not None)
    judged = judge_tables(
        judge, schema, validation, shortlist, summary, p, doubts, pool=drawn, persons=persons
    )
    separate = independent_columns(drawn, schema)
    control = replace(chosen, pool=separate)
    places, weights = control.weighted(control.everything, p)
    against = ReferenceRows(schema.encode(validation.values), gamma)
    beside = against.mmd2(schema.encode(separate.take(places).values), weights)
    untrained = why_untrained(chosen) if train else "nobody asked for it"
    if not untrained:
        note("finding what to train on, by rows of D_v that are held out in turn")
    training = None if untrained else train_on_what(chosen, control, real, persons)
    told_apart = training is not None and training.beats_control
    as_near = not told_apart and _is_as_near(judged, control, persons)
    rare = is_rare(schema, drawn, validation, gamma)
    matched = Matched(judged, len(drawn), gamma, beside, training, untrained, as_near, rare)
    return replace(matched, judged=replace(judged, verdict=_verdict(matched, schema)))


def drawn_for(draw: Callable[[int], Table], schema: Schema, validation: Table, gamma: float) -> Table:
    """Draw rows of a release: more of them where D_v is rare, which costs nothing.

    Args:
        draw: draws a number of rows.
        schema: schema of the rows.
        validation: D_v.
        gamma: gamma of the kernel.
    """
    drawn, most = draw(DRAWN), most_drawn(schema)
    return draw(most) if most > DRAWN and is_rare(schema, drawn, validation, gamma) else drawn


def most_drawn(schema: Schema) -> int:
    """Number of rows to draw for a rare target, fewer of wide rows."""
    return min(RARE_DRAWN, MOST_NUMBERS // schema.encoded_width)


def is_rare(schema: Schema, drawn: Table, validation: Table, gamma: float) -> bool:
    """Check whether few drawn rows are as near to D_v, by mean kernel, as half of its own rows are."""
    rows = schema.encode(drawn.take(np.arange(min(len(drawn), CONTROL))).values)
    own = schema.encode(validation.values)
    m = len(own)
    if m < 2:
        return False
    theirs = (kernel_mean_at(own, own, gamma) * m - 1.0) / (m - 1)  # without the row itself
    near = kernel_mean_at(rows, own, gamma) >= np.median(theirs)
    return float(near.mean()) < RARE


def independent_columns(drawn: Table, schema: Schema) -> Table:
    """Rows with the drawn rows' columns, each in an order of its own: the control.

    A number and the mark of its gaps stay together, as no row has the one without the other.
    """
    size, random = min(len(drawn), CONTROL), np.random.default_rng(0)
    values, names = drawn.values[:size].copy(), schema.names
    orders: dict[str, IntArray] = {name: random.permutation(size) for name in names}
    for mark, number in schema.gaps:
        orders[mark.name] = orders[number.name]
    for place, name in enumerate(names):
        values[:, place] = values[orders[name], place]
    labels = None if drawn.labels is None else random.permutation(drawn.labels[:size])
    return Table(values, labels)


def _is_as_near(judged: Judged, control: PoolChoice, persons: Sequence[str]) -> bool:
    """Compare rows for the target and the control by rows of D_v that neither was fitted to.

    Both fit the rows that chose them, so that their distance to D_v itself says nothing. The difference
    counts where it exceeds the noise of m held-out rows, (1 - k) / m. Without enough rows the control is as
    near.
    """
    validation, pool = control.validation, control.pool
    against = ReferenceRows(control.schema.encode(validation.values), control.gamma)
    rows, near = control.schema.encode(pool.values), judged.unseen[1]
    beside = cross_validated(rows, against, control.p, pool.labels, validation.labels, True, persons)
    if near is None or beside is None:
        return True
    noise = (1.0 - against.own) / len(validation)
    return beside[1].estimate <= AS_NEAR * max(near.estimate, 0.0) + noise


def _verdict(matched: Matched, schema: Schema) -> QualityVerdict:
    """Verdict with the advice of the training, at most fair where the control is as good."""
    verdict, training = matched.judged.verdict, matched.training
    doubts = list[str]()
    if matched.as_near:
        doubts.append(
            "rows of independent columns come as near to D_v, so nearness says little: judge by a model"
        )
    untold = f"Score models on rows of your own: none was compared, since {matched.untrained}."
    advice = untold if training is None else training.line(schema)
    if matched.rare and matched.drawn < (most := most_drawn(schema)):
        advice += f" Few rows of the release are like D_v: fedkme match --draw {most} looks at more."
    if verdict.grade == "poor":
        advice += (
            " For nearer rows: owners that have such rows, a release with a larger epsilon, or a larger D_v."
        )
    plain: Mapping[str, Any] = at_most_fair(asdict(verdict) | {"advice": advice}, doubts)
    return QualityVerdict(**plain)
