"""Public cells of a run by margins: a release of all owners' rows, which gives D_v a model of the pool.

docs/decisions/009. The release is a run of sums under the name RUN/cells, in the place of a sketch: marginals
in rounds, at most of owners' epsilon. Relation, sensitivity and proof are those of any release by marginals
(curator.releases.marginals.budget); the whole of it is the one Gaussian that owners were told of. What
follows from it costs nothing.
"""

from curator.cells.code_book import PublicCells
from curator.releases.method import Method, make_method
from curator.run.release_record import redrawn
from curator.summary.settings import SummarySettings
from curator.sums.owner_sums import OwnerSums
from fedkme.errors import NotMadeError
from fedkme.exchange import SummaryRequest
from fedkme.margins.density import even_density
from fedkme.margins.model import PICK_SHARE, PICKS, make_model, model_rows
from fedkme.ops.threads import in_thread
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Schema

ITERATIONS = 300
"""Steps of the fit of the release's model."""


def release_of_pool(settings: SummarySettings, schema: Schema, seed: int, share: float) -> Method:
    """Make the method of the release, at a share of owners' epsilon.

    Raises:
        ConfigError: the schema has too many columns for a release by marginals.
    """
    privacy = settings.privacy
    values = {
        "kind": "marginals",
        "epsilon": share * privacy.epsilon,
        "delta": privacy.delta,
        "group": privacy.group,
        "seed": seed % 2**63,
        "iterations": ITERATIONS,
    }
    return make_method(release_settings(values), schema, None, 0)


async def of_release(
    settings: SummarySettings,
    schema: Schema,
    pool: OwnerSums,
    request: SummaryRequest,
    seed: int,
    share: float,
) -> PublicCells:
    """Cells of a run by margins: the plan's own density is the same for all rows, until D_v has picked.

    Raises:
        ConfigError: as `release_of_pool`.
        NotEnoughRowsError: owners have no rows.
        QuorumError: too few owners are left.
        SecureAggregationError: the aggregation failed; nothing was opened.
        NotMadeError: no rows could be made of the release.
    """
    method = await in_thread(release_of_pool, settings, schema, seed, share)
    release = await method.ask(pool)
    rows = await in_thread(redrawn, release, model_rows(schema), pool.tell)
    if rows is None:
        raise NotMadeError("rows of the release that D_v's margins are of", "Ask again.")
    labels = rows.labels if request.labelled and schema.classes else None
    cells = settings.cells
    model = await in_thread(
        make_model,
        schema.encode(rows.values),
        labels,
        schema,
        PICKS if cells.picks is None else cells.picks,
        PICK_SHARE if cells.pick_share is None else cells.pick_share,
    )
    return PublicCells(even_density(schema, seed), 0, share, menu=model)
