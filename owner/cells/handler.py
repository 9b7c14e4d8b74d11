"""Handler of directives in one summary by cells; answers are stored as sent, with their noise and rows."""

from fedkme import directives
from fedkme.documents import OwnerEntry
from fedkme.errors import fault_of_curator
from fedkme.protocol import Invitation
from owner.cells.answer_schedule import wait_s
from owner.cells.responder import HistogramResponder
from owner.handler import RunHandler


class CellHandler(RunHandler):
    """One summary by cells at an owner."""

    def __init__(self, run: str, responder: HistogramResponder) -> None:
        """Handle one run's directives with the given responder, which serves this run alone."""
        super().__init__(responder.name, run)
        self._responder = responder

    def _restored(self, entry: OwnerEntry) -> None:
        match entry.directive.body, entry.answer:
            case Invitation() as invitation, _:
                self._responder.restore_invitation(invitation)
            case directives.AskHistogram(), _:
                self._responder.skip_histogram()
            case directives.FillOrder(), directives.Rows(rows):
                self._responder.restore_rows([row.token for row in rows])

    def wait_s(self, directive: directives.Directive, taken_s: float) -> float:
        """Seconds that the answer to an order waits, so that its time says nothing about rows."""
        ordered = isinstance(directive.body, directives.FillOrder)
        return wait_s(self._responder.answer_s, taken_s) if ordered else 0.0

    def _compute(self, directive: directives.Directive) -> directives.Answer:
        responder, number = self._responder, directive.round
        match directive.body:
            case Invitation() as invitation:
                return directives.Accepted(responder.invite(invitation))
            case directives.AskHistogram():
                return directives.NoisyHistogram(responder.histogram(number))
            case directives.FillOrder() as order:
                return directives.Rows(responder.fill_order(number, order))
            case directives.Close():
                return responder.close()
        raise fault_of_curator(f"{self.run} is a summary by cells, which asks for no {directive.question!r}")
