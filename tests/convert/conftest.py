"""Small models that have learnt for a moment to repeat their source, as bundles."""

import functools
import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from nmt.checkpoint.bundle import Bundle, load_bundle, save_bundle
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.config import Config, ModelConfig
from nmt.convert.certificate.checks import compared
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.probes import Probes, make_probes
from nmt.convert.certificate.record import Certificate, Check, certificate_from
from nmt.convert.formats import Format
from nmt.data.imported_vocab import ImportedVocabulary
from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.settings import SearchSettings
from tests import on_padded
from tests.training.conftest import make_data_set

LONGEST = 12
LINES = ("ba do ki", "lu  me.", ">>deu<< ba do", "Жы ba Ж", ">>xx<< ba", "")
SIZES = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "d_ff": 48, "heads": 4, "max_positions": 24}


@pytest.fixture(scope="session")
def vocab(tmp_path_factory) -> Vocabulary:
    return VocabularyPair.load(make_data_set(tmp_path_factory.mktemp("data") / "words") / "vocab.model").source


@pytest.fixture(scope="session")
def foreign_vocab(vocab) -> VocabularyPair:
    """Two vocabularies as an import makes them: with pieces that no text makes, and pieces that the model lacks."""
    pieces = vocab.pieces(range(vocab.size - 1))
    others = [">>deu<<", ">>fra<<", "▁Ж", "ы"]
    return VocabularyPair(
        ImportedVocabulary(vocab.model_bytes, [*pieces[:4], *others, *pieces[4:]]),
        ImportedVocabulary(vocab.model_bytes, [*pieces[:4], *reversed(pieces[4:]), *others[2:]]),
    )


@pytest.fixture(scope="session")
def make_bundle(vocab, foreign_vocab, made_once):
    """A bundle of a model with settings of its own."""

    @functools.cache
    def make(*, is_foreign: bool = False, **settings) -> Bundle:
        def train(folder: Path) -> None:
            config = Config(model=ModelConfig(**(SIZES | {"dropout": 0.0} | settings)))
            pair = foreign_vocab if is_foreign else VocabularyPair.shared(vocab)
            torch.manual_seed(3)
            model = Transformer(config.model, pair.target.size, source_vocab_size=pair.source.size)
            with torch.no_grad():  # biases and norms that are told from none
                for parameter in model.parameters():
                    parameter.add_(0.1 * torch.randn_like(parameter))
            repeat(model)
            save_bundle(folder / "bundle", model.state_dict(), config, pair)

        words = f"{is_foreign} {sorted(settings.items())}"
        return load_bundle(made_once(f"model-{zlib.crc32(words.encode())}", train) / "bundle")

    return make


@pytest.fixture
def ctranslate2():
    return pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")


def repeat(model: Transformer, updates: int = 150) -> None:
    """Train on random sentences: enough for outputs that follow their sources, too little for sure ones."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(updates):
        length = int(torch.randint(2, 11, ()))
        source_BS = torch.cat([torch.randint(4, model.vocab_size, (32, length)), torch.full((32, 1), 3)], dim=1)
        logits_BTV = on_padded.logits(model, source_BS, torch.cat([torch.full((32, 1), 2), source_BS[:, :-1]], dim=1))
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


def weights_of(bundle: Bundle) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in bundle.weights.items()}


def probes_of(bundle: Bundle, given: tuple[str, ...] = ()) -> Probes:
    return replace(make_probes(bundle.vocab, bundle.config.model.max_positions - 1, LINES), given=given)


def export(target: Format, bundle: Bundle, folder: Path, quantization: str | None = None) -> list[Check]:
    """Write a bundle in a format; all checks of the folder, by the format's software as well."""
    folder.mkdir()
    target.write(bundle, folder, quantization or target.quantizations[0])
    checks = target.check_files(folder, bundle, quantization or target.quantizations[0])
    ours, probes = OurSide(bundle.folder), probes_of(bundle)
    [side] = target.sides(folder, bundle)
    return checks + compared(ours, side, probes)


def read_certificate(folder: Path) -> Certificate:
    """The certificate in a model's folder."""
    return certificate_from(json.loads(BundleFolder(folder).certificate.read_bytes()))


def failed(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if not check.passed}


def names(checks: list[Check]) -> list[str]:
    return [check.name for check in checks]
