"""The lock: one at a time, gone with its holder, and no file left."""

import os
import threading
import time

import pytest

from nmt.locking import exclusive, holder, is_lock


def test_one_at_a_time_and_no_file_left(tmp_path):
    """Each that waits must notice that the file it waited on was removed, or two would hold different files."""
    path = tmp_path / "lock"
    inside, most = 0, 0

    def work():
        nonlocal inside, most
        for _ in range(40):
            with exclusive(path):
                inside += 1
                most = max(most, inside)
                time.sleep(0.0005)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert list(tmp_path.iterdir()) == []


def test_who_does_not_wait_is_told(tmp_path):
    with exclusive(tmp_path / "lock"), pytest.raises(BlockingIOError), exclusive(tmp_path / "lock", wait=False):
        pass
    with exclusive(tmp_path / "lock", wait=False):
        pass


def test_an_error_gives_it_up(tmp_path):
    with pytest.raises(ValueError, match="inside"), exclusive(tmp_path / "lock"):
        raise ValueError("inside")
    with exclusive(tmp_path / "lock", wait=False):
        pass


def test_a_file_that_is_no_lock_is_left_as_it_is(tmp_path):
    path = tmp_path / ".mine.lock"
    path.write_text("dependencies:\n  - one\n")
    with pytest.raises(FileExistsError, match="no lock"), exclusive(path):
        pass
    assert path.read_text() == "dependencies:\n  - one\n"


@pytest.mark.parametrize("left", ["", "17 on elsewhere"])
def test_what_a_killed_holder_left_is_taken(tmp_path, left):
    path = tmp_path / ".x.lock"
    path.write_text(left)
    assert is_lock(path)
    with exclusive(path):
        assert holder(path).startswith(f"{os.getpid()} on ")
    assert not path.exists()
