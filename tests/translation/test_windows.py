"""Windows of lines are bounded, and the same whoever makes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.translation.windows import taken_ahead, windows


@given(st.lists(st.text(max_size=5), max_size=30), st.integers(1, 7), st.integers(1, 20))
def test_windows_hold_all_lines_in_order_and_are_bounded(lines, size, characters):
    found = list(windows(lines, size, lambda line: sum(map(len, line)), max_characters=characters))
    assert [line for window in found for line in window] == lines
    for window in found:
        assert 1 <= len(window) <= size
        assert sum(map(len, window[:-1])) < characters


def test_lines_before_an_error_come_first():
    def lines():
        yield from "abc"
        raise DataError("bad byte")

    served = []
    with pytest.raises(DataError, match="bad byte"):
        for window in windows(lines(), 2, lambda line: sum(map(len, line))):
            served.append(window)
    assert served == [["a", "b"], ["c"]]


def test_items_taken_ahead_come_in_order_also_before_an_error():
    log = []

    def items():
        for number in range(3):
            log.append(f"taken {number}")
            yield number
        raise DataError("damaged")

    with pytest.raises(DataError):
        for number in taken_ahead(items(), 1):
            log.append(f"yielded {number}")
    assert log == ["taken 0", "taken 1", "yielded 0", "taken 2", "yielded 1", "yielded 2"]
    assert list(taken_ahead([1, 2], 0)) == list(taken_ahead([1, 2], 5)) == [1, 2]
