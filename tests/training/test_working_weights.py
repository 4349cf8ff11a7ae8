"""Training in 16 bits: products take copies of the weights, made once per update, and learn as with autocast alone."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.config import Config
from nmt.kernels.working_weights import TakesCopies, WorkingWeights
from nmt.model.transformer import Transformer
from nmt.training.learner import Learner
from nmt.training.start.beginning import freeze
from tests.policies import EVERY_POLICY
from tests.training.test_gradients import SMALL_BUCKETS, Twice
from tests.training.test_learner import batch, gradient, learner, out_of_memory, pairs, weights

pytestmark = EVERY_POLICY

BATCHES = [batch(pairs(9)), batch(pairs(4)), batch(pairs(7))]


def updated(made: Learner, updates: int = 3) -> Learner:
    for update in range(1, updates + 1):
        made.update(BATCHES, update=update, target_tokens=90, learning_rate=0.01)
    return made


@pytest.fixture
def autocast_alone(monkeypatch):
    """Learners that are made while this is used cast every weight in every pass."""
    monkeypatch.setattr("nmt.training.learner.WorkingWeights", lambda model, dtype: WorkingWeights(model, None))


class Casts(TorchDispatchMode):
    """Counts the casts of weights, and those to fp32: of gradients, and of some activations."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.weights = self.to_fp32 = 0
        self._storages = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        result = operation(*arguments, **(options or {}))
        if operation is torch.ops.aten._to_copy.default:
            self.weights += arguments[0].untyped_storage().data_ptr() in self._storages
            self.to_fp32 += arguments[0].dtype == torch.bfloat16 and result.dtype == torch.float32
        return result


def casts(made: Learner, batches) -> Casts:
    with Casts(made.model) as found:
        made.compute_gradients(batches, update=1, target_tokens=90)
    return found


def test_no_micro_batch_casts_a_weight_or_its_gradient(request):
    copies = learner(precision="bf16")
    request.getfixturevalue("autocast_alone")
    casting = learner(precision="bf16")
    parts = 1 + 2 * 11  # the embedding; weights and biases of ten layers, one of which is multiplied in two parts
    for count in (1, 3):
        ours, theirs = (casts(made, BATCHES[:count]) for made in (copies, casting))
        assert (ours.weights, theirs.weights) == (0, count * parts)
        assert theirs.to_fp32 - ours.to_fp32 == count * parts


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_gradients_are_those_of_autocast(precision, request):
    copies = learner(precision=precision, dropout=0.1)
    request.getfixturevalue("autocast_alone")
    casting = learner(precision=precision, dropout=0.1)
    for made in (copies, casting):
        made.compute_gradients(BATCHES[:1], update=1, target_tokens=90)
    for name, parameter in copies.parameters.items():
        expected = casting.parameters[name].grad
        if name == "embedding.weight":  # the sum of three gradients, in another order
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-5, atol=1e-7)
        else:
            assert torch.equal(parameter.grad, expected), name


def test_gradients_of_micro_batches_are_summed_in_fp32():
    made = learner(precision="bf16")
    alone = []
    for part in BATCHES:
        made.compute_gradients([part], update=1, target_tokens=90)
        alone.append(gradient(made))
    made.compute_gradients(BATCHES, update=1, target_tokens=90)
    assert gradient(made).dtype == torch.float32
    torch.testing.assert_close(gradient(made), sum(alone), rtol=1e-5, atol=1e-8)


def test_memory_that_ends_while_a_gradient_is_added_leaves_none_of_it_behind(monkeypatch):
    """The sum of a 16-bit gradient and an fp32 one needs memory of its own."""
    undisturbed, disturbed = learner(precision="bf16"), learner(precision="bf16")
    add, calls = torch.Tensor.add_, []

    def fails_once(tensor, *arguments, **options):
        calls.append(tensor)
        if len(calls) == 5:
            raise out_of_memory()
        return add(tensor, *arguments, **options)

    undisturbed.compute_gradients(BATCHES, update=1, target_tokens=90)
    monkeypatch.setattr(torch.Tensor, "add_", fails_once)
    assert disturbed.compute_gradients(BATCHES, update=1, target_tokens=90) is not None
    assert disturbed.compute_gradients(BATCHES, update=1, target_tokens=90) is None
    assert len(calls) > 5
    assert (gradient(disturbed) - gradient(undisturbed)).norm() <= 0.02 * gradient(undisturbed).norm()


def test_an_update_multiplies_by_the_weights_that_the_update_before_has_learnt():
    """The weights of a learner are changed by others too: restored, or taken from the main rank."""
    made, again = updated(learner(precision="bf16")), learner(precision="bf16")
    again.model.load_state_dict(made.model.state_dict())
    for one in (made, again):
        one.compute_gradients(BATCHES, update=9, target_tokens=90)
    assert torch.equal(gradient(made), gradient(again))


def test_weights_that_validate_are_not_the_copies():
    made = learner(precision="bf16", ema_decay=0.5)
    updated(made)
    source, target = (torch.randint(4, 30, (2, 5)) for _ in range(2))
    made.model.eval()
    with made.weights_in_use(), torch.inference_mode():
        average = made.model(source, target)
    plain = Transformer(made.model.config, 30, made.model.kernels).eval()
    plain.load_state_dict(made.weights())
    with torch.inference_mode():
        assert torch.equal(average, plain(source, target))


def test_frozen_parameters_stay_and_the_others_learn():
    made = learner(precision="bf16")
    freeze(made.model, ["encoder.*"])
    made = Learner(made.model, Config(model=made.model.config), made._hardware)
    before = {name: p.detach().clone() for name, p in made.model.named_parameters()}
    updated(made)
    for name, parameter in made.model.named_parameters():
        assert torch.equal(parameter, before[name]) == name.startswith("encoder."), name


def test_buckets_wait_for_the_gradients_of_copies():
    plain, overlapped = (
        learner(precision="bf16", ranks=Twice(), **options) for options in ({"overlaps_exchange": False}, SMALL_BUCKETS)
    )
    begun = []
    overlapped.model.encoder[0].register_full_backward_hook(
        lambda *arguments: begun.append(len(overlapped._ranks.begun))
    )
    for made in (plain, overlapped):
        updated(made)
    assert torch.equal(weights(plain), weights(overlapped))
    assert begun[1] == 0 < begun[2]  # none in the middle micro-batch of the first update, some in the last one


def test_every_matrix_of_a_layer_has_a_copy_that_is_not_saved():
    made = learner(precision="bf16")
    taking = [module for module in made.model.modules() if isinstance(module, TakesCopies)]
    assert len(taking) == 11  # four matrices of the encoder layer, six of the decoder layer, the embedding
    assert all("copies" not in name and "copy" not in name for name in made.model.state_dict())
