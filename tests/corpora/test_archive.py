"""Archives: what is asked for comes out, and nothing goes where it should not."""

import gzip
import tarfile
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.corpora.archive import unpack
from nmt.errors import DownloadError, NmtError
from nmt.io.writing import WriteError
from tests.kit.archives import tarred, zipped

MEMBERS = {"training/a.en": b"one\n" * 5000, "training/a.de": b"eins\n" * 5000, "readme": b"read"}
MODES = ("w", "w:gz", "w:bz2", "w:xz", "zip")


def pack(path, members, mode="w"):
    path.write_bytes(zipped(members) if mode == "zip" else tarred(members, mode))
    return path


def files_below(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def only_error(archive, members=("a",)):
    with pytest.raises(DownloadError, match=archive.name) as error:
        unpack(archive, members and list(members), archive.parent / "out")
    assert not files_below(archive.parent / "out")
    return str(error.value)


@pytest.mark.parametrize("mode", MODES)
def test_members_in_the_order_asked_for_and_all_at_once(tmp_path, mode):
    archive = pack(tmp_path / "archive", MEMBERS, mode)
    paths = unpack(archive, ["training/a.de", "training/a.en"], tmp_path / "some")
    assert [path.read_bytes() for path in paths] == [MEMBERS["training/a.de"], MEMBERS["training/a.en"]]
    assert len(files_below(tmp_path / "some")) == 2
    unpack(archive, None, tmp_path / "all")
    assert files_below(tmp_path / "all") == MEMBERS
    assert "archive: has no member training/a.fr" in only_error(archive, ["training/a.en", "training/a.fr"])


@pytest.mark.parametrize("mode", ["w", "zip"])
def test_a_leading_dot_is_no_difference(tmp_path, mode):
    archive = pack(tmp_path / "archive", {"./training/a.en": b"one\n"}, mode)
    for number, name in enumerate(["training/a.en", "./training/a.en", "training/./a.en"]):
        assert unpack(archive, [name], tmp_path / str(number))[0].read_bytes() == b"one\n"


@pytest.mark.parametrize("evil", ["../evil", "training/../../evil", "/tmp/evil-nmt", "..\\evil", "a\x1b[2J", "."])
@pytest.mark.parametrize("members", [["training/a.en"], None])
@pytest.mark.parametrize("mode", ["w:gz", "zip"])
def test_a_name_that_leads_out_condemns_the_archive(tmp_path, evil, members, mode):
    archive = pack(tmp_path / "a.tgz", MEMBERS | {evil: b"boo"}, mode)
    with pytest.raises(DownloadError, match="outside the folder") as error:
        unpack(archive, members, tmp_path / "deep" / "out")
    assert repr(evil) in str(error.value)
    assert list(files_below(tmp_path)) == ["a.tgz"]


def test_a_link_is_no_text(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        link = tarfile.TarInfo("a")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    assert "no member a" in only_error(tmp_path / "a.tar")


@pytest.mark.parametrize("mode", ["w:gz", "w", "zip"])
def test_a_truncated_archive_is_refused(tmp_path, mode):
    archive = pack(tmp_path / "a", MEMBERS, mode)
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 3])
    only_error(archive, ["training/a.en", "training/a.de"])


def test_a_tar_that_ends_as_a_zip_does_is_a_tar(tmp_path):
    """Its last member is a zip archive, which zipfile finds at the end of the whole."""
    inner = zipped({"a": b"wrong\n"}, zipfile.ZIP_STORED)
    archive = pack(tmp_path / "a.tar", {"a": b"right\n", "inner.zip": inner})
    assert zipfile.is_zipfile(archive)
    assert unpack(archive, ["a"], tmp_path / "out")[0].read_bytes() == b"right\n"


def patched(path, changes):
    content = bytearray(path.read_bytes())
    for place, value in changes.items():
        content[place] = value
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("places", "value", "message"),
    [((6, 8), 1, "member a is encrypted"), ((8, 10), 97, "uses a compression method that nmt cannot read")],
)
def test_a_zip_that_cannot_be_read_says_why(tmp_path, places, value, message):
    archive = pack(tmp_path / "a.zip", {"a": b"text", "b": b"text"}, "zip")
    directory = archive.read_bytes().index(b"PK\x01\x02")
    patched(archive, {places[0]: value, directory + places[1]: value})
    assert message in only_error(archive)
    assert message in only_error(archive, None)
    assert unpack(archive, ["b"], tmp_path / "out")[0].read_bytes() == b"text"


def test_a_bad_header_in_the_middle_of_a_tar_is_not_its_end(tmp_path):
    archive = patched(pack(tmp_path / "a.tar", {"a": b"text", "b": b"text"}), {1024: ord("x")})
    assert "bad header" in only_error(archive)
    assert "bad header" in only_error(archive, None)


def with_pax_header(path, content, times=1):
    """An archive of a member ``a`` of 5 bytes behind a pax header of any content."""
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, len(content)
    padded = content + bytes(-len(content) % tarfile.BLOCKSIZE)
    member = tarfile.TarInfo("a")
    member.size = 5
    blocks = member.tobuf(tarfile.USTAR_FORMAT) + b"text\n".ljust(512, b"\0") + bytes(1024)
    path.write_bytes(gzip.compress((header.tobuf(tarfile.USTAR_FORMAT) + padded) * times + blocks))
    return path


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"0 path=b\n", "invalid header"),
        (b"12 size=-50\n", ""),
        (b"39 size=999999999999999999999999999999\n", "a has 999,999,999,999,999,999,999,999,999,999 bytes"),
    ],
)
@pytest.mark.parametrize("times", [1, 3])
def test_a_hostile_pax_header_is_refused_at_once(tmp_path, content, reason, times):
    archive = with_pax_header(tmp_path / "a.tgz", content, times)
    for members in (None, ["b"]):
        assert reason in only_error(archive, members)


def test_a_pax_header_gives_name_and_size(tmp_path):
    name = "corpus/" + "ä" * 100 + ".en"
    content = b""
    for record in (f"path={name}", "size=3", "comment=" + "1" * 100):
        length = len(record.encode()) + 2
        length += len(str(length + len(str(length))))
        content += f"{length} {record}\n".encode()
    [path] = unpack(with_pax_header(tmp_path / "a.tgz", content), None, tmp_path / "out")
    assert path == tmp_path / "out" / name
    assert path.read_bytes() == b"tex"


@pytest.mark.parametrize("mode", ["w:gz", "zip"])
@pytest.mark.parametrize(
    ("names", "reason"),
    [(["a" * 300], "File name too long"), (["a/" * 3000 + "b"], "File name too long"), (["a", "a/b"], "a is a file")],
)
def test_a_name_that_the_disk_refuses_is_one_clear_error(tmp_path, mode, names, reason):
    archive = pack(tmp_path / "archive", dict.fromkeys(names, b"text"), mode)
    with pytest.raises(WriteError, match=reason):
        unpack(archive, None, tmp_path / "out")
    assert not files_below(tmp_path / "out")


def test_a_sparse_file_is_refused(tmp_path):
    """Its holes take no bytes in the archive, so that a small archive would fill the disk."""
    member = tarfile.TarInfo("a")
    member.size = 512
    member.pax_headers = {"GNU.sparse.size": str((1 << 27) + 512), "GNU.sparse.map": f"{1 << 27},512"}
    (tmp_path / "a.tar").write_bytes(member.tobuf(tarfile.PAX_FORMAT) + bytes(512 + 1024))
    assert "its member a is sparse. Repack it" in only_error(tmp_path / "a.tar")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mode=st.sampled_from(["w", "w:gz", "w:xz", "zip"]),
    changes=st.dictionaries(st.integers(0, 4095), st.integers(0, 255), min_size=1, max_size=12),
    cut=st.none() | st.integers(0, 4096),
)
def test_damage_of_any_kind_is_an_error(tmp_path, mode, changes, cut):
    archive = pack(tmp_path / "a", {"a": b"text\n" * 50, "b": b"more\n" * 50}, mode)
    content = archive.read_bytes()
    patched(archive, {place % len(content): value for place, value in changes.items()})
    archive.write_bytes(archive.read_bytes()[:cut])
    for members in (["a", "b"], None):
        try:
            unpack(archive, members, tmp_path / "out")
        except NmtError as error:
            assert str(archive) in str(error) or isinstance(error, WriteError)


@pytest.mark.parametrize("mode", MODES[1:])
def test_what_unpacks_to_far_more_than_its_size_is_refused_before_it_is_written(tmp_path, monkeypatch, mode):
    archive = pack(tmp_path / "archive", {"a": bytes(3_000_000), "b": b""}, mode)
    assert unpack(archive, ["a"], tmp_path / "fits")[0].stat().st_size == 3_000_000
    monkeypatch.setattr("nmt.corpora.archive._ALWAYS_ALLOWED", 1_000_000)
    message = only_error(archive)
    assert "unpacks to more than 1,000,000 bytes" in message
    assert "a has 3,000,000 bytes" in message
    if mode != "zip":  # A member that is not wanted is unpacked, too, to be passed over.
        assert "unpacks to more than" in only_error(archive, ["b"])


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "a.tgz").write_bytes(b"<html>not found</html>")
    assert "damaged" in only_error(tmp_path / "a.tgz", None)
