"""Disclosures that came to the curator in a run of sums, in the words in which owners write them down.

Lines wait here until the run's release is kept: both go to disk in one transaction (docs/decisions/006).
What came counts also where nothing is made of it, so lines are written when a run fails, too. So does what
may have left an owner and never came: of each that was asked, in this attempt or an earlier one, and did not
refuse. It is charged in lines that say that they are not certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fedkme.privacy.events import Disclosure, Event
from fedkme.protocol import Invitation
from fedkme.sums.disclosures import release_disclosures, vector_disclosure
from fedkme.sums.vector import SumVector


class SumDisclosures:
    """The curator's side of one run's disclosures; no line is twice in a run."""

    def __init__(
        self, invitation: Invitation, written: Iterable[Disclosure] = (), expected: Iterable[Disclosure] = ()
    ) -> None:
        """Open for one run.

        Args:
            invitation: what owners were told.
            written: lines of the run that an earlier process wrote: an owner that is asked again for the same
                bits writes nothing either.
            expected: what `at_most` said in an earlier attempt.
        """
        self._invitation = invitation
        self._written = set(written)
        self._seen: set[str] = set()
        self._came: dict[Disclosure, None] = {}  # in their order, which sets have not
        self._before = dict.fromkeys(expected)
        self._asked: dict[Disclosure, None] = {}

    def expect(
        self, number: int, owners: Iterable[str], vector: SumVector, event: Event | None = None
    ) -> None:
        """Owners are about to be asked for vectors; for the rest see `receive_vector`."""
        self._before |= self._asked
        self._asked = dict.fromkeys(
            line for owner in owners for line in self._of(number, owner, vector, event)
        )

    def receive_vector(self, number: int, owner: str, vector: SumVector, event: Event | None = None) -> None:
        """An owner's vector came; with its first one, what the run costs it towards the consumer.

        Args:
            number: of the question.
            owner: whose it is.
            vector: what was asked for.
            event: of the total under secure aggregation; None: the vector came as it is.
        """
        self._came |= dict.fromkeys(self._of(number, owner, vector, event))
        self._seen.add(owner)

    def decline(self, owner: str) -> None:
        """An owner said that it sends no vector: it wrote down none."""
        self._asked = {line: None for line in self._asked if line.protected != owner}

    def at_most(self) -> list[Disclosure]:
        """Lines of what came or may be on its way, now or since an earlier attempt, and is not written."""
        return self._unwritten({**self._came, **self._before, **self._asked})

    def came(self) -> list[Disclosure]:
        """Lines of what came and is not written, by question and owner whatever came first."""
        return self._unwritten(self._came)

    def doubtful(self) -> list[Disclosure]:
        """Lines of what may have left and never came."""
        lines = [line for line in self.at_most() if line not in self._came]
        return [replace(line, certain=False) for line in lines]

    def wrote(self, lines: Iterable[Disclosure]) -> None:
        """Note lines that are on disk."""
        self._written.update(lines)

    def _unwritten(self, lines: Iterable[Disclosure]) -> list[Disclosure]:
        left = [line for line in lines if line not in self._written]
        return sorted(left, key=lambda line: (line.round, line.protected))

    def _of(self, number: int, owner: str, vector: SumVector, event: Event | None) -> list[Disclosure]:
        said = self._invitation
        # What the run costs comes with an owner's first vector, which need not be of question 1: where an
        # owner gave no key, the question was asked again under the next number.
        line = vector_disclosure(owner, said, number, vector, event)
        return [line] if owner in self._seen else [line, *release_disclosures(owner, said)]
