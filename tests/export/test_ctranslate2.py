"""CTranslate2, given our weights, writes what we write."""

import pytest
import torch

from nmt.errors import NmtError
from tests.export.conftest import LONGEST, greedy_outputs, log_probabilities, weights_of

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `bench` is not installed")

from nmt.export.ctranslate2 import to_ctranslate2  # noqa: E402

MODELS = [
    pytest.param({}, id="the paper's"),
    pytest.param({"norm": "pre"}, id="pre-norm"),
    pytest.param({"positions": "learned"}, id="learned positions"),
    pytest.param({"attention_bias": False, "norm_epsilon": 0.3}, id="no attention bias, a large epsilon"),
]


def translator_of(folder):
    return ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)


@pytest.mark.parametrize("settings", MODELS)
def test_greedy_outputs_are_ours(settings, make_bundle, sources, vocab, tmp_path):
    bundle = make_bundle(**settings)
    to_ctranslate2(bundle, tmp_path / "model")
    results = translator_of(tmp_path / "model").translate_batch(
        [vocab.pieces(source) for source in sources],
        beam_size=1,
        max_decoding_length=LONGEST,
        disable_unk=True,
        suppress_sequences=[["<pad>"], ["<s>"]],
    )
    ids = {piece: index for index, piece in enumerate(vocab.pieces(range(vocab.size)))}
    assert [[ids[piece] for piece in result.hypotheses[0]] for result in results] == greedy_outputs(bundle, sources)


@pytest.mark.parametrize("settings", MODELS)
def test_the_probability_of_each_piece_is_ours(settings, make_bundle, sources, vocab, tmp_path):
    bundle = make_bundle(**settings)
    to_ctranslate2(bundle, tmp_path / "model")
    targets = [source[:-1] for source in reversed(sources)]
    results = translator_of(tmp_path / "model").score_batch(
        [vocab.pieces(source) for source in sources], [vocab.pieces(target) for target in targets]
    )
    for source, target, result in zip(sources, targets, results, strict=True):
        assert result.log_probs == pytest.approx(log_probabilities(bundle, source, target), abs=1e-4)


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
