"""Model cards: what a bundle and a folder are called, and what their licences say, stays text in every block."""

import ast
import dataclasses
import os
import subprocess
from unittest import mock

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nmt.convert.card import model_card
from nmt.convert.certificate.record import Certificate, Check
from nmt.convert.converting import export_model
from nmt.convert.exported_files import check_vocabulary, pieces_of
from nmt.convert.formats import WRITABLE, find_target
from nmt.record import Record
from nmt.text.languages import primary_language

HOSTILE = (
    "$(touch broken)", "`touch broken`", "a;touch broken;#", "a\ntouch broken\n", "a' ; touch broken ; '", '"; exit()#',
    "-rf", "--", "a b*?[x]~", "${HOME}$x$folder", "\\", "\\'", "{x}", "%s", "```\ntouch broken\n````\n# Evil",
    "---\nx: y\n---\n", "a: b, 'c", "- x", "# Evil", "1. x", "= x", "<b>x</b>", "&lt;b&gt;", "[x](javascript:x)",
    "|a|", "_x_ **y** ~~z~~ __u__", "a\r## Evil", "\u2028# Evil", "\x85# Evil", "\x1b[2J", "no", "1e3",
    "!!python/object:x", "\ufeffé語", "\udcff",
)  # fmt: skip
MARKDOWN = MarkdownIt("commonmark").enable("table")
TEXTS = st.sampled_from(HOSTILE) | st.lists(st.sampled_from([*HOSTILE, *"`$'\"\\\n\r #-|>:&;"]), max_size=6).map(
    "".join
)


def card_of(form, bundle, name, *, corpus="x", licence="x", languages=("en", "de")):
    data = Record(kind="data set", path="data", facts={"name": corpus, "licence": licence})
    record = Record(kind="checkpoint", path="bundle", made_from=(data,))
    named = dict(zip(("source_lang", "target_lang"), languages, strict=True))
    config = bundle.config.model_copy(update={"data": bundle.config.data.model_copy(update=named)})
    certificate = Certificate("export", form.toolkit, None, {}, {}, {}, (Check("a check", True, corpus, "an oracle"),))
    with mock.patch("nmt.convert.card.bundle_record", return_value=record):
        return model_card(dataclasses.replace(bundle, config=config), form, "float32", certificate, name)


def parsed(card):
    """The front matter of a card, and the tokens of its Markdown."""
    _, head, body = card.split("---\n", 2)
    return yaml.safe_load(head), MARKDOWN.parse(body)


def plain(text):
    """One line of text without what cannot be printed."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def code(card):
    """The blocks of code in a card."""
    return [token.content for token in parsed(card)[1] if token.type == "fence"]


def outline(tokens):
    return [(token.type, token.level, token.map and token.info) for token in tokens if token.type != "inline"]


def texts_of(tokens):
    """The lines of text of a page; None where it has more than text and code."""
    for token in tokens:
        if token.type == "inline":
            is_plain = all(child.type in ("text", "code_inline", "text_special") for child in token.children)
            yield "".join(child.content for child in token.children) if is_plain else None


@pytest.mark.parametrize("form", WRITABLE, ids=lambda form: form.name)
@settings(max_examples=25, deadline=None)
@given(folder=TEXTS.filter(bool), corpus=TEXTS, licence=TEXTS, language=TEXTS)
def test_whatever_a_bundle_says_stays_text_in_its_card(form, make_bundle, folder, corpus, licence, language):
    usual = card_of(form, make_bundle(), "out")
    card = card_of(form, make_bundle(), folder, corpus=corpus, licence=licence, languages=(language, language))
    (head, tokens), (usual_head, usual_tokens) = parsed(card), parsed(usual)
    assert head.get("language") == ([plain(language)] * 2 if plain(language) else None)
    assert head.get("license_name") == (plain(licence) or None)
    assert head.keys() <= usual_head.keys()
    assert outline(tokens) == outline(usual_tokens)
    found = list(texts_of(tokens))
    assert None not in found
    assert any(text.startswith(f"{plain(corpus)}: ") for text in found)
    if form.language == "python":
        install, program = code(card)
        assert folder in [node.value for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Constant)]
        assert [install, program.replace(repr(folder), repr("out"))] == code(usual)


def test_a_shell_runs_the_lines_of_a_card_and_nothing_else(make_bundle, tmp_path):
    """The programs are played by a script that notes its arguments."""
    programs, noted = tmp_path / "bin", tmp_path / "noted"
    programs.mkdir()
    for program in ("pip", "python", "argos-translate"):
        (programs / program).write_text(f'#!/bin/sh\nprintf "%s\\n" {program} "$@" >> {noted}\n')
        (programs / program).chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    for number, hostile in enumerate(one for one in HOSTILE[:-1] if "\r" not in one):
        folder = tmp_path / str(number) / hostile.replace("/", ":")
        folder.mkdir(parents=True)
        for place in (folder, folder.parent):
            (place / "input.txt").touch()
        languages = (hostile, f"{hostile}-BR")
        for form in (form for form in WRITABLE if form.language == "sh"):
            lines = "".join(code(card_of(form, make_bundle(), folder.name, languages=languages)))
            subprocess.run(["sh", "-eu", "-c", lines], cwd=folder.parent, env=environment, check=True)
        assert (folder / "output.txt").is_file()
        source, target = map(primary_language, languages)
        said = noted.read_bytes().decode()
        assert f"install_from_path(sys.argv[1])\n./{folder.name}/translate-" in said
        assert f"argos-translate\n--from\n{source}\n--to\n{target}\n" in said
    assert not [*tmp_path.rglob("broken*")]


@pytest.mark.parametrize("language", ["../../x", "de;touch", "", "a" * 300, "é", "x\n"])
def test_a_language_that_is_no_code_is_no_name_of_a_file(language, make_bundle, tmp_path):
    data = make_bundle().config.data.model_copy(update={"source_lang": "en", "target_lang": language})
    config = make_bundle().config.model_copy(update={"data": data})
    with pytest.raises(Exception, match="does not say its languages by codes such as en"):
        find_target("argos").write(dataclasses.replace(make_bundle(), config=config), tmp_path, "float32")
    assert not [*tmp_path.iterdir()]


def test_every_card_says_what_to_install(make_bundle):
    for form in WRITABLE:
        install = code(card_of(form, make_bundle(), "out"))[0]
        assert install.startswith("pip install "), form.name


def test_a_folder_whose_name_is_not_utf_8_is_written(make_bundle, tmp_path):
    out = tmp_path / os.fsdecode(b"out\xff")
    export_model(make_bundle().folder, out, to="huggingface")
    assert "out\\udcff" in (out / "README.md").read_text()


def test_card_and_certificate_count_the_same_pieces(make_bundle):
    for bundle in (make_bundle(), make_bundle(is_foreign=True, tied_embeddings="none")):
        source, target = pieces_of(bundle.vocab.source), pieces_of(bundle.vocab.target)
        count = f"{len(source)} source pieces and {len(target)} target pieces"
        count = f"{len(source)} pieces" if bundle.vocab.is_shared else count
        assert check_vocabulary((source, target), bundle).detail == f"{count} have the bundle's ids"
        assert f"heads, {count};" in card_of(find_target("ctranslate2"), bundle, "out")
