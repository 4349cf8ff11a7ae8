"""Data sets of mtdata, by a double of the package in ``doubles/``: modules with the same interface, a small index."""

import gzip
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from nmt.corpora.mtdata_index import find_in_index
from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import own_recipe
from nmt.data.manifest import read_manifest
from nmt.errors import DataError, DownloadError, NmtError
from nmt.lineage.models import data_folder_link

DOUBLES = Path(__file__).parent / "doubles"
NEWS = "Statmt-news_commentary-14-deu-eng"
PAIRS = [(f"Ein Hund Nummer {n} läuft .", f"A dog number {n} runs .") for n in range(120)]


def forget_mtdata():
    for name in [name for name in sys.modules if name.partition(".")[0] == "mtdata"]:
        del sys.modules[name]


@pytest.fixture
def index(tmp_path, monkeypatch, file_server):
    """Write the index of the double; where a server has the files."""
    forget_mtdata()
    monkeypatch.syspath_prepend(str(DOUBLES))
    monkeypatch.setenv("MTDATA", str(tmp_path / "mtdata"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mtdata").mkdir()

    def write(**entries):
        for fields in entries.values():
            url = fields["url"]
            served = [f"{file_server.url}/{name}" for name in ([url] if isinstance(url, str) else url)]
            fields["url"] = served[0] if isinstance(url, str) else served
        (tmp_path / "mtdata" / "index.json").write_text(json.dumps(entries))

    yield write
    forget_mtdata()


def rows(pairs=PAIRS) -> bytes:
    return "".join(f"{first}\t{second}\n" for first, second in pairs).encode()


def prepared(identifier, tmp_path, source_lang="en", target_lang="de", **options):
    recipe = own_recipe("own", source_lang=source_lang, target_lang=target_lang, train=[f"mtdata:{identifier}"])
    return prepare(recipe, tmp_path / "own", cache=tmp_path / "cache", workers=1, **options)


def written(tmp_path):
    sides = [
        [line for split in ("train", "valid", "test") for line in (tmp_path / "own" / f"{split}.{code}").open()]
        for code in ("de", "en")
    ]
    return {(first.removesuffix("\n"), second.removesuffix("\n")) for first, second in zip(*sides, strict=True)}


def test_text_is_fetched_read_and_turned_to_the_direction_of_the_data_set(index, tmp_path, file_server):
    index(**{NEWS: {"url": "v14/news.de-en.tsv.gz", "ext": "tsv.gz", "cite": ["bojar-2018", "barrault-2019"]}})
    file_server.files["v14/news.de-en.tsv.gz"] = packed = gzip.compress(rows([*PAIRS, ("nur deutsch", " ")]))
    prepared(NEWS, tmp_path)
    assert written(tmp_path) == set(PAIRS)
    manifest = read_manifest(tmp_path / "own")
    [source] = manifest.sources
    assert (source.file, source.url) == ("news.de-en.tsv.gz", f"{file_server.url}/v14/news.de-en.tsv.gz")
    assert source.bytes == len(packed)
    [corpus] = manifest.corpora
    assert (corpus.name, corpus.pairs, corpus.skipped) == (NEWS, 120, 1)
    assert manifest.recipe["train"] == [{"kind": "mtdata", "id": NEWS}]


def test_the_citation_is_kept_in_the_manifest_and_named_by_the_lineage(index, tmp_path, file_server):
    index(**{NEWS: {"url": "n.tsv", "ext": "tsv", "cite": ["bojar-2018", "barrault-2019"]}})
    file_server.files["n.tsv"] = rows()
    prepared(NEWS, tmp_path)
    [corpus] = read_manifest(tmp_path / "own").corpora
    assert corpus.citation.startswith("@misc{bojar-2018,\n")
    assert "@misc{barrault-2019,\n" in corpus.citation
    assert data_folder_link(tmp_path / "own").facts["cite"] == "bojar-2018, barrault-2019"


def test_a_compressed_table_that_unpacks_to_far_too_much_is_refused(index, tmp_path, file_server, monkeypatch):
    monkeypatch.setattr("nmt.corpora.archive._ALWAYS_ALLOWED", 100_000)
    index(**{NEWS: {"url": "n.tsv.gz", "ext": "tsv.gz"}})
    file_server.files["n.tsv.gz"] = gzip.compress(b"\t\n" * 100_000)
    with pytest.raises(DownloadError, match=r"n\.tsv\.gz: unpacks to more than"):
        prepared(NEWS, tmp_path)


def test_a_second_run_is_up_to_date_without_the_package(index, tmp_path, file_server, monkeypatch):
    index(**{NEWS: {"url": "n.tsv", "ext": "tsv"}})
    file_server.files["n.tsv"] = rows()
    assert prepared(NEWS, tmp_path).changed
    forget_mtdata()
    monkeypatch.setitem(sys.modules, "mtdata", None)
    assert not prepared(NEWS, tmp_path).changed


def test_two_files_and_other_columns(index, tmp_path, file_server):
    index(
        **{
            "A-two-1-deu-eng": {"url": ["x/c.de.gz", "x/c.en.gz"], "ext": "txt.gz"},
            "A-wide-1-eng-deu": {"url": "wide.tsv", "ext": "tsv", "cols": [2, 0]},
        }
    )
    for side, code in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in PAIRS)
        file_server.files[f"x/c.{code}.gz"] = gzip.compress(text.encode())
    file_server.files["wide.tsv"] = "".join(f"{first}\tx\t{second}\n" for first, second in PAIRS).encode()
    for identifier in ("A-two-1-deu-eng", "A-wide-1-eng-deu"):
        prepared(identifier, tmp_path, force=True)
        assert written(tmp_path) == set(PAIRS)


def test_members_of_an_archive_at_an_address_without_a_name(index, tmp_path, file_server):
    member = {"url": "download/123/", "ext": "zip", "in_ext": "txt", "in_paths": ["*.de", "*.en"]}
    index(**{"ELRC-web-1-deu-eng": member})
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        for side, code in enumerate(("de", "en")):
            archive.writestr(f"web.{code}", "".join(f"{pair[side]}\n" for pair in PAIRS))
    file_server.files["download/123/"] = buffer.getvalue()
    prepared("ELRC-web-1-deu-eng", tmp_path)
    assert written(tmp_path) == set(PAIRS)
    assert read_manifest(tmp_path / "own").sources[0].file == "ELRC-web-1-deu-eng.zip"


def tar_of(files, links=()) -> bytes:
    with tarfile.open(fileobj=(buffer := io.BytesIO()), mode="w:gz") as archive:
        for name, text in files.items():
            (member := tarfile.TarInfo(name)).size = len(text)
            archive.addfile(member, io.BytesIO(text))
        for name, target in links:
            (link := tarfile.TarInfo(name)).type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    return buffer.getvalue()


SIDES = [b"".join(f"{pair[side]}\n".encode() for pair in PAIRS) for side in (0, 1)]
IN_TAR = {"url": "dev.tgz", "ext": "tgz", "in_ext": "txt", "in_paths": ["*/text.de", "*/text.en"]}


def test_members_of_a_tar_archive_are_unpacked_by_us_and_not_into_the_cache(index, tmp_path, file_server):
    """A star of the index stays within a folder, links are not followed, and a new archive is read anew."""
    index(**{"A-tar-1-deu-eng": dict(IN_TAR)})
    german, english = SIDES
    deeper = {"./dev/old/text.de": b"veraltet\n", "./dev/old/text.en": b"outdated\n"}
    links = [("dev/leads.away", str(tmp_path)), ("dev/leads.up", "../..")]
    first = {"./dev/text.de": german.replace(b"Hund", b"Kater"), "./dev/text.en": english}
    file_server.files["dev.tgz"] = tar_of(deeper | first, links)
    prepared("A-tar-1-deu-eng", tmp_path)
    assert written(tmp_path) == {(de.replace("Hund", "Kater"), en) for de, en in PAIRS}
    [cached] = (tmp_path / "cache").rglob("dev.tgz")
    assert sorted(path.name for path in cached.parent.iterdir()) == ["dev.tgz", "dev.tgz.sha256"]
    for path in list(cached.parent.iterdir()):
        path.unlink()
    file_server.files["dev.tgz"] = tar_of({"dev/text.de": german, "dev/text.en": english})
    prepared("A-tar-1-deu-eng", tmp_path, force=True)
    assert written(tmp_path) == set(PAIRS)
    assert [path.name for path in (tmp_path / "own").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        (["dev/text.de"], DataError, r"names \*/text\.en in .*dev\.tgz, which matches no member; expected one\. Unp"),
        (["a/text.de", "b/text.de", "a/text.en"], DataError, r"which matches a/text\.de, b/text\.de; expected one"),
        (["dev/text.de", "dev/text.en", "../out"], DownloadError, r"dev\.tgz: refused, since its member .*\.\./out"),
    ],
)
def test_an_archive_that_does_not_fit_the_index_is_an_error(index, tmp_path, file_server, members, error, message):
    index(**{"A-tar-1-deu-eng": dict(IN_TAR)})
    file_server.files["dev.tgz"] = tar_of(dict.fromkeys(members, b"text\n"))
    with pytest.raises(error, match=message):
        prepared("A-tar-1-deu-eng", tmp_path)
    assert not list(tmp_path.rglob("out"))


@pytest.mark.parametrize(("languages", "unknown"), [(("tlh", "de"), "tlh"), (("en", "de-Xxxx"), "de-Xxxx")])
def test_languages_that_mtdata_does_not_know_are_an_error(index, tmp_path, languages, unknown):
    index(**{NEWS: {"url": "n.tsv", "ext": "tsv"}})
    with pytest.raises(DataError) as error:
        prepared(NEWS, tmp_path, *languages)
    assert str(error.value) == (
        f"mtdata:{NEWS}: mtdata does not know the languages {languages[0]} and {languages[1]}: Unable to recognize "
        f"{unknown}; Unknown language. Use codes such as deu or pt_BR."
    )


def test_languages_that_mtdata_cannot_tell_apart_are_an_error(index, monkeypatch):
    """It asserts that a pair is clear: English beside the English of a region is not."""
    index(**{NEWS: {"url": "n.tsv", "ext": "tsv"}})
    with pytest.raises(DataError, match=r"mul and mul: Multilingual on both side is not supported\. Use codes"):
        find_in_index(NEWS, "mul", "mul")


def test_no_line_of_a_data_set_breaks_in_two(index, tmp_path, file_server):
    index(**{NEWS: {"url": "n.tsv", "ext": "tsv"}})
    file_server.files["n.tsv"] = rows([*PAIRS, ("eins\rzwei", "one\rtwo")])
    prepared(NEWS, tmp_path)
    assert ("eins zwei", "one two") in written(tmp_path)


def test_mirrors_and_offline(index, tmp_path, file_server):
    index(**{NEWS: {"url": "n.tsv", "ext": "tsv"}})
    with pytest.raises(DownloadError, match=r"n\.tsv"):
        prepared(NEWS, tmp_path, offline=True)
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "n.tsv").write_bytes(rows())
    prepared(NEWS, tmp_path, offline=True, mirrors=[str(tmp_path / "mirror")])
    assert written(tmp_path) == set(PAIRS)
    assert file_server.requests == []


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ("Statmt-news_commentary-41-deu-eng", "is not in the index of mtdata (did you mean 'Statmt-news_commentary-14"),
        ("Statmt-newscommentary-14-deu-eng", "is not in the index of mtdata (did you mean 'Statmt-news_commentary-14"),
        ("Nobody-knows-1-ces-eng", "is not in the index of mtdata. `mtdata list -l en-de -id` prints all identifiers"),
        ("news", "is not an identifier of mtdata, such as Statmt-news_commentary-14-deu-eng: Dataset ID expected"),
        ("A-french-1-fra-eng", "has text for fra and eng, not for en and de."),
        ("A-mono-1-deu", "has text for deu, not for en and de."),
        ("HF-hub-1-deu-eng", "is stored in a format that is read by mtdata alone (hfds). Fetch it with `mtdata get`"),
    ],
)
def test_what_cannot_be_used_is_named(index, tmp_path, identifier, message):
    index(
        **{
            NEWS: {"url": "n.tsv", "ext": "tsv"},
            "A-french-1-fra-eng": {"url": "f.tsv", "ext": "tsv"},
            "A-mono-1-deu": {"url": "m.txt", "ext": "txt"},
            "HF-hub-1-deu-eng": {"url": "x", "ext": "hfds", "in_ext": "hfds", "in_paths": ["x"]},
        }
    )
    with pytest.raises(DataError) as error:
        prepared(identifier, tmp_path)
    assert f"mtdata:{identifier}: {message}" in str(error.value)


def test_text_that_mtdata_cannot_read_is_named(index, tmp_path, file_server):
    index(**{NEWS: {"url": "n.tsv", "ext": "tsv"}, "A-two-1-deu-eng": {"url": ["c.de", "c.en"], "ext": "txt"}})
    file_server.files |= {"n.tsv": b"eins\tone\nzwei\n", "c.de": b"eins\nzwei\n", "c.en": b"one\n"}
    with pytest.raises(DataError, match=rf"mtdata:{NEWS}: mtdata cannot read .*n\.tsv: .*index"):
        prepared(NEWS, tmp_path)
    with pytest.raises(DataError, match="unequal number of segments"):
        prepared("A-two-1-deu-eng", tmp_path)


def test_without_the_package_one_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mtdata", None)
    with pytest.raises(NmtError, match=r"needs mtdata, which is not installed\. Install it: `pip install mtdata`"):
        prepared(NEWS, tmp_path)


def test_the_packages_notes_stay_off_the_terminal(index, tmp_path, file_server, capfd):
    index(**{NEWS: {"url": "n.tsv", "ext": "tsv"}})
    file_server.files["n.tsv"] = rows()
    prepared(NEWS, tmp_path)
    assert capfd.readouterr() == ("", "")
