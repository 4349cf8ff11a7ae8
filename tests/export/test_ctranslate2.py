"""CTranslate2, given our weights, writes what we write."""

import pytest
import torch

from nmt.errors import NmtError
from tests.export.conftest import LONGEST, beams_of, greedy_outputs, weights_of

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `bench` is not installed")

from nmt.export.ctranslate2 import to_ctranslate2  # noqa: E402

MODELS = [
    pytest.param({}, id="the paper's"),
    pytest.param({"norm": "pre"}, id="pre-norm"),
    pytest.param({"positions": "learned"}, id="learned positions"),
    pytest.param({"attention_bias": False, "norm_epsilon": 0.3}, id="no attention bias, a large epsilon"),
]


def their_beams(folder, vocab, sources, *, beam: int, shortest: int, longest: int) -> list[list[list[int]]]:
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    results = translator.translate_batch(
        [vocab.pieces(source) for source in sources],
        beam_size=beam,
        num_hypotheses=beam,
        min_decoding_length=shortest,
        max_decoding_length=longest,
        disable_unk=True,
        suppress_sequences=[["<pad>"], ["<s>"]],
    )
    ids = {piece: index for index, piece in enumerate(vocab.pieces(range(vocab.size)))}
    return [[[ids[piece] for piece in pieces] for pieces in result.hypotheses] for result in results]


@pytest.mark.parametrize("settings", MODELS)
def test_greedy_outputs_are_ours(settings, make_bundle, sources, vocab, tmp_path):
    bundle = make_bundle(**settings)
    to_ctranslate2(bundle, tmp_path / "model")
    theirs = their_beams(tmp_path / "model", vocab, sources, beam=1, shortest=0, longest=LONGEST)
    assert [best for [best] in theirs] == greedy_outputs(bundle, sources)


@pytest.mark.parametrize("settings", MODELS)
def test_beams_are_ours(settings, make_bundle, sources, vocab, tmp_path):
    bundle = make_bundle(**settings)
    to_ctranslate2(bundle, tmp_path / "model")
    # Well before the end, where eos has hardly any probability that theirs would share out among the other pieces.
    long_sources = [source for source in sources if len(source) > 8]
    theirs = their_beams(tmp_path / "model", vocab, long_sources, beam=4, shortest=4, longest=4)
    # In another order, perhaps: ours ranks by what ends with eos, which theirs does not reach.
    assert [sorted(beams) for beams in theirs] == [sorted(beams) for beams in beams_of(bundle, long_sources, 4)]


def test_quantizing_leaves_the_bundle_as_it_was(make_bundle, tmp_path):
    bundle = make_bundle()
    before = weights_of(bundle)
    to_ctranslate2(bundle, tmp_path / "model", quantization="int8")
    assert all(torch.equal(weight, bundle.weights[name]) for name, weight in before.items())
    whole = (bundle.folder / "model.safetensors").stat().st_size
    assert (tmp_path / "model" / "model.bin").stat().st_size < whole / 1.5


def test_heads_of_another_size_are_refused(make_bundle, tmp_path):
    with pytest.raises(NmtError, match="d_k 4 and d_v 8"):
        to_ctranslate2(make_bundle(d_k=4), tmp_path / "model")
