"""What the words of a user mean: prefixes, files that hold both sides, standard input."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import load_recipe, own_recipe, parse_recipe, with_filters
from nmt.corpora.sources import Sources
from nmt.corpora.user_corpora import paired, user_corpora
from nmt.errors import ConfigError, DataError, DownloadError
from tests.kit.archives import zipped

try:
    from compression import zstd
except ImportError:
    from backports import zstd

ROWS = [(f"a dog number {n} runs", f"ein Hund Nummer {n} läuft", n / 100) for n in range(100)]
SCORED = "".join(f"{source}\t{target}\t{score}\n" for source, target, score in ROWS).encode()


def recipe(**texts):
    return own_recipe("own", source_lang="en", target_lang="de", **texts)


def lines(path):
    return path.read_text("utf-8").splitlines()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kinds(text, **layout):
    return [(corpus.get("format"), Path(corpus["files"]).name) for corpus in user_corpora(text, ("en", "de"), **layout)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("corpus/news", (None, "news")),
        ("corpus/news.v7", (None, "news.v7")),
        ("corpus/crawl.tsv", ("tsv", "crawl.tsv")),
        ("corpus/CRAWL.TSV.gz", ("tsv", "CRAWL.TSV.gz")),
        ("crawl.tsv.zst", ("tsv", "crawl.tsv.zst")),
        ("-", ("tsv", "-")),
        ("https://host/x/CRAWL.tsv.xz?sig=a/b.zip", ("tsv", "CRAWL.tsv.xz?sig=a/b.zip".rpartition("/")[2])),
        ("http://host/de-en.txt.zip", ("opus-zip", "de-en.txt.zip")),
        ("http://host/memory.tmx", ("tmx", "memory.tmx")),
    ],
)
def test_a_name_says_what_it_is(here, text, expected):
    assert kinds(text) == [expected]


def test_what_was_a_prefix_stays_one(here):
    for language in ("en", "de.gz"):
        (here / f"odd.tsv.{language}").touch()
    assert kinds("odd.tsv") == [(None, "odd.tsv")]
    (here / "odd.tsv").touch()
    assert kinds("odd.tsv") == [("tsv", "odd.tsv")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a.en", "a.de"], [("a.en", "a.de")]),
        (["a.de", "a.en"], [("a.en", "a.de")]),
        (["a.en.gz", "b.txt", "c.txt", "a.de"], [("a.en.gz", "b.txt"), ("c.txt", "a.de")]),
        (["a", "a.en", "a.de", "t.tsv", "b.txt"], ["a", ("a.en", "a.de"), "t.tsv", "b.txt"]),
        (["a.en", "t.tsv", "a.de"], ["a.en", "t.tsv", "a.de"]),
        (["http://h/a.de", "http://h/a.en.gz?x=1"], [("http://h/a.en.gz?x=1", "http://h/a.de")]),
        (["http://h/a", "a.de", "http://h/t.tsv"], [("http://h/a", "a.de"), "http://h/t.tsv"]),
        (["pipe", "a.de", "pipe"], [("pipe", "a.de"), "pipe"]),
    ],
)
def test_two_files_in_succession_are_source_and_target(here, words, expected):
    for name in ("a.en", "a.de", "a.en.gz", "b.txt", "c.txt", "t.tsv"):
        (here / name).touch()
    os.mkfifo(here / "pipe")
    assert paired(words, ("en", "de")) == expected


def test_two_files_of_one_language_keep_their_order_where_their_names_fit(here):
    for name in ("a.pt", "a.pt-BR"):
        (here / name).touch()
    assert paired(["a.pt", "a.pt-BR"], ("pt", "pt-BR")) == [("a.pt", "a.pt-BR")]
    assert paired(["a.pt-BR", "a.pt"], ("pt-BR", "pt")) == [("a.pt-BR", "a.pt")]


@pytest.mark.parametrize(
    "name", ["d.csv", "d.CSV", "d.jsonl", "d.jsonl.gz", "d.xlsx", "d.sdlxliff", "https://host/d.csv"]
)
def test_a_form_that_is_not_read_is_named_with_the_way_out(here, name):
    if "://" not in name:
        (here / name).write_text("{}\n")
    with pytest.raises(
        (ConfigError, DataError), match=r"d\..*this form is not read.* NAME\.tsv, one pair per line"
    ) as error:
        prepare(recipe(train=[name]), here / "own")
    assert str(error.value).lower().count("d.") == 1 or "://" in name
    if "://" not in name:
        (here / "x.de").touch()
        with pytest.raises(DataError, match=rf"^{name}: this form is not read"):
            prepare(recipe(train=[name, "x.de"]), here / "own")


@pytest.mark.parametrize("name", ["anki.txt", "en-de.txt.gz", "pairs"])
def test_tab_separated_text_of_another_name_is_recognised(here, name):
    content = b"#separator:tab\n" + b"".join(b"a %d\tA %d\tCC-BY\n" % (n, n) for n in range(20))
    (here / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    notices: list[str] = []
    layout = {"columns": ["de", "en", "-"], "notify": notices.append}
    own = own_recipe("own", source_lang="en", target_lang="de", train=[name], **layout)
    assert notices == [f"{name}: is read as tab-separated text: its lines have columns"]
    [read] = [corpus for corpus in prepare(own, here / "own").manifest.corpora if corpus.split == "train"]
    assert (read.pairs, read.skipped) == (20, 1)
    assert "A 1" in lines(here / "own" / "train.en")
    in_recipe = own.model_dump(mode="json") | {"train": [{"kind": "text", "files": str(here / name)}]}
    if "." in name:
        with pytest.raises(DataError, match="has columns separated by tabs: add format: tsv to its corpus"):
            prepare(parse_recipe(in_recipe, name="own"), here / "other")


@pytest.mark.parametrize(
    ("names", "languages", "read"),
    [
        (
            "gnome-eng-zho_CN.eng gnome-eng-zho_CN.zho_CN.gz",
            "eng zho",
            "gnome-eng-zho_CN.eng gnome-eng-zho_CN.zho_CN.gz",
        ),
        ("x.eng x.por_BR", "en pt", "x.eng x.por_BR"),
        ("x.en x.en_GB x.pt x.pt_BR", "en_GB pt-BR", "x.en_GB x.pt_BR"),
        ("x.en x.sr_RS x.sr@latin", "en sr-Latn", "x.en x.sr@latin"),
        ("x.en x.sr@latin", "en sr@latin", "x.en x.sr@latin"),
        ("x.pt x.pt_BR", "pt pt_BR", "x.pt x.pt_BR"),
    ],
)
def test_files_of_a_prefix_may_have_other_codes_of_the_languages(here, names, languages, read):
    (here / "folder").mkdir()
    for name in names.split():
        content = "".join(f"{name} {number}\n" for number in range(60)).encode()
        (here / "folder" / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    source, target = languages.split()
    for text in ("folder", f"folder/{names.split()[0].rpartition('.')[0]}"):
        one = own_recipe("own", source_lang=source, target_lang=target, train=[text])
        manifest = prepare(one, here / "data" / "own", workers=1).manifest
        assert [Path(record.file).name for record in manifest.sources] == read.split()


@pytest.mark.parametrize(
    ("names", "languages", "message"),
    [
        ("x.en x.zh_CN x.zh_TW", "en zh", r"x.zh_CN and .*x.zh_TW may both be zh: name both files.*or give the code"),
        ("x.pt", "pt pt_BR", "x.pt: is the only file of .*x for both languages"),
        ("x.en x.zh_TW", "en zh-Hans", r"there is no x.zh-Hans \(nor .*; there is x\.en, x\.zh_TW\. Two"),
    ],
)
def test_files_of_a_prefix_that_do_not_fit_are_named(here, names, languages, message):
    for name in names.split():
        (here / name).write_text("a\n")
    source, target = languages.split()
    with pytest.raises(DataError, match=message):
        prepare(own_recipe("own", source_lang=source, target_lang=target, train=["x"]), here / "own")


PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstd.compress}


@pytest.mark.parametrize("suffix", PACKERS)
def test_every_form_is_read_plain_and_compressed(here, suffix):
    """From a folder, in the order of names; a new file makes the data set out of date."""
    memory = SERVED["memory.tmx"].decode().encode("utf-16")
    forms = {"a.en": SIDES["en"], "a.de": SIDES["de"], "b.tmx": memory, "d.tsv": SCORED}
    (here / "corpora").mkdir()
    (here / "corpora" / "c.zip").write_bytes(SERVED["de-en.txt.zip"])
    for name, content in forms.items():
        (here / "corpora" / f"{name}{suffix}").write_bytes(PACKERS[suffix](content))
    mine = recipe(train=["corpora/"], valid=[f"corpora/b.tmx{suffix}"], test=["corpora/c.zip"])
    mine = with_filters(mine, {"leakage": "count", "dedup": False})
    manifest = prepare(mine, here / "out", workers=1).manifest
    for n, language in enumerate(("en", "de")):
        assert lines(here / "out" / f"train.{language}") == [row[n] for row in ROWS] * 4
        assert lines(here / "out" / f"valid.{language}") == lines(here / "out" / f"test.{language}")
    names = ["a", f"b.tmx{suffix}", "c.zip", f"d.tsv{suffix}"]
    assert [corpus.name for corpus in manifest.corpora] == [*names, names[1], names[2]]
    sources = {Path(record.file).name: record.sha256 for record in manifest.sources}
    packed = (here / "corpora" / f"d.tsv{suffix}").read_bytes()
    assert sources[f"d.tsv{suffix}"] == hashlib.sha256(packed).hexdigest()
    assert len(sources) == 5
    assert not prepare(mine, here / "out").changed
    (here / "corpora" / "e.tsv").write_bytes(SCORED)
    mine = recipe(train=["corpora/"], valid=[f"corpora/b.tmx{suffix}"], test=["corpora/c.zip"])
    assert prepare(with_filters(mine, {"leakage": "count"}), here / "out", workers=1).changed


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("own.tsv", "", r"own\.tsv has no pair of en and de\. The train text is empty\."),
        (
            "own.tmx",
            '<tmx version="1.4"><header/><body><tu><tuv xml:lang="fr"><seg>un</seg></tuv></tu></body></tmx>',
            r"own\.tmx has no pair of en and de\. Skipped .* in both languages: 1\. own\.tmx has text in fr",
        ),
    ],
)
def test_text_without_a_pair_is_an_error_that_says_so(here, name, content, says):
    (here / name).write_text(content)
    with pytest.raises(DataError, match=says):
        prepare(recipe(train=[name]), here / "out")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("c.en", r"leave off \.en and write c, or name both files"),
        ("c.", r"leave off the \. at the end and write c\."),
        ("p.en.gz", r"leave off \.en\.gz and write p,"),
        ("folder/x", r"there is no folder/x\.en \(nor "),
    ],
)
def test_a_word_that_is_no_prefix_is_corrected(here, word, message):
    (here / "c.en").write_text("one\n")
    (here / "p.en.gz").write_bytes(gzip.compress(b"one\n"))
    with pytest.raises(DataError, match=message):
        prepare(recipe(train=[word]), here / "out")


def test_a_pipe_is_tab_separated(here):
    os.mkfifo(here / "pipe")
    assert user_corpora("pipe", ("en", "de")) == [
        {"kind": "text", "files": str(here / "pipe"), "format": "tsv", "columns": ["source", "target"],
         "header": False}
    ]  # fmt: skip


def test_two_pipes_are_two_sides(here):
    for name, content in zip(("one", "two"), SIDES.values(), strict=True):
        os.mkfifo(here / name)
        threading.Thread(target=(here / name).write_bytes, args=[gzip.compress(content)]).start()
    assert prepare(recipe(train=["one", "two"]), here / "out").manifest.corpora[0].pairs == 100


def names_of(text, languages=("en", "de")):
    told = []
    corpora = user_corpora(text, languages, notify=told.append)
    assert told[0].startswith(f"{text}: reads ")
    names = [Path(corpus["files"]).name for corpus in corpora]
    assert told[0].removeprefix(f"{text}: reads ").split(", ") == names
    return names


@pytest.fixture
def corpora(here):
    """A folder with parallel text in all forms, and other files."""
    folder = here / "corpora"
    (folder / "deeper").mkdir(parents=True)
    names = [
        "z.en", "z.de", "b.en.gz", "b.de", "a.tmx", "m.TSV.gz", "c.zip", "lonely.en", "x.de", "README", ".hidden.tsv",
        "deeper/d.tsv", ".en", ".de", "b.fr",
    ]  # fmt: skip
    for name in names:
        (folder / name).touch()
    return folder


def test_a_folder_is_all_its_parallel_files_in_the_order_of_names(corpora):
    assert names_of("corpora") == names_of("corpora/") == ["a.tmx", "b", "c.zip", "m.TSV.gz", "z"]
    assert names_of("corpora", ("de", "en")) == ["a.tmx", "b", "c.zip", "m.TSV.gz", "z"]
    assert names_of("corpora", ("fr", "de")) == ["a.tmx", "b", "c.zip", "m.TSV.gz"]
    assert names_of("corpora", ("fr", "cs")) == ["a.tmx", "c.zip", "m.TSV.gz"]


def test_a_folder_of_the_name_of_a_prefix_is_meant_with_a_slash(corpora):
    for language in ("en", "de"):
        corpora.with_name(f"corpora.{language}").touch()
    assert kinds("corpora") == [(None, "corpora")]
    assert len(names_of("corpora/")) == 5


def test_of_a_file_and_its_compressed_copy_the_plain_one_is_read(here):
    (here / "corpora").mkdir()
    (here / "corpora" / "a.tsv").write_bytes(b"a\tb\n")
    (here / "corpora" / "a.tsv.gz").write_bytes(gzip.compress(b"a\tc\n"))
    for language, content in SIDES.items():
        (here / "corpora" / f"p.{language}").write_bytes(content)
        (here / "corpora" / f"p.{language}.gz").write_bytes(gzip.compress(b"others\n"))
    assert names_of("corpora") == ["a.tsv", "p"]
    assert prepare(recipe(train=["corpora/p"]), here / "out").manifest.corpora[0].pairs == 100


@pytest.mark.parametrize(
    ("names", "held"),
    [([], "no file"), (["a.en", "a.fr"], "a.en, a.fr"), ([f"{n:02}" for n in range(30)], "18, 19 and 10 more")],
)
def test_a_folder_without_parallel_text_lists_what_it_holds(here, names, held):
    (here / "corpora").mkdir()
    for name in names:
        (here / "corpora" / name).touch()
    with pytest.raises(DataError, match=f"corpora: has no parallel text for en and de, .* It holds .*{held}"):
        recipe(train=["corpora"])


def test_pairs_below_the_minimum_score_are_dropped_from_training_only(here):
    (here / "scored.tsv").write_bytes(SCORED)
    mine = recipe(train=["scored.tsv"], valid=["scored.tsv"], test=["scored.tsv"], columns=["en", "de", "score"])
    prepared = prepare(with_filters(mine, {"min_score": 0.7, "leakage": "count"}), here / "out")
    manifest = prepared.manifest
    assert lines(here / "out" / "train.de") == [target for _, target, _ in ROWS[70:]]
    assert lines(here / "out" / "valid.en") == [source for source, _, _ in ROWS]
    assert manifest.filters["score"] == 70
    assert next(iter(manifest.filters)) == "score"
    assert [(corpus.split, corpus.name, corpus.pairs) for corpus in manifest.corpora] == [
        (split, "scored.tsv", 100) for split in ("train", "valid", "test")
    ]
    assert [(record.file, record.sha256) for record in manifest.sources] == [
        (str(here / "scored.tsv"), hashlib.sha256(SCORED).hexdigest())
    ]
    assert parse_recipe(manifest.recipe, name="manifest").filters.min_score == 0.7


def test_valid_and_test_need_no_scores(here):
    (here / "scored.tsv").write_bytes(b"en\tde\tscore\n" + SCORED)
    (here / "dev.tsv").write_bytes(b"de\ten\nja\tyes\n")
    mine = recipe(train=["scored.tsv"], valid=["dev.tsv"], test=["dev.tsv"], header=True)
    prepare(with_filters(mine, {"min_score": 0.7}), here / "out")
    assert lines(here / "out" / "valid.en") == lines(here / "out" / "test.en") == ["yes"]
    assert len(lines(here / "out" / "train.en")) == 30


def test_held_out_pairs_have_the_minimum_score_and_each_pair_is_counted_once(here):
    (here / "scored.tsv").write_bytes(SCORED)
    mine = with_filters(recipe(train=["scored.tsv"], columns=["en", "de", "score"]), {"min_score": 0.5})
    manifest = prepare(mine, here / "out").manifest
    assert manifest.filters["score"] == 50
    kept = [line for split in ("train", "valid", "test") for line in lines(here / "out" / f"{split}.en")]
    assert sorted(kept) == sorted(source for source, _, _ in ROWS[50:])
    assert sum(manifest.filters.values()) + manifest.files["train.en"].lines == manifest.corpora[0].pairs == 100


@pytest.mark.parametrize(
    ("source", "target", "counts"), [("en", "zh", (2, 5)), ("zh", "en", (5, 2)), ("en", "de", (2, 1))]
)
def test_words_of_each_side_are_counted_as_its_language_has_them(here, source, target, counts):
    text = {"en": "good morning", "zh": "大家早上好", "de": "大家早上好"}
    for language in (source, target):
        (here / f"x.{language}").write_text(f"{text[language]}\n")
    mine = own_recipe("own", source_lang=source, target_lang=target, train=["x"], valid=["x"], test=["x"])
    with_all = with_filters(mine, {"leakage": "count"})
    for record in prepare(with_all, here / "out").manifest.corpora:
        assert (record.source_words, record.target_words) == counts


class Stdin:
    """Standard input that delivers some bytes once."""

    def __init__(self, monkeypatch, content):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_read_once_and_recorded_as_it_came(here, monkeypatch, pack):
    content = pack(SCORED)
    mine = recipe(train=["-"])
    Stdin(monkeypatch, content)
    manifest = prepare(mine, here / "out").manifest
    [record] = manifest.sources
    assert (record.file, record.sha256, record.bytes) == ("-", hashlib.sha256(content).hexdigest(), len(content))
    assert manifest.corpora[0].name == "standard input"
    assert len(lines(here / "out" / "train.en")) == 90
    Stdin(monkeypatch, content)
    assert not prepare(mine, here / "out").changed
    Stdin(monkeypatch, SCORED[:-1] + b"1\n")
    assert prepare(mine, here / "out").changed


def test_an_error_names_standard_input_and_not_its_copy(here, monkeypatch):
    Stdin(monkeypatch, b"a\tb\nc\nd\n")
    with pytest.raises(DataError, match=r"^standard input, line 2: has 1 column"):
        prepare(recipe(train=["-"]), here / "out")


def test_standard_input_may_hold_one_side_or_another_format(here, monkeypatch):
    (here / "x.de").write_bytes(SIDES["de"])
    Stdin(monkeypatch, SIDES["en"])
    values = recipe(train=["x"]).model_dump(mode="json")
    for corpus in ({"files": {"en": "-", "de": str(here / "x.de")}}, {"files": "-", "format": "opus-zip"}):
        Stdin(monkeypatch, SIDES["en"] if "format" not in corpus else SERVED["de-en.txt.zip"])
        of_stdin = parse_recipe(values | {"train": [{"kind": "text"} | corpus]}, name="own")
        manifest = prepare(of_stdin, here / "out").manifest
        assert (manifest.corpora[0].name.split("+")[0], manifest.corpora[0].pairs) == ("standard input", 100)


def test_standard_input_is_given_once():
    with pytest.raises(ConfigError, match=r"standard input \(-\) can be read only once"):
        recipe(train=["-"], valid=["-"])


@pytest.mark.parametrize("layout", [{"columns": ["en", "de"]}, {"header": True}])
def test_columns_need_a_tab_separated_file(layout):
    with pytest.raises(ConfigError, match=r"--(columns|header): only for tab-separated text"):
        recipe(train=["corpus/news"], **layout)
    recipe(train=["corpus/news"], valid=["dev.tsv"], **layout)


def test_a_minimum_score_needs_a_file_that_can_have_scores():
    with pytest.raises(ConfigError, match=r"filters\.min_score needs scores"):
        with_filters(recipe(train=["corpus/news"], valid=["dev.tsv"]), {"min_score": 1})
    with pytest.raises(ConfigError, match=r"filters\.min_score: expected a finite number"):
        with_filters(recipe(train=["corpus.tsv"]), {"min_score": float("nan")})


@pytest.mark.parametrize(("name", "message"), [("none.tsv", "does not exist"), ("folder.tsv", "is a folder")])
def test_a_file_that_is_none_is_named(here, name, message):
    (here / "folder.tsv").mkdir()
    values = recipe(train=["x"]).model_dump(mode="json")
    values["train"] = [{"kind": "text", "files": str(here / name), "format": "tsv"}]
    with pytest.raises(DataError, match=rf"{name}: {message}"):
        prepare(parse_recipe(values, name="own"), here / "out")


def test_a_recipe_finds_a_file_beside_it(here):
    (here / "deep").mkdir()
    (here / "deep" / "mine.yaml").write_text(
        """{name: mine, source_lang: en, target_lang: de, downloads: {d: {url: "http://h/d.zip"}},
            train: [{kind: text, files: a.tsv, format: tsv}, {kind: text, files: b}, {kind: text, files: d!c}],
            valid: [{kind: text, files: "-", format: tsv}],
            test: [{kind: text, files: {en: d/e, de: ./d}}, {kind: text, files: "http://h/e.tmx", format: tmx}]}"""
    )
    loaded = load_recipe("deep/mine.yaml")
    deep = here / "deep"
    assert [corpus.files for corpus in loaded.train] == [str(deep / "a.tsv"), str(deep / "b"), "d!c"]
    assert loaded.valid[0].files == "-"
    assert [corpus.files for corpus in loaded.test] == [
        {"en": str(deep / "d" / "e"), "de": str(deep / "d")}, "http://h/e.tmx"
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["x" * 250, "x" * 254, "x" * 300, "x" * 300 + ".tsv", "x" * 5000])
def test_a_name_that_no_file_can_have_is_a_missing_file(word, tmp_path):
    recipe = own_recipe("own-en-de", source_lang=None, target_lang=None, train=[word])
    with pytest.raises(DataError, match=r"there is no|does not exist"):
        Sources(recipe, tmp_path)


SIDES = {language: "".join(f"{row[n]}\n" for row in ROWS).encode() for n, language in enumerate(("en", "de"))}
UNITS = "".join(
    f'<tu><tuv xml:lang="en"><seg>{row[0]}</seg></tuv><tuv xml:lang="de"><seg>{row[1]}</seg></tuv></tu>' for row in ROWS
)
SERVED = {
    "crawl.tsv.gz": gzip.compress(SCORED),
    "memory.tmx": f"<tmx><body>{UNITS}</body></tmx>".encode(),
    "de-en.txt.zip": zipped({f"x.de-en.{language}": content for language, content in SIDES.items()}),
    "x.en.gz": gzip.compress(SIDES["en"]),
    "x.de": SIDES["de"],
}


@pytest.mark.parametrize("names", [["crawl.tsv.gz"], ["memory.tmx"], ["de-en.txt.zip"], ["x.de", "x.en.gz"]])
def test_text_on_the_web_is_fetched_once_recorded_and_pinned(here, file_server, names):
    file_server.files |= {f"{name}?sig=s3cret": content for name, content in SERVED.items()}
    mine = recipe(train=[f"{file_server.url}/{name}?sig=s3cret" for name in names])
    told = []
    manifest = prepare(mine, here / "out", cache=here / "cache", notify=told.append).manifest
    for name in ("en", "de"):
        found = [line for split in ("train", "valid", "test") for line in lines(here / "out" / f"{split}.{name}")]
        assert sorted(found) == sorted(SIDES[name].decode().splitlines())
    assert {record.url: record.sha256 for record in manifest.sources} == {
        f"{file_server.url}/{name}": hashlib.sha256(SERVED[name]).hexdigest() for name in names
    }
    assert {record.file for record in manifest.sources} == set(names)
    assert manifest.corpora[0].name == "+".join(sorted(names, reverse=True))
    assert "s3cret" not in (here / "out" / "manifest.json").read_text() + "".join(told)
    assert not prepare(mine, here / "out", cache=here / "cache").changed
    assert len(file_server.requests) == len(names)
    assert prepare(mine, here / "out", cache=here / "cache", offline=True, force=True).changed

    file_server.files = {name: content + b"changed" for name, content in file_server.files.items()}
    for path in (here / "cache").rglob(names[0]):
        path.unlink()
    with pytest.raises(DownloadError, match="but that of the first download was"):
        prepare(mine, here / "out", cache=here / "cache", force=True)


def test_one_side_may_lie_on_the_web(here, file_server):
    file_server.files["x.en.gz"] = SERVED["x.en.gz"]
    (here / "x.de").write_bytes(SIDES["de"])
    manifest = prepare(recipe(train=[f"{file_server.url}/x.en.gz", "x.de"]), here / "out", cache=here / "c").manifest
    assert manifest.corpora[0].pairs == 100
    assert [record.url for record in manifest.sources] == [f"{file_server.url}/x.en.gz", None]


def test_text_on_the_web_that_unpacks_to_far_too_much_is_refused(here, file_server, monkeypatch):
    monkeypatch.setattr("nmt.corpora.archive._ALWAYS_ALLOWED", 100_000)
    file_server.files["x.tsv.gz"] = gzip.compress(b"a\tb\n" * 30_000)
    with pytest.raises(DownloadError, match=r"x\.tsv\.gz: unpacks to more than"):
        prepare(recipe(train=[f"{file_server.url}/x.tsv.gz"]), here / "out", cache=here / "cache")
    (here / "x.tsv.gz").write_bytes(file_server.files["x.tsv.gz"])  # the user's own is trusted
    with pytest.raises(DataError, match="none of 30,000 train pairs"):
        prepare(recipe(train=["x.tsv.gz"], valid=["x.tsv.gz"], test=["x.tsv.gz"]), here / "own", workers=1)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("http://me:s3cret@h/a.en?sig=s3cret", r"^http://h/a\.en: holds one side, by its name\. Give the addresses"),
        ("https://h/", r"https://h/: the address does not end in the name of a file"),
        ("http:///a.tsv", "the address has no valid host"),
        ("ftp://me:s3cret@h/a.tsv?sig=s3cret", "^ftp://h/a.tsv: the address must begin with http:// or https://"),
        ("s3://me:s3cret@h/a.de", "^s3://h/a.de: the address must begin with"),
    ],
)
def test_an_address_that_cannot_be_read_is_named_without_its_secrets(word, message):
    with pytest.raises(ConfigError, match=message) as error:
        recipe(train=[word])
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("files", [{"en": "f", "de": "g"}, "f"])
def test_a_missing_file_may_be_meant_as_a_download(here, files):
    values = recipe(train=["x"]).model_dump(mode="json")
    values |= {"train": [{"kind": "text", "files": files}]}
    values |= {"downloads": {key: {"url": f"http://h/{key}"} for key in ("d", "e")}}
    with pytest.raises(DataError, match=r"It is no key of downloads either \(d, e\)\."):
        prepare(parse_recipe(values, name="own"), here / "out")


def test_members_of_downloads_are_read_in_every_format(here, file_server, monkeypatch):
    unpacked, files = [], Sources._files

    def note(sources, parts, folder):
        unpacked.append(folder.exists())  # of the corpus before
        return files(sources, parts, folder)

    monkeypatch.setattr(Sources, "_files", note)
    members = {"a/crawl.tsv": SCORED, "m.tmx": SERVED["memory.tmx"], "in.zip": SERVED["de-en.txt.zip"]}
    file_server.files["all.zip"] = zipped(members | {f"x.{code}": content for code, content in SIDES.items()})
    forms = {"a/crawl.tsv": "tsv", "m.tmx": "tmx", "in.zip": "opus-zip", "x": "plain"}
    values = recipe(train=["x"]).model_dump(mode="json")
    values["downloads"] = {"all": {"url": f"{file_server.url}/all.zip"}}
    values["train"] = [{"kind": "text", "files": f"all!{name}", "format": form} for name, form in forms.items()]
    manifest = prepare(parse_recipe(values, name="own"), here / "out", cache=here / "cache").manifest
    assert [(record.name, record.pairs) for record in manifest.corpora] == [
        ("crawl.tsv", 100), ("m.tmx", 100), ("in.zip", 100), ("x", 100)
    ]  # fmt: skip
    assert len(manifest.sources) == len(file_server.requests) == 1
    assert unpacked == [False] * 4


def test_a_query_says_which_file_it_is(here, file_server):
    def take(number, out):
        return prepare(recipe(train=[f"{file_server.url}/get.tsv?id={number}"]), here / out, cache=here / "cache")

    for number in (1, 2):
        pairs = "".join(f"dog {number} {line}\tHund {number} {line}\n" for line in range(99))
        file_server.files[f"get.tsv?id={number}"] = pairs.encode()
    assert take(1, "one").changed and not take(1, "one").changed
    take(2, "two")
    assert "dog 2" in (here / "two" / "train.en").read_text()
    assert take(2, "one").changed
    assert "dog 2" in (here / "one" / "train.en").read_text()


def test_one_file_for_both_sides_is_refused_without_secrets():
    address = "https://user:s3cret@example.org/a.en?sig=s3cret"
    with pytest.raises(ConfigError, match=r"^https://example\.org/a\.en: was given as source and as target\.$"):
        recipe(train=[address, address])


@pytest.mark.parametrize("words", [["english.txt", "germam.txt"], ["germam.txt", "english.txt"]])
def test_a_misspelt_file_of_two_is_named(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    for name in ("english.txt", "german.txt"):
        (tmp_path / name).write_text("a\n")
    with pytest.raises(DataError, match=r"^germam\.txt: there is no such file \(did you mean german\.txt\?\)"):
        paired(words, ("en", "de"))


def test_a_link_to_nothing_is_not_advised_in_its_own_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "german.txt").write_text("a\n")
    (tmp_path / "english.txt").symlink_to("gone")
    with pytest.raises(DataError, match=r"^english\.txt: is a link to nothing\. It was given"):
        paired(["english.txt", "german.txt"], ("en", "de"))


SEGMENTS = (
    '<refset setid="x">\n<doc docid="1">\n<seg id="1">{} &amp; one</seg>\n<seg id="2">{} two</seg>\n</doc>\n</refset>\n'
)


@pytest.mark.parametrize("ending", [".sgm", ".SGML", ".xml.gz"])
def test_test_sets_of_wmt_and_iwslt_give_their_segments(here, ending):
    files = []
    for language in ("de", "en"):  # the names say which side comes first
        (here / f"corpus.{language}").write_text("".join(f"{language} number {n}\n" for n in range(30)))
        content = SEGMENTS.format(language, language).encode()
        files.append(f"dev.{language}{ending}")
        (here / files[-1]).write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    prepare(recipe(train=["corpus"], valid=files), here / "out")
    assert (here / "out/valid.en").read_text() == "en & one\nen two\n"
    assert (here / "out/valid.de").read_text() == "de & one\nde two\n"
    with pytest.raises(DataError, match=r"dev\.de\.\S+: this form is not read as parallel text"):
        prepare(recipe(train=["corpus"], valid=[files[0], "corpus.de"]), here / "other")


def test_a_recipe_may_name_the_form_of_a_file_of_any_name(here):
    (here / "corpus.csv").write_text("one\teins\n" * 3)
    corpus = {"kind": "text", "format": "tsv", "files": str(here / "corpus.csv")}
    values = {"name": "own", "source_lang": "en", "target_lang": "de", "train": [corpus], "valid": [corpus]}
    values["filters"] = {"leakage": "count"}
    values["test"] = [corpus]
    assert prepare(parse_recipe(values, name="own"), here / "out").manifest.corpora[0].pairs == 3
