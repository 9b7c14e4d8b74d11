"""Rows for a target from a release, for programs; the result has the type of a summary's."""

from pathlib import Path

from fedkme.answers.folder import AskedFolder
from fedkme.config import validate
from fedkme.errors import on_disk
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from sim.api.frames import Rows, path_of, rows_to_check, table_of
from sim.api.progress import following
from sim.api.releases import ReleaseResult
from sim.api.summaries import SummaryResult
from sim.engines.run_folder import next_free
from sim.match.run import MatchSettings, match_folder, rows_of_summary, target_file, target_rows


def match(
    release: ReleaseResult | str | Path,
    validation: Rows,
    rows: int = 100,
    *,
    gamma: float | None = None,
    draw: int | None = None,
    real_rows: SummaryResult | Rows | None = None,
    test: Rows | None = None,
    train: bool = True,
    out: str | Path | None = None,
    progress: bool = True,
) -> SummaryResult:
    """Choose and weigh a release's synthetic rows to look like a validation set; no party is asked.

    The result is a function of exact D_v and for you alone; its `training` says what to train on.

    Examples:
        >>> import fedkme as fk
        >>> folder = "examples/own-files"
        >>> clinics = {name: f"{folder}/{name}.csv" for name in ("north", "south", "west")}
        >>> made = fk.release(clinics, schema=f"{folder}/schema.toml", method="moments", progress=False)
        >>> ours = fk.match(made, f"{folder}/validation.csv", 20, draw=400, train=False, progress=False)
        >>> len(ours.rows), ours.metrics["points_accessed"]["total"], ours.metrics["audience"]
        (20, 0, 'for the consumer alone')

    Args:
        release: result of `fk.release`, or the folder of a release.
        validation: D_v, in the columns of the release's schema.
        rows: p, rows to choose.
        gamma: gamma of the kernel; None: by the schema's domain.
        draw: synthetic rows to draw from the release; None: 50,000, and 425,000 where D_v is rare among them.
        real_rows: a summary of real rows, or rows, to compare as rows to train on.
        test: held-back rows that judge the result.
        train: whether to find what to train on, where D_v has labels.
        out: folder of the result; default the next free runs/match-N.
        progress: whether to show a bar.

    Raises:
        FedkmeError: rows do not fit the schema, or the release has no rows; by number in docs/errors.md.
    """
    chosen = validate(MatchSettings, {"rows": rows, "draw": draw, "gamma": gamma}, "fedkme.match")
    with following("match", progress) as shown:
        place = release.folder if isinstance(release, ReleaseResult) else path_of(release)
        given = None if out is None else path_of(out)
        schema = AskedFolder(place).stored.schema
        source = target_file(Path(validation)) if isinstance(validation, str | Path) else validation
        target = target_rows(rows_to_check(source, schema, "D_v"), schema)
        held = None if test is None else table_of(test, schema, "test", private=False)
        others = None if real_rows is None else _real(real_rows, schema)
        with on_disk("runs cannot be made", "Choose another out=."):
            folder = given or next_free("match")
        metrics = match_folder(place, folder, target, chosen, shown, test=held, real=others, train=train)
        return SummaryResult(folder, folder, schema, metrics)


def _real(rows: SummaryResult | Rows, schema: Schema) -> Table:
    if isinstance(rows, SummaryResult):
        return rows_of_summary(rows.received, schema)
    if isinstance(rows, str | Path):
        return rows_of_summary(Path(rows), schema)
    return table_of(rows, schema, "the real rows", private=False)
