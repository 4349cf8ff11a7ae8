"""What changed since a run began: the advice for each change, followed, resumes the run or starts it over."""

import json
import re
import shutil

import pytest

from nmt.checkpoint.run_folder import checkpoints
from nmt.config import Config, changeable_on_resume, flatten, read_config
from nmt.data.manifest import read_manifest, write_manifest
from nmt.errors import ConfigError
from nmt.training.input.data_sets import DataSets, TrainingData
from nmt.training.start.resume import refuse_changes
from tests.commands import run_here
from tests.data.one_data_set import build_vocabulary
from tests.kit.two_vocabularies import separate_data_set

CHANGES = {
    "model.encoder_layers": 2, "model.decoder_layers": 2, "model.d_model": 32, "model.d_ff": 16, "model.heads": 4,
    "model.d_k": 4, "model.d_v": 4, "model.dropout": 0.2, "model.attention_dropout": 0.1,
    "model.activation_dropout": 0.1, "model.norm": "pre", "model.norm_epsilon": 1e-5, "model.embedding_norm": "true",
    "model.positions": "learned",
    "model.activation": "swish", "model.first_position": 2, "model.tied_embeddings": "none",
    "model.output_bias": "true", "model.decoder_start": "zero", "model.source_eos": "false",
    "model.max_positions": 512, "model.attention_bias": "false", "model.attention": "additive",
    "model.source_neighbours": 3, "model.target_neighbours": 3, "model.alignment_layer": 1,
    "batching.update_tokens": 40, "batching.group_tokens": 20, "optimizer.beta1": 0.8, "optimizer.beta2": 0.99,
    "optimizer.epsilon": 1e-8,
    "optimizer.clip_norm": 1, "schedule.warmup": 10, "schedule.factor": 0.5, "schedule.decay": "wsd",
    "schedule.decay_updates": 30, "schedule.decay_share": 0.3, "training.seed": 2, "training.label_smoothing": 0.2,
    "training.precision": "fp64", "training.freeze": "[encoder.*]", "training.ema_decay": 0.9,
    "training.adapter_rank": 2,
    "training.r_drop": 5, "training.guided_alignment": 0.5, "training.subword_sampling": 0.1,
    "training.stages": "[{after: 3, weights: [2]}]",
    "augmentation.upper_case": 0.1, "augmentation.title_case": 0.1, "augmentation.no_end_mark": 0.1,
    "augmentation.typos": 0.1, "augmentation.noise": 0.1, "validation.every_updates": 7, "validation.bleu": "false",
    "validation.bleu_sentences": 3, "validation.decoding.beam": 1, "validation.decoding.length_penalty": 0.1,
    "validation.decoding.max_extra_length": 2, "validation.decoding.length_normalization": "length",
    "validation.decoding.refill_beam": "true",
}  # fmt: skip
"""Another value for each setting that may not change on resume by itself."""
# One or two settings of each section; with the others, tests are slow.
IN_SHORT = {
    "model.d_model", "model.dropout", "batching.update_tokens", "optimizer.beta1", "schedule.decay", "training.seed",
    "training.precision", "validation.bleu", "validation.decoding.beam",
}  # fmt: skip
# Each of these makes sense only with the other.
TOGETHER = {
    "schedule.decay": ["schedule.decay_updates=30"], "schedule.decay_updates": ["schedule.decay=linear"],
    "model.alignment_layer": ["training.guided_alignment=0"],  # the pairs are not aligned
}  # fmt: skip


@pytest.fixture(scope="module")
def begun(tmp_path_factory, reversed_words, settings_file):
    """A run of 5 updates."""
    from nmt.training.run import train
    from nmt.training.start.settings import resolve_config
    from tests.training.conftest import Silent

    run = tmp_path_factory.mktemp("runs") / "run"
    config, _ = resolve_config(
        [(reversed_words, 1.0)],
        config_file=settings_file,
        settings=["training.max_updates=5", "training.patience=null"],
    )
    train(TrainingData.open([reversed_words], config), run, Silent())
    return run


@pytest.fixture
def run(begun, tmp_path):
    """A copy of that run."""
    return shutil.copytree(begun, tmp_path / "run", symlinks=True)


@pytest.fixture
def data(reversed_words, tmp_path):
    """A copy of its data."""
    return shutil.copytree(reversed_words, tmp_path / "data")


def test_every_setting_that_must_be_accepted_is_tried():
    keys = {key for key, _ in flatten(Config().model_dump())}
    assert {key for key in keys if not changeable_on_resume(key) and not key.startswith("data.")} == CHANGES.keys()


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=() if key in IN_SHORT else pytest.mark.slow) for key in CHANGES]
)
def test_the_advice_for_a_changed_setting_is_true(run_training, run, listener, key):
    changes = [f"{key}={CHANGES[key]}", *TOGETHER.get(key, []), "training.max_updates=6", "training.patience=null"]
    with pytest.raises(ConfigError, match=rf"{key}: .* -> ") as error:
        run_training(run, *changes)
    first, *_, last = [line for line in str(error.value).splitlines() if line.startswith("To ")]
    assert "name its folder with --out, or add --fresh" in first
    if "--accept-changes" in str(error.value):
        assert "--accept-changes" in last
        assert run_training(run, *changes, accept_changes=True).progress.update == 6
        assert any(f"{key}: " in notice for notice in listener.notices)
        assert list(checkpoints(run)) == [5, 6]
        return
    assert f"leave {key} as before" in str(error.value)
    with pytest.raises(ConfigError, match="its weights fit no other model"):
        run_training(run, *changes, accept_changes=True)
    assert run_training(run, *changes[1:]).progress.update == 6


def test_a_change_that_can_be_accepted_lets_no_other_through(run_training, run):
    with pytest.raises(ConfigError, match=r"(?s)model\.d_model: 16 -> 32.*as for training\.label_smoothing"):
        run_training(run, "model.d_model=32", "training.label_smoothing=0.3", accept_changes=True)


def test_a_run_without_a_checkpoint_takes_any_settings(run_training, begun, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(begun, run, symlinks=True, ignore=shutil.ignore_patterns("checkpoints", "last", "best"))
    start, *_ = (begun / "metrics.jsonl").read_text().splitlines(keepends=True)
    assert json.loads(start)["kind"] == "start"
    (run / "metrics.jsonl").write_text(start)
    assert run_training(run, "model.d_model=32", "training.max_updates=2").progress.update == 2


def test_other_data_in_the_same_vocabulary_can_be_accepted(run_training, run, data):
    write_manifest(read_manifest(data).model_copy(update={"fingerprint": "other", "name": "other"}), data)
    build_vocabulary(data, existing=data / "vocab.model", threads=1)
    with pytest.raises(ConfigError, match="changed settings, add --accept-changes") as error:
        run_training(run, data=data)
    assert "data.fingerprint" in str(error.value)
    assert run_training(run, data=data, accept_changes=True).progress.update == 20


def test_another_vocabulary_cannot_be_accepted_and_the_advice_brings_the_runs_back(run_training, run, data):
    build_vocabulary(data, size=30, threads=1)
    with pytest.raises(ConfigError) as error:
        run_training(run, data=data, accept_changes=True)
    assert f"`nmt build-vocab --data {data} --vocab {run}`" in str(error.value)
    assert "--accept-changes" not in str(error.value)
    build_vocabulary(data, existing=run / "last" / "vocab.model", threads=1)
    assert run_training(run, data=data).progress.update == 20


def test_a_target_vocabulary_of_its_own_cannot_be_accepted(run_training, run, tmp_path):
    """All that is said of it is how to bring the run's vocabulary back."""
    data = separate_data_set(tmp_path / "reversed")
    with pytest.raises(ConfigError, match=r"data\.target_vocab_size: null -> 44") as error:
        run_training(run, data=data, accept_changes=True)
    assert f"`nmt build-vocab --data {data} --vocab {run}`" in str(error.value)
    others = read_config(run / "config.yaml")
    changed = others.model_copy(update={"data": others.data.model_copy(update={"target_vocab_size": 7})})
    with pytest.raises(ConfigError, match=r"data\.target_vocab_size: null -> 7") as error:
        refuse_changes(run, changed, DataSets.open([(data, 1.0)]), accept_changes=True)
    assert "--accept-changes" not in str(error.value)


def test_another_source_normalization_cannot_be_accepted_and_the_advice_brings_the_runs_back(run_training, run, data):
    build_vocabulary(data, existing=data / "vocab.model", source_normalization="nfkc_cf", threads=1)
    for options in ({}, {"accept_changes": True}):
        with pytest.raises(ConfigError, match=r"data\.source_text") as error:
            run_training(run, data=data, **options)
        assert "--accept-changes" not in str(error.value)
    [command] = re.findall(r"`nmt (build-vocab [^`]*)`", str(error.value))
    assert run_here(command.split()).returncode == 0
    assert run_training(run, data=data).progress.update == 20
