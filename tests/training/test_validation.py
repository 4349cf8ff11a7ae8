"""Validation measures what ``nmt score`` does."""

import shutil
from dataclasses import replace

import pytest
import torch

from nmt.data.build import build_vocabulary
from nmt.data.manifest import read_manifest, write_manifest
from nmt.data.vocab_pair import VocabularyPair
from nmt.data.vocab_record import VocabularySettings
from nmt.errors import NmtError
from nmt.evaluation.metrics import make_metric, score
from nmt.kernels.policy import accelerate
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training import validation
from nmt.training.moving_average import MovingAverage
from nmt.training.ranks.exchange import Ranks
from nmt.training.start.settings import resolve_config
from nmt.training.validation import Validator
from nmt.translation.ensemble import Ensemble
from nmt.translation.options import translate_options
from nmt.translation.translator import Translator
from tests.policies import POLICIES
from tests.recording_double import DoubleOfRecorder

TRANSLATIONS = {
    "zh": (["今天天气很好。", "我们去公园散步吧。"], ["今天的天气真好。", "我们去公园走走吧。"]),
    "en": (["The sign says 今天天气很好 in red letters."], ["The sign says 今天天气真好 in red letters."]),
}
"""References and translations whose BLEU depends on how they are tokenised."""


def test_a_tokeniser_that_is_not_installed_is_an_error_before_the_first_update(
    settled, reversed_words, tmp_path, monkeypatch
):
    from sacrebleu.tokenizers import tokenizer_ja_mecab

    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    data = tmp_path / "data"
    shutil.copytree(reversed_words, data)
    config = settled()
    shutil.copy(data / f"valid.{config.data.target_lang}", data / "valid.ja")
    config = config.model_copy(update={"data": config.data.model_copy(update={"target_lang": "ja"})})
    vocab, hardware = VocabularyPair.load(data / "vocab.model"), choose_hardware("cpu", "fp32", 1)
    with pytest.raises(NmtError, match=r"ja-mecab is not installed: .* training needs --set validation\.bleu=false"):
        Validator([data], config, vocab, hardware)
    without = config.model_copy(update={"validation": config.validation.model_copy(update={"bleu": False})})
    assert Validator([data], without, vocab, hardware)


@pytest.mark.parametrize(("source", "target"), [("en", "zh"), ("zh", "en")])
def test_bleu_is_tokenised_for_the_target_language(settled, reversed_words, tmp_path, monkeypatch, source, target):
    data = tmp_path / "data"
    shutil.copytree(reversed_words, data)
    references, translations = TRANSLATIONS[target]
    for language, lines in ((source, ["-"] * len(references)), (target, references)):
        (data / f"valid.{language}").write_text("".join(f"{line}\n" for line in lines))
    settings = settled()
    config = settings.model_copy(
        update={"data": settings.data.model_copy(update={"source_lang": source, "target_lang": target})}
    )
    validator = Validator([data], config, VocabularyPair.load(data / "vocab.model"), choose_hardware("cpu", "fp32", 1))
    monkeypatch.setattr(validator, "_loss", lambda *arguments: 1.0)
    monkeypatch.setattr(validator, "_translate", lambda *arguments: translations)

    class Model:
        def eval(self):
            pass

        def train(self):
            pass

    expected, other = (
        score(make_metric("bleu", language), translations, [references]).value for language in (target, source)
    )
    assert validator.validate(Model()).bleu == expected != other


def test_the_models_wrong_translations_are_scored_and_not_repaired(settled, reversed_words):
    config, vocab = settled("validation.bleu_sentences=4"), VocabularyPair.load(reversed_words / "vocab.model")
    hardware = choose_hardware("cpu", "fp32", 1)
    torch.manual_seed(1)
    model = Transformer(config.model, vocab.target.size).eval()
    lines = (reversed_words / f"valid.{config.data.source_lang}").read_text().splitlines()[:4]

    def translations(*, guard: bool) -> list[str]:
        translator = Translator(
            Ensemble((model,), vocab, config, hardware), translate_options(config.validation.decoding, guard=guard)
        )
        return [translation.text for translation in translator.translate(lines)]

    wrong, repaired = (dict(zip(lines, translations(guard=guard), strict=True)) for guard in (False, True))
    samples = Validator([reversed_words], config, vocab, hardware).validate(model).samples
    assert {sample["source"]: sample["translation"] for sample in samples}.items() <= wrong.items()
    assert any(wrong[sample["source"]] != repaired[sample["source"]] for sample in samples)


def test_steps_that_a_gpu_recorded_are_used_again_with_the_weights_of_then(settled, reversed_words, monkeypatch):
    config, vocab = settled("validation.bleu_sentences=4"), VocabularyPair.load(reversed_words / "vocab.model")
    hardware, recorders = choose_hardware("cpu", "fp32", 1), []

    class Noted(DoubleOfRecorder):
        def __init__(self):
            super().__init__()
            recorders.append(self)

    torch.manual_seed(1)
    model = accelerate(Transformer(config.model, vocab.target.size), replace(POLICIES["cuda"], recorder=Noted))
    average = MovingAverage(list(model.parameters()), 0.5)
    validator = Validator([reversed_words], config, vocab, hardware)

    def found(validator):
        with average.in_use():
            return validator.validate(model).samples

    first, recordings = found(validator), len(recorders[0].recordings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-1.5)
    average.update()
    second = found(validator)
    assert (len(recorders), len(recorders[0].recordings)) == (1, recordings)
    assert second == found(Validator([reversed_words], config, vocab, hardware)) != first


def test_the_ranks_of_all_machines_share_the_batches(settled, reversed_words):
    config, vocab = settled(), VocabularyPair.load(reversed_words / "vocab.model")
    hardware = choose_hardware("cpu", "fp32", 1)
    model = Transformer(config.model, vocab.target.size).eval()
    sums = []

    class Apart(Ranks):
        def all_reduce(self, tensor):
            sums.append(tensor)

    for ranks in (Apart(), *(Apart(rank, 4, rank % 2, 2) for rank in range(4))):
        with torch.inference_mode():
            validator = Validator([reversed_words], config, vocab, hardware, ranks, batch_tokens=64)
            validator._loss(validator._sets[0], model, lambda: False)
    alone, *shares = sums
    assert sum(shares).tolist() == pytest.approx(alone.tolist())


def test_each_direction_has_its_own_valid_set_and_the_scores_are_their_means(
    reversed_words, settings_file, tmp_path, monkeypatch
):
    """Of two data sets of a direction, the first counts, and its valid set has its tag."""
    manifest = read_manifest(reversed_words)
    source, target = manifest.source_lang, manifest.target_lang
    back, again = tmp_path / "back", tmp_path / "again"
    for folder in (back, again):
        shutil.copytree(reversed_words, folder, ignore=shutil.ignore_patterns("shards", "vocab*"))
    write_manifest(manifest.model_copy(update={"source_lang": target, "target_lang": source, "tag": "BT"}), back)
    folders = [tmp_path / "there", back, again]
    shutil.copytree(reversed_words, folders[0], ignore=shutil.ignore_patterns("shards", "vocab*"))
    vocab = build_vocabulary(folders, VocabularySettings(150), threads=1)[0].vocab
    changes = ("validation.bleu_sentences=4",)
    config = resolve_config([(folder, 1.0) for folder in folders], config_file=settings_file, settings=changes)[0]
    hardware = choose_hardware("cpu", "fp32", 1)
    torch.manual_seed(1)
    model = Transformer(config.model, vocab.target.size).eval()
    asked, translated = [], []

    class Noted(Validator):
        def _translate(self, of, model, until):
            asked.append((of.source_lang, of.target_lang, tuple(of.shards.pair(0)[0][:2])))
            return super()._translate(of, model, until)

    class NotedTranslator(Translator):
        def search(self, segments):
            translated.append(tuple(segments[0].pieces[:2]))
            return super().search(segments)

    monkeypatch.setattr(validation, "Translator", NotedTranslator)

    found = Noted(folders, config, vocab, hardware).validate(model)
    there, back_again = vocab.source.ids([f"<2{target}>", f"<2{source}>"])
    [tag] = vocab.source.ids(["<BT>"])
    assert asked[0][:2] == (source, target) and asked[0][2][0] == there
    assert asked[1] == (target, source, (tag, back_again))
    assert translated == [each[2] for each in asked]
    assert [part.tag for part in config.data.parts] == ["", "BT", ""]
    assert list(found.record()["directions"]) == [f"{source}-{target}", f"{target}-{source}"]
    for name in ("loss", "bleu"):
        there, back_again = (scores[name] for scores in found.directions.values())
        assert getattr(found, name) == pytest.approx((there + back_again) / 2)
    one = Validator([folders[0]], config.model_copy(update={"data": config.data.model_copy(update={"mixed_with": ()})}),
                    vocab, hardware).validate(model)  # fmt: skip
    assert one.loss == found.directions[f"{source}-{target}"]["loss"]
    assert "directions" not in one.record()
