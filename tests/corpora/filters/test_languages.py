"""Language identification: by a double of py3langid in ``tests/corpora/doubles``, and by the package where it is."""

import importlib.util
import sys
from pathlib import Path

import pytest

from nmt.corpora.cleaning import EvaluationSentences, Rules, clean
from nmt.corpora.filter_option import filter_changes
from nmt.corpora.filters.languages import language_identifier, other_language
from nmt.corpora.findings import Findings
from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import load_recipe, own_recipe, with_filters
from nmt.corpora.schema import Filters, Normalisation
from nmt.errors import NmtError

DOUBLES = Path(__file__).parents[1] / "doubles"


def forget():
    language_identifier.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "py3langid"]:
        del sys.modules[name]


@pytest.fixture
def double(monkeypatch):
    forget()
    monkeypatch.syspath_prepend(str(DOUBLES))
    yield
    forget()


def test_a_side_in_another_language_is_found(double):
    finds = other_language("en", "de", 0.8)
    assert not finds(("the dog and a cat is", "der Hund und die Katze und das"))
    assert finds(("der Hund und die Katze", "der Hund und die Katze"))
    assert finds(("the dog is a dog", "the dog is a dog"))
    assert not finds(("Berlin", "Berlin"))


def test_only_what_is_sure_enough_is_found(double):
    """With one word of a language, the double is sure by half."""
    pair = "der dog", "der Hund"
    assert other_language("en", "de", 0.5)(pair)
    assert not other_language("en", "de", 0.6)(pair)


def test_unknown_languages_pass_and_languages_that_are_alike_are_one(double):
    assert not other_language("tlh", "xx", 0.8)(("the the the", "der der der"))
    assert not other_language("hr", "bs", 0.8)(("pas je je", "pas je je"))
    assert other_language("hr-Latn", "de-AT", 0.8)(("the the the", "ein ein ein"))
    assert other_language("eng", "deu_Latn", 0.8)(("the the the", "the the the"))
    assert not other_language("de_AT", "en-US", 0.8)(("ein ein ein", "the the the"))


def test_the_option_has_a_usual_threshold_and_takes_hyphens():
    assert filter_changes(["language-id"]) == {"language_id": 0.8}
    assert filter_changes(["language_id=0.5", "near-duplicates"]) == {"language_id": 0.5, "near_duplicates": True}


def test_without_the_package_one_error_says_how_to_install_it_before_anything_is_fetched(
    tmp_path, monkeypatch, file_server
):
    forget()
    monkeypatch.setitem(sys.modules, "py3langid", None)
    recipe = with_filters(load_recipe("multi30k-en-de"), {"language_id": 0.8})
    with pytest.raises(
        NmtError, match=r"filter language_id needs py3langid, which is not installed\. Install it: `pip"
    ):
        prepare(recipe, tmp_path / "data", cache=tmp_path / "cache", mirrors=[file_server.url])
    assert file_server.requests == []


def test_a_data_set_counts_what_was_dropped(double, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = [f"the dog and a cat {n}\tder Hund und die Katze {n}" for n in range(90)]
    bad = [f"the dog and a cat {n}\tthe dog and a cat {n}" for n in range(90, 100)]
    Path("crawl.tsv").write_text("".join(f"{row}\n" for row in [*good, *bad]), "utf-8")
    recipe = own_recipe("own", source_lang="en", target_lang="de", train=["crawl.tsv"])
    made = prepare(with_filters(recipe, {"language_id": 0.8}), tmp_path / "own", workers=1)
    assert made.manifest.filters["language_id"] == 10
    assert made.manifest.corpora[0].filters["language_id"].samples[0][1].startswith("the dog")


needs_package = pytest.mark.skipif(
    importlib.util.find_spec("py3langid") is None, reason="py3langid is not installed: pip install py3langid"
)
SENTENCES = {
    "en": ["Two young people are walking through the park on a sunny day.", "The committee will vote on the new law."],
    "de": [
        "Zwei junge Menschen gehen an einem sonnigen Tag durch den Park.",
        "Der Ausschuss stimmt morgen darüber ab.",
    ],
    "fr": [
        "Deux jeunes gens se promènent dans le parc par une belle journée.",
        "La commission votera demain matin sur la nouvelle loi, après un long débat.",
    ],
    "cs": ["Dva mladí lidé se procházejí parkem za slunečného dne.", "Výbor bude zítra hlasovat o novém zákoně."],
}


@needs_package
@pytest.mark.parametrize("language", SENTENCES)
def test_the_package_knows_sentences_of_common_languages(language):
    for other, sentences in SENTENCES.items():
        finds = other_language(language, language, 0.8)
        for sentence in sentences:
            assert finds((sentence, sentence)) == (other != language)


@pytest.mark.slow
@needs_package
def test_workers_find_the_same_as_one_process(tmp_path):
    pairs = [
        (SENTENCES["en" if n % 3 else "fr"][n % 2] + f" {n}", SENTENCES["de" if n % 5 else "cs"][n % 2] + f" {n}")
        for n in range(50_000)
    ]
    rules = Rules("en", "de", Filters(language_id=0.8, dedup=False), Normalisation())
    kept = {}
    for workers in (1, 2):
        findings = Findings()
        chunks = clean(
            [pairs], rules, EvaluationSentences(), findings, scratch=tmp_path / str(workers), workers=workers
        )
        kept[workers] = [pair for chunk in chunks for pair in chunk.pairs], findings.totals()
    assert kept[1] == kept[2]
    assert kept[1][1]["language_id"] == sum(n % 3 == 0 or n % 5 == 0 for n in range(50_000))
