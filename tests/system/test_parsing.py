"""The example of parsing: trees as sequences, the score of evalb, the grammar, and a parser that learns it."""

import importlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError, NmtError
from tests.commands import nmt_for_scripts
from tests.kit.examples import example_command

pytest.importorskip("nltk")

from nltk.grammar import CFG
from nltk.parse.chart import BottomUpLeftCornerChartParser
from nltk.tree import Tree

EXAMPLE = Path(__file__).parents[2] / "examples" / "parsing"

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(EXAMPLE)
    bracketed, evalb, grammar, linearize, traversal, treebank = (
        importlib.import_module(name)
        for name in ("bracketed", "evalb", "grammar", "linearize", "traversal", "treebank")
    )


def tree(text: str) -> Tree:
    return bracketed.parse_tree(text, place="test")


def words(of: Tree) -> list[str]:
    return [step.word for step in traversal.words(of)]


# Trees as sequences

names = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="()"), min_size=1, max_size=3)
tagged_words = st.builds(lambda tag, word: Tree(tag, [word]), names, names)


def phrases(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    labels = st.sampled_from(["S", "NP", "VP"]) | names
    return st.builds(Tree, labels, st.lists(children, min_size=1, max_size=4))


trees = phrases(st.recursive(tagged_words, phrases, max_leaves=10))
tokens = st.sampled_from(["(S", "(NP", "(VP", ")S", ")NP", ")VP", "XX", ".", "(", ")", "(("])


@given(trees)
def test_a_tree_survives_as_sequence_and_as_bracketed_text_and_is_like_itself(of):
    sequence = linearize.to_sequence(of)
    again = linearize.to_tree(sequence, words(of))
    assert again == of == tree(bracketed.one_line(of))
    assert not linearize.was_repaired(sequence, again)
    assert evalb.score([(of, of)]).complete == 1


@given(st.lists(tokens, max_size=30), st.lists(names, min_size=1, max_size=10))
def test_any_sequence_gives_a_tree_over_the_words(sequence, sentence):
    restored = linearize.to_tree(" ".join(sequence), sentence)
    assert words(restored) == sentence
    assert linearize.to_tree(linearize.to_sequence(restored), sentence) == restored


def test_the_form_of_a_sequence():
    of = tree("(S (NP (NNP Anna)) (VP (VBD saw) (NP (DT the) (NN dog))) (. .))")
    sequence = "(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S"
    assert linearize.to_sequence(linearize.plain_tags(of)) == sequence
    assert linearize.to_tree(sequence, words(of)) == linearize.plain_tags(of)


def test_punctuation_marks_and_no_other_words_have_their_tags_and_brackets_in_words_are_escaped():
    assert bracketed.one_line(Tree("S", [Tree("XX", ["f(x)"])])) == "(S (XX f-LRB-x-RRB-))"
    restored = linearize.to_tree("(S NN . : )S", ["well", ",", "Anna", "."])
    assert bracketed.one_line(linearize.checked_tags(restored)) == "(S (NN well) (, ,) (XX Anna) (. .))"


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        pytest.param("(S (NP XX XX (VP XX", "(S (NP (XX a) (XX b) (VP (XX c))))", id="nothing closes"),
        pytest.param(
            "(S (NP (QP XX XX )NP XX )S", "(S (NP (QP (XX a) (XX b))) (XX c))", id="an inner one does not close"
        ),
        pytest.param("(S (NP XX )NP )VP XX XX )S", "(S (NP (XX a)) (XX b) (XX c))", id="one closes that is not open"),
        pytest.param("(S XX )S (VP XX XX )VP", "(S (XX a) (VP (XX b) (XX c)))", id="the root closes too early"),
        pytest.param("(S (NP XX )NP", "(S (NP (XX a)) (XX b) (XX c))", id="too few words"),
        pytest.param("(S (NP XX )NP (VP XX XX XX )VP )S", "(S (NP (XX a)) (VP (XX b) (XX c)))", id="too many words"),
        pytest.param("(S (NP )NP XX (VP XX XX )VP )S", "(S (XX a) (VP (XX b) (XX c)))", id="an empty bracket"),
        pytest.param("(S ( XX (VP XX XX )VP )S", "(S (XX a) (VP (XX b) (XX c)))", id="a bracket without a label"),
        pytest.param("XX (VP XX XX )VP )S", "(S (XX a) (VP (XX b) (XX c)))", id="no root"),
        pytest.param("", "(S (XX a) (XX b) (XX c))", id="nothing"),
    ],
)
def test_repairs(sequence, expected):
    restored = linearize.to_tree(sequence, ["a", "b", "c"])
    assert bracketed.one_line(restored) == expected
    assert linearize.was_repaired(sequence, restored)


def test_a_sequence_may_open_brackets_without_end():
    restored = linearize.to_tree("(NP " * 20_000 + "XX", ["word"])
    assert linearize.to_sequence(restored).count("(NP") == linearize.MAX_DEPTH
    assert words(tree(bracketed.one_line(restored))) == ["word"]
    assert evalb.score([(restored, restored)]).gold == linearize.MAX_DEPTH


# The score

GOLD = (
    "(S (NP (DT the) (NN man)) (VP (VBD saw) (NP (NP (DT the) (NN girl)) (PP (IN with) (NP (DT a) (NN hat))))) (. .))"
)
# The prepositional phrase belongs to the verb.
OTHER = "(S (NP (DT the) (NN man)) (VP (VBD saw) (NP (DT the) (NN girl)) (PP (IN with) (NP (DT a) (NN hat)))) (. .))"


@pytest.mark.parametrize(
    ("gold", "predicted", "matched", "of_gold", "of_predicted"),
    [
        pytest.param(GOLD, GOLD, 7, 7, 7, id="equal"),
        pytest.param(GOLD, OTHER, 6, 7, 6, id="one bracket is missing"),
        pytest.param(OTHER, GOLD, 6, 6, 7, id="one bracket too many"),
        pytest.param("(S (NP (NN a)) (VP (VB b)))", "(S (VP (NN a)) (VP (VB b)))", 2, 3, 3, id="another label"),
        pytest.param("(S (NP (NN a)) (VP (VB b)))", "(S (NP (XX a)) (VP (XX b)))", 3, 3, 3, id="other tags"),
        pytest.param(
            "(S (NP (NN a) (, ,)) (VP (VB b)) (. .))", "(S (NP (NN a)) (XX ,) (VP (VB b) (XX .)))", 3, 3, 3,
            id="punctuation has no place",
        ),
        pytest.param("(S (NP (NN a)) (PRN (: --)))", "(S (NP (NN a)) (: --))", 2, 2, 2, id="nothing but punctuation"),
        pytest.param("(S (ADVP (RB a)) (PRT (RP b)))", "(S (PRT (RB a)) (ADVP (RP b)))", 3, 3, 3, id="ADVP is PRT"),
        pytest.param("(S (NP (NP (NN a))))", "(S (NP (NN a)))", 2, 3, 2, id="a bracket twice, found once"),
        pytest.param("(S (NP (NN a)))", "(S (NP (NP (NN a))))", 2, 2, 3, id="a bracket once, found twice"),
        pytest.param(
            "(TOP (S (NP-SBJ-1 (NN a)) (VP=2 (VB b) (NP (-NONE- *-1)))))", "(S1 (S (NP (NN a)) (VP (VB b))))", 3, 3, 3,
            id="traces, function tags and roots",
        ),
        pytest.param("( (S (NP (NN a))))", "(ROOT (S (NP (NN a))))", 2, 2, 2, id="a root without a label"),
    ],
)  # fmt: skip
def test_brackets_counted_by_hand(gold, predicted, matched, of_gold, of_predicted):
    score = evalb.score([(tree(gold), tree(predicted))])
    assert (score.matched, score.gold, score.predicted) == (matched, of_gold, of_predicted)
    assert (score.scored, score.errors, score.skipped) == (1, 0, 0)
    assert score.complete == (matched == of_gold == of_predicted)


def test_rates_are_of_sums_over_the_corpus():
    short = tree("(S (NP (NN a)))")
    score = evalb.score([(tree(GOLD), tree(OTHER)), (short, tree("(VP (NP (NN a)))"))])
    assert (score.matched, score.gold, score.predicted) == (7, 9, 8)
    assert score.precision == pytest.approx(100 * 7 / 8)
    assert score.recall == pytest.approx(100 * 7 / 9)
    assert score.f1 == pytest.approx(100 * 14 / 17)
    assert score.complete_match == 0
    assert evalb.score([(tree(GOLD), tree(OTHER)), (short, short)]).complete_match == 50


def test_sentences_that_cannot_be_scored_are_counted_and_left_out():
    other_words = tree("(S (NP (NN b)))")
    score = evalb.score([(tree(GOLD), tree(OTHER)), (tree("(S (NP (NN a)))"), other_words), (other_words, None)])
    assert (score.scored, score.errors, score.skipped) == (1, 1, 1)
    assert (score.matched, score.gold, score.predicted) == (6, 7, 6)
    assert (nothing := evalb.score([])).precision == nothing.recall == nothing.f1 == nothing.complete_match == 0


# The grammar


@pytest.fixture(scope="module")
def english():
    return grammar.Grammar()


def test_each_sentence_of_the_grammar_has_one_tree(english):
    parser = BottomUpLeftCornerChartParser(CFG(english.rules.start(), english.rules.productions()))
    generator = random.Random(7)
    for _ in range(60):
        drawn = english.draw(generator)
        found = {bracketed.one_line(english.with_labels(derivation)) for derivation in parser.parse(words(drawn))}
        assert found == {bracketed.one_line(drawn)}


def test_trees_of_the_grammar_are_clean_and_short(english):
    generator = random.Random(3)
    drawn = [english.draw(generator) for _ in range(200)]
    for of in drawn:
        assert treebank.clean(of) == of
        assert len(words(of)) <= grammar.MAX_WORDS
        labels = [step.label for step in traversal.walk(of) if isinstance(step, traversal.Open)]
        assert not [label for label in labels if "/" in label or "_" in label]
    assert max(linearize.to_sequence(of).count("(S ") for of in drawn) >= 3  # sentences within sentences


def test_no_sentence_is_in_two_splits():
    sizes = {"train": 300, "valid": 40, "test": 50}
    drawn = grammar.draw_splits(1, sizes)
    assert {split: len(of_split) for split, of_split in drawn.items()} == sizes
    sentences = [" ".join(words(of)) for of_split in drawn.values() for of in of_split]
    assert len(set(sentences)) == len(sentences)
    assert grammar.draw_splits(1, sizes) == drawn
    assert grammar.draw_splits(2, sizes) != drawn


# Treebanks

RAW = "( (S (NP-SBJ (NNP Anna) )\n    (VP (VBD sang) (NP (-NONE- *T*-1) ))\n    (. .) ))\n"
CLEAN = "(S (NP (NNP Anna)) (VP (VBD sang)) (. .))"


def test_trees_are_read_over_lines_and_cleaned():
    read = treebank.clean_trees(f"{RAW}\n{RAW} (X (NN a)) ( (NP (-NONE- *)))".split("\n"), name="trees")
    assert [bracketed.one_line(of) for of in read] == [CLEAN, CLEAN, "(X (NN a))"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NN a))\n(S (NN b)", "trees: the tree that begins in line 2 is not closed"),
        ("(S (NN a)))", "trees, line 1: expected an opening bracket, got ')'"),
        ("\n*x* comment", "trees, line 2: expected an opening bracket"),
        ("(S the (NN a))", "trees, line 1: the word 'the' has no tag"),
        ("(S\n(NN a b))", "trees, line 1: the word 'a' has no tag"),
    ],
)
def test_text_that_is_no_tree_is_named(text, message):
    with pytest.raises(DataError, match="^" + message.replace("*", "[*]").replace(")", "[)]")):
        list(bracketed.read_trees(text.split("\n"), name="trees"))


# The commands


@pytest.fixture
def parsing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = example_command(EXAMPLE)
    return lambda *words: command(*words) or capsys.readouterr()


def read(folder: Path, language: str) -> dict[str, str]:
    """The text of each split."""
    return {split: (folder / f"{split}.{language}").read_text("utf-8") for split in ("train", "valid", "test")}


@pytest.mark.slow
def test_data_restore_and_score(parsing, nmt, tmp_path):
    parsing("data", "--grammar", "--out", "trees", "--train", "60", "--valid", "5", "--test", "7")
    nmt("prepare-data", "trees/recipe.yaml", cwd=tmp_path)
    for language in ("en", "tree"):
        written = read(tmp_path / "trees", language)
        assert [text.count("\n") for text in written.values()] == [60, 5, 7]
        assert read(tmp_path / "data" / "trees-en-tree", language) == written
    assert " XX " in written["test"]
    assert " NN " not in written["test"]
    restored = parsing("restore", "trees/test.en", "trees/test.tree")
    assert "0 of 7 sequences were repaired" in restored.err
    (tmp_path / "test.trees").write_text(restored.out, "utf-8")
    printed = parsing("score", "trees/test.trees", "test.trees").out
    assert dict(line.split(maxsplit=1) for line in printed.splitlines())["F1"] == "100.00"
    # Another command replaces the folder of this one, and no other folder.
    parsing("data", "--grammar", "--out", "trees", "--train", "6", "--valid", "5", "--test", "7", "--keep-tags")
    assert read(tmp_path / "trees", "en")["train"].count("\n") == 6
    assert " NN " in read(tmp_path / "trees", "tree")["test"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(NmtError, match=r"^mine: "):
        parsing("data", "--grammar", "--out", "mine", "--train", "6")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"


def test_the_sections_of_the_wsj(parsing, tmp_path):
    for section in range(25):
        folder = tmp_path / "wsj" / f"{section:02}"
        folder.mkdir(parents=True)
        (folder / f"wsj_{section:02}01.mrg").write_text(RAW.replace("Anna", f"Anna{section}") * 2)
    (tmp_path / "more.trees").write_text(CLEAN)
    parsing("data", "--wsj", "wsj", "--extra", "more.trees", "--out", "trees")
    assert {split: text.splitlines() for split, text in read(tmp_path / "trees", "en").items()} == {
        "train": [f"Anna{section} sang ." for section in range(2, 22) for _ in "ab"] + ["Anna sang ."],
        "valid": ["Anna22 sang ."] * 2,
        "test": ["Anna23 sang ."] * 2,
    }
    (tmp_path / "wsj" / "23" / "wsj_2301.mrg").unlink()
    with pytest.raises(DataError, match=r"wsj/23: there are no \.mrg files"):
        parsing("data", "--wsj", "wsj", "--out", "other")


def test_the_sample_of_nltk(parsing, tmp_path, monkeypatch):
    folder = tmp_path / "nltk" / "corpora" / "treebank" / "combined"
    folder.mkdir(parents=True)
    for number in range(1, 11):
        (folder / f"wsj_{number:04}.mrg").write_text(RAW.replace("Anna", f"Anna{number}"))
    monkeypatch.setattr("nltk.data.path", [str(tmp_path / "nltk")])
    parsing("data", "--sample", "--out", "trees")
    written = read(tmp_path / "trees", "trees")
    assert written["train"].count("\n") == 8
    assert written["valid"] == CLEAN.replace("Anna", "Anna9") + "\n"
    assert written["test"] == CLEAN.replace("Anna", "Anna10") + "\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("data", "--out", "trees"), "give one of --grammar, --sample and --wsj DIR"),
        (("score", "two.trees", "bad.trees"), "bad.trees, line 2: is not one tree whose brackets match"),
        (("score", "two.trees", "one.trees"), "two.trees has 2 lines, but one.trees has 1:"),
        (("restore", "one.en", "two.trees"), "two.trees has more than 1 line, but one.en has 1:"),
        (("restore", "none.en", "two.trees"), "none.en: cannot be read"),
    ],
)
def test_mistakes_are_named(parsing, tmp_path, words, message):
    (tmp_path / "two.trees").write_text(f"{CLEAN}\n{CLEAN}\n")
    (tmp_path / "bad.trees").write_text(f"{CLEAN}\n(S (NN a)\n")
    (tmp_path / "one.trees").write_text(f"{CLEAN}\n")
    (tmp_path / "one.en").write_text("Anna sang .\n")
    with pytest.raises(NmtError, match=message):
        parsing(*words)


@pytest.fixture
def program(tmp_path_factory) -> Iterator[Path]:
    with nmt_for_scripts(tmp_path_factory.mktemp("bin")) as path:
        yield path


@pytest.mark.slow
def test_the_parser_learns_the_grammar(tmp_path, program):
    path = os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    result = subprocess.run(
        ["sh", EXAMPLE / "run.sh"],
        cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False,
        env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    printed = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert printed["sentences"] == "500"
    assert float(printed["F1"]) >= 95
