"""A consumer's part of a summary, on values: request, offer for the run's plan, choice of rows."""

import contextlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from consumer.gate import ConsumerGate
from consumer.sealed_rows import RunKeys, opened
from consumer.settings import KernelSettings, RequestSettings
from fedkme.cells.codebook import CodeBook
from fedkme.cells.directions import Menu, chosen_book, histogram_of, pick, scores
from fedkme.cells.histogram import CountNoise, HistogramNoise, noisy_counts, on_integers
from fedkme.cells.repeated_requests import deviation_of_asks, noise_of_asks
from fedkme.embeddings.kernels import domain_gamma
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import prune
from fedkme.embeddings.summary_weights import beside_classes
from fedkme.errors import BudgetError, ConfigError
from fedkme.exchange import CellsPlan, Offer, Outcome, Plan, SummaryRequest
from fedkme.features.fourier import RandomFourier
from fedkme.margins.density import book_from_json
from fedkme.margins.model import PICK_SHARE, PICKS, PoolModel, any_menu_from_json
from fedkme.margins.picks import margin_events, margin_noise, picked_margins
from fedkme.party import NoiseFor
from fedkme.privacy.budget import WindowBudget, check_budget, check_target
from fedkme.privacy.events import OWNERS, Disclosure, Event, repeated, validation_of
from fedkme.privacy.settings import release_target, target_event
from fedkme.sealed.group import Gift
from fedkme.sealed.rows import AnyRow
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


def counting(request: RequestSettings, cells: CellsPlan) -> tuple[Menu | PoolModel | None, CountNoise]:
    """Menu from which D_v picks directions, and the noise of its counts, by the plan.

    Picks of cells cost a share of pure epsilon: there are none with Gaussian counts. Margins are Gaussian for
    a single request, too. There are no picks of either kind if the consumer wants none.

    Raises:
        ConfigError: the plan's menu is invalid, or has more picks than this consumer allows.
    """
    how = noise_of_asks(request.privacy, request.asks)
    menu = None if cells.menu is None else any_menu_from_json(cells.menu)
    fits = isinstance(menu, PoolModel) or isinstance(how, HistogramNoise)
    if menu is None or not fits or not request.picks:
        return None, how
    if menu.picks > request.picks:
        cause = f"the plan lets D_v pick {menu.picks} directions, and the consumer allows {request.picks}"
        remedy = "Raise 'picks' of the request, or ask a curator whose 'cells.picks' is no more."
        raise ConfigError(cause, remedy)
    if isinstance(menu, PoolModel):
        return menu, margin_noise(request.privacy, menu.picks, menu.share)
    return menu, histogram_of(menu, request.privacy.of_row)


def shared_events(request: RequestSettings, cells: CellsPlan | None) -> list[Event]:
    """Events that disclose D_v's mean, or its picks and histogram, to curator and owners, by the plan."""
    if cells is None:
        return [target_event(request.target)]
    menu, how = counting(request, cells)
    if menu is None:
        return [how.event]
    return [*menu.events(request.privacy.of_row), *[how.event] * menu.histograms]


def check_asks(consumer: str, budget: WindowBudget | None, request: RequestSettings) -> None:
    """Refuse a budget that is too small for all planned requests, by cells.

    Raises:
        BudgetError: the budget is too small.
    """
    every = repeated(noise_of_asks(request.privacy, request.asks).event, request.asks)
    check_spending(consumer, budget, [], [every])


def check_request(
    consumer: str, budget: WindowBudget | None, request: RequestSettings, spent: Sequence[Disclosure]
) -> None:
    """Refuse a request that exceeds D_v's budget in every protocol, before the curator hears of it.

    Raises:
        BudgetError: the request exceeds the budget in every protocol.
    """
    try:
        check_spending(consumer, budget, spent, [target_event(request.target)])
    except BudgetError:
        if not _affords(consumer, budget, spent, [noise_of_asks(request.privacy, request.asks).event]):
            raise


def margins_within(
    consumer: str, budget: WindowBudget | None, request: RequestSettings, spent: Sequence[Disclosure]
) -> int:
    """Most margins to allow a plan: `picks`, or none where D_v's budget has room for counts by cells alone.

    Counts cost (epsilon, 0), margins (epsilon, delta): more at the smaller delta of a budget. A plan with
    them would be refused once owners have paid for the release that they are over.
    """
    if budget is None or not request.picks:
        return request.picks
    privacy, picks = request.privacy, min(request.picks, PICKS)
    events = margin_events(privacy, picks, PICK_SHARE, margin_noise(privacy, picks, PICK_SHARE))
    return request.picks if _affords(consumer, budget, spent, events) else 0


def _affords(
    consumer: str, budget: WindowBudget | None, spent: Sequence[Disclosure], planned: Sequence[Event]
) -> bool:
    with contextlib.suppress(BudgetError):
        check_spending(consumer, budget, spent, planned)
        return True
    return False


def check_spending(
    consumer: str, budget: WindowBudget | None, spent: Iterable[Disclosure], planned: Sequence[Event]
) -> None:
    """Refuse planned events that exceed D_v's budget; `spent` has D_v's disclosures in the window.

    Owners hear all that the curator hears, except D_v itself if the curator is trusted with it.

    Raises:
        BudgetError: the events exceed the budget.
    """
    if budget is not None:
        check_budget(budget, validation_of(consumer), OWNERS, spent, planned)


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """A received summary.

    Attributes:
        plan: plan of the run.
        table: the rows, in the order of choice.
        outcome: the end of the run.
    """

    plan: Plan
    table: Table
    outcome: Outcome


def gamma_of(kernel: KernelSettings, schema: Schema) -> float | None:
    """Find gamma; None if the curator takes it from its public seed set.

    Raises:
        ConfigError: all rows of the schema's domain are equal.
    """
    match kernel.gamma:
        case "domain":
            return domain_gamma(schema.mean_squared_distance)
        case "median-seeds":
            return None
        case value:
            return value


def make_request(
    consumer: str, request: RequestSettings, schema: Schema, validation: Table, margins: int
) -> SummaryRequest:
    """Make the request for a summary of a plan with at most so many `margins`.

    It discloses nothing of D_v's rows but their number.
    """
    return SummaryRequest(
        consumer,
        secrets.token_bytes(16),
        schema.digest(),
        request.p,
        len(validation),
        gamma_of(request.kernel, schema),
        validation.labels is not None,
        deviation_of_asks(request.privacy, request.asks),
        margins,
    )


def make_offer(
    plan: Plan,
    request: RequestSettings,
    schema: Schema,
    validation: Table,
    noise_for: NoiseFor,
    gate: ConsumerGate,
    keys: RunKeys | None = None,
    gifts: Sequence[Gift] = (),
) -> Offer:
    """Make g~ or D_v's histogram by cells, add D_v for a trusted curator, and declare each disclosure.

    Owners hear only what follows from this draw, under the consumer's own epsilon.

    Args:
        plan: the run's plan.
        request: the consumer's settings.
        schema: schema of the rows.
        validation: D_v.
        noise_for: this consumer's noise.
        gate: declares the disclosures.
        keys: keys of a run with sealed rows.
        gifts: the run's secret, sealed for each owner that may have it.

    Raises:
        ConfigError: D_v is to be shared, and the curator cannot use it.
        BudgetError: g~ would cost more than the request's target.
    """
    h1 = keys.draw(plan.features) if keys is not None and plan.secret_draw else None
    reference = None if keys is None or h1 is None else keys.reference(h1, schema)
    target, histogram, rows, classes = None, None, None, None
    if request.share == "rows" and h1 is not None:
        cause = "the curator chooses by hashes that it cannot compute, so that D_v is of no use to it"
        raise ConfigError(cause, "Set 'share' to \"embedding\", or ask a curator that sees rows.")
    picks: tuple[int, ...] = ()
    if plan.cells is not None:
        picks, histogram = _count(plan.run, plan.cells, request, schema, validation, noise_for, gate)
    else:
        if request.preset == "sound":
            whose = f"{validation_of(gate.consumer)} towards {OWNERS}"
            check_target(request.privacy, whose, [target_event(request.target)])
        encoded, noise = schema.encode(validation.values), noise_for("target")
        target, cost = release_target(request.target, h1 or RandomFourier(plan.features), encoded, noise)
        gate.pass_target(plan.run, target, cost)
    if request.share == "rows":
        rows = validation.values.astype(np.float64)
        classes = None if plan.cells is None else validation.labels  # other protocols choose by columns alone
        gate.pass_rows(plan.run, len(rows))
    given = {gift.taker: gift for gift in gifts}
    return Offer(target, histogram, rows, tuple(gate.declared), given, reference, picks, classes)


def _count(
    run: str,
    plan: CellsPlan,
    request: RequestSettings,
    schema: Schema,
    validation: Table,
    noise_for: NoiseFor,
    gate: ConsumerGate,
) -> tuple[tuple[int, ...], NDArray[np.int64]]:
    """Pick D_v's directions, and count D_v by the resulting cells, with noise, (B,)."""
    book, (menu, how) = book_from_json(plan.code_book, schema), counting(request, plan)
    rows, epsilon, picks = schema.encode(validation.values), request.privacy.of_row, tuple[int, ...]()
    if isinstance(menu, PoolModel):
        menu.check_fit(schema, validation.labels is not None)
        return _pick_margins(run, menu, menu.codes_of(rows, validation.labels), request, noise_for, gate)
    if menu is not None:
        if not isinstance(book, CodeBook):
            raise ConfigError("a menu of directions without cells to cut", "Compare the parties' versions.")
        score = scores(menu, book, rows)
        picks = pick(menu, score, len(rows), menu.event(epsilon), noise_for("picks"))
        book = chosen_book(book, menu, picks)
    cells = book.cells_of(rows, validation.labels)
    histogram = noisy_counts(cells, book.cells, how, on_integers(noise_for("histogram")))
    if menu is not None:
        gate.pass_picks(run, menu.event(epsilon), picks, histogram)
    gate.pass_histogram(run, how, histogram)
    return picks, histogram


def _pick_margins(
    run: str,
    model: PoolModel,
    codes: NDArray[np.int64],
    request: RequestSettings,
    noise_for: NoiseFor,
    gate: ConsumerGate,
) -> tuple[tuple[int, ...], NDArray[np.int64]]:
    """Pick columns of the model by D_v's bins, (m, c), and count D_v in each; all counts in one array."""
    how, event = margin_noise(request.privacy, model.picks, model.share), model.event(request.privacy.of_row)
    margins = picked_margins(
        model, codes, how, event, noise_for("picks"), on_integers(noise_for("histogram"))
    )
    picks, histogram = tuple(margins), np.concatenate(list(margins.values()))
    gate.pass_picks(run, event, picks, histogram)
    for column, margin in margins.items():
        gate.pass_histogram(run, how, margin, column)
    return picks, histogram


def finish(
    plan: Plan, received: Sequence[AnyRow], outcome: Outcome, schema: Schema, keys: RunKeys | None
) -> Summary:
    """Make the summary of an ended run, opening boxes.

    Raises:
        SealedBoxError: a box does not open, or holds another row than its hash says.
        ProtocolError: a row has a wrong number of columns.
        DataError: a row does not follow the schema.
    """
    draw = keys.draw(plan.features) if keys is not None and plan.secret_draw else None
    return Summary(plan, opened(received, schema, keys, draw), outcome)


def pruned(summary: Summary, p: int, schema: Schema, validation: Table) -> Summary:
    """Choose the p rows that match D_v best, or all if there are no more; no other party hears which."""
    received = summary.table
    if len(received) <= p:
        return replace(summary, outcome=replace(summary.outcome, complete=len(received) == p))
    against = ReferenceRows(schema.encode(validation.values), summary.plan.features.gamma)
    rows, seen = beside_classes(schema.encode(received.values), against, received.labels, validation.labels)
    return replace(summary, table=received.take(prune(rows, seen.rows, p, seen.gamma)))
