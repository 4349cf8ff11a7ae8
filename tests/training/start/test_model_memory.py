"""A model that no memory holds is refused before any of it is taken, with figures and advice."""

import pytest

from nmt.config import ModelConfig
from nmt.errors import TrainingError
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.learner import Learner
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.start import model_memory as memory
from nmt.training.start.model_memory import check_memory, minimum_memory, out_of_memory_explained, parameter_count
from nmt.training.start.resume import choose_what_learns

SAVED = 3
"""The weights and the two moments that a CPU copies before it writes them as a checkpoint."""


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(encoder_layers=3, decoder_layers=5, d_model=16, d_ff=8, heads=2, norm="pre"),
        ModelConfig(encoder_layers=1, decoder_layers=2, d_model=16, d_ff=8, heads=2, positions="learned"),
    ],
)
def test_parameters_are_counted_without_building_the_model(config):
    model = Transformer(config, 40)
    assert parameter_count(config, 40) == sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model.d_model=100000", ["parameters needs at least", "TB", "model.d_model", "--preset"]),
        ("model.encoder_layers=1000000000", ["parameters needs at least", "numbers of layers"]),
        ("model.max_positions=1000000000000", ["parameters needs at least", "64.0 TB", "model.max_positions"]),
        ("model.d_ff=1000000000000000000", ["fits into no memory"]),
        ("model.d_model=80000000000", ["fits into no memory"]),
    ],
)
def test_a_model_beyond_all_memory_is_an_error_with_advice(run_training, tmp_path, setting, words):
    with pytest.raises(TrainingError) as error:
        run_training(tmp_path / "run", setting)
    for word in words:
        assert word in str(error.value)


def test_ranks_of_a_machine_share_its_memory(settled, monkeypatch):
    hardware = choose_hardware("cpu", "fp32", 1)
    config = settled("model.positions=learned")
    needed = 4 * (4 + SAVED) * parameter_count(config.model, config.data.vocab_size)
    monkeypatch.setattr(memory, "free_memory", lambda device: needed)
    check_memory(config, hardware, NO_OTHERS)
    with pytest.raises(TrainingError, match="for each rank"):
        check_memory(config, hardware, Ranks(0, 2, 0, 2))
    copied_once = 2 * 4 * 4 * parameter_count(config.model, config.data.vocab_size) + needed // (4 + SAVED) * SAVED
    monkeypatch.setattr(memory, "free_memory", lambda device: copied_once)
    check_memory(config, hardware, Ranks(0, 2, 0, 2))
    monkeypatch.setattr(memory, "free_memory", lambda device: needed)
    with pytest.raises(TrainingError):
        check_memory(settled("model.positions=learned", "training.ema_decay=0.9"), hardware, NO_OTHERS)
    monkeypatch.setattr(memory, "free_memory", lambda device: needed - 1)
    with pytest.raises(TrainingError, match="a copy to save"):
        check_memory(config, hardware, NO_OTHERS)


@pytest.mark.parametrize(
    "setting",
    ["r_drop=0", "adapter_rank=2", "freeze=[encoder.*]", "adapter_rank=2 freeze=[encoder.*]", "ema_decay=0.9"],
)
def test_the_estimate_counts_what_a_learner_keeps_and_copies(settled, setting):
    config = settled(*(f"training.{each}" for each in setting.split()))
    model = Transformer(config.model, config.data.vocab_size)
    choose_what_learns(model, config.training)
    learner = Learner(model, config, hardware := choose_hardware("cpu", "fp32", 1))
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    averages = learner.average.tensors if learner.average is not None else []
    kept = [*model.parameters(), *model.buffers(), *learning, *learner.optimizer.moments().values(), *averages]
    own = {parameter.data_ptr() for parameter in model.parameters()}
    weights = list(learner.weights().values())
    computed = [weight for weight in weights if learner.average is None and weight.data_ptr() not in own]
    numbers = sum(tensor.numel() for tensor in (*kept, *computed, *weights, *learner.state_dict().values()))
    assert 4 * numbers <= minimum_memory(config, hardware, NO_OTHERS) <= 1.01 * 4 * numbers


def test_memory_that_is_taken_meanwhile_is_an_error_too(run_training, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes.")

    monkeypatch.setattr(Learner, "__init__", fail)
    with pytest.raises(TrainingError, match=r"does not fit into the memory of cpu\. Lower model\.d_model"):
        run_training(tmp_path / "run")
    with pytest.raises(RuntimeError, match="another"), out_of_memory_explained(choose_hardware("cpu", "fp32", 1)):
        raise RuntimeError("another")
