"""Recorded passes learn bit for bit what passes that are not recorded learn; a double records on a CPU."""

import dataclasses

import pytest
import torch
from torch.torch_version import TorchVersion

from nmt.config import ModelConfig, OptimizerConfig, TrainingConfig, parse_config
from nmt.device import choose_hardware
from nmt.errors import ConfigError
from nmt.kernels.policy import PLAIN
from nmt.model.transformer import Transformer
from nmt.training import recorded_passes
from nmt.training.input.model_inputs import model_inputs
from nmt.training.learner import Learner
from nmt.training.ranks.exchange import Ranks
from nmt.training.recorded_passes import RecordedPasses, check_recording
from nmt.training.start import beginning, preflight
from tests import policies
from tests.recording_double import DoubleOfRecorder
from tests.training import conftest
from tests.training.test_gradients import Twice
from tests.training.test_learner import batch, gradient, learner, out_of_memory, pairs, tokens, weights

# Three sizes of lines, dealt to updates that differ; the last update has a size of its own.
UPDATES = [
    [batch(pairs(24)[a:b]) for a, b in cuts]
    for cuts in (
        [(0, 9), (9, 18)], [(0, 9), (2, 5)], [(9, 18), (0, 9), (2, 5)], [(2, 5), (3, 12)], [(9, 18), (0, 9), (18, 24)],
        [(0, 1)],
    )
]  # fmt: skip


class Slices(Ranks):
    """Two ranks with the same gradients, of which the other one's slice of the parameters stays as it was."""

    def sum(self, tensor):
        tensor.mul_(2)

    def sum_slices(self, whole, own):
        own.mul_(2)

    def join_slices(self, whole, own):
        pass

    def slices_for_main(self, own):
        return [own, torch.zeros_like(own)]


@pytest.fixture(autouse=True)
def kernels_that_record(monkeypatch):
    monkeypatch.setitem(policies._CURRENT, "kernels", policies.POLICIES["cuda-16-bit"])


def recorder_of(made: Learner):
    return made._recorded._recorder


def learn(made: Learner, updates=range(1, 7)) -> list:
    return [
        made.update(
            UPDATES[update - 1], update=update, target_tokens=tokens(UPDATES[update - 1]), learning_rate=0.01
        )
        for update in updates
    ]  # fmt: skip


def assert_same(recorded: Learner, plain: Learner) -> None:
    assert torch.equal(weights(recorded), weights(plain))
    for name, tensor in plain.training_tensors().items():
        assert torch.equal(recorded.training_tensors()[name], tensor), name
    for name, tensor in plain.weights().items():
        assert torch.equal(recorded.weights()[name], tensor), name


@pytest.mark.parametrize(
    "options",
    [
        {}, {"dropout": 0.3}, {"precision": "fp32", "dropout": 0.3}, {"precision": "bf16", "dropout": 0.3},
        {"precision": "fp16"}, {"ema_decay": 0.5}, {"clip_norm": 0.1}, {"r_drop": 2.0, "dropout": 0.3},
        {"ranks": Twice(), "overlaps_exchange": True}, {"ranks": Slices(0, 2), "shards_optimizer": True},
    ],
    ids=str,
)  # fmt: skip
def test_updates_are_those_that_are_not_recorded(options):
    plain, recorded = learner(**options), learner(**options, records_passes=True)
    for one, other in zip(learn(plain), learn(recorded), strict=True):
        assert dataclasses.replace(one, rank_tokens_per_second=()) == dataclasses.replace(
            other, rank_tokens_per_second=()
        )
    assert_same(recorded, plain)
    assert len(recorded._recorded) >= 2
    assert recorder_of(recorded).replays >= 3


def test_a_size_is_recorded_when_it_comes_again():
    made = learner(records_passes=True)
    one, other = batch(pairs(9)), batch(pairs(2))
    for sent, recordings, replays in [(one, 0, 0), (other, 0, 0), (one, 1, 0), (one, 1, 1), (other, 2, 1), (one, 2, 2)]:
        made.compute_gradients([sent], update=1, target_tokens=9)
        assert (len(made._recorded), recorder_of(made).replays) == (recordings, replays)


def test_sizes_beyond_the_maximum_are_not_recorded(monkeypatch):
    plain, recorded = learner(dropout=0.3), learner(dropout=0.3, records_passes=True)
    recorded._recorded = RecordedPasses(recorded.model.kernels.recorder, recorded._pass, max_recordings=1)
    learn(plain), learn(recorded)
    assert len(recorded._recorded) == 1
    assert_same(recorded, plain)


def test_sentences_of_the_same_sizes_but_other_lengths_share_a_recording():
    """What is copied for a replay is the pieces, and also where sentences end."""
    lengths = [(3, 3), (2, 4), (4, 2), (1, 5)]
    pieces = torch.arange(4, 30).numpy()
    batches = [batch([(pieces[:a], pieces[:b]), (pieces[5 : 5 + b], pieces[7 : 7 + a])]) for a, b in lengths]
    plain, recorded = learner(), learner(records_passes=True)
    for update, one in enumerate(batches, start=1):
        for made in (plain, recorded):
            made.update([one], update=update, target_tokens=8, learning_rate=0.01)
    assert (len(recorded._recorded), recorder_of(recorded).replays) == (1, 2)
    assert_same(recorded, plain)


def test_sizes_tell_the_longest_sentence_apart():
    """Flash attention takes its length as a number of the host."""
    pieces = torch.full((300,), 7).numpy()

    def sizes(*lengths: int):
        made = batch([(pieces[:length], pieces[:length]) for length in lengths])
        return model_inputs(made, torch.device("cpu"), as_line=True).sizes

    assert sizes(300, 10) != sizes(155, 155) == sizes(150, 160)
    assert sizes(300, 10)[:-2] == sizes(155, 155)[:-2]


def test_a_loss_scale_that_changes_is_seen_by_recordings():
    plain, recorded = (learner(precision="fp16", records_passes=records) for records in (False, True))
    for made in (plain, recorded):
        made.loss_scale.value = 2.0**40  # more than fp16 holds: updates are skipped, and the scale is halved
        skipped = [result.is_skipped for result in learn(made, [1, 2, 3, 4, 5])]
        assert skipped == [True] * 5
        made.loss_scale.value = 2.0**8
        assert not any(result.is_skipped for result in learn(made, [2, 3, 4]))
    assert recorder_of(recorded).replays > 5
    assert_same(recorded, plain)


def test_a_gradient_that_is_not_finite_changes_nothing():
    plain, recorded = learner(), learner(records_passes=True)
    for made in (plain, recorded):
        factor = torch.ones((), dtype=torch.float64)
        made.parameters["embedding.weight"].register_hook(lambda grad, factor=factor: grad * factor)
        learn(made, [1, 2, 3])
        before = weights(made)
        factor.fill_(torch.inf)
        assert learn(made, [3])[0].is_skipped
        assert torch.equal(weights(made), before)
        factor.fill_(1.0)
        assert not learn(made, [4])[0].is_skipped
    assert_same(recorded, plain)


@pytest.mark.parametrize("options", [{}, {"ema_decay": 0.5, "precision": "bf16"}], ids=str)
def test_a_restored_learner_resumes_where_it_was(options):
    options |= {"dropout": 0.3, "records_passes": True}
    straight, first, second = (learner(**options) for _ in range(3))
    learn(straight)
    learn(first, [1, 2, 3])
    with first.weights_in_use():  # validated: the parameters are elsewhere meanwhile
        saved = {name: tensor.clone() for name, tensor in first.model.state_dict().items()}
    second.model.load_state_dict(saved)
    second.restore({name: tensor.clone() for name, tensor in first.training_tensors().items()}, 3)
    for made in (first, second):
        learn(made, [4, 5, 6])
        assert_same(made, straight)


class Failing:
    """A recorder that runs out of memory after some runs of work, recorded or not."""

    def __init__(self, made: Learner, fails_at: int, how: str) -> None:
        self.left, self.how, self.failed = fails_at, how, False
        made._recorded._run = self._counted(made._recorded._run, "pass")
        record = made._recorded._recorder.record

        def recorded(work):
            replay = self._counted(record, "record")(work)
            return self._counted(replay, "replay")

        made._recorded._recorder.record = recorded

    def _counted(self, call, what):
        def counted(*arguments):
            if what == self.how and not self.failed:
                self.left -= 1
                if self.left == 0:
                    self.failed = True
                    raise out_of_memory()
            return call(*arguments)

        return counted


@pytest.mark.parametrize("how", ["pass", "record", "replay"])
def test_out_of_memory_drops_recordings_and_repeats_the_update(how):
    plain, disturbed = learner(), learner(records_passes=True)
    failing = Failing(disturbed, 2, how)
    made_first = recorder_of(disturbed)
    for one, other in zip(learn(plain), learn(disturbed), strict=True):
        assert one.cross_entropy == pytest.approx(other.cross_entropy, rel=1e-9)
    assert failing.failed
    assert disturbed.micro_batch_limit is None  # it fits without recordings
    assert (len(disturbed._recorded), disturbed._recorded.is_stopped) == (0, True)
    assert recorder_of(disturbed) is not made_first  # and its memory is released
    assert_same(disturbed, plain)
    disturbed.forget_recordings()
    learn(disturbed, [1, 2, 3])
    assert len(disturbed._recorded)


def test_a_single_pair_that_fits_without_recordings_is_trained():
    plain, disturbed = learner(), learner(records_passes=True)
    failing = Failing(disturbed, 2, "pass")
    for made in (plain, disturbed):
        for update in (1, 2, 3):
            made.update([batch(pairs(1))], update=update, target_tokens=5, learning_rate=0.01)
    assert failing.failed
    assert_same(disturbed, plain)


def test_out_of_memory_without_recordings_halves_micro_batches():
    plain, disturbed = learner(), learner(records_passes=True)
    first = Failing(disturbed, 2, "record")
    learn(plain, [1, 2, 3]), learn(disturbed, [1, 2, 3])
    again = Failing(disturbed, 1, "pass")
    learn(plain, [4, 5, 6]), learn(disturbed, [4, 5, 6])
    assert first.failed
    assert again.failed
    assert disturbed.micro_batch_limit is not None
    assert (weights(plain) - weights(disturbed)).norm() <= 1e-9 * weights(plain).norm()


def test_a_device_that_cannot_record_trains_without(run_training, tmp_path, monkeypatch, listener):
    failures = []

    class Unable(DoubleOfRecorder):
        """All recorders of a GPU know of a failure."""

        failure = property(lambda self: failures[0] if failures else None, lambda self, none: None)

        def record(self, work):
            failures.append("CUDA error: operation not permitted when stream is capturing")
            work()
            return work

    kernels = dataclasses.replace(policies.POLICIES["cuda-16-bit"], recorder=Unable)
    monkeypatch.setattr(beginning, "choose_kernels", lambda *given, **options: kernels)
    run_training(tmp_path / "run", "training.cuda_graphs=true", "training.max_updates=5")
    [message] = [message for message in listener.notices if "cuda_graphs" in message]
    assert "cannot be recorded (CUDA error: operation not permitted when stream is capturing)" in message


def test_a_learner_that_cannot_record_is_refused():
    made = learner()
    made.model.kernels = dataclasses.replace(made.model.kernels, recorder=None)
    with pytest.raises(ValueError, match="recorder"):
        Learner(made.model, OptimizerConfig(), made._hardware, label_smoothing=0.1, seed=1, records_passes=True)


def test_gradients_of_micro_batches_are_summed_in_the_buffer():
    made, expected = learner(precision="bf16", records_passes=True), learner(precision="bf16")
    sent = [batch(pairs(9)), batch(pairs(9)), batch(pairs(9)), batch(pairs(2))]
    for one in (made, expected):
        for _ in range(2):
            one.compute_gradients(sent, update=1, target_tokens=90)
    assert torch.equal(gradient(made), gradient(expected))
    leaves = [leaf for parameter in made.parameters.values() for leaf in made._working.sources(parameter)]
    assert all(leaf.grad is None for leaf in leaves if leaf.dtype == torch.bfloat16)


def model(kernels, **changes) -> Transformer:
    return Transformer(
        ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, heads=2, **changes), 30, kernels
    )


def test_what_cannot_be_recorded_is_refused_with_the_reason(monkeypatch):
    asked, hardware = TrainingConfig(cuda_graphs=True), choose_hardware("cpu", "fp32", 1)
    records = policies.POLICIES["cuda-16-bit"]
    check_recording(model(records), asked, hardware)
    check_recording(model(PLAIN), TrainingConfig(), hardware)
    with pytest.raises(ConfigError, match="needs a CUDA GPU, but training runs on cpu"):
        check_recording(model(PLAIN), asked, hardware)
    gpu = dataclasses.replace(hardware, device=torch.device("cuda"))
    with pytest.raises(ConfigError, match="this GPU or its driver cannot record CUDA graphs"):
        check_recording(model(PLAIN), asked, gpu)
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.12.1"))
    with pytest.raises(ConfigError, match=r"needs torch 2\.13 or newer, but this is 2\.12\.1"):
        check_recording(model(PLAIN), asked, gpu)
    for padded in (model(records, attention="additive"), model(dataclasses.replace(records, sentence_attention=None))):
        with pytest.raises(ConfigError, match="needs batches without padding"):
            check_recording(padded, asked, hardware)
    with pytest.raises(ConfigError, match="compile and cuda_graphs are both true, but at most one may be"):
        parse_config({"training": {"compile": True, "cuda_graphs": True}}, name="settings")


def test_without_a_gpu_a_run_that_asks_for_recordings_is_refused(run_training, tmp_path):
    with pytest.raises(ConfigError, match=r"training\.cuda_graphs: needs a CUDA GPU"):
        run_training(tmp_path / "run", "training.cuda_graphs=true")


def test_a_run_with_recordings_learns_what_one_without_learns(run_training, tmp_path, monkeypatch):
    """From the preflight to the last checkpoint, which another run resumes from."""
    monkeypatch.setattr(beginning, "choose_kernels", lambda *given, **options: policies.POLICIES["cuda-16-bit"])
    recorded = []
    record = recorded_passes.RecordedPasses.run
    monkeypatch.setattr(
        recorded_passes.RecordedPasses, "run", lambda self, inputs: (record(self, inputs), recorded.append(len(self)))
    )
    run_training(tmp_path / "plain")
    assert not recorded
    run_training(tmp_path / "recorded", "training.cuda_graphs=true", "training.max_updates=10")
    run_training(tmp_path / "recorded", "training.cuda_graphs=true", "training.max_updates=20")
    assert max(recorded) > 1
    conftest.assert_same(*(conftest.saved(tmp_path / name, 20) for name in ("plain", "recorded")))


def test_the_preflight_counts_a_recorded_pass_and_one_that_is_not(run_training, tmp_path, monkeypatch, listener):
    monkeypatch.setattr(beginning, "choose_kernels", lambda *given, **options: policies.POLICIES["cuda-16-bit"])
    run, at_rest, of_pass = recorded_passes.RecordedPasses.run, 1_000, 70
    used = [0]

    def counted(self, inputs):
        used[0] = at_rest + (0 if inputs.sizes in self._recordings else of_pass)  # a replay allocates nothing
        run(self, inputs)

    def largest(learner, limit, config, hardware, lengths, ranks):
        worst = preflight.worst_batch(limit, lengths[0], preflight._pieces(config))
        for _ in range(2):  # records the size that is measured after this
            learner.compute_gradients([worst], update=0, target_tokens=worst.target_tokens)
        return limit

    monkeypatch.setattr(recorded_passes.RecordedPasses, "run", counted)
    monkeypatch.setattr(preflight, "_largest_fitting", largest)
    monkeypatch.setattr(preflight, "memory_in_use", lambda device: used[0])
    settings = ["training.cuda_graphs=true", "batching.micro_batch_tokens=auto"]
    run_training(tmp_path / "run", *settings, "training.max_updates=2")
    assert listener.preflight.memory_bytes == at_rest + 2 * of_pass
