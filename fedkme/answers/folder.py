"""Folder with a release that can be asked: a simulation's, or what a consumer received.

The one place that knows which implementation of `Evidence` answers for which file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from fedkme.answers.answer import Answer, Made, Target, ask
from fedkme.answers.counts import CountEvidence
from fedkme.answers.evidence import Evidence
from fedkme.answers.grammar import separate
from fedkme.answers.sums import SumEvidence
from fedkme.errors import DataError, FedkmeError, QuestionError, on_disk
from fedkme.ops.derivation import Derivation
from fedkme.releases.counts import PROTOCOL, counts_from_bytes, protocol_of
from fedkme.releases.file import from_bytes
from fedkme.tables.files import read_arrays
from fedkme.tables.table import table_from_arrays

RELEASE, SYNTHETIC, WEIGHTED = "release.npz", "synthetic.npz", "weighted.npz"


def evidence_of(data: bytes, source: str = "the release") -> Evidence:
    """Evidence that a release file holds.

    Raises:
        DataError: it is no release that can be asked.
    """
    if protocol_of(data, source) == PROTOCOL:
        return CountEvidence(counts_from_bytes(data, source))
    return SumEvidence(from_bytes(data, source))


@dataclass(frozen=True, eq=False)
class AskedFolder:
    """A folder with `release.npz`, and rows that were made of it where there are any."""

    folder: Path

    @cached_property
    def evidence(self) -> Evidence:
        """Evidence that the release holds.

        Raises:
            DataError: there is no release, or none that can be asked.
        """
        path = self.folder / RELEASE
        remedy = "Give the folder of a release, a simulation's or a consumer's 'output'."
        with on_disk(f"{path} cannot be read", remedy, DataError):
            data = path.read_bytes()
        return evidence_of(data, str(path))

    def ask(
        self, questions: str | Sequence[str], target: Target | None = None
    ) -> tuple[list[Answer], dict[str, FedkmeError]]:
        """Answer questions, see `fedkme.answers.answer.ask`; one that cannot be answered stops no other.

        Returns:
            Answers, and what is wrong with each text that is not understood, is none about these columns, or
            could not be computed.

        Raises:
            DataError: there is no release, or none that can be asked.
        """
        evidence, answers, failures = self.evidence, list[Answer](), dict[str, FedkmeError]()
        for text in [questions] if isinstance(questions, str) else questions:
            for each in separate(text):
                steps = Derivation("Ask otherwise; the other questions were answered.")

                def answered(question: str) -> list[Answer] | QuestionError:
                    try:
                        return ask(evidence, question, target, self._made)
                    except QuestionError as error:
                        return error

                found = steps.step("the answer", partial(answered, each))
                if isinstance(found, list):
                    answers += found
                else:
                    failures[each] = found or steps.losses[0]
        return answers, failures

    def _made(self) -> Made | None:
        synthetic, weighted = self.folder / SYNTHETIC, self.folder / WEIGHTED
        if synthetic.exists():
            arrays = read_arrays(synthetic, SYNTHETIC)
            return Made(table_from_arrays(arrays["x"], arrays.get("y")))
        if weighted.exists():
            arrays = read_arrays(weighted, WEIGHTED)
            return Made(table_from_arrays(arrays["x"], None), arrays["weight"].astype(np.float64))
        return None
