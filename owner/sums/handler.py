"""Handler of directives in one run of sums.

Vectors are not stored. A vector sent in the clear is computed again, bit by bit the same, when the question
comes again; a masked vector had secrets that die with the process (docs/decisions/006). A curator that was
restarted begins with the same invitation and counts its directives from 1 again.
"""

from dataclasses import replace

import numpy as np

from fedkme import directives
from fedkme.documents import OwnerEntry
from fedkme.errors import fault_of_curator
from fedkme.protocol import Invitation
from fedkme.secagg.messages import Delivery, Endorsements, KeyRoster, Survivors
from owner.handler import RunHandler
from owner.sums.responder import SumResponder

_SECRET = directives.SigningKeys | KeyRoster | Delivery | Survivors | Endorsements
"""Steps of an aggregation that no journal keeps: they have secrets."""


class SumHandler(RunHandler):
    """One run of sums at an owner."""

    def __init__(self, run: str, responder: SumResponder) -> None:
        """Begin before the run's first directive.

        Args:
            run: the run's name.
            responder: computes the answers; serves this run alone.
        """
        super().__init__(responder.name, run)
        self._responder = responder

    def _starts_again(self, directive: directives.Directive) -> bool:
        return isinstance(directive.body, Invitation) and directive.seq == 1 and self.last > 1

    def _entry(self, directive: directives.Directive, answer: directives.Answer) -> OwnerEntry:
        """Entry for the journal: an aggregation's proposal and steps, but no vectors."""
        if isinstance(directive.body, _SECRET):
            directive = replace(directive, body=directives.StepTaken(directive.body.step))
        return OwnerEntry(
            directive, answer if isinstance(answer, directives.Accepted | directives.Refusal) else None
        )

    def _recomputed(self, directive: directives.Directive) -> directives.Answer:
        """Compute another process's answer again; possible only for a vector in the clear."""
        if isinstance(directive.body, directives.AskSums):
            return self._compute(directive)
        raise self._responder.lost(directive.round)

    def _restored(self, entry: OwnerEntry) -> None:
        responder, number = self._responder, entry.directive.round
        match entry.directive.body:
            case Invitation() as invitation:
                responder.restore_invitation(invitation)
            case directives.AskSums(query):
                responder.restore_embedded(number, query)
            case directives.Proposal() as proposal:
                parameters = proposal.parameters(responder.length(proposal.query))
                responder.restore_proposed(number, parameters, proposal.query)
            case directives.StepTaken("delivery"):
                responder.restore_masked(number)

    def _compute(self, directive: directives.Directive) -> directives.Answer:
        responder, number = self._responder, directive.round
        match directive.body:
            case Invitation() as invitation:
                return directives.Accepted(responder.invite(invitation))
            case directives.AskSums(query, moves):
                responder.check_said(number, moves)
                return directives.WordVector(responder.embed(number, query).view(np.uint64))
            case directives.Proposal() as proposal:
                responder.check_said(number, proposal.one_owner_moves)
                parameters = proposal.parameters(responder.length(proposal.query))
                return responder.propose(number, parameters, proposal.query)
            case directives.SigningKeys(keys):
                return responder.advertise(number, keys)
            case KeyRoster() as roster:
                return responder.share(number, roster)
            case Delivery() as delivery:
                return directives.WordVector(responder.mask(number, delivery).words)
            case Survivors() as survivors:
                return responder.endorse(number, survivors)
            case Endorsements() as endorsements:
                return responder.unmask(number, endorsements)
        raise fault_of_curator(f"{self.run} is a run of sums, which asks for no {directive.question!r}")
