"""The lock: one at a time, gone with its holder, and no file left."""

import errno
import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from nmt.errors import NmtWarning
from nmt.io.locking import exclusive, holder, is_held, is_lock


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


@pytest.mark.parametrize("left", ["", "17 on elsewhere", "\0" * 14], ids=["empty", "named", "after a power cut"])
@pytest.mark.parametrize("of", ["mine", "of_a_colleague"])
def test_what_a_killed_holder_left_is_taken(tmp_path, left, of, request):
    if of == "of_a_colleague":
        request.getfixturevalue(of)
    path = tmp_path / ".x.lock"
    path.write_text(left)
    assert is_lock(path)
    with exclusive(path):
        assert holder(path).startswith(f"{os.getpid()} on ")
    assert not path.exists()


def test_a_lock_is_held_only_while_its_holder_holds_it(tmp_path):
    """The number of a process that was killed may be that of another one, after a restart or in a container."""
    path = tmp_path / ".x.lock"
    assert not is_held(path)
    with exclusive(path):
        assert is_held(path)
        left = path.read_text()
    path.write_text(left)
    assert not is_held(path)
    assert path.read_text() == left


@pytest.mark.parametrize("what", ["a file", "a link", "a link to nothing", "a second name"])
def test_what_is_no_lock_is_left_as_it_is(tmp_path, what):
    """Anybody who may write to a shared folder could have a file of ours emptied through a link."""
    path, victim = tmp_path / ".x.lock", tmp_path / "victim"
    victim.write_text("")
    if what == "a file":
        path.write_text("dependencies:\n  - one\n")
    elif what == "a second name":
        path.hardlink_to(victim)
    else:
        path.symlink_to(victim if what == "a link" else tmp_path / "new")
    with pytest.raises(FileExistsError, match=r"place is taken by a (link|file that is not a lock)"), exclusive(path):
        pass
    assert is_lock(path) == (what == "a second name")  # by its content; what is locked has one name
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".x.lock", "victim"]
    assert victim.read_text() == ""
    assert what != "a file" or path.read_text().startswith("dependencies")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_an_error_and_not_waited_for(make, tmp_path):
    make(tmp_path / ".x.lock")
    with pytest.raises(OSError, match=r"not a lock|Is a directory"), exclusive(tmp_path / ".x.lock"):
        pass
    assert (tmp_path / ".x.lock").exists()


@pytest.mark.parametrize(("umask", "mode"), [(0o002, 0o664), (0o007, 0o660), (0o077, 0o600)])
def test_the_mode_follows_the_umask(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        with exclusive(tmp_path / ".x.lock"):
            assert (tmp_path / ".x.lock").stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


@pytest.fixture
def of_a_colleague(monkeypatch):
    """Locks that may be read and not be written, whoever runs the tests."""

    def open_for_reading(path, flags, *mode, **options):
        if flags & os.O_RDWR and os.path.basename(path) == ".x.lock" and os.path.lexists(path):  # noqa: PTH119
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_file(path, flags, *mode, **options)

    open_file = os.open
    monkeypatch.setattr(os, "open", open_for_reading)


def test_the_lock_of_a_colleague_is_respected(tmp_path, of_a_colleague):
    path = tmp_path / ".x.lock"
    path.write_text("17 on elsewhere")
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError), exclusive(path, wait=False):
            pass
    assert path.read_text() == "17 on elsewhere"


def test_what_only_its_owner_may_remove_is_locked_all_the_same(tmp_path, of_a_colleague, monkeypatch):
    def refuse(path, missing_ok=False):
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    path = tmp_path / ".x.lock"
    path.write_text("17 on elsewhere")
    monkeypatch.setattr(Path, "unlink", refuse)
    with exclusive(path):
        assert path.read_text() == "17 on elsewhere"
        with pytest.raises(BlockingIOError), exclusive(path, wait=False):
            pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_warned_about(number, tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    inside = False
    with pytest.warns(NmtWarning, match=r"has no locks \(.+\).*Run one command at a time"), exclusive(tmp_path / "l"):
        inside = True
    assert inside
    assert list(tmp_path.iterdir()) == []
