"""Each setting of learning changes what is learnt: none is read and then forgotten."""

import hashlib

import numpy as np
import pytest
import torch

from nmt.config import Config, parse_config
from nmt.data.batching import plan_epoch
from nmt.kernels.policy import Kernels, accelerate
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.learner import Learner
from nmt.training.schedule import learning_rate
from nmt.training.start.resume import choose_what_learns
from tests.training.start.test_changes import CHANGES
from tests.training.test_learner import aligned, batch, pairs

BASE = {
    "model": {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 24, "heads": 2, "max_positions": 64},
    "batching": {"update_tokens": 60, "group_tokens": 30},
    "schedule": {"warmup": 4, "decay": "linear", "decay_updates": 10},
    "optimizer": {"clip_norm": 100.0},
    "training": {"max_updates": 10},
}
# What a setting needs to have an effect.
BESIDE = {
    "schedule.decay_share": {"schedule": {"decay": "wsd"}},
    "training.guided_alignment": {"model": {"alignment_layer": 1}},
    "model.max_positions": {"model": {"positions": "learned"}},
}  # fmt: skip
OTHER = CHANGES | {
    "optimizer.clip_norm": 0.01, "schedule.warmup": 3,
    "model.first_position": 3, "schedule.decay_updates": 30, "model.source_eos": False,
    "model.output_bias": True, "model.attention_bias": False, "training.freeze": ["encoder.*"],
}  # fmt: skip
ELSEWHERE = {"training.precision", "training.subword_sampling", "training.stages"}
"""Not of a model or an update, as is augmentation: tests of the device, of sampled epochs, and of stages."""
LEARNING = [key for key in CHANGES if not key.startswith(("validation.", "augmentation.")) and key not in ELSEWHERE]


def merged(values: dict, more: dict) -> dict:
    return values | {section: values.get(section, {}) | keys for section, keys in more.items()}


def learnt(config: Config) -> str:
    """A hash of all that two updates of a small model leave, of the rates of a run, and of the plan of an epoch."""
    torch.manual_seed(0)
    training, digest = config.training, hashlib.sha256()
    hardware = choose_hardware("cpu", "fp64", 1)
    model = accelerate(Transformer(config.model, 30), Kernels())
    choose_what_learns(model, training)
    learner = Learner(model.double(), config, hardware)
    for update in (1, 2):
        rate = learning_rate(update, config.schedule, config.model.d_model, 10)
        learner.update([aligned(batch(pairs(5)))], update=update, target_tokens=30, learning_rate=rate)
    for name, tensor in sorted((learner.weights() | learner.state_dict()).items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    rates = [learning_rate(update, config.schedule, config.model.d_model, 10) for update in range(1, 11)]
    lengths = np.random.default_rng(0).integers(1, 30, (2, 100)).astype(np.int32)
    settings = config.batching
    plan = plan_epoch(
        *lengths, update_tokens=settings.update_tokens, group_tokens=settings.group_tokens, seed=training.seed, epoch=0
    )
    digest.update(str((rates, plan.starts.tolist(), plan.pairs.tolist())).encode())
    return digest.hexdigest()


@pytest.mark.parametrize("key", LEARNING)
def test_each_setting_of_learning_changes_what_is_learnt(key):
    section, name = key.split(".")
    base = merged(BASE, BESIDE.get(key, {}))
    changed = merged(base, {section: {name: OTHER[key]}})
    assert learnt(parse_config(base, name="base")) != learnt(parse_config(changed, name="changed"))
