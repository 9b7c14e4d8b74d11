"""What came to the curator in a run of sums, in the words in which owners write it down themselves.

Lines wait here until the run's release is kept: both go to disk in one transaction (docs/decisions/007).
What came counts also where nothing is made of it, so lines are taken when a run fails, too.
"""

from __future__ import annotations

from fedkme.pooling.disclosures import release_disclosures, vector_disclosures
from fedkme.pooling.values import Enrolment
from fedkme.privacy.events import Disclosure, Event


class PoolGate:
    """The curator's side of one run's disclosures."""

    def __init__(self, enrolment: Enrolment) -> None:
        """Open for one run.

        Args:
            enrolment: what owners were told.
        """
        self._enrolment = enrolment
        self._seen: set[str] = set()
        self._lines: list[Disclosure] = []

    def receive_vector(
        self,
        number: int,
        owner: str,
        length: int,
        event: Event | None = None,
        sensitivity: float | None = None,
    ) -> None:
        """An owner's vector came; with its first one, what the run costs it towards the consumer.

        Args:
            number: of the question.
            owner: whose it is.
            length: of the vector.
            event: what the total of all of them tells, with distributed noise.
            sensitivity: L2 diameter of the vector in steps, with distributed noise.
        """
        said = self._enrolment
        # What the run costs comes with an owner's first vector, which need not be of question 1: where an
        # owner gave no key, the question was asked again under the next number.
        line = vector_disclosures(owner, said, number, length, said.security, event, sensitivity)[0]
        self._lines.append(line)
        if owner not in self._seen:
            self._seen.add(owner)
            self._lines += release_disclosures(owner, said)

    def take(self) -> list[Disclosure]:
        """The lines so far, by question and owner whatever came first; they are given once."""
        lines = sorted(self._lines, key=lambda line: (line.round, line.protected))
        self._lines = []
        return lines
