"""Adam's moments divided among ranks: the same updates and the same checkpoints, whatever the number of ranks."""

import pytest
import torch

from nmt.device import choose_hardware
from nmt.errors import TrainingError
from nmt.training.ranks.exchange import Ranks
from nmt.training.start import model_memory
from nmt.training.start.model_memory import check_memory, parameter_count
from tests.training.conftest import assert_same, records, saved
from tests.training.ranks.test_exchange import EXACT, distance, hashes
from tests.training.test_gradients import Twice
from tests.training.test_learner import batch, learner, pairs

SHARDED = [*EXACT, "training.shard_optimizer=true"]


def assert_close(one, other) -> None:
    """Checkpoints hold the same tensors; all weights together differ by rounding, so do all moments of a kind."""
    assert {name: tensor.shape for name, tensor in one.items()} == {
        name: tensor.shape for name, tensor in other.items()
    }
    for kind in ("exp_avg.", "exp_avg_sq.", "learnt."):
        names = [name for name in one if name.startswith(kind)]
        ours, theirs = (torch.cat([saved[name].flatten() for name in names]) for saved in (one, other))
        assert (ours - theirs).norm() <= 1e-9 * theirs.norm(), kind


@pytest.mark.parametrize("ranks", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_ranks_learn_what_one_learns_and_save_the_same(run_ranks, settings, tmp_path, ranks):
    """Clipped, frozen and averaged; the sizes of the parameters are no multiple of the ranks."""
    changes = ["optimizer.clip_norm=0.5", "training.ema_decay=0.5", "training.freeze=[encoder.*]"]
    [one] = run_ranks(1, settings(*EXACT, *changes), "alone")
    several = run_ranks(ranks, settings(*SHARDED, *changes, name="sharded"), "together")
    assert distance(several[0], one) <= 1e-9
    assert all((rank["parameters"] == several[0]["parameters"]).all() for rank in several)
    assert len({tuple(hashes(tmp_path / f"together-{ranks}.{rank}.order").items()) for rank in range(ranks)}) == 1
    assert_close(saved(tmp_path / "together", 20), saved(tmp_path / "alone", 20))
    norms = [[r["gradient_norm"] for r in records(tmp_path / name, "update")] for name in ("alone", "together")]
    assert norms[1] == pytest.approx(norms[0], rel=1e-9)


@pytest.mark.slow
def test_in_bf16_ranks_multiply_by_the_weights_that_they_have_gathered(run_ranks, settings):
    changes = ["training.precision=bf16", "training.ema_decay=0.5", "training.max_updates=10"]
    whole = run_ranks(2, settings(*changes), "whole")
    sharded = run_ranks(2, settings(*changes, "training.shard_optimizer=true", name="sharded"), "sharded")
    assert distance(sharded[0], whole[0]) <= 1e-5
    assert (sharded[0]["parameters"] == sharded[1]["parameters"]).all()


@pytest.mark.slow
def test_a_run_resumes_with_another_number_of_ranks_and_bit_for_bit_with_the_same(run_ranks, settings, tmp_path):
    sharded, whole = settings(*SHARDED), settings(*EXACT, name="whole")
    run_ranks(2, sharded, "straight")
    for name, ranks, then in (("again", 2, sharded), ("more", 3, sharded), ("whole", 1, whole)):
        run_ranks(2, sharded, name, "terminate", 1, 7)
        run_ranks(ranks, then, name)
    assert_same(saved(tmp_path / "again", 20), saved(tmp_path / "straight", 20))
    for name in ("more", "whole"):
        assert_close(saved(tmp_path / name, 20), saved(tmp_path / "straight", 20))


@pytest.mark.slow
def test_a_rank_out_of_memory_halves_and_all_learn_the_same(run_ranks, settings):
    [one] = run_ranks(1, settings(*EXACT, "batching.micro_batch_tokens=1000"), "alone")
    sharded = settings(*SHARDED, "batching.micro_batch_tokens=1000", name="sharded")
    two = run_ranks(2, sharded, "together", "memory", 1, 7)
    assert distance(two[0], one) <= 1e-9
    assert int(two[0]["limit"]) == int(two[1]["limit"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_gradient_that_is_not_finite_on_one_rank_changes_nothing_on_any(run_ranks, settings, tmp_path, rank):
    """The bad number is in the slice of the first rank."""
    sharded = settings(*SHARDED, "training.max_updates=12", "training.max_skipped=30")
    run_ranks(2, sharded, "run", "poison", rank, 9)
    after = [hashes(tmp_path / f"run-2.{number}.order") for number in (0, 1)]
    assert after[0] == after[1]
    assert after[0][7] != after[0][8] == after[0][9] == after[0][12]
    assert [event["update"] for event in records(tmp_path / "run", "event")] == [9, 10, 11, 12]


def test_each_rank_holds_moments_of_its_slice_alone():
    class Third(Twice):
        """The last of three ranks."""

        def __init__(self) -> None:
            super().__init__()
            object.__setattr__(self, "rank", 2)
            object.__setattr__(self, "size", 3)

        def sum_slices(self, whole, own):
            own.mul_(3)

        def join_slices(self, whole, own):
            pass

    made = learner(ranks=Third(), shards_optimizer=True)
    made.update([batch(pairs(5))], update=1, target_tokens=30, learning_rate=0.01)
    numbers = sum(parameter.numel() for parameter in made.parameters.values())
    [state] = made.optimizer._adam.state.values()
    assert len(state["exp_avg"]) == len(state["exp_avg_sq"]) == -(-numbers // 3)
    assert numbers % 3 != 0
    assert not state["exp_avg"][numbers % -3 :].any()  # the zeros that fill the last slice


def test_divided_moments_need_less_memory(settled, monkeypatch):
    hardware, ranks = choose_hardware("cpu", "fp32", 1), Ranks(0, 2, 0, 1)
    monkeypatch.setattr(
        model_memory,
        "free_memory",
        lambda device: (3 + 3) * 4 * parameter_count(settled().model, settled().data.vocab_size),
    )
    check_memory(settled("training.shard_optimizer=true"), hardware, ranks)
    with pytest.raises(TrainingError):
        check_memory(settled(), hardware, ranks)
