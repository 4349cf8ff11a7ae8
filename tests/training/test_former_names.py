"""A run whose weights have the names of an earlier version: loaded, scored with, resumed."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nmt.checkpoint.bundle import load_bundle
from nmt.checkpoint.former_names import current_name, former_name
from nmt.device import choose_hardware
from nmt.errors import ConfigError
from nmt.kernels.policy import PLAIN
from nmt.search.given_targets import score_targets
from nmt.training.run import train
from nmt.training.start.beginning import build_model, freeze
from nmt.training.start.setup import resolve_config
from tests.training.conftest import saved

MADE = Path(__file__).parent.parent / "runs" / "0.1.0-former-names"
CHECKPOINT = MADE / "run" / "checkpoints" / "step-00000010"
FORMER = {
    "around_self_attention.norm": "self_attention_norm",
    "around_cross_attention.norm": "cross_attention_norm",
    "around_feed_forward.norm": "feed_forward_norm",
    "feed_forward.outer": "feed_forward.output",
    "attention.projection": "attention.query_key_value",
    "positions.table_PD": "positions.weight",
}


def renamed(name: str) -> str:
    for former, current in FORMER.items():
        name = name.replace(former, current)
    return name


def test_the_fixture_has_every_former_name():
    names = " ".join(load_file(CHECKPOINT / "model.safetensors"))
    assert all(former in names for former in FORMER)


def test_every_weight_has_a_name_that_can_be_translated_both_ways():
    model = load_bundle(CHECKPOINT).build_model()
    former = [former_name(name) for name in model.state_dict()]
    assert sorted(former) == sorted(load_file(CHECKPOINT / "model.safetensors"))
    assert [current_name(name) for name in former] == list(model.state_dict())


def test_its_bundle_scores_as_it_did():
    bundle = load_bundle(CHECKPOINT)
    pairs = json.loads((MADE / "expected.json").read_text("utf-8"))["scores"]
    sources, targets = (bundle.vocab.encode([pair[side] for pair in pairs]) for side in ("source", "target"))
    found = score_targets([bundle.build_model()], sources, targets, choose_hardware("cpu", "fp32", 1))
    for pair, score in zip(pairs, found, strict=True):
        assert score.piece_log_probabilities == pytest.approx(pair["piece_log_probabilities"], rel=1e-5)


def test_it_resumes_as_it_would_have(tmp_path, listener):
    folder = tmp_path / "copy"
    shutil.copytree(MADE, folder)
    config, _ = resolve_config(
        [(folder / "data", 1.0)], config_file=folder / "run" / "config.yaml", settings=["training.max_updates=20"]
    )
    assert config.training.freeze == ("encoder.*.around_self_attention.*", "target_positions.table_PD")
    train([folder / "data"], folder / "run", config, listener)
    assert any("Resuming from" in notice for notice in listener.notices)
    found = saved(folder / "run", 20)
    expected = {renamed(name): tensor for name, tensor in load_file(MADE / "expected.safetensors").items()}
    assert expected.keys() == {name for name in found if not name.startswith("exp_avg")}
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-6 if tensor.dtype == torch.float32 else 1e-9, atol=1e-9)
    frozen = load_bundle(CHECKPOINT).weights
    for name in ("encoder.0.self_attention_norm.weight", "target_positions.weight"):
        assert torch.equal(found[name], frozen[name])
        assert f"exp_avg.{name}" not in found


def test_a_pattern_of_today_comes_before_a_former_one(settled):
    config = settled("training.freeze=[]")
    vocab = load_bundle(CHECKPOINT).vocab

    def frozen(*patterns: str) -> set[str]:
        model = build_model(config, vocab, PLAIN)
        freeze(model, patterns)
        return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}

    assert frozen("decoder.*.around_cross_attention.*") == frozen("decoder.*.cross_attention_norm.*")
    assert frozen("*.feed_forward.output.*") == {
        f"{side}.0.feed_forward.output.{kind}" for side in ("encoder", "decoder") for kind in ("weight", "bias")
    }
    with pytest.raises(ConfigError, match="matches no parameter"):
        frozen("*.around_nothing.*")
