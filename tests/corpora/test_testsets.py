"""sacreBLEU's test sets, through our downloader into its cache."""

import hashlib
from pathlib import Path

import pytest
import sacrebleu.dataset
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.corpora.download import Fetcher
from nmt.corpora.testsets import fetch_test_set, files_of_test_set, langpair_of, listed_files
from nmt.corpora.transfer import RemoteFile
from nmt.errors import DataError, DownloadError
from tests.kit.archives import tarred

SOURCE = ["A  first\u2028line .", "Fish &amp; chips", "The end"]
REFERENCE = ["Eine erste Zeile .", "Fisch", "Das Ende"]


def sgml(side, lang, lines):
    segments = "".join(f'<seg id="{n}"> {line} </seg>\n' for n, line in enumerate(lines, start=1))
    return (
        f'<{side}set setid="x" srclang="any">\n<doc docid="d" origlang="en" lang="{lang}">\n{segments}</doc>\n'.encode()
    )


def packed(reference=REFERENCE, source=SOURCE, folder="test-full"):
    members = {
        f"{folder}/newstest2014-deen-src.en.sgm": sgml("src", "en", source),
        f"{folder}/newstest2014-deen-ref.de.sgm": sgml("ref", "de", reference),
        f"{folder}/newstest2014-deen-src.de.sgm": sgml("src", "de", reference),
        f"{folder}/newstest2014-deen-ref.en.sgm": sgml("ref", "en", source),
    }
    return tarred(members)


@pytest.fixture
def listed(monkeypatch, file_server):
    """sacreBLEU's entry of wmt14/full, with a miniature in place of its archive."""
    content = packed()
    file_server.files["wmt14/test-full.tgz"] = content
    dataset = sacrebleu.dataset.DATASETS["wmt14/full"]
    monkeypatch.setattr(dataset, "data", [f"{file_server.url}/wmt14/test-full.tgz"])
    monkeypatch.setattr(dataset, "md5", [hashlib.md5(content).hexdigest()])
    return file_server


@pytest.mark.parametrize(
    ("asked", "found"),
    [("eng-deu", "en-de"), ("de-eng", "de-en"), ("en-de", "en-de"), ("en-de_AT", "en-de"), ("x-y", "x-y")],
)
def test_a_pair_may_have_other_codes(asked, found):
    assert langpair_of("wmt14/full", *asked.split("-")) == found


def test_a_test_set_is_read_by_sacrebleu(listed, tmp_path):
    test_set = fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path))
    assert test_set.source == ["A first line .", "Fish &amp; chips", "The end"]
    assert test_set.references == [REFERENCE]
    reversed_set = fetch_test_set("wmt14/full", "de-en", Fetcher(tmp_path))
    assert (reversed_set.source, reversed_set.references) == (REFERENCE, [test_set.source])
    assert len(listed.requests) == 1


@pytest.mark.parametrize(
    ("test_set", "lines", "translated", "other"),
    [("wmt14", 2_737, 3_003, "wmt14/full"), ("wmt14/full", 3_003, 2_737, "wmt14")],
)
def test_translations_of_the_other_newstest2014_are_told_which_one_it_is(
    monkeypatch, file_server, tmp_path, test_set, lines, translated, other
):
    """There are two versions of newstest2014, and the paper's is the one that sacreBLEU does not take by default."""
    dataset = sacrebleu.dataset.DATASETS[test_set]
    folder = dataset.langpairs["en-de"][0].partition("/")[0]
    content = packed([f"Satz {n}" for n in range(lines)], [f"Line {n}" for n in range(lines)], folder)
    file_server.files["test.tgz"] = content
    monkeypatch.setattr(dataset, "data", [f"{file_server.url}/test.tgz"])
    monkeypatch.setattr(dataset, "md5", [hashlib.md5(content).hexdigest()])
    (tmp_path / "hypotheses.de").write_text("".join(f"Satz {n}\n" for n in range(translated)))
    words = f"score --test-set {test_set} --langpair en-de --cache {tmp_path / 'cache'} {tmp_path / 'hypotheses.de'}"
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 2
    assert f"has {translated:,} lines, but the reference has {lines:,}" in result.stderr
    assert result.stderr.rstrip().endswith(f"use --test-set {other}.")


def test_a_cache_may_be_relative(listed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # sacreBLEU reads every path of a test set as below its own folder unless it is absolute.
    test_set = fetch_test_set("wmt14/full", "en-de", Fetcher(Path("c1")))
    assert test_set.references == [REFERENCE]
    assert (tmp_path / "c1/wmt14/full/raw/wmt14_full.test-full.tgz").is_file()


def test_the_cache_is_laid_out_as_sacrebleu_has_it(listed, tmp_path, monkeypatch):
    fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path))
    folder = tmp_path / "wmt14" / "full"
    assert (folder / "raw" / "wmt14_full.test-full.tgz").is_file()
    dataset = sacrebleu.dataset.DATASETS["wmt14/full"]
    monkeypatch.setattr(dataset, "_outdir", str(folder))
    monkeypatch.setattr(dataset, "_rawdir", str(folder / "raw"))
    monkeypatch.setattr(dataset, "maybe_download", lambda: pytest.fail("sacreBLEU should find all in its cache"))
    assert list(dataset.source("en-de")) == ["A first line .", "Fish &amp; chips", "The end"]
    assert not any(entry.name.startswith(".") for entry in folder.iterdir())


def test_half_a_text_of_an_earlier_process_is_not_trusted(listed, tmp_path):
    folder = tmp_path / "wmt14" / "full"
    folder.mkdir(parents=True)
    (folder / "wmt14_full.en-de.src").write_text("A first")
    assert len(fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path)).source) == 3
    assert len((folder / "wmt14_full.en-de.src").read_text().splitlines()) == 3


def test_a_damaged_archive_is_refused(listed, tmp_path):
    listed.files["wmt14/test-full.tgz"] = packed()[:-1] + b"!"
    with pytest.raises(DownloadError, match="md5"):
        fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path))


def test_mirrors_and_offline(listed, tmp_path):
    with pytest.raises(DownloadError, match=r"test-full\.tgz.*\n.*offline"):
        fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path / "cache", offline=True))
    (tmp_path / "test-full.tgz").write_bytes(listed.files["wmt14/test-full.tgz"])
    fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path / "cache", offline=True, mirrors=[str(tmp_path)]))
    assert len(fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path / "cache", offline=True)).source) == 3
    assert listed.requests == []


def test_a_file_may_be_given_in_place_of_the_listed_one(file_server, tmp_path):
    content = packed()
    file_server.files["mine.tgz"] = content
    file = RemoteFile(f"{file_server.url}/mine.tgz", sha256=hashlib.sha256(content).hexdigest())
    test_set = fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path), file)
    assert test_set.references == [REFERENCE]
    assert (tmp_path / "wmt14/full/raw/wmt14_full.mine.tgz").read_bytes() == content
    own, listed = (files_of_test_set("wmt14/full", "en-de", given) for given in (file, None))
    assert ([part.remote for part in own], own[0].shared_folder) == ([file], None)
    assert str(listed[0].shared_folder).endswith("/wmt14/full/raw")


def test_a_signed_address_leaves_no_trace_in_the_cache(file_server, tmp_path):
    content = packed()
    file_server.files["mine.tgz?sig=s3cret/x"] = content
    file = RemoteFile(f"{file_server.url}/mine.tgz?sig=s3cret/x", md5=hashlib.md5(content).hexdigest())
    fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path), file)
    assert (tmp_path / "wmt14/full/raw/wmt14_full.mine.tgz").is_file()
    assert [str(path) for path in tmp_path.rglob("*s3cret*")] == []


def test_sides_of_unequal_length_are_refused(file_server, tmp_path):
    file_server.files["mine.tgz"] = packed(REFERENCE[:2])
    with pytest.raises(DataError, match=r"\[2, 3\] lines"):
        fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path), RemoteFile(f"{file_server.url}/mine.tgz"))


def test_a_missing_side_is_no_crash(file_server, tmp_path):
    file_server.files["mine.tgz"] = tarred({})
    with pytest.raises(DataError, match="sacreBLEU cannot read"):
        fetch_test_set("wmt14/full", "en-de", Fetcher(tmp_path), RemoteFile(f"{file_server.url}/mine.tgz"))


def test_unknown_names_and_languages(tmp_path):
    with pytest.raises(DataError, match="did you mean 'wmt14/full'"):
        fetch_test_set("wmt14/ful", "en-de", Fetcher(tmp_path))
    with pytest.raises(DataError, match=r"no 'en-xx'; it has .*en-de"):
        fetch_test_set("wmt14/full", "en-xx", Fetcher(tmp_path))


def test_the_two_newstest2014_are_told_apart():
    filtered, full = listed_files("wmt14"), listed_files("wmt14/full")
    assert filtered[0].name == "test-filtered.tgz"
    assert full[0].name == "test-full.tgz"
