"""What stays of a text: a model that copies it sees it, and others do not; no translation loses it."""

import pytest

from nmt.search.hypotheses import Hypothesis
from nmt.spans.kept import copies
from nmt.spans.span import Span
from nmt.text.steps import Control
from nmt.translation.ensemble import Ensemble
from nmt.translation.options import translate_options
from nmt.translation.segment import Line
from nmt.translation.translator import Translator
from tests.translation.test_pivot import DE_EN, EN_FR, engine, through
from tests.translation.test_unknown_characters import CONFIG, CPU, ENSEMBLE, PAIR, VOCAB, model, statistics

LINE = "ein hund und ein mann"
UND = Span(9, 12, text="")


def reading(**data) -> Ensemble:
    """A model of other data."""
    config = CONFIG.model_copy(update={"data": CONFIG.data.model_copy(update=data)})
    return Ensemble((model(),), PAIR, config, CPU)


class Copying:
    """A searcher that copies all words but some."""

    worker_count, batch_tokens, may_fork = 1, 100, False

    def __init__(self, *lost: str) -> None:
        self.lost = lost
        self.seen: list[str] = []

    def search(self, segments, settings, known=None):
        texts = VOCAB.decode([segment.pieces for segment in segments])
        self.seen += texts
        copied = [" ".join(word for word in text.split() if word not in self.lost) for text in texts]
        return [[Hypothesis(tuple(pieces), -1.0, -1.0)] for pieces in VOCAB.encode(copied)]


def translated(line, *spans, searcher=None, engine=ENSEMBLE, prefix="", **options):
    chosen = translate_options(engine.config.decoding, guard=False, **options)
    translator = Translator(engine, chosen, searcher=searcher)
    [[found]] = translator.translate_windows([Line(line, prefix, number=4, spans=spans)])
    return found


@pytest.mark.parametrize(
    ("line", "kept", "lost", "seen"),
    [
        (LINE, "und", "", [LINE]),
        (LINE, "und", "und", [LINE, "ein hund ein mann"]),
        ("ein ☃ hund ein mann", "☃ hund", "", ["ein ein mann"]),  # the model cannot read it
        ("ein hund und ☃ ein mann", "und", "und", ["ein hund und ein mann", "ein hund ein mann"]),
        ("hund und ein mann", "hund", "hund", ["hund und ein mann", "und ein mann"]),
        ("ein hund. Ein mann ein hund", "hund. Ein mann", "", ["ein ein hund"]),  # it is not divided
        ("ein hund", "ein hund", "", []),
    ],
)
def test_the_model_sees_what_it_copies(line, kept, lost, seen):
    searcher = Copying(lost)
    found = translated(line, Span(*copies(kept, line)[0], text=""), searcher=searcher, split_sentences="always")
    assert searcher.seen == seen
    assert kept in found.text
    assert sorted(found.text.split()) == sorted(line.split())  # in the order of a random model's alignment
    assert found.source == line
    if seen:
        assert found.source_pieces == tuple(VOCAB.pieces(VOCAB.encode(seen[-1:])[0]))
        assert found.candidates[0].alignment is not None


@pytest.mark.parametrize("engine", [ENSEMBLE, reading(lines=statistics(byte_pieces=0.01))])
def test_what_is_too_long_for_the_model_is_hidden(engine):
    searcher, kept = Copying(), " und".join([" hund"] * 9).strip()
    spans = [Span(4, 4 + len(kept), text="")]
    found = translated(f"ein {kept} mann", *spans, searcher=searcher, engine=engine, max_source_length=8)
    assert searcher.seen == ["ein mann"]
    assert kept in found.text


@pytest.mark.parametrize("more", [{"copy_unknown": False}, {"prefix": "ein"}])
def test_nothing_is_hidden_where_no_characters_are_copied(more):
    searcher = Copying("und")
    assert translated(LINE, UND, searcher=searcher, **more).text == "ein hund ein mann"
    assert searcher.seen == [LINE]


@pytest.mark.parametrize("data", [{"source_text": (Control(),)}, {"lines": statistics(byte_pieces=0.01)}])
def test_stand_ins_are_taken_out_whatever_the_model_reads(data):
    """Though control characters are no text for it, or bytes are."""
    searcher = Copying("und")
    translated(LINE, UND, searcher=searcher, engine=reading(**data))
    assert searcher.seen == [LINE, "ein hund ein mann"]


def test_all_candidates_have_what_stays():
    found = translated(LINE, Span(4, 8, text=""), nbest=3, beam=3)
    assert [each.text.count("hund") >= 1 for each in found.candidates] == [True] * 3
    without = translated("ein und ein mann", nbest=3, beam=3)
    assert [each.pieces for each in found.candidates] == [each.pieces for each in without.candidates]


@pytest.mark.parametrize(("tag", "split"), [("", "always"), ("", "never"), (" >>fra<< ", "never")])
def test_what_stays_goes_through_a_pivot(tag, split):
    engines = (DE_EN, engine("en", "fr", (">>fra<<",)) if tag else EN_FR)
    line = f"{tag}Ba do ki . Do me X lu ki ."
    spans = [Span(len(tag), len(tag) + 5, "<b>", "</b>"), Span(*copies("X", line)[0], text="")]
    [[found]] = through(engines=engines, split_sentences=split).translate_windows([Line(line, spans=spans)])
    assert found.via.text.count("X") == found.text.count("X") == 1
    assert found.links()
