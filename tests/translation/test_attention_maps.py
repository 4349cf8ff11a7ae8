"""The attention weights of sentences and their translations."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from nmt.config import Config, ModelConfig
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import ConfigError, DataError
from nmt.kernels.policy import accelerate
from nmt.machine.device import choose_hardware
from nmt.model.attention import attention_weights
from nmt.model.transformer import Transformer
from nmt.translation.attention_maps import attention_maps
from nmt.translation.ensemble import Ensemble
from nmt.translation.options import translate_options
from nmt.translation.translator import Translator
from tests.policies import EVERY_POLICY, chosen

pytestmark = EVERY_POLICY

CPU = choose_hardware("cpu", "fp32", 1)
WORDS = ["ba", "do", "ki", "lu", "me", "no", "pa", "ru", "se", "ti"]
VOCAB = train_vocabulary([" ".join(words) for words in itertools.permutations(WORDS, 2)], size=50).vocab
PAIR = VocabularyPair.shared(VOCAB)
SIZES = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 16, "d_ff": 16, "heads": 2, "max_positions": 16}


def ensemble(count: int = 1, **settings) -> Ensemble:
    config = Config(model=ModelConfig(**(SIZES | settings)))
    models = []
    for seed in range(count):
        torch.manual_seed(seed)
        models.append(accelerate(Transformer(config.model, VOCAB.size), chosen()).eval())
        torch.nn.init.normal_(models[-1].embedding.weight, std=0.7)
    return Ensemble(tuple(models), PAIR, config, CPU)


def maps_of(models: Ensemble, sources, targets=None):
    settings = translate_options(models.config.decoding, max_extra_length=3)
    return attention_maps(models, sources, targets, settings, model="runs/x")


@pytest.mark.parametrize("settings", [{}, {"attention": "additive"}, {"source_neighbours": 1, "target_neighbours": 1}])
def test_every_layer_and_head_is_shown_and_rows_sum_to_1(settings):
    [first, second] = maps_of(ensemble(**settings), ["ba do ki", "lu"], ["me no", "pa ru se"])
    source, target = len(first.source_pieces), len(first.input_pieces)
    assert first.source_pieces[-1] == first.output_pieces[-1] == "</s>"
    assert first.input_pieces[0] == "<s>"
    assert first.input_pieces[1:] == first.output_pieces[:-1] == tuple(VOCAB.pieces(VOCAB.encode(["me no"])[0]))
    assert first.encoder.shape == (2, 2, source, source)
    assert first.decoder.shape == (3, 2, target, target)
    assert first.memory.shape == (3, 2, target, source)
    for maps in (first, second):
        for weights in (maps.encoder, maps.decoder, maps.memory):
            assert weights.dtype == np.float32
            assert np.abs(weights.sum(-1) - 1).max() < 1e-5
        assert np.abs(np.triu(maps.decoder, 1)).max() == 0
    assert (first.source, first.target, first.model) == ("ba do ki", "me no", "runs/x")
    if settings.get("source_neighbours"):
        assert np.abs(np.triu(first.encoder, 2)).max() == np.abs(np.tril(first.encoder, -2)).max() == 0
        assert np.abs(np.tril(first.decoder, -2)).max() == 0


def test_the_weights_are_those_of_equation_1():
    models = ensemble()
    [maps] = maps_of(models, ["ba do ki"], ["me"])
    [model] = models.models
    ids = torch.tensor([[*VOCAB.encode(["ba do ki"])[0], VOCAB.EOS]])
    attention = model.encoder[0].self_attention
    x = model.source_positions(model.embedding.source(ids), torch.arange(ids.shape[1]))
    projected = torch.nn.functional.linear(x, attention.query_key_value.weight, attention.query_key_value.bias)
    query, key, _ = (part.view(1, -1, 2, 8).transpose(1, 2) for part in projected.chunk(3, dim=-1))
    expected = attention_weights(query, key, None)[0].detach().numpy()
    np.testing.assert_allclose(maps.encoder[0], expected, atol=1e-6)


def test_without_targets_the_translation_is_shown():
    models = ensemble()
    [maps] = maps_of(models, ["ba do"])
    settings = translate_options(models.config.decoding, max_extra_length=3, guard=False)
    [translation] = Translator(models, settings).translate(["ba do"])
    assert maps.target == translation.text


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ([""], None, "sentence 1 is empty"),
        (["ba", "ba " * 20], None, r"sentence 2 has 20 pieces, but the model has positions for 15"),
        (["ba"], ["ba " * 16], r"target 1 has 16 pieces, but the model has positions for 15"),
        (["ba", "do"], ["ba"], "got 2 sentences, but 1 target:"),
    ],
)
def test_what_cannot_be_shown_is_an_error(sources, targets, message):
    with pytest.raises(DataError, match=message):
        maps_of(ensemble(), sources, targets)


def test_more_weights_than_a_browser_holds_are_an_error(monkeypatch):
    [maps] = maps_of(ensemble(), ["ba do ki"], ["me no"])
    count = maps.encoder.size + maps.decoder.size + maps.memory.size
    monkeypatch.setattr("nmt.translation.attention_maps.MAX_WEIGHTS", count)
    maps_of(ensemble(), ["ba do ki"], ["me no"])
    with pytest.raises(DataError, match=f"sentence 2: all sentences up to this one have {2 * count} attention weights"):
        maps_of(ensemble(), ["ba do ki"] * 2, ["me no"] * 2)


def test_an_empty_target_is_shown_up_to_its_end():
    [maps] = maps_of(ensemble(), ["ba"], [""])
    assert (maps.input_pieces, maps.output_pieces) == (("<s>",), ("</s>",))


def test_several_models_are_an_error():
    with pytest.raises(ConfigError, match="one model"):
        maps_of(replace(ensemble(2)), ["ba"])
