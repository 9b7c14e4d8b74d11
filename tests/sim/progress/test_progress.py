"""sim.progress: live progress on a terminal and plain lines elsewhere (issue 2, item 10)."""

from __future__ import annotations

import io
from typing import Any

import pytest

from sim.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def record(number: int, **changes: Any) -> dict[str, Any]:
    return {"round": number, "accessed": 4 * number, "mmd2_estimate": 1 / number} | changes


def play(progress: Progress, p: int, last: int) -> None:
    progress.started(5, p)
    for number in range(1, last + 1):
        progress.round(record(number))
    progress.close()
    progress.close()  # documented as harmless


def plain(p: int, last: int) -> list[str]:
    stream = io.StringIO()
    play(Progress(stream), p, last)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(("p", "lines"), [(1, 1), (7, 7), (100, 10), (95, 10), (2000, 10)])
def test_plain_lines_come_about_every_tenth_of_the_run(p: int, lines: int) -> None:
    # Brief: about every 10 % and no ANSI; the last round is always among them.
    output = plain(p, p)
    assert len(output) == 1 + lines
    assert output[-1].startswith(f"round {p}/{p}: {4 * p} points accessed")
    assert "\x1b" not in "".join(output)


def test_a_run_that_stops_early_says_how_far_it_came() -> None:
    # Issue 2, item 10: ctrl-C leaves a readable partial run.
    assert plain(100, 33)[-1] == "round 33/100: 132 points accessed"
    assert plain(100, 30)[-2:] == ["round 20/100: 80 points accessed", "round 30/100: 120 points accessed"]
    assert plain(100, 0) == ["5 owners are ready; 100 rounds follow."]


def test_no_number_is_shown_that_the_end_will_not_confirm() -> None:
    # Issue 13, item 2: the curator's estimate has the noise of g~ in it, "MMD^2 ~ 1.43" for a true .065.
    assert not any("MMD" in line for line in plain(100, 100))


def test_a_release_says_stages_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    # Issue 16, item 10: every release shows stages, bars and time left.
    clock = iter([0.0, 0.0, 2.0, 20.0, 30.0, 34.0, 35.0])
    monkeypatch.setattr("sim.progress.time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    progress = Progress(stream, every_s=4.0)
    for stage, fraction in (("a", 0.0), ("a", 0.1), ("a", 0.25), ("b", 0.5), ("b", 0.6), ("b", 1.0)):
        progress.stage(stage, "[red]words[/red]", fraction)
    progress.close()
    assert stream.getvalue().splitlines() == [
        "a   0 %  [red]words[/red]",
        "a  25 %  [red]words[/red]; about 1 min 0 s left",
        "b  50 %  [red]words[/red]; the time left is not known yet",
        "b  60 %  [red]words[/red]; about 16 s left",
        "b 100 %  [red]words[/red]",
    ]


def test_the_bar_of_a_release_on_a_terminal() -> None:
    stream = Terminal()
    progress = Progress(stream)
    progress.stage("fitting", "12 [red]marginals[/red]", 0.0)
    progress.note("owner [red]b[/red] was lost")
    progress.stage("fitting", "12 [red]marginals[/red]", 0.4)
    progress.close()
    progress.close()
    output = stream.getvalue()
    assert "owner [red]b[/red] was lost" in output
    assert "12 [red]marginals[/red]; less than 1 s left" in output
    assert "40 %" in output


def test_the_live_bar_shows_round_and_points_in_80_columns() -> None:
    # Issue 2, item 10: round and points accessed; notes above the bar, markup left alone.
    stream = Terminal()
    progress = Progress(stream)
    progress.started(5, 200)
    progress.note("owner [red]b[/red] was lost in round 2")
    progress.round(record(123))
    progress.close()
    output = stream.getvalue()
    assert "owner [red]b[/red] was lost" in output
    assert "round 123/200" in output
    assert "492 points accessed" in output


def test_the_live_bar_may_close_before_the_run_has_started() -> None:
    # An error before round 1 still closes the progress.
    Progress(Terminal()).close()
