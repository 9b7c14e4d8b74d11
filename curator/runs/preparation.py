"""Preparation of a run: request, plan and offer, until the run is in the queue; and how the run ended.

Consumers' services decode messages, call `Preparation`, and encode the answers; a simulation in one process
calls it in the same way.
"""

import asyncio
import math
import secrets
from collections.abc import Sequence
from dataclasses import replace

from curator.owners.exchanges import check_gifts, exchange_keys
from curator.releases.method import make_method
from curator.run.run import Run
from curator.runs.consent import ask_owners
from curator.runs.context import RunContext
from curator.runs.lifecycle import Lifecycle
from curator.runs.public_draws import draw_features, public_seed
from curator.runs.queue import RunQueue, next_run
from curator.summary.settings import SummarySettings
from fedkme import errors
from fedkme.documents import RunDocument
from fedkme.embeddings.kernels import median_gamma
from fedkme.exchange import Offer, Plan, ReleaseRequest, SummaryChoice, SummaryRequest
from fedkme.heads.log import Head
from fedkme.ops.threads import in_thread
from fedkme.privacy.budget import check_owners, check_target, warn_of_unbounded
from fedkme.privacy.events import OWNERS, Disclosure
from fedkme.privacy.gaussian import gaussian_epsilon, gaussian_sigma
from fedkme.privacy.ledger import costs, disclosures_in
from fedkme.privacy.presets import PrivacyTarget
from fedkme.protocols import AUTO
from fedkme.releases.settings import ReleaseSettings, settings_from_json, settings_to_json
from fedkme.store import Store
from fedkme.tables.schema import rows_of_person
from fedkme.tables.table import Table
from fedkme.wire.journals import run_document_to_bytes

_SPELLED = f'"observer":"{OWNERS}",'
"""Part of every line about what owners learn, in the one spelling of ledger lines."""


class OwnersSpent:
    """Lines about what owners learn; the ledger only grows, so reading continues after the last line read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        lines, self._read = costs(store)
        self._lines = [line for line in lines if line.observer == OWNERS]

    def lines(self) -> Sequence[Disclosure]:
        """List all lines so far.

        Raises:
            LedgerError: a line is no ledger entry.
        """
        entries = self._store.ledger(self._read)
        self._lines += disclosures_in(entry.line for entry in entries if _SPELLED in entry.line)
        self._read = entries[-1].seq if entries else self._read
        return self._lines


MOST_ROWS = 2**31
"""Most rows of a summary, where owners have not said how many rows they have."""
MOST_SETTINGS = 2**22
"""Most letters of a request's settings: public points of Balog's Algorithm 1 may be among the settings."""


class Preparation:
    """Prepares the runs of a curator."""

    def __init__(self, lifecycle: Lifecycle, runs: RunQueue) -> None:
        self._lifecycle = lifecycle
        self._context: RunContext = lifecycle.context
        self._runs = runs
        self._spent = OwnersSpent(self._context.store)

    def open_summary(self, request: SummaryRequest) -> Run:
        """Open a run that waits for its consumer's offer, with its public draw of h1.

        Raises:
            FedkmeError: the request is refused, before anything is computed.
        """
        context = self._context
        self._check_schema(request.schema)
        self._check_quota(request.consumer, request.rows)
        if context.settings.summary.protocol != AUTO:
            self._check_planned(context.settings.summary, request.rows)
        features = draw_features(
            context.settings.summary.features,
            self._gamma_from_seeds() if request.gamma is None else request.gamma,
            context.schema.encoded_width,
            public_seed(context.settings.simulation_seed),
        )
        name = self._next_name()
        self._warn_of_persons(name, context.settings.summary.privacy, "privacy.group")
        return self._runs.ask(name, RunDocument(request, Plan(name, features)))

    async def plan_of(self, run: Run) -> Plan:
        """Choose the protocol, make the plan with the owners, once, and return the plan.

        Raises:
            FedkmeError: no plan could be made, and the run is over.
        """
        if run.status == "asked":
            try:
                async with run.lock:
                    present = await self._choose(run)
                await self._lifecycle.family(run.document).agree(run, present)
                async with run.lock:
                    if not self._context.summary_of(run.document).sketched:
                        await ask_owners(self._context, run)
                    if self._context.settings.summary.sealed:
                        await self._exchange_keys(run)
            except errors.StoreError:
                raise
            except errors.FedkmeError as error:
                if run.status == "asked":
                    self._runs.close(run, "failed", error)
                self._lifecycle.family(run.document).forget(run)
                raise
        return replace(run.document.planned, offered=run.status != "asked")

    async def accept(self, run: Run, offer: Offer) -> None:
        """Check an offer, and put the run into the queue unless another call has already done so.

        Raises:
            ProtocolError: the offer does not fit the plan.
            IdentityError: the gifts are not the consumer's.
            SealedBoxError: the gifts are not for the keys that owners offered.
            DataError: D_v does not follow the schema.
            QuotaError: other runs of the consumer were queued meanwhile; the consumer keeps its offer.
        """
        document, context = run.document, self._context
        if offer.validation is not None:
            if len(offer.validation) != document.summary.validation_rows:
                raise errors.ProtocolError("D_v has another size than the request said")
            table = Table(offer.validation, offer.validation_classes)
            await in_thread(context.schema.check, table, "the validation set")
        if document.planned.sealed:
            check_gifts(document.planned, offer.gifts, run.consumer, context.identity())
        self._lifecycle.family(document).check(document, offer)
        async with run.lock:
            if run.status == "asked" and offer.validation is not None:
                await asyncio.to_thread(self._runs.keep_rows, run, table)
            if run.status == "asked":  # the run may have been cancelled meanwhile
                try:
                    self._check_quota(run.consumer, run.rows)  # other runs of the consumer may be queued now
                except errors.QuotaError:
                    self._runs.forget_rows(run)
                    raise
                run.document = replace(document, offer=offer)
                self._runs.enqueue(run)
                context.say("queued", run=run.name, round=0, consumer=run.consumer, p=run.rows)
            elif not run.open:
                self._runs.forget_rows(run)

    async def open_release(self, request: ReleaseRequest) -> Run:
        """Open a run that makes a release, and put it into the queue.

        Raises:
            FedkmeError: the request is refused.
        """
        self._check_release(request)
        settings = await in_thread(self._complete_settings, request.settings)  # makes feature maps
        before = self._runs.asked_before(request.consumer, request.request_id)  # by a faster call
        if before is not None:
            return before
        self._check_release(request)  # again: time has passed
        run = self._runs.ask(self._next_name(), RunDocument(replace(request, settings=settings)))
        self._warn_of_persons(run.name, settings_from_json(settings), "group")
        self._context.say("queued", run=run.name, round=0, consumer=run.consumer)
        return run

    def _warn(self, line: str) -> None:
        self._context.say("warning", line=line)

    def _warn_of_persons(self, run: str, target: PrivacyTarget | ReleaseSettings, key: str) -> None:
        rows = rows_of_person(self._context.schema)
        if rows <= target.group or math.isinf(target.epsilon):
            return
        sigma = target.group / rows * gaussian_sigma(target.epsilon, target.delta)
        line = (
            f"epsilon {target.epsilon:g} holds for {target.group} of the {rows} rows that a person may have; "
            f"for all of them it is about {gaussian_epsilon(sigma, target.delta):.2g}. {key} = {rows} makes "
            f"it {target.epsilon:g} for a person, with {rows / target.group:.3g} times the noise"
        )
        self._context.say("warning", run=run, round=0, line=line)

    def head(self) -> Head | None:
        """Last head of the curator's ledger, for a consumer to keep; None before the first.

        Raises:
            StoreError: the store fails.
        """
        return self._lifecycle.heads.head()

    async def ended(self, run: Run) -> None:
        """Wait for the end of a run in this process.

        Raises:
            FedkmeError: the run goes on in a later process, or failed before it began.
            CancelledRunError: the run ended before it began.
        """
        await run.over.wait()
        if run.error is not None:
            raise run.error
        if run.document.fault is not None:
            raise run.document.fault
        if run.status in ("cancelled", "failed") and not self._context.records.has(run.name):
            cause = f"{run.name} was cancelled, or failed, before it began"
            raise errors.CancelledRunError(cause, "Ask again for another run.")

    def _next_name(self) -> str:
        repeatable = self._context.settings.simulation_seed is not None
        return next_run(self._context.store, repeatable, lambda: secrets.token_hex(4))

    def _check_schema(self, digest: str) -> None:
        self._context.schema.check_digest(digest, "the consumer and the curator")

    def _check_release(self, request: ReleaseRequest) -> None:
        self._check_schema(request.schema)
        if len(request.settings) > MOST_SETTINGS:
            raise errors.ConfigError("a request's settings are too long", "Give fewer public points.")
        self._check_quota(request.consumer, 0)

    def _check_quota(self, consumer: str, rows: int) -> None:
        """Hold a consumer to its quota; all of its runs are read only where the quota counts them."""
        quota = self._context.settings.quota_of(consumer)
        quota.check(consumer, rows, (self._runs.of if quota.counts_all else self._runs.open_of)(consumer))

    async def _choose(self, run: Run) -> Sequence[str]:
        """Choose the run's protocol once owners are here, and store the choice before any party learns it.

        A named protocol whose plan needs no owner waits for none; its forecast is reported when the run
        begins.

        Returns:
            Names of the owners that are here for the run; none where the protocol was chosen before.

        Raises:
            MissingOwnersError: the plan needs owners and too few came.
            NotEnoughRowsError: the owners have fewer rows than are asked for.
            BudgetError: the chosen protocol costs more than is allowed.
        """
        if run.document.planned.choice is not None:
            return ()
        context, settings = self._context, self._context.settings.summary
        present: Sequence[str] = ()
        self._check_rows(run.document.summary.rows)
        if settings.asks_owners:
            present = await context.members.gather(settings.quorum, context.settings.connect_s)
        choice = context.choice(settings, run.document, present)
        if run.status == "asked":  # else the run was cancelled
            if settings.protocol == AUTO:
                self._check_planned(settings.resolved(choice), run.document.summary.rows)
            self._keep_choice(run, choice)
        return present

    def _check_rows(self, rows: int) -> None:
        """Refuse a request for more rows than all owners say they have, before D_v pays for anything.

        Raises:
            NotEnoughRowsError: the owners have fewer rows.
        """
        owners, sizes = self._context.settings.owners, self._context.members.sizes()
        most = sum(sizes[name] for name in owners) if owners and set(owners) <= set(sizes) else MOST_ROWS
        if not most:
            raise errors.NotEnoughRowsError("the owners have no rows", "Check their files.")
        if rows > most:
            cause = f"{rows} rows are asked for and the owners have at most {most}"
            raise errors.NotEnoughRowsError(cause, f"Ask for at most {most} rows.")

    def _keep_choice(self, run: Run, choice: SummaryChoice) -> None:
        """Add a choice to the plan, on disk and in memory, and report the choice."""
        context = self._context
        document = replace(run.document, plan=replace(run.document.planned, choice=choice))
        with context.store.transaction():
            context.store.update_run(run.name, document=run_document_to_bytes(document))
        run.document = document
        context.say_choice(run.name, choice)

    def _check_planned(self, summary: SummarySettings, rows: int) -> None:
        """Refuse a run that exceeds its target, or the budget of owners' rows together with the open runs.

        The cost of an open run without a choice is unknown; that run is checked after its own choice.

        Raises:
            BudgetError: the run exceeds the target or the budget.
        """
        context = self._context
        budget, owners = context.settings.budget, max(len(context.settings.owners), 1)
        whose, planned = f"{OWNERS} towards {OWNERS}", summary.between_owners(rows, owners)
        if summary.preset == "sound":
            check_target(summary.privacy, whose, planned)
        warn_of_unbounded(summary.privacy, whose, planned, self._warn)
        if budget is None:
            return
        spent = self._spent.lines()
        for document in filter(context.is_chosen, self._runs.summaries()):
            planned += context.summary_of(document).between_owners(document.summary.rows, owners)
        check_owners(budget, spent, planned)

    def _gamma_from_seeds(self) -> float:
        if not len(self._context.encoded_seeds):
            remedy = "Give gamma as a number, or give the curator 'seeds'."
            raise errors.ConfigError("gamma is to come from the seed set and the curator has none", remedy)
        return median_gamma(self._context.encoded_seeds)

    async def _exchange_keys(self, run: Run) -> None:
        """Bind the owners and add their keys to the plan; the consumer seals the group secret for these."""
        if run.document.planned.sealed:
            return
        context = self._context
        settings, members = context.summary_of(run.document), context.members
        names = await members.gather(settings.quorum, context.settings.connect_s)
        connections = [members.connection(name) for name in names]
        offers = await exchange_keys(
            connections, run.name, settings.quorum, lambda fault: context.left(run.name, fault)
        )
        if run.status != "asked":
            return  # the run was cancelled
        owners = tuple(offer.name for offer in offers)
        plan = replace(
            run.document.planned, sealed=True, secret_draw=settings.row.hashed, offers=tuple(offers)
        )
        missing = tuple(sorted({*members.missing(), *names}.difference(owners)))
        document = replace(run.document, plan=plan, owners=owners, missing=missing)
        with context.store.transaction():
            context.store.update_run(run.name, document=run_document_to_bytes(document))
        run.document = document

    def _complete_settings(self, text: str) -> str:
        """Complete a release's settings: every public choice is made."""
        curator = self._context.settings
        settings = settings_from_json(text)
        columns, most_made = len(self._context.schema.names) + 1, curator.release.most_made
        if most_made is not None and (settings.rows or 0) * columns > most_made:
            cause = f"{settings.rows} rows of {columns} columns are asked for and this curator's limit is "
            remedy = "Ask for less, or agree with the curator on a larger 'most_made'."
            raise errors.ConfigError(f"{cause}{most_made // columns}", remedy)
        if settings.seed is None:
            settings = settings.model_copy(update={"seed": public_seed(curator.simulation_seed) >> 1})
        most = curator.release.most_epsilon
        if math.isinf(settings.epsilon):
            if curator.simulation_seed is None or curator.release.security is not None:
                cause = "a release without noise is asked for"
                raise errors.ConfigError(cause, "Only simulations with a trusted curator make one.")
        elif most is not None and settings.epsilon > most:
            cause = f"epsilon {settings.epsilon:g} is asked for and this curator's limit is {most:g}"
            remedy = "Ask for less, or agree with the curator on a larger 'most_epsilon'."
            raise errors.ConfigError(cause, remedy)
        # Refuse wrong settings now rather than in the queue.
        method = make_method(settings, self._context.schema, self._context.seeds, settings.seed or 0)
        if math.isfinite(settings.epsilon):
            target = PrivacyTarget(epsilon=settings.epsilon, delta=settings.delta, group=settings.group)
            whose, planned = "each owner towards the consumer", method.planned()
            check_target(target, whose, planned)
            warn_of_unbounded(target, whose, planned, self._warn)
        return settings_to_json(settings)
