"""The double of CUDA graphs repeats what was recorded, and nothing that the host would compute anew."""

import pytest
import torch

from tests.recording_double import DoubleOfRecorder


def test_a_replay_sees_what_its_tensors_hold_now_and_the_numbers_of_its_recording():
    given, total, numbers = torch.tensor([1.0, 2.0]), torch.zeros(2), iter([1, 10, 100])
    replay = DoubleOfRecorder().record(lambda: total.add_(given * 2).add_(next(numbers)))
    assert total.tolist() == [3.0, 5.0]  # recording runs nothing
    given.copy_(torch.tensor([5.0, 6.0]))
    replay()
    replay()
    assert total.tolist() == [3.0 + 2 * 20, 5.0 + 2 * 22]


def test_what_a_work_made_is_lost_after_it():
    made = []
    replay = DoubleOfRecorder().record(lambda: made.append(torch.ones(2) + 1))
    replay()
    assert made[0].tolist() == [2.0, 2.0]  # of the first run, which was not recorded
    assert made[1].isnan().all()


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: torch.tensor([1.0]),
        lambda x: torch.equal(x, x), lambda x: x.unique(), lambda x: x.repeat_interleave(x.long()),
    ],
    ids=["item", "boolean index", "nonzero", "tensor of numbers", "equal", "unique", "repeat_interleave"],
)  # fmt: skip
def test_what_a_gpu_cannot_record_is_refused(work):
    with pytest.raises(AssertionError, match="cannot be recorded"):
        DoubleOfRecorder().record(lambda: work(torch.ones(2)))


def test_replays_are_not_cast_and_draw_random_numbers_anew():
    weight, given, result = torch.full((1, 1), 1 + 2**-20), torch.ones(1, 1), torch.zeros(1, 1)
    drawn = torch.zeros(3)

    def work() -> None:
        result.copy_(given @ weight)
        drawn.uniform_()

    replay = DoubleOfRecorder().record(work)
    torch.manual_seed(7)
    with torch.autocast("cpu", torch.bfloat16):
        replay()
    assert result.item() == 1 + 2**-20
    torch.manual_seed(7)
    assert torch.equal(drawn, torch.rand(3))
