"""Folder of a release that answers questions: a simulation's, or a consumer's output.

Only this module knows which implementation of `Evidence` reads which release file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from fedkme.answers.answer import Answer, ask
from fedkme.answers.correlations import Target
from fedkme.answers.counts import CountEvidence
from fedkme.answers.distance import Comparable, distance_of
from fedkme.answers.evidence import Evidence
from fedkme.answers.grammar import separate
from fedkme.answers.made_rows import WeightedTable
from fedkme.answers.sums import SumEvidence
from fedkme.errors import DataError, FedkmeError, QuestionError, on_disk
from fedkme.inputs import read_bytes
from fedkme.ops.derivation import Derivation
from fedkme.releases.counts import PROTOCOL, StoredCounts, counts_from_bytes, protocol_of
from fedkme.releases.file import from_bytes
from fedkme.tables.files import read_arrays
from fedkme.tables.table import table_from_arrays

RELEASE, SYNTHETIC, WEIGHTED = "release.npz", "synthetic.npz", "weighted.npz"


def evidence_of(data: bytes) -> Evidence:
    """Evidence from the bytes of a release file.

    Raises:
        DataError: the bytes are not a release of a known method.
    """
    return _evidence(_stored(data, "the release"))


def _stored(data: bytes, source: str) -> Comparable:
    if protocol_of(data, source) == PROTOCOL:
        return counts_from_bytes(data, source)
    return from_bytes(data, source)


def _evidence(release: Comparable) -> Evidence:
    return CountEvidence(release) if isinstance(release, StoredCounts) else SumEvidence(release)


@dataclass(frozen=True, eq=False)
class AskedFolder:
    """A folder with `release.npz`, and with the synthetic rows of the release, if it has any."""

    folder: Path

    @cached_property
    def data(self) -> bytes:
        """Released numbers of the folder, as they were written.

        Raises:
            DataError: the folder has no release.
        """
        path = self.folder / RELEASE
        remedy = "Give the folder of a release, a simulation's or a consumer's 'output'."
        with on_disk(f"{path} cannot be read", remedy, DataError):
            return read_bytes(path)

    @cached_property
    def stored(self) -> Comparable:
        """The release of the folder.

        Raises:
            DataError: the folder has no release, or one of an unknown method.
        """
        return _stored(self.data, str(self.folder / RELEASE))

    @cached_property
    def evidence(self) -> Evidence:
        """Evidence from the release of the folder.

        Raises:
            DataError: the folder has no release, or one of an unknown method.
        """
        return _evidence(self.stored)

    def distance(self, other: AskedFolder) -> Answer:
        """Squared MMD to another release, see `fedkme.answers.distance`.

        Raises:
            DataError: a folder has no release, or the releases do not compare.
        """
        rows = (lambda: self._synthetic_rows, lambda: other._synthetic_rows)
        return distance_of(self.stored, other.stored, str(other.folder), rows)

    def ask(
        self, questions: str | Sequence[str], target: Target | None = None
    ) -> tuple[list[Answer], dict[str, FedkmeError]]:
        """Answer questions, see `fedkme.answers.answer.ask`; a question that fails does not stop the others.

        Returns:
            Answers, and an error for each question that is not understood, does not fit the schema, or could
            not be computed.

        Raises:
            DataError: the folder has no release, or one of an unknown method.
        """
        evidence, answers, failures = self.evidence, list[Answer](), dict[str, FedkmeError]()
        for text in [questions] if isinstance(questions, str) else questions:
            for each in separate(text):
                steps = Derivation("Ask in other words; the other questions were answered.")

                def try_to_answer(question: str) -> list[Answer] | QuestionError:
                    try:
                        return ask(evidence, question, target, lambda: self._synthetic_rows)
                    except QuestionError as error:
                        return error

                result = steps.step("the answer", partial(try_to_answer, each))
                if isinstance(result, list):
                    answers += result
                else:
                    failures[each] = result or steps.losses[0]
        return answers, failures

    @cached_property
    def _synthetic_rows(self) -> WeightedTable | None:
        synthetic, weighted = self.folder / SYNTHETIC, self.folder / WEIGHTED
        if synthetic.exists():
            arrays = read_arrays(synthetic, SYNTHETIC)
            return WeightedTable(table_from_arrays(arrays["x"], arrays.get("y")))
        if weighted.exists():
            arrays = read_arrays(weighted, WEIGHTED)
            return WeightedTable(table_from_arrays(arrays["x"], None), arrays["weight"].astype(np.float64))
        return None
