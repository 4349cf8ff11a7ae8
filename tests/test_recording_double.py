"""The double of CUDA graphs repeats what was recorded, and nothing that the host would compute anew."""

import pytest
import torch

from tests.recording_double import DoubleOfRecorder


def test_work_runs_once_when_it_is_recorded_and_once_per_replay():
    number = torch.zeros(())
    replay = DoubleOfRecorder().record(lambda: number.add_(1))
    assert number == 1
    replay()
    replay()
    assert number == 3


def test_a_replay_sees_what_its_tensors_hold_now():
    given, result = torch.tensor([1.0, 2.0]), torch.zeros(2)
    replay = DoubleOfRecorder().record(lambda: torch.add(given * 2, 1, out=result))
    given.copy_(torch.tensor([5.0, 6.0]))
    replay()
    assert result.tolist() == [11.0, 13.0]


def test_numbers_of_the_host_stay_those_of_the_recording():
    total, numbers = torch.zeros(()), iter([1, 10, 100, 1000])
    replay = DoubleOfRecorder().record(lambda: total.add_(next(numbers)))
    assert total == 1
    replay()
    assert total == 11


def test_a_tensor_that_takes_another_ones_place_is_not_seen():
    given, result = [torch.ones(2)], torch.zeros(2)
    replay = DoubleOfRecorder().record(lambda: result.copy_(given[0]))
    given[0] = torch.full((2,), 5.0)
    replay()
    assert result.tolist() == [1.0, 1.0]


def test_what_a_work_made_is_lost_after_it():
    made = []
    replay = DoubleOfRecorder().record(lambda: made.append(torch.ones(2) + 1))
    replay()
    assert made[0].tolist() == [2.0, 2.0]  # of the first run, which was not recorded
    assert made[1].isnan().all()


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.sum().item(),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: torch.tensor([1.0]),
        lambda x: torch.equal(x, x),
        lambda x: x.unique(),
        lambda x: x.repeat_interleave(x.long()),
    ],
    ids=["item", "boolean index", "nonzero", "tensor of numbers", "equal", "unique", "repeat_interleave"],
)
def test_what_a_gpu_cannot_record_is_refused(work):
    with pytest.raises(AssertionError, match="cannot be recorded"):
        DoubleOfRecorder().record(lambda: work(torch.ones(2)))


def test_random_numbers_are_those_of_the_seed_at_the_time():
    drawn = torch.zeros(3)
    replay = DoubleOfRecorder().record(lambda: drawn.bernoulli_(0.5).add_(torch.rand(3)))
    torch.manual_seed(7)
    replay()
    torch.manual_seed(7)
    assert torch.equal(drawn, torch.zeros(3).bernoulli_(0.5) + torch.rand(3))


def test_replays_are_not_cast():
    weight, given, result = torch.full((1, 1), 1 + 2**-20), torch.ones(1, 1), torch.zeros(1, 1)
    replay = DoubleOfRecorder().record(lambda: result.copy_(given @ weight))
    with torch.autocast("cpu", torch.bfloat16):
        replay()
    assert result.item() == 1 + 2**-20
