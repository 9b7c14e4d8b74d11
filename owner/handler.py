"""Base of the handlers of directives, one handler per run, for every protocol.

A directive that comes again gets the same answer: no noise is drawn and no row is touched. The curator sends
one directive at a time, and the next one only after it has stored the answer. So the last answer suffices.
"""

from abc import ABC, abstractmethod

from fedkme.directives import Answer, Directive, Refusal, Unreadable
from fedkme.documents import OwnerEntry
from fedkme.errors import FedkmeError, OwnerFaultError, ProtocolError
from fedkme.protocol import Invitation, Order


class RunHandler(ABC):
    """One run at an owner: checks the numbers of directives and their legal order."""

    def __init__(self, owner: str, run: str) -> None:
        """Begin before the run's first directive.

        Args:
            owner: the owner's name.
            run: the run's name.
        """
        self.run = run
        self._owner = owner
        self._order = Order(owner, run)
        self._last: Directive | None = None
        self._answer: Answer | None = None

    @property
    def begun(self) -> bool:
        """True once the owner takes part in the run."""
        return self._order.begun

    @property
    def last(self) -> int:
        """Number of the last answered directive; 0 before the first."""
        return 0 if self._last is None else self._last.seq

    def is_new(self, directive: Directive) -> bool:
        """Check whether a directive was not answered before."""
        return directive.seq > self.last or self._starts_again(directive)

    def again(self, directive: Directive) -> Answer | None:
        """Repeat the answer to the last directive; None for an older directive.

        Raises:
            FedkmeError: the answer was not kept and cannot be computed again.
        """
        if self._last is None or directive.seq < self.last:
            return None
        if self._answer is None:
            self._answer = self._recomputed(self._last)
        return self._answer

    def answer(self, directive: Directive) -> OwnerEntry:
        """Compute the answer to a new directive; the entry must be stored before the answer leaves."""
        answer: Answer
        before = self._order.state
        try:
            if self._starts_again(directive):
                self._order.state = "new"
            elif directive.seq != self.last + 1:
                cause = f"{self._owner} does not know what {self.run} asked before this"
                raise OwnerFaultError(cause, "Its journal was lost; the run goes on without it.")
            answer = self._checked(directive)
            self._note(directive)
        except FedkmeError as error:
            self._order.state = before
            answer = Refusal.of(error)
        self._last, self._answer = directive, answer
        return self._entry(directive, answer)

    def restore(self, entry: OwnerEntry) -> None:
        """Restore the state after `answer` returned this entry; the ledger already has its cost."""
        self._last, self._answer = entry.directive, entry.answer
        if not isinstance(entry.answer, Refusal):
            self._note(entry.directive)
            self._restored(entry)

    def _checked(self, directive: Directive) -> Answer:
        body = directive.body
        if isinstance(body, Unreadable) and not body.question:
            raise body.reason.error()
        self._order.check(directive.question)
        if isinstance(body, Unreadable):
            raise body.reason.error()
        if isinstance(body, Invitation) and directive.seq != 1:
            raise ProtocolError(f"{self.run} has begun already", "Start another run.")
        return self._compute(directive)

    def _note(self, directive: Directive) -> None:
        """Follow the order of questions."""
        if isinstance(directive.body, Invitation):
            self._order.accept(directive.body)
        else:
            self._order.advance(directive.question)

    def wait_s(self, directive: Directive, taken_s: float) -> float:
        """Seconds that an answer must wait before it leaves, given the seconds that computing it took."""
        return 0.0

    @abstractmethod
    def _compute(self, directive: Directive) -> Answer:
        """Compute an answer."""

    @abstractmethod
    def _restored(self, entry: OwnerEntry) -> None:
        """Restore the state after an answer that was not a refusal."""

    def _entry(self, directive: Directive, answer: Answer) -> OwnerEntry:
        """Make the journal entry of an answer."""
        return OwnerEntry(directive, answer)

    def _recomputed(self, directive: Directive) -> Answer:
        raise OwnerFaultError(f"{self._owner} has not kept its answer", "Start another run.")

    def _starts_again(self, directive: Directive) -> bool:
        """Check whether a curator that was started again begins the run anew."""
        return False
