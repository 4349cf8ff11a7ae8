"""Recipes: the built-in ones are whole, the strictness is kind, reversal and own files work."""

import pytest
import yaml

from nmt.corpora.recipe import (
    builtin_names,
    builtin_text,
    dump_recipe,
    load_recipe,
    own_recipe,
    parse_recipe,
    reverse,
    tagged,
    with_filters,
)
from nmt.corpora.schema import Recipe
from nmt.corpora.testsets import listed_files
from nmt.errors import ConfigError

MINIMAL = {
    "name": "mine",
    "source_lang": "en",
    "target_lang": "de",
    "train": [{"kind": "text", "files": "corpus/a"}],
    "valid": [{"kind": "held-out"}],
    "test": [{"kind": "test-set", "name": "wmt14/full"}],
}


def changed(**changes):
    return parse_recipe(MINIMAL | changes, name="mine.yaml")


def test_the_promised_pairs_are_there():
    assert set(builtin_names()) >= {"toy-en-de", "multi30k-en-de", "iwslt14-de-en", "wmt14-en-de", "wmt14-en-fr"}


@pytest.mark.parametrize("name", builtin_names())
def test_a_built_in_recipe_is_whole(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert name.endswith(f"{recipe.source_lang}-{recipe.target_lang}")
    assert recipe.description
    assert recipe.licence
    assert recipe.vocab_size
    used = {part.remote for _, corpus in recipe.corpora() for part, _ in corpus.parts(recipe) if part.remote}
    assert used == {download.remote() for download in recipe.downloads.values()}
    for file in used:
        assert file.sha256 or file.md5 or name == "iwslt14-de-en"


@pytest.mark.parametrize("name", builtin_names())
def test_what_is_shown_can_be_read_again(name):
    recipe = load_recipe(name)
    assert parse_recipe(yaml.safe_load(dump_recipe(recipe)), name=name) == recipe
    assert parse_recipe(yaml.safe_load(builtin_text(name)), name=name) == recipe


@pytest.mark.parametrize(
    ("name", "vocabulary", "train_corpora"), [("wmt14-en-de", 37_000, 3), ("wmt14-en-fr", 32_000, 5)]
)
def test_the_paper_s_data(name, vocabulary, train_corpora):
    recipe = load_recipe(name)
    assert recipe.vocab_size == vocabulary
    assert len(recipe.train) == train_corpora
    assert [corpus.name for corpus in recipe.valid] == ["newstest2013"]
    assert [(corpus.name, corpus.lines) for corpus in recipe.test] == [("wmt14/full", 3003)]
    assert [part.remote for part, _ in recipe.test[0].parts(recipe)] == listed_files("wmt14/full")
    assert recipe.filters.leakage == "count"
    assert not recipe.filters.dedup
    assert recipe.normalisation.model_dump() == {"nfc": False, "punctuation": False}


def test_the_paper_s_english_german_is_filtered_by_length_alone():
    recipe = load_recipe("wmt14-en-de")
    assert (recipe.filters.max_words, recipe.filters.max_ratio) == (250, None)
    assert sum(corpus.lines for corpus in recipe.train) == 4_520_620


def test_reversed_names():
    recipe = load_recipe("multi30k-de-en")
    assert (recipe.name, recipe.source_lang, recipe.target_lang) == ("multi30k-de-en", "de", "en")
    assert reverse(recipe) == load_recipe("multi30k-en-de")
    assert load_recipe("wmt14-fr-en").downloads == load_recipe("wmt14-en-fr").downloads
    assert reverse(changed()).name == "mine-reversed"


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"did you mean 'toy-en-de'"):
        load_recipe("toy")
    with pytest.raises(ConfigError, match=r"did you mean 'multi30k-en-de'.*toy-en-de.*--train"):
        load_recipe("multi30-en-de")


def test_a_recipe_file_finds_its_files_beside_it(tmp_path):
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(MINIMAL))
    recipe = load_recipe(str(tmp_path / "mine.yaml"))
    assert recipe.train[0].files == str(tmp_path / "corpus/a")
    with pytest.raises(ConfigError, match=r"none\.yaml: there is no such file"):
        load_recipe(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nmae": "x"}, "unknown key 'nmae'; did you mean 'name'"),
        ({"filters": {"max_wrods": 3}}, r"unknown key 'filters\.max_wrods'; did you mean 'max_words'"),
        ({"train": [{"kind": "text", "fils": "a"}]}, r"unknown key 'train\.0\.text\.fils'; did you mean 'files'"),
        ({"downloads": {"a": {"url": "https://a", "sha265": "0"}}}, r"downloads\.a\.sha265'; did you mean 'sha256'"),
        ({"downloads": {"a": {"url": "ftp://a"}}}, "must begin with http"),
        ({"downloads": {"a": {"url": "http://h/x/%2Fhome%2Fu%2F.bashrc"}}}, "contains a separator"),
        ({"downloads": {"a": {"url": "http://h/x/..%2F..%2Fevil"}}}, "contains a separator"),
        ({"downloads": {"a": {"url": "http://../x/evil"}}}, "names no host"),
        (
            {"downloads": {key: {"url": f"http://h/get?file={key}"} for key in ("a", "b")}},
            "the downloads a and b differ, but have the same path in the cache",
        ),
        ({"train": [{"kind": "toy", "name": "a\x1b[2J"}]}, "must be one line without control characters"),
        ({"train": [{"kind": "text", "files": "a.tmx", "format": "tmx", "header": True}]}, "a.tmx is tmx"),
        ({"train": [{"kind": "text", "files": "a.zip", "format": "opus-zip", "columns": []}]}, "are for tsv"),
        ({"train": [{"kind": "text", "files": {"en": "a"}, "format": "tmx"}]}, "holds both sides: name one file"),
        ({"train": [{"kind": "text", "files": {"en": "", "de": "a"}}]}, r"train\.0\.text\.files: names no file"),
        ({"train": [{"kind": "text", "files": {"en": 3, "de": "a"}}]}, r"files: expected text, got 3\."),
        ({"valid": [{"kind": "held-out", "lines": 3}]}, r"unknown key 'valid\.0\.held-out\.lines'"),
        ({"train": [{"kind": "text", "files": "ftp://h/a.tsv", "format": "tsv"}]}, "must begin with http:// or https://"),
        ({"train": [{"kind": "text", "files": {}}]}, r"train\.0\.text\.files: names no file"),
        ({"train": [{"kind": "text", "files": "-"}]}, "has a file per language: name both"),
        ({"train": [{"kind": "text", "files": "http://h/a"}]}, "has a file per language: name both"),
        ({"train": [{"kind": "text", "files": "http://h/", "format": "tsv"}]}, "does not end in the name of a file"),
        ({"train": [{"kind": "text", "files": "a.csv", "format": "csv"}]}, "expected 'plain', 'ted-tags'"),
        ({"train": [{"kind": "archive", "name": "a"}]}, "expected 'kind' to be one of 'text', 'test-set', 'toy'"),
        (
            {"train": [{"kind": "text", "files": f"http://h/a?{n}", "format": "tsv"} for n in range(2)]},
            "differ, but have the same path in the cache",
        ),
        ({"source_lang": "fr", "train": [{"kind": "toy"}]}, "the toy grammar has en and de, not fr and de"),
        ({"train": []}, "train"),
        ({"target_lang": "en"}, "both 'en'"),
        ({"target_lang": False}, "got false; put it in quotes"),
        ({"target_lang": "../x"}, "language code"),
        ({"name": "../x"}, "folder name"),
        ({"filters": {"max_words": "many"}}, r"filters\.max_words.*got 'many'"),
        ({"train": [{"kind": "text", "files": "a!b"}]}, r"'a' is not among the down.* is \./a!b"),
        ({"train": [{"kind": "text", "files": {"en": "a", "fr": "b"}}]}, "for en, fr; expected de and"),
        ({"downloads": {"a": {"url": "http://h/a"}}, "train": [{"kind": "text", "files": "a"}]}, "'a' is one download"),
        ({"test": [{"kind": "test-set", "name": "wmt14", "download": "a"}]}, "'a' is not among the downloads"),
        ({"valid": [{"kind": "held-out"}, {"kind": "toy"}]}, "held-out pairs cannot be mixed"),
        ({"train": [{"kind": "held-out"}]}, "expected 'kind' to be one of .*, got 'held-out'"),
        (
            {"train": [{"kind": "text", "files": {"en": "a!../a", "de": "a!b"}}]},
            r"'\.\./a' would be unpacked outside its folder",
        ),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value_is_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        changed(**changes)


def test_a_missing_key_is_named():
    with pytest.raises(ConfigError, match="'train' is missing"):
        parse_recipe({key: value for key, value in MINIMAL.items() if key != "train"}, name="mine.yaml")


def test_filters_change_under_the_same_checks():
    recipe = with_filters(changed(), {"max_words": 9, "dedup": False})
    assert (recipe.filters.max_words, recipe.filters.dedup, recipe.filters.max_ratio) == (9, False, 4.0)
    with pytest.raises(ConfigError, match="max_ratio"):
        with_filters(changed(), {"max_ratio": 0.5})


def test_a_tag_is_checked():
    recipe = tagged(with_filters(changed(), {"max_words": 9}), "BT")
    assert (recipe.tag, recipe.filters.max_words, tagged(recipe, "").tag) == ("BT", 9, "")
    with pytest.raises(ConfigError, match="--tag B T: must be a word such as BT"):
        tagged(recipe, "B T")


def test_own_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = own_recipe("news", source_lang="en", target_lang="de", train=["a", "sub/b"], test=["t"])
    assert isinstance(recipe, Recipe)
    assert [corpus.files for corpus in recipe.train] == [str(tmp_path / "a"), str(tmp_path / "sub/b")]
    assert [corpus.kind for corpus in (*recipe.valid, *recipe.test)] == ["held-out", "text"]


def test_own_files_may_have_their_languages_in_the_name():
    for name, languages in (
        ("news-en-cs", ("en", "cs")), ("mine-en-pt_BR", ("en", "pt_BR")), ("v7-zh-Hans-CN-en", ("zh-Hans-CN", "en")),
        ("en-de", ("en", "de")), ("news.en-de", ("en", "de")), ("my-en-de", ("en", "de")),
    ):  # fmt: skip
        recipe = own_recipe(name, source_lang=None, target_lang=None, train=["a"])
        assert (recipe.source_lang, recipe.target_lang) == languages
    for given, expected in ((("de", None), ("de", "cs")), ((None, "de"), ("en", "de"))):
        recipe = own_recipe("news-en-cs", source_lang=given[0], target_lang=given[1], train=["a"])
        assert (recipe.source_lang, recipe.target_lang) == expected
    with pytest.raises(ConfigError, match="--source-lang and --target-lang"):
        own_recipe("news", source_lang="en", target_lang=None, train=["a"])
    for name in ("mine-EN-DE", "mine-en-zh-hans"):
        with pytest.raises(ConfigError, match=r"as in mine-en-de or mine-en-pt_BR \(in lower case"):
            own_recipe(name, source_lang=None, target_lang=None, train=["a"])
    with pytest.raises(ConfigError, match="another name"):
        own_recipe("toy-en-de", source_lang="en", target_lang="de", train=["a"])


@pytest.mark.parametrize("name", ["mine-en-pt-br", "en-fr-ca", "news.zh-tw-en"])
def test_a_region_in_lower_case_is_not_taken_for_a_language(name):
    """Breton, Catalan and Twi have the codes of Brazil, Canada and Taiwan."""
    with pytest.raises(ConfigError, match=r"(pt-br|fr-ca|zh-tw) may be one of them: give --source-lang and"):
        own_recipe(name, source_lang=None, target_lang=None, train=["a"])
    recipe = own_recipe(name, source_lang="pt", target_lang="br", train=["a"])
    assert (recipe.source_lang, recipe.target_lang) == ("pt", "br")
