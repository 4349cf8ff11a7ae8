"""Random documents of each format: whatever a model writes and aligns, nothing is lost, doubled or crossed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from lxml import etree
from markdown_it import MarkdownIt

from nmt.documents.document import Document, Reading
from nmt.documents.formats import format_of, read_document
from nmt.spans.links import Link
from nmt.spans.placing import place

WORDS = ["the", "dog", "e-mail", "é", "日本", "1.5", "x", "(a)", "ok."]
NOISE = [*WORDS, "", "\u00a0", "&", '"', "\\", "*", "'", "<", "]]>", "-->", "_", "a\nb", "{", "#", "🙂"]
# The markup of each format: pairs, with {} in place of a number; void tags; and what is kept.
XML = [("<g{}>", "</g{}>"), ('<i id="{}">', "</i>")], ["<x{}/>", "<!--{}-->"]
MARKUP = {
    "a.html": (*XML, ["<code>f{}</code>", '<b translate="no">dog</b>', "&lt;", "{{n{}}}"]),
    "a.xlf": (*XML, ["<ph>{}</ph>", '<mrk mtype="protected">x{}</mrk>', "&amp;", "{{n{}}}"]),
    "a.vtt": ([("<c.c{}>", "</c>"), ("<i>", "</i>")], ["<00:0{}.000>"], ["{{n{}}}", "&lt;"]),
    "a.srt": ([("<i>", "</i>"), ('<font color="{}">', "</font>")], ["{{\\an{}}}"], ["{{n{}}}"]),
    "a.po": ([("<b{}>", "</b{}>"), ("<i>", "</i>")], ["<br/>"], ["{{n{}}}", "%({})s", "&amp;"]),
    "a.json": ([("<b{}>", "</b{}>"), ("<i>", "</i>")], ["<br/>"], ["{{n{}}}", " http://a.b/{} "]),
    "a.properties": ([("<b{}>", "</b{}>")], ["<br/>"], ["{{n{}}}"]),
    "a.md": ([("[", "](u{})")], ["![i](s{})"], ["`f{}`", "{{n{}}}", "&lt;"]),
    "a.txt": ([], [], []),
}
FRAMES = {
    "a.html": "<div>\n<p>{}</p>\n</div>",
    "a.xlf": "<trans-unit><source>{}</source></trans-unit>",
    "a.vtt": "1\n00:00:01.000 --> 00:00:02.000\n{}\n",
    "a.srt": "1\n00:00:01,000 --> 00:00:02,000\n{}\n",
    "a.po": 'msgid "{}"\nmsgstr ""\n',
    "a.properties": "key = {}",
}
BEGINS = {"a.xlf": "<xliff>", "a.vtt": "WEBVTT\n\n"}
ENDS = {"a.xlf": "</xliff>"}


def written(random: Random, name: str) -> str:
    """A random document."""
    pairs, voids, kept = MARKUP[name]
    numbers = iter(range(1, 10_000))

    def inline(depth: int) -> str:
        parts = []
        for _ in range(random.randint(1, 4)):
            kind = random.random()
            if kind < 0.25 and pairs and depth < (1 if name == "a.md" else 3):  # a link holds no link
                number = next(numbers)
                begin, end = (part.format(number) for part in random.choice(pairs))
                parts.append(begin + inline(depth + 1) + end)
            elif kind < 0.45 and kept:
                parts.append(random.choice([*voids, *kept]).format(next(numbers)))
            else:
                parts.append(random.choice(WORDS))
        return random.choice([" ", " ", ""]).join(parts)

    texts = [inline(0) for _ in range(random.randint(1, 3))]
    if name == "a.json":
        return json.dumps(dict(enumerate(texts)))
    frame = FRAMES.get(name, "{}\n")
    return BEGINS.get(name, "") + "\n".join(frame.format(text) for text in texts) + ENDS.get(name, "")


def translated(random: Random, name: str, document: Document) -> str:
    """The document with random translations of its units, placed by random alignments."""
    parts = []
    for unit in document.units:
        copied = [unit.text[span.start : span.end] for span in unit.spans if span.text is not None]
        noise = [word for word in NOISE if "<" not in word or name in ("a.html", "a.xlf", "a.vtt")]
        output, links = "", []
        for _ in range(random.randint(0, 8)):
            word = random.choice([*noise, *(f" {text} " for text in copied * 2)])
            if random.random() < 0.7:
                source = random.randrange(len(unit.text))
                end = min(len(unit.text), source + random.randint(1, 9))
                links.append(Link(len(output), len(output) + len(word), source, end))
            output += word + random.choice([" ", ""])
        output += "x" * (name == "a.md")  # a paragraph without characters is none
        parts.append(place(unit, output, links if random.random() < 0.8 else [], document.escape))
    return b"".join(document.parts(parts)).decode()


def markup(name: str, text: str) -> Counter[str]:
    """The markup, with what holds it, and the placeholders of a document; an error if tags cross."""
    found = Counter(re.findall(r"\{n\d+\}|%\(\d+\)s|http://a\.b/\d+|\{\\an\d+\}", text))
    if name == "a.md":
        blocks = MarkdownIt().parse(text)
        children = [child for block in blocks for child in block.children or ()]
        return found + Counter(
            f"{each.type} {each.content * (each.type == 'code_inline')} {each.attrs}"
            for each in [*blocks, *children]
            if each.type not in ("text", "inline", "softbreak")
        )
    opened: list[str] = []
    for tag in re.findall(r"<!--\d+-->|</?\w[^<>]*>|<\d[^<>]*>", text):
        found[f"{tag} in {opened[-1:]}"] += 1
        if tag.startswith("</"):
            assert re.split(r"[\s.]", opened.pop())[0] == tag[2:-1]
        elif not tag.endswith("/>") and tag[1].isalpha() and tag != "<br>":
            opened.append(tag[1:-1])
    assert not opened
    return found


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MARKUP)
def test_nothing_of_a_random_document_is_lost_doubled_or_crossed(name, count):
    kind = format_of(Path(name))
    for seed in range(count):
        random = Random(seed)
        text = written(random, name)
        document = read_document(text.encode(), kind, Reading("en"), name=name)
        assert b"".join(document.parts([None] * len(document.units))).decode() == text
        output = translated(random, name, document)
        assert (seed, markup(name, _without_sources(name, output))) == (seed, markup(name, text)), f"{text}\n{output}"
        if name == "a.xlf":
            etree.fromstring(output)


def _without_sources(name: str, output: str) -> str:
    """A translated document without the texts beside which their translations stand."""
    if name == "a.xlf":
        return re.sub(
            r"(?s)<source>(?:(?!</source>).)*</source><target[^>]*>(.*?)</target>", r"<source>\1</source>", output
        )
    if name == "a.po":
        return re.sub(r'msgid "(.*)"\nmsgstr "(.+)"\n', r'msgid "\2"\nmsgstr ""\n', output)
    return output
