"""``nmt prepare-data`` with text as people have it: each form, plain and compressed, from the command line."""

import bz2
import gzip
import hashlib
import json
import lzma
import subprocess
import sys
import zipfile

import pytest

try:
    from compression import zstd
except ImportError:
    from backports import zstd

PAIRS = [(f"A dog number {n} runs .", f"Ein Hund Nummer {n} läuft .") for n in range(120)]
PACKERS = {
    "": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstd.compress,
}  # fmt: skip


@pytest.fixture
def prepare(nmt, tmp_path):
    """Prepare a data set in an empty folder."""

    def run(*arguments, name="own-en-de", text=None, expect=0):
        done = nmt("prepare-data", name, *arguments, cwd=tmp_path, text=text, check=False)
        assert done.returncode == expect, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        return done

    return run


def written(tmp_path, name="own-en-de"):
    """The pairs of a data set: those of train, then those held out."""
    folder = tmp_path / "data" / name
    sides = [
        [line for split in ("train", "valid", "test") for line in (folder / f"{split}.{language}").open()]
        for language in ("en", "de")
    ]
    return [(source.removesuffix("\n"), target.removesuffix("\n")) for source, target in zip(*sides, strict=True)]


def manifest(tmp_path, name="own-en-de"):
    return json.loads((tmp_path / "data" / name / "manifest.json").read_text("utf-8"))


def tsv(pairs=PAIRS):
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


@pytest.mark.parametrize(
    "suffix", [pytest.param(name, marks=() if name in ("", ".gz") else pytest.mark.slow) for name in PACKERS]
)
def test_a_tab_separated_file(prepare, tmp_path, suffix):
    path = tmp_path / f"corpus.tsv{suffix}"
    path.write_bytes(PACKERS[suffix](tsv()))
    prepare("--train", path.name)
    assert sorted(written(tmp_path)) == sorted(PAIRS)
    [source] = manifest(tmp_path)["sources"]
    assert source["file"] == str(path)
    assert source["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert "up to date" in prepare("--train", path.name).stderr
    assert "written: " in prepare("--train", path.name, "--force").stderr


def test_columns_and_scores(prepare, tmp_path):
    rows = [f"{n}\t{target}\t{n / 100}\t{source}" for n, (source, target) in enumerate(PAIRS)]
    (tmp_path / "scored.tsv").write_text("id\tde\tscore\ten\n" + "".join(f"{row}\n" for row in rows))
    (tmp_path / "plain.tsv").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "dev.tsv").write_text("en\tscore\tde\nhello\t0.1\thallo\n")
    done = prepare("--train", "scored.tsv", "--header", "--min-score", "0.2", "--valid", "dev.tsv", name="a-en-de")
    assert "train: dropped as score: 20" in done.stderr
    assert "valid: 1 pairs" in done.stderr
    prepare("--train", "plain.tsv", "--columns", "-,de,score,en", "--min-score", "0.2", name="b-en-de")
    assert sorted(written(tmp_path, "b-en-de")) == sorted(PAIRS[20:])


def test_standard_input(prepare, tmp_path):
    text = tsv().decode()
    prepare("--train", "-", text=text)
    assert sorted(written(tmp_path)) == sorted(PAIRS)
    assert [(source["file"], source["sha256"]) for source in manifest(tmp_path)["sources"]] == [
        ("-", hashlib.sha256(text.encode()).hexdigest())
    ]
    assert "up to date" in prepare("--train", "-", text=text).stderr
    assert "written: " in prepare("--train", "-", text=text.replace("dog", "cat")).stderr
    assert "can be read only once" in prepare("--train", "-", "--test", "-", text=text, expect=2).stderr


def opus_zip(path, pairs=PAIRS):
    sides = ["".join(f"{line}\n" for line in side) for side in zip(*pairs, strict=True)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in (
            ("README", "read"),
            ("a.de-en.en", sides[0]),
            ("LICENSE", "free"),
            ("a.de-en.de", sides[1]),
        ):
            zipped.writestr(name, content)


def test_a_zip_of_opus(prepare, tmp_path):
    opus_zip(tmp_path / "de-en.txt.zip")
    prepare("--train", "de-en.txt.zip")
    assert sorted(written(tmp_path)) == sorted(PAIRS)
    [source] = manifest(tmp_path)["sources"]
    assert source["sha256"] == hashlib.sha256((tmp_path / "de-en.txt.zip").read_bytes()).hexdigest()
    assert "up to date" in prepare("--train", "de-en.txt.zip").stderr
    assert "it holds README, a.de-en.en" in prepare("--train", "de-en.txt.zip", name="x-en-fr", expect=2).stderr


def tmx(pairs=PAIRS):
    units = [
        f'<tu><tuv xml:lang="en-GB"><seg>{source}</seg></tuv><tuv xml:lang="de"><seg>{target}</seg></tuv></tu>\n'
        for source, target in pairs
    ]
    lonely = '<tu><tuv xml:lang="en-GB"><seg>nobody</seg></tuv></tu>'
    return f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>{lonely}{"".join(units)}</body></tmx>'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("suffix", PACKERS)
def test_a_translation_memory(prepare, tmp_path, suffix, encoding):
    (tmp_path / f"memory.tmx{suffix}").write_bytes(PACKERS[suffix](tmx().encode(encoding)))
    done = prepare("--train", f"memory.tmx{suffix}")
    assert sorted(written(tmp_path)) == sorted(PAIRS)
    assert f"train: skipped 1 units or lines of memory.tmx{suffix} without text in both languages" in done.stderr
    assert [(corpus["pairs"], corpus["skipped"]) for corpus in manifest(tmp_path)["corpora"]] == [(120, 1)]
    assert "up to date" in prepare("--train", f"memory.tmx{suffix}").stderr


def test_valid_and_test_take_the_same_forms(prepare, tmp_path):
    (tmp_path / "a.tsv").write_bytes(tsv(PAIRS[:100]))
    (tmp_path / "b.tmx").write_text(tmx(PAIRS[100:110]))
    opus_zip(tmp_path / "c.zip", PAIRS[110:])
    (tmp_path / "c").mkdir()
    (tmp_path / "c.zip").rename(tmp_path / "c" / "c.zip")
    done = prepare("--train", "a.tsv", "--valid", "b.tmx", "--test", "c", "--columns", "en, de")
    assert written(tmp_path) == PAIRS
    assert "valid: 10 pairs" in done.stderr
    assert "valid: skipped 1 units or lines of b.tmx" in done.stderr
    prepare("--train", "b.tmx", "--valid", "-", "--test", "a.tsv", "--force", text=tsv(PAIRS[110:]).decode())
    assert written(tmp_path) == PAIRS[100:] + PAIRS[:100]


def test_a_folder(prepare, tmp_path):
    """All forms of parallel text in it, in the order of names; a new file makes the data set out of date."""
    folder = tmp_path / "corpora"
    folder.mkdir()
    (folder / "README").write_text("about")
    opus_zip(folder / "c.zip", PAIRS[:30])
    (folder / "b.tmx.gz").write_bytes(gzip.compress(tmx(PAIRS[30:60]).encode()))
    (folder / "d.tsv.xz").write_bytes(lzma.compress(tsv(PAIRS[60:90])))
    for language, side in zip(("en", "de"), zip(*PAIRS[90:], strict=True), strict=True):
        (folder / f"a.{language}").write_text("".join(f"{line}\n" for line in side))
    (tmp_path / "dev.tsv").write_bytes(tsv([("one", "eins")]))
    (tmp_path / "test.tsv").write_bytes(tsv([("three", "drei")]))
    arguments = ["--train", "corpora/", "--valid", "dev.tsv", "--test", "test.tsv"]
    done = prepare(*arguments)
    assert done.stderr.splitlines()[0] == "corpora/: reads a, b.tmx.gz, c.zip, d.tsv.xz"
    assert written(tmp_path)[:120] == PAIRS[90:] + PAIRS[30:60] + PAIRS[:30] + PAIRS[60:90]
    assert [corpus["name"] for corpus in manifest(tmp_path)["corpora"][:4]] == ["a", "b.tmx.gz", "c.zip", "d.tsv.xz"]
    assert len(manifest(tmp_path)["sources"]) == 7
    assert "up to date" in prepare(*arguments).stderr
    (folder / "e.tsv").write_bytes(tsv([("two", "zwei")]))
    assert "written: " in prepare(*arguments).stderr
    assert ("two", "zwei") in written(tmp_path)
    (tmp_path / "empty").mkdir()
    assert "empty: has no parallel text" in prepare("--train", "empty", expect=2).stderr


def test_a_pipe(tmp_path):
    """A process substitution, which can be read only once, is tab-separated text."""
    (tmp_path / "corpus.tsv.gz").write_bytes(gzip.compress(tsv()))
    command = f"{sys.executable} -m nmt prepare-data own-en-de --train <(zcat corpus.tsv.gz | tail -n +21)"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(written(tmp_path)) == sorted(PAIRS[20:])
    [source] = manifest(tmp_path)["sources"]
    assert source["file"].startswith("/dev/fd/")
    assert source["sha256"] == hashlib.sha256(tsv(PAIRS[20:])).hexdigest()


def test_what_was_read_is_a_table(prepare, tmp_path):
    (tmp_path / "corpus.tsv").write_bytes(tsv())
    (tmp_path / "dev.tsv").write_bytes(tsv([("one two", "eins")]))
    done = prepare("--train", "corpus.tsv", "--valid", "dev.tsv")
    assert done.stderr.splitlines()[1:5] == [
        "| corpus            |   pairs |   en words |   de words |   en mean |   de mean |",
        "|:------------------|--------:|-----------:|-----------:|----------:|----------:|",
        "| train: corpus.tsv |     120 |        720 |        720 |       6.0 |       6.0 |",
        "| valid: dev.tsv    |       1 |          2 |          1 |       2.0 |       1.0 |",
    ]
    records = manifest(tmp_path)["corpora"]
    assert [record.pop("filters").keys() for record in records] == [{"held_out"}, set()]
    nothing = {"skipped": 0}
    assert records == [
        {"split": "train", "name": "corpus.tsv", "pairs": 120, "source_words": 720, "target_words": 720, **nothing},
        {"split": "valid", "name": "dev.tsv", "pairs": 1, "source_words": 2, "target_words": 1, **nothing},
    ]
    assert "up to date" in prepare("--train", "corpus.tsv", "--valid", "dev.tsv").stderr


def test_filters(prepare, tmp_path):
    """Each corpus has its counts and samples; any number of workers writes the same."""
    faulty = [
        ("A dog &amp; a cat", "Ein Hund &amp; eine Katze"), ("12 dogs", "21 Hunde"),
        ("Собака бежит", "Ein Hund läuft ."),
        ("a DOG number 999 runs!", "ein Hund nummer 888 läuft!"), ("blue cafÃ©", "blaues CafÃ©"), ("---- 1", "---- 1"),
        ("see www.example.org", "siehe hier"), ("a\x1b[1m b", "a b"), ("a" * 50, "lang"),
    ]  # fmt: skip
    (tmp_path / "a.tsv").write_bytes(tsv([*PAIRS[:50], *faulty]))
    (tmp_path / "b.tsv").write_bytes(tsv(faulty[:1] + PAIRS[50:]))
    (tmp_path / "dev.tsv").write_bytes(tsv(faulty[:2]))
    arguments = ["--train", "a.tsv", "--train", "b.tsv", "--valid", "dev.tsv", "--test", "dev.tsv", "--show-dropped"]
    for name in (
        "html", "numbers", "script", "near_duplicates", "repair_encoding", "letters=0.4", "urls", "control",
        "long_words=40",
    ):  # fmt: skip
        arguments += ["--filter", name]
    done = prepare(*arguments, "--jobs", "1")
    # Near duplicates: the pairs of a length of their number are equal but for digits.
    kept = [PAIRS[0], PAIRS[10], ("blue café", "blaues Café"), PAIRS[100]]
    assert written(tmp_path) == [*kept, *faulty[:2], *faulty[:2]]
    counts = {name: count for name, count in manifest(tmp_path)["filters"].items() if count}
    assert counts == {
        "control": 1, "html": 2, "long_words": 1, "letters": 1, "script": 1, "numbers": 2, "urls": 1,
        "near_duplicates": 117, "repaired_kept": 1,
    }  # fmt: skip
    assert "train: dropped as near_duplicates: 117\n" in done.stderr
    assert "train: kept, counted as repaired: 1\n" in done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stderr.splitlines() if line[:1] == "|"]
    assert ["train: b.tsv", "html", "1", "1.41%"] in rows
    assert ["train: b.tsv", "near_duplicates", "69", "97.18%"] in rows
    shown = done.stderr.splitlines()
    start = shown.index("train: b.tsv: dropped as near_duplicates (first 3 of 69):")
    assert shown[start + 1 : start + 7] == [
        f"  {language}: {side}" for pair in PAIRS[50:53] for language, side in zip(("en", "de"), pair, strict=True)
    ]
    assert "  en: a\\u001b[1m b" in shown

    again = prepare(*arguments)
    assert "up to date" in again.stderr
    assert "  en: Собака бежит" in again.stderr
    first = manifest(tmp_path)
    prepare(*arguments, "--jobs", "2", "--force")
    assert manifest(tmp_path) == first
    done = prepare("--train", "a.tsv", "--filter", "letter=0.5", expect=2)
    assert "unknown filter 'letter' (did you mean 'letters'?)" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "none.tsv"], "none.tsv: does not exist"),
        (["--train", "short.tsv"], "short.tsv, line 2: has 1 column, but at least 2 are needed"),
        (["--train", "whole.tsv", "--columns", "en"], "none of the columns 'en' hold de"),
        (["--train", "prefix", "--header"], "--header: only for tab-separated text"),
        (["--train", "prefix", "--min-score", "1"], "filters.min_score needs scores"),
        (["--train", "cut.tsv.gz"], "cut.tsv.gz: damaged or truncated archive"),
    ],
)
def test_mistakes_are_explained(prepare, tmp_path, arguments, message):
    (tmp_path / "whole.tsv").write_bytes(tsv())
    (tmp_path / "short.tsv").write_text("a\tb\nc\nd\n")
    (tmp_path / "cut.tsv.gz").write_bytes(gzip.compress(tsv())[:-20])
    assert message in " ".join(prepare(*arguments, expect=2).stderr.split())
    assert not (tmp_path / "data" / "own-en-de").exists()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("own.tsv", "", "own.tsv has no pair of en and de. The train text is empty."),
        (
            "own.tmx",
            '<tmx version="1.4"><header/><body><tu><tuv xml:lang="fr"><seg>un</seg></tuv></tu></body></tmx>',
            "own.tmx has no pair of en and de. Skipped units or lines without text in both languages: 1. own.tmx has",
        ),
    ],
)
def test_text_without_a_pair_is_an_error_that_says_so(nmt, tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    options = ("--source-lang", "en", "--target-lang", "de")
    result = nmt("prepare-data", "mine", "--train", name, *options, cwd=tmp_path, check=False)
    assert result.returncode == 2
    assert says in result.stderr


def test_a_header_that_is_read_as_a_pair_gets_a_hint_which_ends_it(prepare, tmp_path):
    (tmp_path / "corpus.tsv").write_bytes(b"en\tde\n" + tsv())
    done = prepare("--train", "corpus.tsv")
    assert done.stderr.count("corpus.tsv: its first line, 'en' and 'de', looks like the names of the columns") == 1
    assert len(written(tmp_path)) == len(PAIRS) + 1
    again = prepare("--train", "corpus.tsv", "--header")
    assert "first line" not in again.stderr
    assert sorted(written(tmp_path)) == sorted(PAIRS)
