"""Archives: what is asked for comes out, and nothing goes where it should not."""

import io
import tarfile
import zipfile

import pytest

from nmt.corpora.archive import unpack
from nmt.errors import DownloadError

MEMBERS = {"training/a.en": b"one\n" * 5000, "training/a.de": b"eins\n" * 5000, "readme": b"read"}


def pack(path, members, mode):
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


def test_a_leading_dot_is_no_difference(tmp_path):
    archive = pack(tmp_path / "a.tar", {"./training/a.en": b"one\n"}, "w")
    assert unpack(archive, ["training/a.en"], tmp_path)[0].read_bytes() == b"one\n"


@pytest.mark.parametrize("evil", ["../evil", "training/../../evil", "/tmp/evil-nmt", "..\\evil"])
@pytest.mark.parametrize("members", [["training/a.en"], None])
def test_a_name_that_leads_out_condemns_the_archive(tmp_path, evil, members):
    archive = pack(tmp_path / "a.tgz", MEMBERS | {evil: b"boo"}, "w:gz")
    with pytest.raises(DownloadError, match="leads out") as error:
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


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "a.tgz").write_bytes(b"<html>not found</html>")
    with pytest.raises(DownloadError, match="damaged"):
        unpack(tmp_path / "a.tgz", None, tmp_path / "out")
