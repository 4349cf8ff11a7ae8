"""The kernel for sentences in Triton's interpreter; tests/gpu runs it on a GPU."""

import os
import subprocess
import sys
from functools import partial

import pytest
import torch

from nmt.config import ModelConfig
from nmt.data.dealing import MicroBatchLimits
from nmt.kernels.policy import AttentionByLength, Kernels, accelerate
from nmt.model.transformer import Transformer
from nmt.training.input.micro_batches import Filled
from nmt.training.input.model_inputs import model_inputs
from nmt.training.loss import label_smoothed_loss
from tests.sentence_attention import ALLOWED, BORDERS, Case, differences, drawn
from tests.training.test_learner import batch, pairs

interpreter = pytest.importorskip("triton.runtime.interpreter")
if "TRITON_INTERPRET" not in os.environ:
    pytest.skip("with a GPU, tests/gpu has these tests", allow_module_level=True)
from nmt.kernels import sentence_attention as module  # noqa: E402

CPU = torch.device("cpu")
ENDS = torch.tensor([0, 5, 5, 24], dtype=torch.int32)


@pytest.fixture
def _bf16(monkeypatch):
    """The interpreter holds bf16 as integers, and multiplies these."""
    multiply = interpreter.InterpreterBuilder.create_dot

    def exactly(self, *factors_and_others):
        factors = [
            self.create_fp_to_fp(x, interpreter.tl.float32, None) if x.dtype.scalar.is_bf16() else x
            for x in factors_and_others[:2]
        ]
        return multiply(self, *factors, *factors_and_others[2:])

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", exactly)


@pytest.mark.parametrize("case", [*BORDERS, *map(drawn, range(4))])
def test_it_is_equation_1_in_each_sentence(case):
    for name, difference in differences(case, torch.float32, CPU).items():
        assert difference < ALLOWED[torch.float32], name


@pytest.mark.usefixtures("_bf16")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("case", [Case([3, 70], heads=1, size=32), Case([9, 70], [80, 7], heads=1, size=24)])
def test_it_computes_in_16_bits(case, dtype):
    # To bf16, the interpreter cuts numbers off where a GPU rounds them.
    allowed = ALLOWED[dtype] * (2 if dtype == torch.bfloat16 else 1)
    for name, difference in differences(case, dtype, CPU).items():
        assert difference < allowed, name


@pytest.mark.parametrize(
    "looks_at",
    [
        ["test_schema", "test_autograd_registration", "test_faketensor"],
        pytest.param(["test_aot_dispatch_dynamic"], marks=pytest.mark.slow),
    ],
)
def test_torch_knows_its_operations(looks_at):
    """Their shapes and dtypes without numbers, their gradients, and that they change no input."""
    query, key, value = (torch.randn(24, 1, 8, requires_grad=True) for _ in "QKV")
    forward = query, key, value, ENDS, ENDS, True
    detached = [x.detach() for x in forward[:3]]
    mixed, log_total = torch.ops.nmt.sentence_attention(*detached, ENDS, ENDS, True)
    backward = torch.randn(24, 1, 8), mixed, log_total, *detached, ENDS, ENDS, True
    torch.library.opcheck(torch.ops.nmt.sentence_attention, forward, test_utils=looks_at)
    torch.library.opcheck(torch.ops.nmt.sentence_attention_backward, backward, test_utils=looks_at)


def test_numbers_that_lie_apart_are_copied():
    inputs = torch.randn(3, 24, 2, 8)
    together, apart = ([x.requires_grad_() for x in side] for side in (inputs, inputs.transpose(2, 3).contiguous()))
    found, expected = (
        torch.ops.nmt.sentence_attention(*side, ENDS, ENDS, True)[0]
        for side in ([x.transpose(1, 2) for x in apart], together)
    )
    assert torch.equal(found, expected)
    found.sum().backward()  # its gradient is one number in memory
    expected.backward(torch.ones_like(expected))
    for mine, theirs in zip(apart, together, strict=True):
        assert torch.equal(mine.grad.transpose(1, 2), theirs.grad)


def test_sides_with_different_numbers_of_sentences_are_refused():
    """A program would read where no end is, and write anywhere."""
    heads, fewer = torch.randn(24, 1, 8), ENDS[[0, 1, 3]]
    with pytest.raises(ValueError, match="queries of 3 sentences, but keys of 2"):
        torch.ops.nmt.sentence_attention(heads, heads, heads, ENDS, fewer, False)


def test_the_sizes_of_a_run_suit_it():
    """One side has many more rows, so it needs more spare sentences than the other would."""
    filled = Filled.within(MicroBatchLimits(50, 600, 4), 10, CPU)
    found, expected = (
        learnt(kernels, inputs=inputs)
        for kernels, inputs in (
            (Kernels(packed_attention=module.sentence_attention), filled.prepared(batch(pairs(3)))),
            (Kernels(), batch(pairs(3))),
        )
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def learnt(kernels, compiled=lambda model: model, inputs=batch(pairs(3))):
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=24, heads=2, dropout=0.0)
    torch.manual_seed(1)
    model = accelerate(Transformer(config, 30), kernels).train()
    inputs = model_inputs(inputs, CPU, model.size_of)
    logits = compiled(model)(inputs.source, inputs.target)
    loss = label_smoothed_loss(logits, inputs.target_output_N, 0.1).smoothed
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_model_learns_the_same_with_it(is_compiled):
    attend = AttentionByLength(module.sentence_attention, lambda: None)
    options = [partial(torch.compile, backend="aot_eager", fullgraph=True)] if is_compiled else []
    found, expected = learnt(Kernels(packed_attention=attend), *options), learnt(Kernels())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_it_imports_no_compiler_of_torch():
    """These take seconds, as long as torch itself."""
    program = (
        "import sys, torch\n"
        "from nmt.kernels.sentence_attention import sentence_attention\n"
        "x, ends = torch.ones(3, 1, 8, requires_grad=True), torch.tensor([0, 3], dtype=torch.int32)\n"
        "torch.ops.nmt.sentence_attention(x, x, x, ends, ends, True)[0].sum().backward()\n"
        "print(*sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"torch._dynamo", "torch._inductor"} & set(ended.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "kibibytes"), [(80, 99), (90, 227)])
def test_it_compiles_for_gpus_and_fits_into_their_shared_memory(architecture, kibibytes, tmp_path):
    """Triton compiles without a GPU, but not in a process that interprets."""
    program = f"from tests.sentence_attention import shared_memory; print(shared_memory({architecture}, (64, 256)))"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)},
    )
    assert ended.returncode == 0, ended.stderr
    assert 0 < int(ended.stdout) <= kibibytes * 1024
