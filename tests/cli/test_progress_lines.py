"""Progress in terminals of any width."""

import io
import itertools

import pytest
from rich.console import Console

from nmt.cli import progress_lines as progress


@pytest.mark.parametrize(("width", "has_bar"), [(40, False), (100, True)])
@pytest.mark.parametrize("unit", ["lines", "pairs", "bytes"])
def test_numbers_are_shown_however_narrow_the_terminal(monkeypatch, width, has_bar, unit):
    shown = io.StringIO()
    console = Console(file=shown, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(progress, "stderr", lambda: console)
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    with progress.progress_display() as display:
        update = display(unit)
        update("done", 0, 4_000_000)
        update("done", 1_000_000, 4_000_000)
    last = shown.getvalue().split("\n")[-2]
    assert ("1.0 of 4.0 MB" if unit == "bytes" else f"1,000,000 of 4,000,000 {unit}") in last
    assert ("━" in last) == has_bar


@pytest.fixture
def printed_at(monkeypatch):
    """The lines that are printed without a terminal, where the clock shows these seconds one after another."""

    def begin(seconds) -> list[str]:
        printed: list[str] = []
        monkeypatch.setattr(progress, "is_terminal", lambda: False)
        monkeypatch.setattr(progress, "notice", printed.append)
        monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
        return printed

    return begin


def test_a_rate_of_less_than_one_per_second_is_not_printed(printed_at):
    printed = printed_at(itertools.count(0, 20))
    with progress.progress_display() as display:
        update = display("lines")
        for done in (0, 11, 211):
            update("done", done, 211)
    assert printed == ["done: 11 of 211 lines", "done: 211 of 211 lines, 5 per second"]


def test_the_rate_leaves_out_what_was_done_before(printed_at):
    printed = printed_at(iter([0, 100]))
    with progress.progress_display() as display:
        update = display("pairs")
        update("resumed", 10_000, 25_000)
        update("resumed", 15_000, 25_000)
    assert printed == ["resumed: 15,000 of 25,000 pairs, 50 per second, 3m20s left"]


def test_pairs_have_a_rate_and_the_time_left_where_their_number_is_known(printed_at):
    printed = printed_at(iter([0, 0, 100, 200]))
    with progress.progress_display() as display:
        update = display("pairs")
        update("known", 0, 25_000)
        update("unknown", 0, None)
        update("known", 10_000, 25_000)
        update("unknown", 10_000, None)
    assert printed == [
        "known: 10,000 of 25,000 pairs, 100 per second, 2m30s left",
        "unknown: 10,000 pairs, 50 per second",
    ]
