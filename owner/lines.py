"""Lines of an owner's log about releases: who asks for what, what leaves, what it cost; no private value."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from fedkme.directives import Accepted, Answer, Directive, Dismiss, Refusal, WordVector
from fedkme.protocol import Invitation, SumTerms
from fedkme.secagg.messages import Delivery
from fedkme.sums.disclosures import NO_PROMISE

Answering = Callable[[Directive], Answer | None]


@dataclass(slots=True)
class _Told:
    """A run that this owner is in: what it costs, and the questions that it answered."""

    epsilon: float
    answered: set[int] = field(default_factory=set)


class ReleaseLines:
    """Says what happens in runs of releases, each thing once; why one is refused is said where it is."""

    def __init__(self, say: Callable[..., None], delta: float) -> None:
        """Say lines by `say`, of any thread, with epsilons at `delta`."""
        self._say = say
        self._delta = delta
        self._runs: dict[str, _Told] = {}
        self._refused: set[str] = set()

    def answer(self, answering: Answering, directive: Directive) -> Answer | None:
        """Answer, and say what comes of it before it leaves."""
        answer = answering(directive)
        match directive.body, answer:
            case Dismiss(), _:
                self._over(directive.run)
            case Invitation(terms=SumTerms(ahead=None)) as asked, Accepted() | Refusal():
                self._invited(asked, answer)
            case body, WordVector(words) if (told := self._runs.get(directive.run)) is not None:
                if directive.round not in told.answered:
                    told.answered.add(directive.round)
                    how = "masked" if isinstance(body, Delivery) else "plain"
                    self._say("sent", run=directive.run, round=directive.round, numbers=len(words), sums=how)
        return answer

    def welcome(self, runs: Collection[str]) -> None:
        """End all runs but those in which the curator still has this owner."""
        for run in (self._runs.keys() | self._refused) - set(runs):
            self._over(run)

    def _invited(self, asked: Invitation, answer: Accepted | Refusal) -> None:
        run, accepted = asked.run, isinstance(answer, Accepted)
        if run in self._runs or (run in self._refused and not accepted):
            return  # it is asked again, such as after a connection broke, or until it is approved
        from fedkme.privacy.accountants import Sound  # which owners of summaries alone do without

        epsilon = Sound().epsilon(asked.planned or NO_PROMISE, self._delta).epsilon
        if accepted:
            self._runs[run] = _Told(epsilon)
        else:
            self._refused.add(run)
        self._say(
            "release",
            run=run,
            round=0,
            consumer=asked.consumer,
            method=asked.protocol,
            secure=asked.security is not None,
            colluders=None if asked.security is None else asked.security.colluders,
            epsilon=epsilon,
            delta=self._delta,
            answer="accepted" if accepted else "refused",
            rows=answer.rows if isinstance(answer, Accepted) else None,
        )

    def _over(self, run: str) -> None:
        self._refused.discard(run)
        if (told := self._runs.pop(run, None)) is not None:
            cost = told.epsilon if told.answered else 0.0
            self._say("over", run=run, round=0, sums=len(told.answered), epsilon=cost, delta=self._delta)
