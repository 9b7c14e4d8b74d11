"""Lines of an owner's log about releases: who asks, what leaves, what it costs; never a private value."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from fedkme.directives import Accepted, Answer, Directive, Dismiss, Refusal, WordVector
from fedkme.protocol import Invitation, SumTerms
from fedkme.secagg.messages import Delivery
from fedkme.sums.disclosures import NO_PROMISE

Answering = Callable[[Directive], Answer | None]


@dataclass(slots=True)
class _ReleaseLog:
    """A release that this owner takes part in: its epsilon, and the questions answered so far."""

    epsilon: float
    answered: set[int] = field(default_factory=set)


class ReleaseLines:
    """Logs each event of a release once; the gate logs why a release is refused."""

    def __init__(self, say: Callable[..., None], delta: float) -> None:
        """Log through `say`, from any thread, with epsilons at `delta`."""
        self._say = say
        self._delta = delta
        self._runs: dict[str, _ReleaseLog] = {}
        self._refused: set[str] = set()

    def answer(self, answering: Answering, directive: Directive) -> Answer | None:
        """Answer a directive, and log the outcome before the answer leaves."""
        answer = answering(directive)
        match directive.body, answer:
            case Dismiss(), _:
                self._over(directive.run)
            case Invitation(terms=SumTerms(ahead=None)) as invitation, Accepted() | Refusal():
                self._note_invitation(invitation, answer)
            case body, WordVector(words) if (log_entry := self._runs.get(directive.run)) is not None:
                if directive.round not in log_entry.answered:
                    log_entry.answered.add(directive.round)
                    how = "masked" if isinstance(body, Delivery) else "plain"
                    self._say("sent", run=directive.run, round=directive.round, numbers=len(words), sums=how)
        return answer

    def welcome(self, runs: Collection[str]) -> None:
        """End all runs but those in which the curator still has this owner."""
        for run in (self._runs.keys() | self._refused) - set(runs):
            self._over(run)

    def _note_invitation(self, invitation: Invitation, answer: Accepted | Refusal) -> None:
        run, accepted = invitation.run, isinstance(answer, Accepted)
        if run in self._runs or (run in self._refused and not accepted):
            return  # the invitation came again: a connection broke, or the run waits for approval
        from fedkme.privacy.accountants import Sound  # an owner of summaries alone never loads it

        epsilon = Sound().epsilon(invitation.planned or NO_PROMISE, self._delta).epsilon
        if accepted:
            self._runs[run] = _ReleaseLog(epsilon)
        else:
            self._refused.add(run)
        self._say(
            "release",
            run=run,
            round=0,
            consumer=invitation.consumer,
            method=invitation.protocol,
            secure=invitation.security is not None,
            colluders=None if invitation.security is None else invitation.security.colluders,
            epsilon=epsilon,
            delta=self._delta,
            answer="accepted" if accepted else "refused",
            rows=answer.rows if isinstance(answer, Accepted) else None,
        )

    def _over(self, run: str) -> None:
        self._refused.discard(run)
        if (log_entry := self._runs.pop(run, None)) is not None:
            cost = log_entry.epsilon if log_entry.answered else 0.0
            self._say("over", run=run, round=0, sums=len(log_entry.answered), epsilon=cost, delta=self._delta)
