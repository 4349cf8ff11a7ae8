"""Small models that have learnt for a moment to repeat their source, as bundles."""

import functools

import pytest
import torch
from torch.nn import functional as F

from nmt.checkpoint.bundle import Bundle, load_bundle, save_bundle
from nmt.config import Config, ModelConfig
from nmt.data.vocab import Vocabulary
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.settings import SearchSettings
from tests.training.conftest import make_data_set

LONGEST = 12
SIZES = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "d_ff": 48, "heads": 4, "max_positions": 24}


@pytest.fixture(scope="session")
def vocab(tmp_path_factory) -> Vocabulary:
    return Vocabulary.load(make_data_set(tmp_path_factory.mktemp("data") / "words") / "vocab.model")


@pytest.fixture(scope="session")
def make_bundle(vocab, tmp_path_factory):
    """A bundle of a model with settings of its own."""

    @functools.cache
    def make(**settings) -> Bundle:
        config = Config(model=ModelConfig(**(SIZES | {"dropout": 0.0} | settings)))
        torch.manual_seed(3)
        model = Transformer(config.model, vocab.size)
        with torch.no_grad():  # biases and norms that are told from none
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        repeat(model)
        folder = tmp_path_factory.mktemp("bundles") / "bundle"
        save_bundle(folder, model.state_dict(), config, vocab)
        return load_bundle(folder)

    return make


def repeat(model: Transformer, updates: int = 150) -> None:
    """Train on random sentences: enough for outputs that follow their sources, too little for sure ones."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(updates):
        length = int(torch.randint(2, 11, ()))
        source_BS = torch.cat([torch.randint(4, model.vocab_size, (32, length)), torch.full((32, 1), 3)], dim=1)
        logits_BTV = model(source_BS, torch.cat([torch.full((32, 1), 2), source_BS[:, :-1]], dim=1))
        optimizer.zero_grad()
        F.cross_entropy(logits_BTV.flatten(0, 1), source_BS.flatten()).backward()
        optimizer.step()


@pytest.fixture(scope="session")
def sources(vocab) -> list[list[int]]:
    """Pieces with eos, of several lengths."""
    torch.manual_seed(5)
    lengths = (1, 2, 3, 5, 8, 8, 9, 10, 10, 11)
    return [[*torch.randint(4, vocab.size, (length,)).tolist(), vocab.EOS] for length in lengths]


def padded(sources: list[list[int]]) -> torch.Tensor:
    width = max(map(len, sources))
    return torch.tensor([source + [0] * (width - len(source)) for source in sources])


def greedy_outputs(bundle: Bundle, sources: list[list[int]]) -> list[list[int]]:
    """Our output of each source, without eos."""
    settings = SearchSettings(beam=1, max_length=LONGEST, max_extra_length=LONGEST)
    return [list(best.pieces) for [best] in beam_search([bundle.build_model()], padded(sources), settings)]


def beams_of(bundle: Bundle, sources: list[list[int]], length: int) -> list[list[list[int]]]:
    """Our beam of 4 after so many pieces of each source."""
    settings = SearchSettings(beam=4, nbest=4, min_length=length, max_length=length, max_extra_length=length)
    found = beam_search([bundle.build_model()], padded(sources), settings)
    return [[list(hypothesis.pieces) for hypothesis in beams] for beams in found]


def log_probabilities(bundle: Bundle, source: list[int], target: list[int]) -> list[float]:
    """Of each piece of the target and of eos after them, in our model."""
    read = torch.tensor([[Vocabulary.BOS, *target]])
    written = torch.tensor([*target, Vocabulary.EOS])
    with torch.inference_mode():
        logits_BTV = bundle.build_model()(torch.tensor([source]), read)
    return logits_BTV.log_softmax(-1)[0].gather(1, written[:, None])[:, 0].tolist()


def weights_of(bundle: Bundle) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in bundle.weights.items()}
