"""Public cells of a run by margins: a release of all owners' rows, which gives D_v a model of the pool.

docs/decisions/009. The release is one that exists (`cells.release`), or a run of sums under the name
RUN/cells, in the place of a sketch: marginals in rounds, at most of owners' epsilon. Relation, sensitivity
and proof are those of any release by marginals (curator.releases.marginals.budget); the whole of it is the
one Gaussian that owners were told of. What follows from it costs nothing.
"""

from collections.abc import Sequence

from curator.cells.code_book import PublicCells
from curator.releases.method import Method, make_method
from curator.run.release_record import redrawn
from curator.summary.settings import SummarySettings
from curator.sums.owner_sums import OwnerSums
from fedkme.cells.menu import offers_columns
from fedkme.cells.plan import RELEASE_SHARE
from fedkme.cells.projection import spec_for
from fedkme.errors import ConfigError, NotMadeError
from fedkme.exchange import SummaryRequest
from fedkme.features.domain import Domain
from fedkme.margins.density import even_density
from fedkme.margins.model import MOST_BINS, PICK_SHARE, PICKS, make_model, model_rows
from fedkme.ops.threads import in_thread
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

ENOUGH_OF_TARGET, ENOUGH_OF_OWNER = 120.0, 100.0
"""Rows of D_v, and of an owner of middle size, times epsilon, from which on margins are better than cells."""
MOST_DIMENSIONS = 64
"""Most numbers and categories of a table that a release is made of in a summary's time."""
ITERATIONS = 50
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


def no_margins_reason(settings: SummarySettings, request: SummaryRequest) -> str:
    """Reason why D_v gives no margins, whatever its size; empty where it may.

    Args:
        settings: of the curator.
        request: the consumer's.
    """
    wanted = PICKS if settings.cells.picks is None else settings.cells.picks
    if not 0 < wanted <= request.margins:
        return f"D_v would pick {wanted} columns, and the consumer allows {request.margins}"
    return ""


def margins_help(settings: SummarySettings, schema: Schema, rows: int, sizes: Sequence[int]) -> bool:
    """Say whether a run without a reason against it is by margins: by settings, or by public facts.

    Args:
        settings: of the curator.
        schema: the public column domain.
        rows: |D_v|.
        sizes: m_j of all owners; empty where none has said its size.
    """
    cells, epsilon = settings.cells, settings.privacy.of_row
    if cells.code_book != "auto":
        return cells.code_book == "release"
    named = (cells.bits, cells.picks, cells.pick_share, cells.coalitions or None)
    dimensions = Domain(schema).dimensions
    small = len(dimensions) <= MOST_DIMENSIONS and all(each.levels <= MOST_BINS for each in dimensions)
    enough = rows * epsilon >= ENOUGH_OF_TARGET
    held = len(sizes) > 0 and sorted(sizes)[len(sizes) // 2] * epsilon >= ENOUGH_OF_OWNER
    offered = small and offers_columns(spec_for(schema, 0, cells.dimension), schema)
    if not (offered and enough and held) or any(each is not None for each in named):
        return False
    try:
        release_of_pool(settings, schema, 0, RELEASE_SHARE)
    except ConfigError:
        return False  # too many pairs of columns
    return True


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
    return await in_thread(cells_of_rows, settings, schema, rows, request, seed, share)


def cells_of_rows(
    settings: SummarySettings,
    schema: Schema,
    rows: Table,
    request: SummaryRequest,
    seed: int,
    share: float = 0.0,
) -> PublicCells:
    """Cells by public rows of a release, which had this share of owners' epsilon in this run."""
    labels = rows.labels if request.labelled and schema.classes else None
    cells = settings.cells
    picks = PICKS if cells.picks is None else cells.picks
    of_each = PICK_SHARE if cells.pick_share is None else cells.pick_share
    model = make_model(schema.encode(rows.values), labels, schema, picks, of_each)
    return PublicCells(even_density(schema, seed), 0, share, menu=model)
