"""An exit code in words."""

import pytest

from nmt.machine.exit_codes import how_it_ended


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (3, "ended with exit code 3"),
        (-15, "was killed by SIGTERM"),
        (-9, "was killed by SIGKILL (the system also does this when memory runs out)"),
        (-41, "was killed by signal 41"),
    ],
)
def test_an_exit_code_in_words(exit_code, words):
    assert how_it_ended(exit_code) == words
