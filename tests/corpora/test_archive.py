"""Archives: what is asked for comes out, and nothing goes where it should not."""

import contextlib
import gzip
import io
import re
import tarfile
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.corpora.archive import check_whole, unpack
from nmt.errors import DownloadError

MEMBERS = {"training/a.en": b"one\n" * 5000, "training/a.de": b"eins\n" * 5000, "readme": b"read"}


def pack(path, members, mode):
    if mode == "zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name, content in members.items():
                zipped.writestr(name, content)
        return path
    with tarfile.open(path, mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize(("name", "mode"), [("a.tgz", "w:gz"), ("a.tar", "w"), ("a.tar.xz", "w:xz")])
def test_members_of_tar_archives(tmp_path, name, mode):
    archive = pack(tmp_path / name, MEMBERS, mode)
    paths = unpack(archive, ["training/a.de", "training/a.en"], tmp_path / "out")
    assert [path.read_bytes() for path in paths] == [MEMBERS["training/a.de"], MEMBERS["training/a.en"]]
    assert sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file()) == ["a.de", "a.en"]


def test_members_of_zip_archives_all_at_once(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        for name, content in MEMBERS.items():
            zipped.writestr(name, content)
    paths = unpack(tmp_path / "a.zip", None, tmp_path / "out")
    assert {path.relative_to(tmp_path / "out").as_posix(): path.read_bytes() for path in paths} == MEMBERS


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
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.tgz"]


def test_a_link_is_no_text(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        link = tarfile.TarInfo("training/a.en")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    with pytest.raises(DownloadError, match=r"no member training/a\.en"):
        unpack(tmp_path / "a.tar", ["training/a.en"], tmp_path / "out")


def test_a_missing_member_is_named(tmp_path):
    archive = pack(tmp_path / "a.tgz", MEMBERS, "w:gz")
    with pytest.raises(DownloadError, match=r"a\.tgz: has no member training/a\.fr"):
        unpack(archive, ["training/a.en", "training/a.fr"], tmp_path / "out")
    assert not any(path.is_file() for path in (tmp_path / "out").rglob("*"))


@pytest.mark.parametrize(("name", "mode"), [("a.tgz", "w:gz"), ("a.tar", "w")])
def test_a_truncated_archive_is_refused(tmp_path, name, mode):
    archive = pack(tmp_path / name, MEMBERS, mode)
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 3])
    with pytest.raises(DownloadError, match=r"a\.t"):
        unpack(archive, ["training/a.en", "training/a.de"], tmp_path / "out")
    assert not any(path.is_file() for path in (tmp_path / "out").rglob("*"))


def test_a_tar_that_ends_as_a_zip_does_is_a_tar(tmp_path):
    """Its last member is a zip archive, which zipfile finds at the end of the whole."""
    inner = pack(tmp_path / "inner.zip", {"training/a.en": b"wrong\n"}, "zip").read_bytes()
    archive = pack(tmp_path / "a.tar", {"training/a.en": b"right\n", "inner.zip": inner}, "w")
    assert zipfile.is_zipfile(archive)
    assert unpack(archive, ["training/a.en"], tmp_path / "out")[0].read_bytes() == b"right\n"


def patched(path, changes):
    content = bytearray(path.read_bytes())
    for place, value in changes.items():
        content[place] = value
    path.write_bytes(content)
    return path


def only_error(archive, members=("a",)):
    with pytest.raises(DownloadError, match=archive.name) as error:
        unpack(archive, members and list(members), archive.parent / "out")
    assert not any(path.is_file() for path in (archive.parent / "out").rglob("*"))
    return str(error.value)


def test_an_encrypted_zip_says_so(tmp_path):
    archive = pack(tmp_path / "a.zip", {"a": b"text", "b": b"text"}, "zip")
    directory = archive.read_bytes().index(b"PK\x01\x02")
    patched(archive, {6: 1, directory + 8: 1})
    assert "member a is encrypted" in only_error(archive)
    assert "encrypted" in only_error(archive, None)
    assert unpack(archive, ["b"], tmp_path / "out")[0].read_bytes() == b"text"


def test_an_unknown_method_says_so(tmp_path):
    archive = pack(tmp_path / "a.zip", {"a": b"text"}, "zip")
    directory = archive.read_bytes().index(b"PK\x01\x02")
    patched(archive, {8: 97, directory + 10: 97})
    assert "uses a compression method that nmt cannot read" in only_error(archive)


def test_a_bad_header_in_the_middle_of_a_tar_is_not_its_end(tmp_path):
    archive = pack(tmp_path / "a.tar", {"a": b"text", "b": b"text"}, "w")
    patched(archive, {1024: ord("x")})
    assert "bad header" in only_error(archive)
    assert "bad header" in only_error(archive, None)


def test_a_header_that_asks_for_much_memory_is_refused(tmp_path):
    name = tarfile.TarInfo("././@LongLink")
    name.type, name.size = tarfile.GNUTYPE_LONGNAME, 200 << 20
    (tmp_path / "a.tar").write_bytes(name.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    assert "bad header: a size of 209,715,200 bytes" in only_error(tmp_path / "a.tar")


def test_headers_upon_headers_are_no_crash(tmp_path):
    name = tarfile.TarInfo("././@LongLink")
    name.type, name.size = tarfile.GNUTYPE_LONGNAME, 512
    (tmp_path / "a.tar").write_bytes((name.tobuf(tarfile.GNU_FORMAT) + b"x" * 512) * 3000)
    assert "damaged" in only_error(tmp_path / "a.tar")


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
        (b"1" * (1 << 15), "a size of 32,768 bytes"),  # quadratic in some versions of tarfile (CVE-2024-6232)
        (b"0 path=b\n", "invalid header"),
        (b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n", "a sparse file, which nmt does not read"),
        (b"12 size=-50\n", "a size of -50 bytes"),
        (b"39 size=999999999999999999999999999999\n", "a size of 999,999,999,999,999,999,999,999,999,999 bytes"),
    ],
)
@pytest.mark.parametrize("times", [1, 3])
def test_a_hostile_pax_header_is_refused_at_once(tmp_path, content, reason, times):
    archive = with_pax_header(tmp_path / "a.tgz", content, times)
    assert reason in only_error(archive, None)
    plain = tmp_path / "a.tar"
    plain.write_bytes(gzip.decompress(archive.read_bytes()))
    assert reason in only_error(plain, None)
    with pytest.raises(DownloadError, match=re.escape(reason)):
        check_whole(plain)


def test_a_pax_header_gives_name_and_size(tmp_path):
    name = "corpus/" + "ä" * 100 + ".en"
    records = [f"path={name}", "size=3", "comment=" + "1" * 100]
    content = b""
    for record in records:
        length = len(record.encode()) + 2
        length += len(str(length + len(str(length))))
        content += f"{length} {record}\n".encode()
    [path] = unpack(with_pax_header(tmp_path / "a.tgz", content), None, tmp_path / "out")
    assert path == tmp_path / "out" / name
    assert path.read_bytes() == b"tex"


@pytest.mark.parametrize("mode", ["w:gz", "zip"])
@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000 + "b"])
def test_a_name_too_long_for_the_disk_is_one_clear_error(tmp_path, mode, name):
    archive = pack(tmp_path / "a.zip", {name: b"text"}, mode)
    assert "'… is too long for the disk" in only_error(archive, None)


def test_members_that_stand_in_each_other_s_place(tmp_path):
    archive = pack(tmp_path / "a.tar", {"a": b"text", "a/b": b"text"}, "w")
    assert "a file and a folder with the same name" in only_error(archive, None)


def sparse_headers(kind):
    """The headers of a member ``a`` of 512 bytes that unpacks to a hole of a gigabyte before them."""
    hole, stored = 1 << 30, 512
    member = tarfile.TarInfo("a")
    member.size = stored
    if kind != "gnu":
        size, place = str(hole + stored), str(hole)
        one = {"GNU.sparse.map": f"{place},{stored}"}
        members = {"GNU.sparse.numblocks": "1", "GNU.sparse.offset": place, "GNU.sparse.numbytes": str(stored)}
        member.pax_headers = {"GNU.sparse.size": size} | (one if kind == "pax 0.1" else members)
        return member.tobuf(tarfile.PAX_FORMAT)
    member.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0%011o\0" % (hole, stored)
    header[483:495] = b"%011o\0" % (hole + stored)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


@pytest.mark.parametrize("kind", ["gnu", "pax 0.0", "pax 0.1"])
def test_a_sparse_file_is_refused(tmp_path, kind):
    """Its holes take no bytes in the archive, so that a small archive would fill the disk."""
    archive = tmp_path / "a.tar"
    archive.write_bytes(sparse_headers(kind) + bytes(512) + bytes(1024))
    for members in (["a"], ["b"], None):
        assert "a sparse file, which nmt does not read: repack it" in only_error(archive, members)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mode=st.sampled_from(["w", "w:gz", "w:xz", "zip"]),
    changes=st.dictionaries(st.integers(0, 4095), st.integers(0, 255), min_size=1, max_size=12),
    cut=st.none() | st.integers(0, 4096),
)
def test_damage_of_any_kind_is_one_kind_of_error(tmp_path, mode, changes, cut):
    archive = pack(tmp_path / "a", {"a": b"text\n" * 50, "b": b"more\n" * 50}, mode)
    content = bytearray(archive.read_bytes())
    for place, value in changes.items():
        content[place % len(content)] = value
    archive.write_bytes(content[:cut])
    for members in (["a", "b"], None):
        try:
            unpack(archive, members, tmp_path / "out")
        except DownloadError as error:
            assert str(archive) in str(error)
    with contextlib.suppress(DownloadError):
        check_whole(archive)


def zeros(path, mode, size):
    """An archive of one member of zeros, which packs to next to nothing."""
    if mode == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("a", bytes(size))
    else:
        with tarfile.open(path, mode) as tar:
            member = tarfile.TarInfo("a")
            member.size = size
            tar.addfile(member, io.BytesIO(bytes(size)))
    return path


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "zip"])
def test_what_unpacks_to_far_more_than_its_size_is_refused_before_it_is_written(tmp_path, monkeypatch, mode):
    archive = zeros(tmp_path / "a", mode, 3_000_000)
    assert unpack(archive, ["a"], tmp_path / "fits")[0].stat().st_size == 3_000_000
    monkeypatch.setattr("nmt.corpora.archive._ALWAYS_ALLOWED", 1_000_000)
    message = only_error(archive)
    assert "unpacks to more than 1,000,000 bytes" in message
    assert "a has 3,000,000 bytes" in message
    with pytest.raises(DownloadError, match="unpacks to more"):
        check_whole(archive)


def test_members_that_are_not_wanted_count_too(tmp_path, monkeypatch):
    """They are unpacked to be passed over, which takes time."""
    archive = zeros(tmp_path / "a.tgz", "w:gz", 3_000_000)
    monkeypatch.setattr("nmt.corpora.archive._ALWAYS_ALLOWED", 1_000_000)
    assert "more bytes follow" in only_error(archive, ["b"])


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "a.tgz").write_bytes(b"<html>not found</html>")
    with pytest.raises(DownloadError, match="damaged"):
        unpack(tmp_path / "a.tgz", None, tmp_path / "out")
