"""How the time of a function grows with its input, for tests that no text makes it quadratic."""

import gc
import time
from collections.abc import Callable

FACTOR = 8
# Linear work takes 8 times as long, quadratic work 64 times.
_MOST = 30


def assert_linear(work: Callable[[str], object], unit: str, length: int, *, begin: str = "", end: str = "") -> None:
    """Assert that a text of 8 times the length takes less than 30 times as long.

    Args:
        unit: what the text repeats.
        length: of the shorter text, in characters; large enough that quadratic work takes long.
        begin, end: what stands before and behind the repeated units.
    """
    short, long = (begin + (unit * (size // len(unit) + 1))[:size] + end for size in (length, FACTOR * length))
    work(begin + unit + end)  # what is loaded on first use
    ratios = []
    while not ratios or (ratios[-1] >= _MOST and len(ratios) < 3):
        ratios.append(_ratio(work, short, long))
    assert ratios[-1] < _MOST, f"{len(long):,} characters of {unit!r} take {ratios} times as long as {len(short):,}"


def _ratio(work: Callable[[str], object], short: str, long: str) -> float:
    return _seconds(work, long, tries=1) / _seconds(work, short, tries=3)


def _seconds(work: Callable[[str], object], text: str, tries: int) -> float:
    best = float("inf")
    # Only long work would make enough objects for a collection of all that the process holds.
    gc.disable()
    try:
        for _ in range(tries):
            # Of this thread alone: other processes would make long work seem longer than short work.
            begin = time.thread_time()
            work(text)
            best = min(best, time.thread_time() - begin)
    finally:
        gc.enable()
    return best
