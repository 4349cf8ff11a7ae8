"""Zip archives of OPUS: which members are read, and what hostile archives may do."""

import struct
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.corpora import archive
from nmt.corpora.formats import CorpusFile, ParallelText
from nmt.corpora.formats import opus_zip as read
from nmt.errors import DataError, DownloadError
from tests.kit.archives import zipped

OTHERS = {"README": "read me", "LICENSE": "free", "a.de-en.ids": "1\n2\n", "a.de-en.scores": "0.1\n0.2\n"}
PAIR = {"a.de-en.de": "ein Hund\neine Katze\n", "a.de-en.en": "a dog\na cat\n"}
READ = [("a dog", "ein Hund", None), ("a cat", "eine Katze", None)]


@pytest.fixture
def opus(tmp_path):
    """Read members as an archive."""

    def read_members(members, languages=("en", "de"), **options):
        path = tmp_path / "en-de.txt.zip"
        path.write_bytes(zipped(members))
        return list(read(ParallelText([CorpusFile(path, str(path))], *languages, **options)))

    return read_members


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (("a.de-en.en", "a.de-en.de"), ("en", "de")),
        (("a.en-de.en", "a.en-de.de"), ("en", "de")),
        (("v1.2/a.b.en", "v1.2/a.b.de"), ("en", "de")),
        (("a.en-pt_br.en", "a.en-pt_br.pt_br"), ("en", "pt-BR")),
        (("a.en_GB-pt_BR.en_GB", "a.en_GB-pt_BR.pt_BR"), ("en", "pt")),
        (("en", "de"), ("en", "de")),
        ((".eng", ".deu"), ("en", "de")),
    ],
)
def test_members_are_found_by_their_languages(opus, names, languages):
    members = OTHERS | dict(zip(names, PAIR.values(), strict=True))
    assert opus(members, languages) == [(target, source, None) for source, target, _ in READ]
    assert opus(members, languages[::-1]) == READ


def test_equal_codes_come_before_codes_that_fit(opus):
    assert opus(PAIR | {"a.de-en.en_GB": "wrong\n"}) == READ


def test_an_archive_without_the_languages_lists_its_members(opus):
    with pytest.raises(DataError, match=r"en-de\.txt\.zip: no pair .* for en and fr; it holds README, .*a\.de-en\.de"):
        opus(OTHERS | PAIR, ("en", "fr"))
    with pytest.raises(DataError, match="it holds no file"):
        opus({"folder/": ""})
    with pytest.raises(DataError, match="x19 and 30 more"):
        opus({f"x{n}": "" for n in range(50)})


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path):
    path = tmp_path / "twice.zip"
    path.write_bytes(zipped(OTHERS | PAIR))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("a.de-en.en", "another\nside\n")
    with pytest.raises(DownloadError, match=r"twice\.zip: holds two files named a\.de-en\.en\..* Unpack it"):
        list(read(ParallelText([CorpusFile(path, str(path))], "en", "de")))


def test_a_member_is_not_both_sides(opus):
    with pytest.raises(DataError, match="no pair of its members is for en-GB and en-US"):
        opus({"a.en": "a dog\n"}, ("en-GB", "en-US"))


def test_several_pairs_of_members_are_listed(opus):
    more = {"b.de-en.de": "x\n", "b.de-en.en": "y\n"}
    with pytest.raises(DataError, match=r"several .* a\.de-en\.en with a\.de-en\.de, b\.de-en\.en with b\.de-en\.de"):
        opus(PAIR | more)


def test_members_with_unequal_lines_are_named(opus):
    with pytest.raises(DataError, match=r"zip: a\.de-en\.en has 3 lines, but .*zip: a\.de-en\.de has 2"):
        opus(PAIR | {"a.de-en.en": "1\n2\n3\n"})


def test_bytes_that_are_no_text_are_named_or_replaced(opus):
    members = PAIR | {"a.de-en.en": b"a\n\xff\n"}
    with pytest.raises(DataError, match=r"zip: a\.de-en\.en, line 2: byte 1"):
        opus(members)
    assert opus(members, invalid="replace")[1].source == "\ufffd"


def test_two_members_share_one_budget(opus, monkeypatch):
    monkeypatch.setattr(archive, "_ALWAYS_ALLOWED", 100_000)
    side = "a dog\n" * 10_000
    with pytest.raises(DownloadError, match="unpacks to more than 100,000 bytes"):
        opus({"a.de": side, "a.en": side})


def test_a_size_that_lies_is_found_out(tmp_path, monkeypatch):
    """The size in the directory says 10 bytes; more follow."""
    content = bytearray(zipped({"a.de": "x\n" * 50_000, "a.en": "y\n" * 50_000}))
    place = content.find(b"PK\x01\x02")
    while place >= 0:
        struct.pack_into("<I", content, place + 24, 10)
        place = content.find(b"PK\x01\x02", place + 1)
    path = tmp_path / "a.zip"
    path.write_bytes(content)
    with pytest.raises(DownloadError, match=r"a\.zip: is a damaged or truncated archive"):
        list(read(ParallelText([CorpusFile(path, str(path))], "en", "de")))


def test_an_endless_line_is_an_error(opus):
    with pytest.raises(DataError, match=r"a\.de-en\.de, line 1: the line is longer than"):
        opus(PAIR | {"a.de-en.de": "x" * 5_000_000})


def test_members_are_not_held_in_memory(opus, monkeypatch):
    """No member is read in one piece."""
    sizes = []
    original = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda self, n=-1: sizes.append(n) or original(self, n))
    lines = "".join(f"line {n}\n" for n in range(100_000))
    assert len(opus({"a.de": lines, "a.en": lines})) == 100_000
    assert 0 < max(sizes) <= 1 << 17
    assert min(sizes) > 0


LINE = st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=["Cs"]))


@given(pairs=st.lists(st.tuples(LINE, LINE)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_pairs_survive(opus, pairs):
    sides = ["".join(f"{line}\n" for line in side) for side in zip(*pairs, strict=True)] or ["", ""]
    assert opus({"a.en": sides[0], "a.de": sides[1]}) == [(*pair, None) for pair in pairs]
