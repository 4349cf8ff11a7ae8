"""``nmt prepare-data`` as a user types it: options, output, processes. ``tests/corpora`` has what it does."""

import contextlib
import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.commands import run_here, running_command

CAPTIONS = {"en": "A dog number {n} runs .\n", "de": "Ein Hund Nummer {n} läuft .\n"}


@pytest.fixture
def nmt(tmp_path):
    """Run the command in an empty folder, with a cache of its own."""

    def run(*arguments, expect=0, **environment):
        own = {"XDG_CACHE_HOME": str(tmp_path / "xdg"), "NO_PROXY": "127.0.0.1"} | environment
        done = run_here(arguments, cwd=tmp_path, **own)
        result = subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
        assert result.returncode == expect, result.stderr
        assert "Traceback" not in result.stderr
        return result

    return run


def captions(language, start, count):
    return "".join(CAPTIONS[language].format(n=n) for n in range(start, start + count)).encode()


def tsv(pairs):
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def prepared(tmp_path, name):
    """The manifest of a data set, and its pairs: those of train, then valid, then test."""
    folder = tmp_path / "data" / name
    files = [[(folder / f"{split}.{code}").read_text() for split in ("train", "valid", "test")] for code in CAPTIONS]
    pairs = list(zip(*("".join(side).splitlines() for side in files), strict=True))
    return json.loads((folder / "manifest.json").read_text("utf-8")), pairs


def test_a_copied_recipe_from_a_mirror(nmt, tmp_path):
    values = yaml.safe_load(nmt("prepare-data", "multi30k-en-de", "--show-recipe").stdout)
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
    done = nmt("prepare-data", "mine.yaml", "--mirror", "mirror", "--offline")
    assert done.stdout == ""
    assert "train: 300 pairs" in done.stderr
    assert "train has 300 pairs; the published number is 29,000" in done.stderr
    assert not [line for line in done.stderr.splitlines() if line.endswith(": 0")]  # what no filter found
    folder = tmp_path / "data" / "mine-en-de"
    assert (folder / "train.de").read_bytes() == captions("de", 0, 300)
    assert "nothing to do" in nmt("prepare-data", "mine.yaml", "--offline").stderr
    shorter = nmt("prepare-data", "mine.yaml", "--offline", "--max-words", "5", expect=2)
    assert "none of 300 train pairs is left. Dropped: too_long 300." in shorter.stderr
    assert (folder / "train.de").read_bytes() == captions("de", 0, 300)


def test_pipes_are_source_and_target_or_tab_separated_and_read_once(tmp_path):
    """Process substitutions, and standard input."""
    for language in CAPTIONS:
        (tmp_path / f"a.{language}.gz").write_bytes(gzip.compress(captions(language, 0, 100)))
    both = tsv([("one", "eins"), ("two", "zwei")])
    (tmp_path / "dev.tsv").write_bytes(both)

    def run(name, words):
        command = f"{sys.executable} -m nmt prepare-data {name} {words} < dev.tsv"
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    words = "--train <(zcat a.en.gz) <(zcat a.de.gz) --valid - --test <(cat dev.tsv)"
    assert "written: " in run("own-en-de", words)
    manifest, pairs = prepared(tmp_path, "own-en-de")
    sides = [captions(language, 0, 100) for language in CAPTIONS]
    lines = [side.decode().splitlines() for side in sides]
    assert pairs == [*zip(*lines, strict=True), *[("one", "eins"), ("two", "zwei")] * 2]
    read = [(record["sha256"], record["bytes"]) for record in manifest["sources"]]
    assert read == [(hashlib.sha256(content).hexdigest(), len(content)) for content in (*sides, both, both)]
    assert "up to date" in run("own-en-de", words)
    assert "written: " in run("own-en-de", words.replace("zcat a.en.gz", "zcat a.en.gz | sed s/dog/cat/"))


def test_limits_may_be_lifted(nmt):
    words = "prepare-data own-en-de --train corpus/a --max-words 0 --max-ratio 0 --no-dedup --show-recipe"
    shown = yaml.safe_load(nmt(*words.split()).stdout)
    assert shown["filters"] | {"max_words": None, "max_ratio": None, "dedup": False} == shown["filters"]


def test_filters(nmt, tmp_path):
    """Each corpus has its counts and samples; any number of workers writes the same."""
    good = [(f"A dog number {n} runs .", f"Ein Hund Nummer {n} läuft .") for n in range(120)]
    faulty = [
        ("A dog &amp; a cat", "Ein Hund &amp; eine Katze"), ("12 dogs", "21 Hunde"),
        ("Собака бежит", "Ein Hund läuft ."),
        ("a DOG number 999 runs!", "ein Hund nummer 888 läuft!"), ("blue cafÃ©", "blaues CafÃ©"), ("---- 1", "---- 1"),
        ("see www.example.org", "siehe hier"), ("a\x1b[1m b", "a b"), ("a" * 50, "lang"),
    ]  # fmt: skip
    (tmp_path / "a.tsv").write_bytes(tsv([*good[:50], *faulty]))
    (tmp_path / "b.tsv").write_bytes(tsv(faulty[:1] + good[50:]))
    (tmp_path / "dev.tsv").write_bytes(tsv(faulty[:2]))
    words = "own-en-de --train a.tsv --train b.tsv --valid dev.tsv --test dev.tsv --show-dropped --filter html "
    words += "--filter numbers --filter script --filter near_duplicates --filter repair_encoding --filter letters=0.4 "
    words += "--filter urls --filter control --filter long_words=40"
    done = nmt("prepare-data", *words.split(), "--jobs", "1")
    # Near duplicates: the pairs of a length of their number are equal but for digits.
    manifest, pairs = prepared(tmp_path, "own-en-de")
    assert pairs == [good[0], good[10], ("blue café", "blaues Café"), good[100], *faulty[:2], *faulty[:2]]
    assert {name: count for name, count in manifest["filters"].items() if count} == {
        "control": 1, "html": 2, "long_words": 1, "letters": 1, "script": 1, "numbers": 2, "urls": 1,
        "near_duplicates": 117, "repaired_kept": 1,
    }  # fmt: skip
    assert "train: dropped as near_duplicates: 117\n" in done.stderr
    assert "train: kept, counted as repaired: 1\n" in done.stderr
    rows = [re.split(" {2,}", line) for line in done.stderr.splitlines()]
    assert ["corpus", "pairs", "en words", "de words", "en mean", "de mean"] in rows
    assert ["valid: dev.tsv", "2", "7", "7", "3.5", "3.5"] in rows
    assert ["train: b.tsv", "near_duplicates", "69", "97.18%"] in rows
    shown = done.stderr.splitlines()
    start = shown.index("train: b.tsv: dropped as near_duplicates (first 3 of 69):")
    assert shown[start + 1 : start + 7] == [
        f"  {language}: {side}" for pair in good[50:53] for language, side in zip(("en", "de"), pair, strict=True)
    ]
    assert "  en: a\\u001b[1m b" in shown

    again = nmt("prepare-data", *words.split())
    assert "up to date" in again.stderr
    assert "  en: Собака бежит" in again.stderr
    nmt("prepare-data", *words.split(), "--jobs", "2", "--force")
    assert prepared(tmp_path, "own-en-de")[0] == manifest


def test_the_list(nmt):
    lines = [line.split("\t") for line in nmt("prepare-data", "--list").stdout.splitlines()]
    assert {name: checksums for name, _, checksums in lines} == {
        "iwslt14-de-en": "no sha256 known for talks; recorded at the first download",
        "multi30k-en-de": "sha256 of every download known",
        "toy-en-de": "no download",
        "wmt14-en-de": "no sha256 known for newstest2014-full (md5 only)",
        "wmt14-en-fr": "no sha256 known for newstest2014-full (md5 only)",
    }


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
        terminal = {"TERM": "xterm-256color"}
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        with running_command(arguments, cwd=tmp_path, environment=terminal, **streams) as process:
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # what Linux says at the end
                while block := os.read(ours, 4096):
                    shown += block
        os.close(ours)
        assert process.returncode == (2 if arguments[0] == "prepare-data" else 0), shown
        assert b"Traceback" not in shown
        assert rb"b\u001b]0;owned\u0007[bold red].de" in shown
        assert b"\x1b]" not in shown
        assert b"\x07" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "name a data set"),
        ("toy-en-d", "did you mean 'toy-en-de'"),
        ("toy-en-de --valid x", "--valid: only for text of your own"),
        ("own --train x", "--source-lang"),
        ("--train x", "your own text needs a name for its data set"),
        ("own-en-de --train - --test -", "can be read only once"),
        ("own-en-de --train x --filter letter=0.5", "unknown filter 'letter' (did you mean 'letters'?)"),
        ("toy-en-de --max-ratio 0.5", "filters.max_ratio"),
        ("none.yaml", "none.yaml: there is no such file."),
    ],
)
def test_mistakes_are_explained(nmt, arguments, message):
    done = nmt("prepare-data", *arguments.split(), expect=2)
    assert message in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_a_killed_process_leaves_nothing_half_written(nmt, tmp_path):
    (tmp_path / "corpus").mkdir()
    for language in ("en", "de"):
        (tmp_path / "corpus" / f"big.{language}").write_bytes(captions(language, 0, 50_000))
    arguments = ["prepare-data", "big-en-de", "--train", "corpus/big", "--jobs", "1"]
    with running_command(arguments, cwd=tmp_path) as process:
        while not list((tmp_path / "data").glob(".big-en-de.*.tmp/train.en")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
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
