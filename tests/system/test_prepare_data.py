"""``nmt prepare-data`` as a user types it."""

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.commands import ForkedPython, run_command

CAPTIONS = {"en": "A dog number {n} runs .\n", "de": "Ein Hund Nummer {n} läuft .\n"}


@pytest.fixture
def nmt(tmp_path):
    """Run the command in an empty folder, with a cache of its own."""

    def run(*arguments, expect=0, **environment):
        own = {"XDG_CACHE_HOME": str(tmp_path / "xdg"), "NO_PROXY": "127.0.0.1"} | environment
        done = run_command(arguments, cwd=tmp_path, environment=own)
        result = subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
        assert result.returncode == expect, result.stderr
        assert "Traceback" not in result.stderr
        return result

    return run


def captions(language, start, count):
    return "".join(CAPTIONS[language].format(n=n) for n in range(start, start + count)).encode()


@pytest.fixture
def mine(nmt, tmp_path):
    """A copy of the Multi30k recipe for captions of our own, and a mirror that holds them."""
    shown = nmt("prepare-data", "multi30k-en-de", "--show-recipe").stdout
    values = yaml.safe_load(shown)
    values["name"] = "mine-en-de"
    (tmp_path / "mirror").mkdir()
    starts = {"train": (0, 300), "val": (300, 20), "test_2016_flickr": (320, 10)}
    for entry in values["downloads"].values():
        base = entry["url"].rsplit("/", 1)[1]
        split, language, _ = base.split(".")
        packed = gzip.compress(captions(language, *starts[split]))
        (tmp_path / "mirror" / base).write_bytes(packed)
        entry["sha256"] = hashlib.sha256(packed).hexdigest()
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(values, allow_unicode=True))
    return tmp_path / "mine.yaml"


def test_a_copied_recipe_from_a_mirror(nmt, mine, tmp_path):
    done = nmt("prepare-data", "mine.yaml", "--mirror", "mirror", "--offline")
    assert done.stdout == ""
    assert "train: 300 pairs" in done.stderr
    assert "train has 300 pairs; the published number is 29,000" in done.stderr
    folder = tmp_path / "data" / "mine-en-de"
    assert (folder / "train.de").read_bytes() == captions("de", 0, 300)
    assert (folder / "test.en").read_bytes() == captions("en", 320, 10)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert manifest["recipe"]["vocab_size"] == 8000
    assert len(manifest["sources"]) == 6

    again = nmt("prepare-data", "mine.yaml", "--offline")
    assert "nothing to do" in again.stderr


def test_a_server_that_breaks_off(nmt, mine, tmp_path, file_server):
    for path in (tmp_path / "mirror").iterdir():
        file_server.files[path.name] = path.read_bytes()
    file_server.cut_after["train.en.gz"] = [50]
    nmt("prepare-data", "mine.yaml", "--mirror", file_server.url, "--cache", "cache", "--out", "here")
    assert (tmp_path / "here" / "train.en").read_bytes() == captions("en", 0, 300)
    assert ("train.en.gz", "bytes=50-") in file_server.requests
    assert list((tmp_path / "cache").rglob("train.en.gz"))


def test_offline_says_what_is_missing(nmt):
    done = nmt("prepare-data", "multi30k-en-de", "--offline", expect=2)
    for part in ("train.en.gz", "test_2016_flickr.de.gz", "https://raw.githubusercontent.com", "--mirror"):
        assert part in done.stderr
    assert done.stdout == ""


def test_a_wrong_file_in_the_mirror_is_named(nmt, mine, tmp_path):
    (tmp_path / "mirror" / "val.de.gz").write_bytes(b"something else")
    done = nmt("prepare-data", "mine.yaml", "--mirror", "mirror", "--offline", expect=2)
    assert "val.de.gz: its sha256 is" in done.stderr
    assert not (tmp_path / "data" / "mine-en-de").exists()


@pytest.fixture
def own(tmp_path):
    (tmp_path / "corpus").mkdir()
    for language in ("en", "de"):
        (tmp_path / "corpus" / f"a.{language}").write_bytes(captions(language, 0, 200))
        with gzip.open(tmp_path / "corpus" / f"b.{language}.gz", "wb") as packed:
            packed.write(captions(language, 200, 100))
        (tmp_path / "corpus" / f"v.{language}").write_bytes(captions(language, 300, 10))


def test_own_files(nmt, own, tmp_path):
    languages = ["--source-lang", "en", "--target-lang", "de"]
    files = ["--train", "corpus/a", "--train", "corpus/b", "--valid", "corpus/v"]
    done = nmt("prepare-data", "captions", *languages, *files, LC_ALL="C")
    folder = tmp_path / "data" / "captions"
    assert "test: 15 pairs are held out of the training text." in done.stderr
    assert not [line for line in done.stderr.splitlines() if line.endswith(": 0")]  # what no filter found
    counts = {path.name: len(path.read_bytes().splitlines()) for path in folder.glob("*.de")}
    assert counts == {"train.de": 285, "valid.de": 10, "test.de": 15}

    assert "nothing to do" in nmt("prepare-data", "captions", *languages, *files).stderr
    shorter = nmt("prepare-data", "captions", *languages, *files, "--max-words", "5", expect=2)
    assert "none of 300 train pairs is left. Dropped: too_long 300." in shorter.stderr
    assert len((folder / "train.de").read_bytes().splitlines()) == 285


def test_two_files_may_be_named_as_pipes(own, tmp_path):
    """Process substitutions: each can be read only once."""
    command = (
        f"{sys.executable} -m nmt prepare-data named-en-de --train-source corpus/a.en --train-target corpus/a.de "
        "--train-source <(zcat corpus/b.en.gz) --train-target <(zcat corpus/b.de.gz) "
        "--valid-source corpus/v.en --valid-target corpus/v.de"
    )
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "data" / "named-en-de"
    assert len((folder / "train.de").read_bytes().splitlines()) == 285
    assert (folder / "valid.en").read_bytes() == captions("en", 300, 10)
    sources = {record["file"]: record for record in json.loads((folder / "manifest.json").read_text())["sources"]}
    read = [record for name, record in sources.items() if name.startswith("/dev/fd/")]
    assert [(record["sha256"], record["bytes"]) for record in read] == [
        (hashlib.sha256(captions(language, 200, 100)).hexdigest(), len(captions(language, 200, 100)))
        for language in ("en", "de")
    ]
    assert str(tmp_path / "corpus" / "a.en") in sources
    again = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "up to date" in again.stderr
    changed = command.replace("zcat corpus/b.en.gz", "zcat corpus/b.en.gz | sed s/dog/cat/")
    other = subprocess.run(["bash", "-c", changed], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "written: " in other.stderr
    assert b"cat" in (folder / "train.en").read_bytes()


def test_a_file_beside_its_packed_copy(nmt, own, tmp_path):
    corpus = tmp_path / "corpus"
    (corpus / "a.en.gz").write_bytes(gzip.compress((corpus / "a.en").read_bytes()))
    nmt("prepare-data", "own-en-de", "--train", "corpus/a")
    (corpus / "a.en.gz").write_bytes(gzip.compress(captions("en", 1, 200)))
    done = nmt("prepare-data", "own-en-de", "--train", "corpus/a", expect=2)
    message = " ".join(done.stderr.split())
    assert "error: corpus/a.en and corpus/a.en.gz hold different text" in message


def test_languages_with_regions_may_stand_in_the_name(nmt, own, tmp_path):
    for old, new in (("en", "en"), ("de", "pt_BR"), ("de", "zh-Hans-CN")):
        (tmp_path / "corpus" / f"r.{new}").write_bytes((tmp_path / "corpus" / f"a.{old}").read_bytes())
    nmt("prepare-data", "mine-en-pt_BR", "--train", "corpus/r")
    assert (tmp_path / "data" / "mine-en-pt_BR" / "train.pt_BR").is_file()
    shown = yaml.safe_load(nmt("prepare-data", "v7-zh-Hans-CN-en", "--train", "corpus/r", "--show-recipe").stdout)
    assert (shown["source_lang"], shown["target_lang"]) == ("zh-Hans-CN", "en")


def test_limits_may_be_lifted(nmt, own, tmp_path):
    with (tmp_path / "corpus" / "a.en").open("ab") as english, (tmp_path / "corpus" / "a.de").open("ab") as german:
        english.write(b"word " * 400 + b"\n")
        german.write(b"wort\n")
    arguments = [
        "prepare-data",
        "own-en-de",
        "--train",
        "corpus/a",
        "--max-words",
        "0",
        "--max-ratio",
        "0",
        "--no-dedup",
    ]
    shown = yaml.safe_load(nmt(*arguments, "--show-recipe").stdout)
    assert shown["filters"] | {"max_words": None, "max_ratio": None, "dedup": False} == shown["filters"]
    done = nmt(*arguments)
    assert "too_long" not in done.stderr
    assert "ratio" not in done.stderr


def test_a_built_in_pair_reversed(nmt):
    shown = yaml.safe_load(nmt("prepare-data", "multi30k-de-en", "--show-recipe").stdout)
    assert (shown["name"], shown["source_lang"], shown["target_lang"]) == ("multi30k-de-en", "de", "en")


def test_the_embedded_pair_both_ways(nmt, tmp_path):
    nmt("prepare-data", "toy-en-de", "--offline")
    nmt("prepare-data", "toy-de-en", "--offline")
    assert "nothing to do" in nmt("prepare-data", "toy-en-de", "--offline").stderr
    there, back = (tmp_path / "data" / name for name in ("toy-en-de", "toy-de-en"))
    for split in ("train", "valid", "test"):
        for language in ("en", "de"):
            assert (there / f"{split}.{language}").read_bytes() == (back / f"{split}.{language}").read_bytes()
    manifest = json.loads((back / "manifest.json").read_text("utf-8"))
    assert (manifest["source_lang"], manifest["target_lang"]) == ("de", "en")
    assert manifest["files"]["train.de"]["lines"] > 29_000


def test_the_list(nmt):
    lines = [line.split("\t") for line in nmt("prepare-data", "--list").stdout.splitlines()]
    assert {name: checksums for name, _, checksums in lines} == {
        "iwslt14-de-en": "no sha256 known for talks; recorded at the first download",
        "multi30k-en-de": "sha256 of every download known",
        "toy-en-de": "no download",
        "wmt14-en-de": "no sha256 known for newstest2014-full (md5 only)",
        "wmt14-en-fr": "no sha256 known for newstest2014-full (md5 only)",
    }


def test_a_recipe_names_no_file_outside_the_cache(nmt, mine, tmp_path, file_server):
    """The name of a download is decoded before it is looked at."""
    precious = tmp_path / "home" / ".bashrc"
    precious.parent.mkdir()
    precious.write_text("mine")
    values = yaml.safe_load(mine.read_text())
    escaped = str(precious).replace("/", "%2F")
    file_server.files[f"x/{escaped}"] = b"evil"
    values["downloads"]["train-en"] = {"url": f"{file_server.url}/x/{escaped}"}
    mine.write_text(yaml.safe_dump(values))
    done = nmt("prepare-data", "mine.yaml", "--mirror", "mirror", expect=2)
    assert "downloads.train-en.url: ends in" in done.stderr
    assert file_server.requests == []
    assert [path.name for path in precious.parent.iterdir()] == [".bashrc"]
    assert precious.read_text() == "mine"


def test_no_name_steers_the_terminal(tmp_path):
    import pty

    (tmp_path / "ref.de").write_text("ein Satz\n")
    (tmp_path / "a.de").write_text("ein Satz\n")
    evil = "b\x1b]0;owned\x07[bold red].de"
    (tmp_path / evil).write_text("ein Wort\n")
    for arguments in (
        ["prepare-data", f"{evil}.yaml"],
        ["score", "--reference", "ref.de", "a.de", evil],
        ["score", "--json", "--reference", "ref.de", "a.de", evil],
    ):
        ours, theirs = pty.openpty()
        streams = [theirs, os.dup(theirs), os.dup(theirs)]
        terminal = os.environ | {"OMP_NUM_THREADS": "1", "TERM": "xterm-256color"}
        process = ForkedPython(["-m", "nmt", *arguments], str(tmp_path), terminal, streams)
        shown = b""
        while True:
            try:
                block = os.read(ours, 4096)
            except OSError:  # What Linux says at the end.
                block = b""
            if not block:
                break
            shown += block
        os.close(ours)
        assert process.wait(60) == (2 if arguments[0] == "prepare-data" else 0), shown
        assert b"Traceback" not in shown
        assert rb"b\u001b]0;owned\u0007[bold red].de" in shown
        assert b"\x1b]" not in shown
        assert b"\x07" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a data set"),
        (["toy-en-d"], "did you mean 'toy-en-de'"),
        (["toy-en-de", "--valid", "x"], "--valid: only for text of your own"),
        (["own", "--train", "x"], "--source-lang"),
        (["--train", "x"], "your own text needs a name for its data set"),
        (["own-en-de", "--train", "corpus/c.en"], "leave off .en and write"),
        (["own-en-de", "--train", "corpus/c."], "leave off the . at the end and write"),
        (["own-en-de", "--train", "corpus/p.en.gz"], "leave off .en.gz and write"),
        (
            ["own-en-de", "--train", "corpus/t.txt"],
            "corpus/t.txt has columns separated by tabs: rename it to corpus/t.tsv and give that name",
        ),
        (["own-en-de", "--train", "corpus/t.txt.gz"], "rename it to corpus/t.tsv.gz and give that name"),
        (
            ["own-en-de", "--train-source", "corpus/c.en"],
            "--train-source was given once and --train-target never",
        ),
        (["own-en-de", "--train-source", "corpus/c.en", "--train-target", "corpus/c.en"], "and as its --train-target"),
        (["own-en-de", "--train-source", "corpus/c.en", "--train-target", "corpus"], "error: corpus: is a folder"),
        (["own-en-de", "--train-source", "corpus/c.en", "--train-target", "no.de"], "error: no.de: does not exist"),
        (["toy-en-de", "--test-source", "x", "--test-target", "y"], "--test-source: only for text of your own"),
        (["own-en-de", "--train", "nowhere/x"], "there is no nowhere/x.en (nor "),
        (["toy-en-de", "--max-ratio", "0.5"], "filters.max_ratio"),
        (["none.yaml"], "none.yaml: there is no such file."),
    ],
)
def test_mistakes_are_explained(nmt, tmp_path, arguments, message):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "c.en").write_text("one\n")
    (tmp_path / "corpus" / "p.en.gz").write_bytes(gzip.compress(b"one\n"))
    (tmp_path / "corpus" / "t.txt").write_text("one\teins\ntwo\tzwei\n")
    (tmp_path / "corpus" / "t.txt.gz").write_bytes(gzip.compress(b"one\teins\n"))
    done = nmt("prepare-data", *arguments, expect=2)
    assert message in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_help_has_an_example(nmt):
    assert "Example: nmt prepare-data" in " ".join(nmt("prepare-data", "--help").stdout.split())


def test_a_killed_process_leaves_nothing_half_written(nmt, tmp_path):
    (tmp_path / "corpus").mkdir()
    for language in ("en", "de"):
        (tmp_path / "corpus" / f"big.{language}").write_bytes(captions(language, 0, 200_000))
    arguments = ["prepare-data", "big-en-de", "--train", "corpus/big", "--jobs", "1"]
    process = subprocess.Popen([sys.executable, "-m", "nmt", *arguments], cwd=tmp_path, stderr=subprocess.PIPE)
    until = time.monotonic() + 300
    while not list((tmp_path / "data").glob(".big-en-de.*.tmp/train.en")):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "data" / "big-en-de").exists()

    nmt(*arguments)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["big-en-de"]


@pytest.mark.skipif(not os.environ.get("NMT_TEST_DATA"), reason="NMT_TEST_DATA names no folder of real text")
def test_real_captions_by_mirror(nmt, tmp_path):
    mirror = Path(os.environ["NMT_TEST_DATA"]) / "multi30k-en-de"
    nmt("prepare-data", "multi30k-en-de", "--mirror", str(mirror), "--offline")
    manifest = json.loads((tmp_path / "data" / "multi30k-en-de" / "manifest.json").read_text("utf-8"))
    lines = {name: record["lines"] for name, record in manifest["files"].items()}
    assert lines["valid.de"] == 1014
    assert lines["test.de"] == 1000
    dropped = {name: count for name, count in manifest["filters"].items() if not name.endswith("_kept")}
    assert lines["train.en"] + sum(dropped.values()) == 29_000
    assert lines["train.en"] > 28_900
