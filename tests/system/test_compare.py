"""``nmt compare`` as people run it."""

import json
import re
from collections import Counter

import pytest

SOURCE = ["The house is old.", "A dog sleeps in the garden.", "Anna saw Tom in 1998."]
REFERENCE = ["Das Haus ist alt.", "Ein Hund schläft im Garten.", "Im Jahr 1998 sah Anna Tom."]
A = ["Das Haus ist neu.", "Ein Hund schläft im Garten.", "Anna sah Tom."]
B = ["Das Haus ist alt.", "Ein dog schläft im Garten.", "Im Jahr 1998 sah Anna Tim."]


@pytest.fixture
def folder(tmp_path):
    texts = {"a.txt": A, "b.txt": B, "ref.de": REFERENCE, "src.en": SOURCE, "short.txt": A[:2], "empty.txt": []}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return tmp_path


@pytest.fixture
def compare(nmt, folder):
    return lambda *words, **options: nmt("compare", *words, cwd=folder, **options)


def test_prints_tables_and_sentences(compare):
    result = compare("a.txt", "b.txt", "--reference", "ref.de", "--source", "src.en")
    assert result.stderr == ""
    assert result.stdout.startswith("A: a.txt\nB: b.txt\n3 of 3 lines differ.")
    assert "tok:13a" in result.stdout
    assert "  A          Das Haus ist [-neu-].\n  B          Das Haus ist {+alt+}." in result.stdout
    rows = [re.split(r" *\| *", line)[1:-1] for line in result.stdout.splitlines() if line.startswith("| ")]
    found = {name: cells for name, *cells in rows}
    assert found["numbers of the reference"] == ["0 of 1 (0.0%)", "1 of 1 (100.0%)"]
    assert found["copied source words"][1].startswith("1 of ")


def test_tables_fit_a_terminal_of_80_columns(compare, folder):
    """Counts of as many digits as those of newstest2014; n-grams and sentences are as long as they are."""
    for path in folder.iterdir():
        path.write_text(path.read_text("utf-8") * 334, "utf-8")
    printed = compare("a.txt", "b.txt", "--reference", "ref.de", "--source", "src.en").stdout
    tables = printed.partition("## N-grams")[0].splitlines()
    assert max(len(line) for line in tables if line.startswith("|")) <= 80


def test_the_language_that_is_given_counts_before_that_of_a_name(compare):
    assert "tok:zh" in compare("a.txt", "b.txt", "--reference", "ref.de", "--target-lang", "zh").stdout


def test_scores_are_those_of_nmt_score(compare, nmt, folder):
    record = json.loads(compare("a.txt", "b.txt", "--reference", "ref.de", "--json").stdout)
    metrics = ("--metric", "bleu", "--metric", "chrf")
    scored = json.loads(nmt("score", "--json", "--reference", "ref.de", *metrics, "a.txt", "b.txt", cwd=folder).stdout)
    for ours, theirs in zip(record["totals"]["metrics"], scored["comparisons"], strict=True):
        assert ours["values"] == [system["value"] for system in theirs["systems"]]
        assert ours["p_value"] == theirs["systems"][1]["p_value"]
        assert ours["signature"] == theirs["signature"]


def test_writes_a_page_and_replaces_only_its_own(compare, folder):
    words = ("a.txt", "b.txt", "--reference", "ref.de", "--out")
    result = compare(*words, "page.html")
    assert (result.stdout, result.stderr) == ("", "written: page.html\n")
    page = (folder / "page.html").read_text("utf-8")
    assert "<ins" in page and "<script" not in page
    compare(*words, "page.html", "--samples", "0")
    assert "<ins" not in (folder / "page.html").read_text("utf-8")
    result = compare(*words, "src.en", check=False)
    assert result.returncode == 2
    assert "not a page of nmt compare" in result.stderr
    assert (folder / "src.en").read_text("utf-8").startswith("The house")


def test_one_system_comes_through_a_pipe(compare):
    text = "".join(f"{line}\n" for line in B)
    piped = compare("a.txt", "-", "--reference", "ref.de", text=text)
    assert piped.stdout.replace("B: -\n", "B: b.txt\n") == compare("a.txt", "b.txt", "--reference", "ref.de").stdout


def bucket(count):
    return max(low for low in (0, 1, 2, 6, 21, 101, 1001) if low <= count)


def test_words_of_the_training_text_are_tokenised_as_those_of_the_translations(compare, trained):
    data = trained / "data" / "toy-en-de"
    counts = Counter((data / "train.de").read_text("utf-8"))
    words = ("a.txt", "b.txt", "--reference", "ref.de", "--data", data, "--tokenize", "char", "--json")
    found = json.loads(compare(*words).stdout)["by_frequency"]
    expected = Counter(bucket(counts[char]) for line in REFERENCE for char in line if not char.isspace())
    assert {each["bucket"]["low"]: each["reference_words"] for each in found} == expected


def test_the_tokeniser_follows_the_language(compare, folder):
    (folder / "ref.zh").write_text("猫坐在垫子上。\n", "utf-8")
    for name, text in (("x", "猫坐在垫上。\n"), ("y", "狗坐在垫子上。\n")):
        (folder / name).write_text(text, "utf-8")
    result = compare("x", "y", "--reference", "ref.zh")
    assert "tok:zh" in result.stdout
    assert result.stderr == ""
    (folder / "ref.txt").write_text("猫坐在垫子上。\n", "utf-8")
    result = compare("x", "y", "--reference", "ref.txt")
    assert "warning: the tokeniser 13a does not split the script" in result.stderr
    assert "tok:char" in compare("x", "y", "--reference", "ref.txt", "--tokenize", "char").stdout


def test_doubtful_languages_are_warned_about(compare, trained):
    words = ("a.txt", "b.txt", "--reference", "ref.de")
    data = trained / "data" / "toy-en-de"
    result = compare(*words, "--target-lang", "fr", "--data", data)
    assert f"warning: {data} holds de and en, and the translations are in fr: words are counted in" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.txt", "short.txt", "--reference", "ref.de"], "short.txt has 2 lines, but the reference has 3"),
        (["a.txt", "b.txt", "--reference", "short.txt"], "a.txt has 3 lines, but the reference has 2"),
        (["a.txt", "b.txt", "--reference", "ref.de", "--source", "short.txt"], "the source has 2 lines"),
        (["empty.txt", "b.txt", "--reference", "ref.de"], "empty.txt is empty"),
        (["a.txt", "a.txt", "--reference", "ref.de"], "a.txt was given twice"),
        (["a.txt", "missing.txt", "--reference", "ref.de"], "missing.txt: cannot be read"),
        (["-", "b.txt", "--reference", "-"], "standard input (-) can be read only once"),
        (["a.txt", "b.txt", "--reference", "ref.de", "--data", "."], "is not a prepared data set"),
        (["a.txt", "b.txt", "--reference", "ref.de", "--json", "--out", "page.html"], "give one"),
    ],
)
def test_mistakes_are_one_error(compare, folder, words, message):
    before = sorted(path.name for path in folder.iterdir())
    result = compare(*words, check=False)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("error:") == 1
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == before
