"""Downloads against a server on loopback: resumed, verified, from mirrors, offline."""

import errno
import gzip
import hashlib
import os
import random
import socket
from types import SimpleNamespace

import httpx
import pytest

from nmt.corpora import transfer
from nmt.corpora.download import Fetcher
from nmt.corpora.transfer import RemoteFile
from nmt.errors import DownloadError


def fetch(file, folder, name=None, **how):
    return Fetcher(**how).fetch(file, folder, name)


CONTENT = random.Random(5).randbytes(300_000)


def remote(server, name="corpus.tgz", content=CONTENT, **changes):
    known = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)} | changes
    return RemoteFile(f"{server.url}/{name}", **known)


@pytest.fixture
def server(file_server):
    file_server.files["corpus.tgz"] = CONTENT
    return file_server


@pytest.fixture
def dead_url():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody else can listen there, and this does not
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


def test_a_file_is_fetched_once_and_progress_is_told(server, tmp_path):
    seen = []
    path = fetch(remote(server), tmp_path, progress=lambda *step: seen.append(step))
    assert path == tmp_path / "corpus.tgz"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("corpus.tgz", len(CONTENT), len(CONTENT))
    fetch(remote(server), tmp_path)
    assert len(server.requests) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["corpus.tgz"]


@pytest.fixture
def read_only(monkeypatch):
    """A file system where nothing can be made, whoever runs the tests."""

    def refuse_to_make(path, flags, *mode, **options):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return open_file(path, flags, *mode, **options)

    open_file = os.open
    monkeypatch.setattr(os, "open", refuse_to_make)


def test_the_right_file_in_a_read_only_cache_is_taken(server, tmp_path, read_only):
    (tmp_path / "corpus.tgz").write_bytes(CONTENT)
    assert fetch(remote(server), tmp_path) == tmp_path / "corpus.tgz"
    assert server.requests == []


@pytest.mark.parametrize("content", [None, b"of another version"])
def test_a_read_only_cache_without_the_file_is_an_error(server, tmp_path, read_only, content):
    if content is not None:
        (tmp_path / "corpus.tgz").write_bytes(content)
    with pytest.raises(DownloadError, match=r"cannot be written \(Read-only file system\).*--cache"):
        fetch(remote(server), tmp_path)


def test_a_cut_connection_is_resumed_where_it_broke(server, tmp_path):
    server.cut_after["corpus.tgz"] = [100_000, 50_000]
    seen = []
    path = fetch(remote(server), tmp_path, progress=lambda *step: seen.append(step))
    assert path.read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=100000-", "bytes=150000-"]
    assert seen[-1] == ("corpus.tgz", len(CONTENT), len(CONTENT))


def test_a_later_call_resumes_what_an_earlier_one_left(server, tmp_path):
    (tmp_path / "corpus.tgz.part").write_bytes(CONTENT[:123_456])
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    assert server.requests == [("corpus.tgz", "bytes=123456-")]


def test_a_part_of_another_file_costs_a_second_download_and_no_more(server, tmp_path):
    (tmp_path / "corpus.tgz.part").write_bytes(bytes(1_000))
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == ["bytes=1000-", None]


@pytest.mark.parametrize("extra", [b"", b"and more"])
def test_a_part_that_reaches_the_end_is_taken_or_replaced(server, tmp_path, extra):
    (tmp_path / "corpus.tgz.part").write_bytes(CONTENT + extra)
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT


def test_a_connection_that_never_brings_more_is_given_up_but_its_part_stays(server, tmp_path):
    server.cut_after["corpus.tgz"] = [100_000] + [0] * 20
    with pytest.raises(DownloadError, match=r"corpus\.tgz.*connection was lost"):
        fetch(remote(server), tmp_path)
    assert (tmp_path / "corpus.tgz.part").read_bytes() == CONTENT[:100_000]
    assert not (tmp_path / "corpus.tgz").exists()


def test_a_server_that_restarts_in_the_middle_is_waited_for(server, tmp_path, monkeypatch):
    server.cut_after["corpus.tgz"] = [100_000]
    stream, refused = httpx.Client.stream, iter([False, True, True, True, False])

    def stream_or_refuse(*values, **options):
        if next(refused):
            raise httpx.ConnectError("Connection refused")
        return stream(*values, **options)

    monkeypatch.setattr(httpx.Client, "stream", stream_or_refuse)
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=100000-"]


def test_momentary_failures_of_the_server_are_waited_out(server, tmp_path):
    server.statuses["corpus.tgz"] = [503, 429]
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT


def test_a_flipped_byte_is_refused_by_name_and_not_kept(server, tmp_path):
    flipped = bytearray(CONTENT)
    flipped[150_000] ^= 1
    server.files["corpus.tgz"] = bytes(flipped)
    with pytest.raises(DownloadError) as error:
        fetch(remote(server), tmp_path)
    message = str(error.value)
    assert f"{server.url}/corpus.tgz" in message
    assert hashlib.sha256(flipped).hexdigest() in message
    assert hashlib.sha256(CONTENT).hexdigest() in message
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_in_the_cache_is_fetched_again_and_told(server, tmp_path):
    (tmp_path / "corpus.tgz").write_bytes(b"not it")
    told = []
    assert fetch(remote(server), tmp_path, notify=told.append).read_bytes() == CONTENT
    assert "has 6 bytes" in told[0]
    assert (tmp_path / "corpus.tgz.wrong").read_bytes() == b"not it"


def test_mirrors_are_tried_in_order_before_the_address(server, tmp_path, dead_url):
    wrong, right = tmp_path / "wrong", tmp_path / "right"
    for folder, content in ((wrong, b"another file of this name"), (right, CONTENT)):
        folder.mkdir()
        (folder / "corpus.tgz").write_bytes(content)
    told = []
    mirrors = [dead_url, str(tmp_path / "nowhere"), f"{server.url}/empty/", str(wrong), str(right)]
    path = fetch(remote(server), tmp_path / "cache", mirrors=mirrors, notify=told.append)
    assert path.read_bytes() == CONTENT
    assert [name for name, _ in server.requests] == ["empty/corpus.tgz"]
    assert ["cannot be reached" in told[0], "no such file" in told[1], "404" in told[2]] == [True] * 3
    assert "25 bytes" in told[3]
    assert (wrong / "corpus.tgz").exists()


def test_a_mirror_may_be_an_address(server, tmp_path, dead_url):
    server.files["mirror/corpus.tgz"] = CONTENT
    file = RemoteFile(f"{dead_url}/corpus.tgz", sha256=hashlib.sha256(CONTENT).hexdigest())
    assert fetch(file, tmp_path, mirrors=[f"{server.url}/mirror"]).read_bytes() == CONTENT


def test_when_nothing_helps_every_attempt_is_told_and_what_to_do(server, tmp_path, dead_url):
    del server.files["corpus.tgz"]
    with pytest.raises(DownloadError) as error:
        fetch(remote(server), tmp_path, mirrors=[dead_url, str(tmp_path / "nowhere")])
    message = str(error.value)
    for part in (
        dead_url,
        "nowhere",
        f"{server.url}/corpus.tgz: the server returned 404",
        str(tmp_path / "corpus.tgz"),
    ):
        assert part in message


def test_offline_says_what_is_missing_and_asks_nobody(server, tmp_path):
    with pytest.raises(DownloadError) as error:
        fetch(remote(server), tmp_path, offline=True, mirrors=[server.url])
    assert f"{server.url}/corpus.tgz" in str(error.value)
    assert str(tmp_path / "corpus.tgz") in str(error.value)
    assert server.requests == []


def test_offline_takes_a_folder_and_then_the_cache(server, tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    (folder / "corpus.tgz").write_bytes(CONTENT)
    fetch(remote(server), tmp_path / "cache", offline=True, mirrors=[str(folder)])
    assert fetch(remote(server), tmp_path / "cache", offline=True).read_bytes() == CONTENT
    assert server.requests == []


def test_a_file_without_a_checksum_is_pinned_on_first_use(server, tmp_path):
    file = RemoteFile(f"{server.url}/corpus.tgz")
    told = []
    path = fetch(file, tmp_path, notify=told.append)
    checksum = hashlib.sha256(CONTENT).hexdigest()
    assert checksum in told[0]
    assert (tmp_path / "corpus.tgz.sha256").read_text() == f"{checksum}  corpus.tgz\n"
    fetch(file, tmp_path, notify=told.append)
    assert len(told) == 1

    path.unlink()
    server.files["corpus.tgz"] = b"a new edition"
    with pytest.raises(DownloadError, match=r"delete .*corpus\.tgz\.sha256 to accept"):
        fetch(file, tmp_path)


def test_halves_that_nothing_vouches_for_are_not_joined(server, tmp_path):
    (tmp_path / "corpus.tgz.part").write_bytes(b"of yesterday")
    server.cut_after["corpus.tgz"] = [100_000]
    assert fetch(RemoteFile(f"{server.url}/corpus.tgz"), tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, None]


@pytest.mark.parametrize("known", ["sha256", "md5", None])
def test_a_server_that_always_breaks_off_at_the_same_byte_is_given_up(server, tmp_path, known):
    server.ranges = False
    server.cut_after["corpus.tgz"] = [100_000] * 20
    md5 = hashlib.md5(CONTENT).hexdigest()
    checksums = {"sha256": {}, "md5": {"sha256": None, "md5": md5}, None: {"sha256": None, "size": None}}[known]
    with pytest.raises(DownloadError, match="connection was lost"):
        fetch(remote(server, **checksums), tmp_path)
    assert len(server.requests) < 10
    server.cut_after.clear()
    assert fetch(remote(server, **checksums), tmp_path).read_bytes() == CONTENT
    if known == "md5":
        with pytest.raises(DownloadError, match="its md5 is"):
            fetch(remote(server, sha256=None, md5="0" * 32), tmp_path)


def test_packed_bytes_arrive_as_they_lie_on_the_server(file_server, tmp_path):
    """Some servers declare a .gz as an encoding of its content; unpacked on the way it would fail its checksum."""
    packed = gzip.compress(b"text\n" * 1000)
    file_server.files["corpus.gz"] = packed
    file_server.headers["Content-Encoding"] = "gzip"
    assert fetch(remote(file_server, "corpus.gz", packed), tmp_path).read_bytes() == packed


def test_names_come_from_addresses(tmp_path):
    assert RemoteFile("https://host/a/b%20c.tgz?version=2").name == "b c.tgz"
    with pytest.raises(DownloadError, match=r"the address https://host/x/%2Fetc%2Fevil ends in the name '/etc/evil'"):
        fetch(RemoteFile("https://host/x/%2Fetc%2Fevil?sig=s3cret"), tmp_path)


@pytest.mark.parametrize(("start", "requests"), [(0, 2), (50_000, 3), (100_001, 3), (200_000, 3)])
def test_only_the_range_that_was_asked_for_is_joined(server, tmp_path, start, requests):
    server.cut_after["corpus.tgz"] = [100_000]
    server.other_ranges["corpus.tgz"] = [start]
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=100000-", None][:requests]


@pytest.mark.parametrize(
    ("lengths", "says"), [(False, "sent more than 90,000 bytes, for which"), (True, "has 300,000 bytes, but .* 90,000")]
)
def test_a_download_does_not_fill_the_disk(server, tmp_path, monkeypatch, lengths, says):
    server.lengths = lengths
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda folder: SimpleNamespace(free=100_000))
    with pytest.raises(DownloadError, match=says):
        fetch(RemoteFile(f"{server.url}/corpus.tgz"), tmp_path)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("fails", ["slow", "cut"])
def test_only_a_part_that_can_be_verified_is_kept(server, tmp_path, monkeypatch, known, fails):
    if fails == "slow":
        monkeypatch.setattr(transfer, "_PATIENCE", -1.0)
        monkeypatch.setattr(transfer, "_LEAST", 10**6)
    else:
        server.cut_after["corpus.tgz"] = [100_000] + [100] * 20
    file = remote(server) if known else RemoteFile(f"{server.url}/corpus.tgz")
    with pytest.raises(DownloadError, match="bytes in 0 seconds" if fails == "slow" else "connection was lost"):
        fetch(file, tmp_path)
    assert (tmp_path / "corpus.tgz.part").exists() == known
    assert len(server.requests) == (1 if fails == "slow" else 5)


def test_a_body_longer_than_the_file_is_cut_off(server, tmp_path):
    server.lengths = False
    server.files["corpus.tgz"] = CONTENT * 50
    with pytest.raises(DownloadError, match="sent more than the expected 300,000 bytes"):
        fetch(remote(server), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_plain_body_without_a_length_is_never_pinned(file_server, tmp_path):
    file_server.lengths = False
    file_server.files["a.txt"] = b"half a li"
    told = []
    for _ in range(2):
        fetch(RemoteFile(f"{file_server.url}/a.txt"), tmp_path, notify=told.append)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    assert len(told) == 1
    assert "may be incomplete" in told[0]


def test_a_proxy_that_cannot_be_used_is_one_clear_error(server, tmp_path, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "gopher://me:s3cret@proxy:1")
    with pytest.raises(DownloadError, match="ALL_PROXY cannot be used") as error:
        fetch(remote(server), tmp_path)
    assert "s3cret" not in str(error.value)
