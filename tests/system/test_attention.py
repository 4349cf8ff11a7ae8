"""``nmt attention`` as people run it."""

import json
import re

import numpy as np
import pytest


@pytest.fixture
def attention(nmt, trained, tmp_path):
    """Run the command in a folder of its own, with the trained run."""

    def run(*words: object, **options):
        model = () if "-m" in words else ("-m", trained / "runs" / "toy-en-de-tiny")
        return nmt("attention", *model, *map(str, words), cwd=tmp_path, **options)

    return run


def test_a_sentence_becomes_a_page(attention, tmp_path):
    result = attention("The man sleeps.")
    assert "written: attention.html" in result.stderr
    assert result.stdout == ""
    page = (tmp_path / "attention.html").read_text("utf-8")
    assert "The man sleeps." in page
    assert not re.search(r"""(?:src|href)=["'](?!data:)|url\((?!["']?data:)|@import""", page)  # self-contained
    attention("The woman sleeps.")
    assert "The woman sleeps." in (tmp_path / "attention.html").read_text("utf-8")


def test_the_weights_are_printed_as_json(attention, tmp_path):
    result = attention("--json", "The man sleeps.", "The woman sees the dog.", "--target", "Der Mann.", "--target", "X")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["source"] for line in lines] == ["The man sleeps.", "The woman sees the dog."]
    assert [line["target"] for line in lines] == ["Der Mann.", "X"]
    assert not (tmp_path / "attention.html").exists()
    for line in lines:
        source, target = len(line["source_pieces"]), len(line["input_pieces"])
        for name, shape in (("encoder", (source, source)), ("decoder", (target, target)), ("memory", (target, source))):
            weights = np.array(line[name])
            assert weights.shape[2:] == shape
            assert np.abs(weights.sum(-1) - 1).max() < 1e-5


def test_lines_come_from_a_file_or_a_pipe(attention, tmp_path):
    (tmp_path / "in.txt").write_text("The man sleeps.\nThe dog sleeps.\n")
    piped = attention("--json", text="The man sleeps.\nThe dog sleeps.\n")
    assert attention("--json", "-i", "in.txt").stdout == piped.stdout
    assert piped.stdout.count("\n") == 2


@pytest.mark.parametrize(
    ("words", "text", "message"),
    [
        (["x", "-o", "page.pdf"], "", "--out page.pdf: the page is HTML. Name a file that ends in .html."),
        (["x", "-o", "page.html", "--json"], "", "--json prints, and --out page.html writes: give one"),
        (["x", "-o", "mine.html"], "", "mine.html"),
        (["x", "-i", "in.txt"], "", "the input was given twice"),
        (["x", "--target", "a", "--target", "b"], "", "got 1 sentence, but 2 targets"),
        ([""], "", "sentence 1 is empty"),
        ([], "", "standard input has no lines"),
        ([], "x\n" * 51, "a page holds 50 at most"),
        (["-i", "missing.txt"], "", "missing.txt"),
    ],
)
def test_what_cannot_be_drawn_is_one_error_and_nothing_is_replaced(attention, tmp_path, words, text, message):
    (tmp_path / "mine.html").write_text("<title>Attention: mine</title>")
    (tmp_path / "in.txt").write_text("The man sleeps.\n")
    result = attention(*words, check=False, text=text)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("error:") == 1
    assert (tmp_path / "mine.html").read_text() == "<title>Attention: mine</title>"
    assert not (tmp_path / "attention.html").exists()
