"""Documents of runs and entries of journals, which parties keep on disk until a run is over.

`fedkme.wire.journals` makes bytes of these values and reads them back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedkme.directives import Answer, Directive, Refusal
from fedkme.errors import FedkmeError
from fedkme.exchange import Coalition, Offer, Plan, ReleaseRequest, SummaryRequest
from fedkme.sealed.group import GroupSecret
from fedkme.sealed.offers import PartyKeys

_PREFIX = re.compile(r"error \d+ \([^)]*\): ")


@dataclass(frozen=True, slots=True)
class Fault:
    """Departure of an owner from a run, and its reason."""

    round: int
    owner: str
    code: int
    line: str

    @property
    def reason(self) -> Refusal:
        """The reason as its owner hears it; the line is of that owner alone."""
        cause, _, remedy = _PREFIX.sub("", self.line).partition(". ")
        return Refusal(self.code, cause, remedy)


@dataclass(frozen=True, slots=True, eq=False)
class RunDocument:
    """All inputs of a run at the curator, except those that its journal holds.

    Attributes:
        request: the consumer's; it decides whether the run makes a summary or a release.
        plan: plan of a summary, as the consumer hears it.
        offer: what the consumer offered for the plan; None before, and once the run is over. On disk,
            rows of D_v in it stand beside the document.
        owners: names of the owners with which the run began; empty before.
        missing: names of expected owners without which it began.
        coalitions: owners that counted together for this run, in place of histograms.
        fault: why a summary failed before it was offered anything, for a consumer that did not hear it.
        left: owners that left while the cells were made; the record names them, too.
    """

    request: SummaryRequest | ReleaseRequest
    plan: Plan | None = None
    offer: Offer | None = None
    owners: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    coalitions: tuple[Coalition, ...] = ()
    fault: FedkmeError | None = None
    left: tuple[Fault, ...] = ()

    @property
    def consumer(self) -> str:
        """Name of the consumer who asked for the run."""
        return self.request.consumer

    @property
    def summary(self) -> SummaryRequest:
        """The request, of a summary."""
        assert isinstance(self.request, SummaryRequest), "a release has no summary"
        return self.request

    @property
    def release(self) -> ReleaseRequest:
        """The request, of a release."""
        assert isinstance(self.request, ReleaseRequest), "a summary has no release"
        return self.request

    @property
    def planned(self) -> Plan:
        """The plan, of a summary."""
        assert self.plan is not None, "every summary has a plan from its first moment"
        return self.plan

    @property
    def offered(self) -> Offer:
        """The offer, of a summary that was accepted."""
        assert self.offer is not None, "a run is queued once its offer came"
        return self.offer


@dataclass(frozen=True, slots=True, eq=False)
class RequestDocument:
    """A consumer's request for a summary: asking again sends the same bytes.

    Attributes:
        request: request as it was made.
        output: folder for the rows.
        data: digest of D_v.
        plan: the curator's answer, as far as the offer depends on it; None before it came.
        offer: what was offered for it, until the rows are here.
        secrets: keys and group secret of the run, where its rows go sealed, likewise.
    """

    request: SummaryRequest
    output: str
    data: bytes
    plan: Plan | None = None
    offer: Offer | None = None
    secrets: tuple[PartyKeys, GroupSecret] | None = None

    @property
    def name(self) -> str:
        """Name in the store."""
        return self.request.request_id.hex()

    def asks_the_same(self, other: RequestDocument) -> bool:
        """Check whether another document is of the same request over the same D_v, but for its ids.

        A request of an earlier release says nothing of margins.
        """
        own = self.request
        same = replace(other.request, request_id=own.request_id, margins=own.margins, replaces=own.replaces)
        return (own, self.data) == (same, other.data)

    def planned(self, plan: Plan) -> bool:
        """Check whether the offer was made for this very plan, as far as it depends on it."""
        return self.plan is not None and _terms_of(self.plan) == _terms_of(plan)


@dataclass(frozen=True, slots=True, eq=False)
class OwnerEntry:
    """Record that an owner keeps of a directive that it answered.

    Attributes:
        directive: the directive without what nothing later needs.
        answer: None where it is computed again, or had secrets.
        named: rows that were given the next tokens.
    """

    directive: Directive
    answer: Answer | None
    named: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class KeptAnswer:
    """An answer of an owner that came into a run.

    Attributes:
        owner: whose it is.
        seq: number of the directive.
        step: its round and question.
        answer: None where the owner was lost, or broken off with.
        lost: why.
    """

    owner: str
    seq: int
    step: str
    answer: Answer | None
    lost: Refusal | None = None


@dataclass(slots=True, eq=False, repr=False)
class CuratorEntry:
    """Inputs of a run at the curator since the entry before.

    Attributes:
        answers: answers of owners.
        draws: draws of noise sources, by purpose.
        lines: SHA-256 of every line that went to the ledger with this entry.
    """

    answers: list[KeptAnswer] = field(default_factory=list)
    draws: list[tuple[str, NDArray[np.float64]]] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)


def _terms_of(plan: Plan) -> Plan:
    """Name what an offer depends on: not who offers keys, nor words that a curator's update adds."""
    return replace(plan, offered=False, offers=(), choice=None)
