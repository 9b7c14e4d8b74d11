"""Disclosures that came to the curator in a run of sums, in the words in which owners write them down.

Lines wait here until the run's release is kept: both go to disk in one transaction (docs/decisions/007).
What came counts also where nothing is made of it, so lines are taken when a run fails, too. So does what may
have left an owner and never came: of an owner that was lost while it was asked, or that an attempt asked
whose lines did not come to disk. It is charged in lines that say that they are not certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from fedkme.privacy.events import Disclosure, Event
from fedkme.protocol import Invitation
from fedkme.sums.disclosures import release_disclosures, vector_disclosure
from fedkme.sums.vector import SumVector


class SumDisclosures:
    """The curator's side of one run's disclosures."""

    def __init__(
        self,
        invitation: Invitation,
        written: Iterable[Disclosure] = (),
        doubtful: Iterable[Disclosure] = (),
    ) -> None:
        """Open for one run.

        Args:
            invitation: what owners were told.
            written: lines of the run that an earlier process wrote: an owner that is asked again for the same
                bits writes nothing either.
            doubtful: what `at_most` said in an earlier attempt.
        """
        self._invitation = invitation
        self._written = Counter(written)
        self._seen: set[str] = set()
        self._lines: list[Disclosure] = []
        self._expected: list[Disclosure] = []
        self._doubtful = list(doubtful)

    def receive_vector(self, number: int, owner: str, vector: SumVector, event: Event | None = None) -> None:
        """An owner's vector came; with its first one, what the run costs it towards the consumer.

        Args:
            number: of the question.
            owner: whose it is.
            vector: what was asked for.
            event: of the total under secure aggregation; None: the vector came as it is.
        """
        self._lines += self._of(number, owner, vector, event)
        self._seen.add(owner)

    def expect(
        self, number: int, owners: Iterable[str], vector: SumVector, event: Event | None = None
    ) -> None:
        """Owners are about to be asked for vectors; for the rest see `receive_vector`."""
        self._expected = [line for owner in owners for line in self._of(number, owner, vector, event)]

    def at_most(self) -> list[Disclosure]:
        """The lines so far and those of vectors that may be on their way, now or since an earlier attempt."""
        now = [*self._lines, *self._expected]
        return _sorted([*unwritten(self._doubtful, Counter(now)), *now])

    def lose(self, owner: str) -> None:
        """An owner was lost while it was asked for a vector: it may have written down that it left."""
        self._doubtful += [line for line in self._expected if line.protected == owner]

    def doubtful(self) -> list[Disclosure]:
        """Lines of what may have left and never came: no attempt wrote them, and `take` gave none of them."""
        lines = unwritten(dict.fromkeys(_sorted(self._doubtful)), self._written)
        return [replace(line, certain=False) for line in lines]

    def take(self) -> list[Disclosure]:
        """The lines so far, by question and owner whatever came first; they are given once."""
        lines, self._lines = _sorted(self._lines), []
        found = unwritten(lines, self._written)
        self._written.update(found)
        return found

    def _of(self, number: int, owner: str, vector: SumVector, event: Event | None) -> list[Disclosure]:
        said = self._invitation
        # What the run costs comes with an owner's first vector, which need not be of question 1: where an
        # owner gave no key, the question was asked again under the next number.
        line = vector_disclosure(owner, said, number, vector, event)
        return [line] if owner in self._seen else [line, *release_disclosures(owner, said)]


def unwritten(lines: Iterable[Disclosure], written: Counter[Disclosure]) -> list[Disclosure]:
    """Lines without those that are written already, each as often as it is."""
    left, found = Counter(written), []
    for line in lines:
        if left[line]:
            left[line] -= 1
        else:
            found.append(line)
    return found


def _sorted(lines: list[Disclosure]) -> list[Disclosure]:
    return sorted(lines, key=lambda line: (line.round, line.protected))
