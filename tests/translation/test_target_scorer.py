"""Scores of given targets, by lines: as the translator scores what it finds itself."""

import json
import math

import pytest

from nmt.config import DecodingConfig
from nmt.translation.ensemble import Ensemble
from nmt.translation.formats import formatted_score
from nmt.translation.options import translate_options
from nmt.translation.target_scorer import TargetScorer
from nmt.translation.translator import Translator
from tests.translation.test_translator import CONFIG, CPU, PAIR, VOCAB, model, some_lines

ENSEMBLE = Ensemble((model(),), PAIR, CONFIG, CPU)


def test_a_translation_scores_as_it_did_when_it_was_found():
    settings = translate_options(
        DecodingConfig(max_extra_length=5), length_normalization="length", alignment=True, guard=False, batch_tokens=50
    )
    lines = [line for line in some_lines(30) if line]
    made = Translator(ENSEMBLE, settings).translate(lines)
    # Pieces that the vocabulary would not make of their text score otherwise, as they should.
    found = [t for t in made if VOCAB.encode([t.text])[0] == VOCAB.ids(t.candidates[0].pieces)]
    assert len(found) > 3
    scorer = TargetScorer(ENSEMBLE, settings, window=4)
    windows = list(scorer.score_windows((t.source, t.text) for t in found))
    assert max(map(len, windows)) == 4
    scores = [scored for window in windows for scored in window]
    for scored, translation in zip(scores, found, strict=True):
        candidate = translation.candidates[0]
        assert (scored.source, scored.text, scored.pieces) == (translation.source, candidate.text, candidate.pieces)
        assert scored.log_probability == pytest.approx(candidate.log_probability, abs=1e-4)
        assert scored.score == pytest.approx(candidate.score, abs=1e-4)
        assert (scored.source_pieces, scored.alignment) == (translation.source_pieces, candidate.alignment)
        assert scored.score == pytest.approx(scored.log_probability / (len(scored.pieces) + 1) ** 0.6)


def test_what_is_too_long_is_null_in_json():
    [[fits, too_long]] = TargetScorer(ENSEMBLE, translate_options(DecodingConfig())).score_windows(
        [("ba", "do"), ("ba " * 80, "do")]
    )
    assert formatted_score(too_long, 1, "text") == ["-inf\t-inf"]
    [line] = formatted_score(too_long, 1, "jsonl")
    record = json.loads(line, parse_constant=lambda name: pytest.fail(name))
    assert (record["score"], record["log_probability"], set(record["piece_log_probabilities"])) == (None, None, {None})
    assert "alignment" not in record
    [text] = formatted_score(fits, 2, "text")
    assert [float(number) for number in text.split("\t")] == [fits.score, fits.log_probability]
    assert math.isfinite(fits.score)
