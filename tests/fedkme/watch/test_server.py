"""Server of the page to watch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fedkme.watch.server import shared
from fedkme.watch.state import Watched


@pytest.mark.parametrize(("every_s", "computed"), [(1000.0, 1), (0.0, 40)])
def test_a_state_is_computed_once_a_tick_for_all_viewers(every_s: float, computed: int) -> None:
    reads: list[Watched] = []

    def source() -> Watched:
        reads.append(Watched("curator", float(len(reads))))
        return reads[-1]

    look = shared(source, every_s)
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: look(), range(40)))
    assert len(reads) == computed
    assert {each.at for each in seen} == {each.at for each in reads}
