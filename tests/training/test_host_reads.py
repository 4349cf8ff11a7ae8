"""How often the host waits to read from a GPU, counted on a CPU with a GPU's kernels."""

import math
from contextlib import nullcontext

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.config import Config, ModelConfig
from nmt.kernels.policy import accelerate
from nmt.machine.device import Hardware
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.settings import Sampling, SearchSettings
from nmt.training import device_clock
from nmt.training import learner as learner_module
from nmt.training.learner import Learner
from nmt.training.ranks.exchange import Ranks
from nmt.training.ranks.message import Report
from tests import policies
from tests.host_waits import reason_to_wait
from tests.training.test_learner import batch, learner, pairs


class HostReads(TorchDispatchMode):
    """Counts what makes the host wait for a GPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.found: list[str] = []
        # On a CPU these are no operations that a mode sees.
        for name in ("cpu", "tolist", "numpy"):
            monkeypatch.setattr(torch.Tensor, name, self._noting(name, getattr(torch.Tensor, name)))

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        if (why := reason_to_wait(operation, arguments, options)) is not None:
            self.found.append(why)
        return operation(*arguments, **(options or {}))

    def _noting(self, name, method):
        def noting(tensor, *arguments, **options):
            self.found.append(name)
            return method(tensor, *arguments, **options)

        return noting


class Both(Ranks):
    """Two ranks, as this one sees them."""

    def all_reduce(self, tensor: torch.Tensor) -> None:
        tensor.mul_(1)


@pytest.fixture(autouse=True, params=["cuda", "cuda-16-bit"])
def kernels_of_a_gpu(monkeypatch, request):
    monkeypatch.setitem(policies._CURRENT, "kernels", policies.POLICIES[request.param])


@pytest.mark.parametrize(
    "options",
    [{}, {"clip_norm": 1.0}, {"ema_decay": 0.9}, {"r_drop": 5.0}, {"precision": "bf16"}, {"ranks": Both(0, 2)}],
    ids=str,
)
def test_in_an_update_the_host_waits_for_the_device_once(monkeypatch, options):
    made = learner(dropout=0.1, **({"precision": "fp32"} | options))
    batches = [batch(pairs(5)), batch(pairs(3))]
    with HostReads(monkeypatch) as reads:
        made.update(batches, update=1, target_tokens=30, learning_rate=0.01)
    assert reads.found == ["tolist"]


def test_all_of_an_update_is_computed_on_the_device_of_the_model(monkeypatch):
    """Tensors on ``meta`` have no numbers that the host could read, and mix with those of no other device."""
    monkeypatch.setattr(Hardware, "autocast", lambda self: nullcontext())  # meta has none
    made = learner(dropout=0.1, precision="fp32")
    on_meta = Learner(
        made.model.to("meta"), Config(model=made.model.config), Hardware(torch.device("meta"), "fp32", 1, "")
    )
    assert on_meta.begin([batch(pairs(5)), batch(pairs(3))], update=1, target_tokens=30).unfit is None


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(), lambda x: x.cpu(), lambda x: bool(x.any()), lambda x: x[x > 0], lambda x: x.nonzero(),
        lambda x: torch.masked_select(x, x > 0), lambda x: x.numpy(),
    ],
)  # fmt: skip
def test_what_a_host_waits_for_is_counted(monkeypatch, wait):
    with HostReads(monkeypatch) as reads:
        wait(torch.randn(5))
    assert len(reads.found) == 1


def test_a_gpus_busy_time_is_that_of_the_update_before(monkeypatch):
    class Event:
        """An event whose work takes as many milliseconds as events were recorded."""

        recorded = 0

        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            Event.recorded += 500
            self.time = Event.recorded

        def elapsed_time(self, end) -> float:
            return end.time - self.time

    monkeypatch.setattr(device_clock.torch.cuda, "Event", Event)
    made = learner(ranks=Both(0, 2))
    monkeypatch.setattr(learner_module, "start_clock", lambda device: device_clock.start_clock(torch.device("cuda")))
    made._busy_seconds = 0.0
    results = [
        made.update(
            [batch(pairs(5))],
            update=number,
            target_tokens=30,
            learning_rate=0.01,
            report=lambda: Report(busy_seconds=7.0),  # of the host, which only queued the work
        )
        for number in (1, 2)
    ]
    tokens = batch(pairs(5)).target_tokens
    assert [result.rank_tokens_per_second[0] for result in results] == [0.0, tokens / 0.5]


@pytest.mark.parametrize(
    "options", [{}, {"beam": 1}, {"beam": 3, "nbest": 3, "sampling": Sampling()}, {"min_length": 4}], ids=str
)
def test_in_a_search_the_host_waits_for_the_device_once_in_eight_steps(monkeypatch, options):
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, heads=2)
    model = accelerate(Transformer(config, 30), policies.chosen()).eval()
    source_BS, steps = torch.randint(4, 30, (3, 6)), []
    with HostReads(monkeypatch) as reads:
        settings = SearchSettings(**({"beam": 4, "max_extra_length": 20} | options))
        beam_search([model], source_BS, settings, before_step=lambda sentences, length: steps.append(length))
    begin, *looks = reads.found
    assert begin == "tolist"  # the lengths of the sources
    assert set(looks) == {"numpy"}
    assert len(looks) == math.ceil(len(steps) / 8) > 1
