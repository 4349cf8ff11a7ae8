"""The line of progress stays alive and on one line, however narrow the terminal is."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from nmt.cli.training_view import TrainingView, preflight_lines, progress_columns
from nmt.training.start.trial import Preflight


@pytest.mark.parametrize("width", [24, 30, 39, 40, 60, 71, 72, 80, 100, 129, 130, 200])
def test_the_line_shows_update_and_share_at_any_width(width):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    bar = Progress(*progress_columns(width), console=console)
    status = "loss 12.345  ppl 12345.67  lr 1.00e-03  1,234,567 tokens/s"
    bar.add_task("1,234,567", total=1.0, completed=0.45, left="59m59s left at most", status=status)
    console.print(bar.get_renderable())
    [line] = out.getvalue().splitlines()
    assert len(line.rstrip()) <= width
    assert "1,234,567" in line
    assert "45%" in line
    assert ("59m59s left at most" in line) == (width >= 43)
    assert (status in line) == (width >= 130)


@pytest.mark.parametrize(
    ("updates", "minutes", "expected"),
    [
        (1_000, None, (0.3, "15m10s left at most")),
        (None, 10, (0.5, "5m00s left at most")),
        (1_000, 10, (0.5, "5m00s left at most")),
        (400, 10, (0.75, "2m10s left at most")),
        (None, None, (0.0, "")),
    ],
)
def test_the_time_left_is_that_to_the_limit_that_comes_first(updates, minutes, expected):
    view = TrainingView()
    view.started(100, updates, minutes)
    view.progressed(100, 40.0)
    assert view._share_done(300, 300.0) == expected


@pytest.mark.parametrize(
    ("by_minutes", "words"), [(True, "1m30s, including validation"), (False, "1m30s, excluding validation")]
)
def test_the_time_to_finish_comes_last_and_says_whether_it_includes_validation(by_minutes, words):
    lines = preflight_lines(Preflight(50, 50, 0, None, 1.0, 90.0, by_minutes, 2, 2, 1))
    assert lines[0] == "worst micro-batch: 50 pieces per side, 0 bytes"
    assert "the disk will be full" in lines[2]
    assert lines[-1] == f"time to finish: about {words}"
