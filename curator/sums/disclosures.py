"""Disclosures to the curator in a run of sums, in the same words as in the owners' ledgers.

Lines wait here until the run's release is kept: both go to disk in one transaction (docs/decisions/006). A
vector that came counts even if no release is made, so lines are also written when a run fails. A vector that
may have left an owner and never came counts too: that of each owner that was asked, in this attempt or an
earlier one, and did not refuse. Such vectors are charged in lines that are marked as not certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fedkme.privacy.events import Disclosure, Event
from fedkme.protocol import Invitation
from fedkme.sums.disclosures import release_disclosures, vector_disclosure
from fedkme.sums.vector import SumVector


class SumDisclosures:
    """Curator's side of one run's disclosures; no line is written twice in a run."""

    def __init__(
        self, invitation: Invitation, written: Iterable[Disclosure] = (), expected: Iterable[Disclosure] = ()
    ) -> None:
        """Open the disclosures of one run.

        Args:
            invitation: the run's invitation to owners.
            written: lines of the run that an earlier process wrote: an owner that is asked again for the same
                bits writes no further line either.
            expected: lines of `at_most` in an earlier attempt.
        """
        self._invitation = invitation
        self._written = set(written)
        self._seen: set[str] = set()
        self._came: dict[Disclosure, None] = {}  # a set that keeps the order
        self._before = dict.fromkeys(expected)
        self._expected: dict[Disclosure, None] = {}

    def expect(
        self, number: int, owners: Iterable[str], vector: SumVector, event: Event | None = None
    ) -> None:
        """Note that owners are about to be asked for vectors; arguments are those of `receive_vector`."""
        self._before |= self._expected
        self._expected = dict.fromkeys(
            line for owner in owners for line in self._lines(number, owner, vector, event)
        )

    def receive_vector(self, number: int, owner: str, vector: SumVector, event: Event | None = None) -> None:
        """Note an owner's vector that came; its first also charges the run's cost towards the consumer.

        Args:
            number: number of the question.
            owner: owner of the vector.
            vector: the vector that was asked for.
            event: event of the total under secure aggregation; None: the vector came in the clear.
        """
        self._came |= dict.fromkeys(self._lines(number, owner, vector, event))
        self._seen.add(owner)

    def decline(self, owner: str) -> None:
        """Note that an owner refused to send a vector, and so wrote no line."""
        self._expected = {line: None for line in self._expected if line.protected != owner}

    def at_most(self) -> list[Disclosure]:
        """Unwritten lines of vectors that came or may be on their way, also from an earlier attempt."""
        return self._unwritten({**self._came, **self._before, **self._expected})

    def came(self) -> list[Disclosure]:
        """Unwritten lines of vectors that came, sorted by question and owner."""
        return self._unwritten(self._came)

    def doubtful(self) -> list[Disclosure]:
        """Lines of vectors that may have left and never came."""
        lines = [line for line in self.at_most() if line not in self._came]
        return [replace(line, certain=False) for line in lines]

    def wrote(self, lines: Iterable[Disclosure]) -> None:
        """Note lines that are on disk."""
        self._written.update(lines)

    def _unwritten(self, lines: Iterable[Disclosure]) -> list[Disclosure]:
        unwritten = [line for line in lines if line not in self._written]
        return sorted(unwritten, key=lambda line: (line.round, line.protected))

    def _lines(self, number: int, owner: str, vector: SumVector, event: Event | None) -> list[Disclosure]:
        invitation = self._invitation
        # An owner's first vector carries the cost of the run. It need not answer question 1: where an owner
        # gave no key, the question was asked again under the next number.
        line = vector_disclosure(owner, invitation, number, vector, event)
        return [line] if owner in self._seen else [line, *release_disclosures(owner, invitation)]
