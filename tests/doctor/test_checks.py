"""Every check passes on a machine that computes right, and notices what it is there to notice."""

import pytest
import torch

from nmt.doctor import checks
from nmt.kernels.policy import Kernels
from nmt.machine.device import choose_hardware
from nmt.model.attention import attention
from nmt.model.transformer import Transformer

FP32, BF16 = (choose_hardware("cpu", precision, 1) for precision in ("fp32", "bf16"))


def doubled(*inputs):
    return 2 * attention(*inputs)


def not_a_number(*inputs):
    return attention(*inputs) * torch.nan


@pytest.mark.parametrize(
    ("check", "hardware", "names"),
    [
        (checks.check_gradients, FP32, ["fp32"]),
        (checks.check_gradients, BF16, ["fp32", "bf16"]),
        (checks.check_attention, FP32, ["two products", "fused"]),
        (checks.check_attention, BF16, ["two products", "fused", "bf16"]),
        (checks.check_steps, FP32, ["steps"]),
    ],
)
def test_all_checks_pass_and_multiply_exactly_meanwhile(monkeypatch, check, hardware, names):
    seen = set()
    form = checks.fused_attention
    noting = lambda *inputs: seen.add(torch.get_float32_matmul_precision()) or form(*inputs)  # noqa: E731
    monkeypatch.setattr(checks, "fused_attention", noting)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        found = check(hardware)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert [each for each in found if not each.passed] == []
    assert seen <= {"highest"}
    assert all(name in each.name for name, each in zip(names, found, strict=True))


def test_each_precision_has_the_tolerance_that_it_needs(monkeypatch):
    monkeypatch.setattr(checks, "_ALLOWED", {"fp32": 1e-4, "bf16": 1e-6})
    fp32, bf16 = checks.check_gradients(BF16)
    assert fp32.passed and not bf16.passed  # it does round


@pytest.mark.parametrize("factors", [(1.1, 1), (1, 1.1)])
def test_loss_and_gradients_must_both_agree(monkeypatch, factors):
    compute = checks._gradients

    def off(model, batch, hardware):
        found = compute(model, batch, hardware)
        return found if hardware.precision == "fp64" else tuple(x * y for x, y in zip(found, factors, strict=True))

    monkeypatch.setattr(checks, "_gradients", off)
    assert [check.passed for check in checks.check_gradients(FP32)] == [False]


@pytest.mark.parametrize("wrong", [doubled, not_a_number])
def test_a_wrong_kernel_is_noticed(monkeypatch, wrong):
    monkeypatch.setattr(checks, "choose_kernels", lambda device, products=None: Kernels(attention=wrong))
    [gradients] = checks.check_gradients(FP32)
    assert not gradients.passed
    assert "allowed 1e-04" in gradients.detail
    assert [check.passed for check in checks.check_attention(BF16)] == [True, True, False]
    monkeypatch.setattr(checks, "fused_attention", wrong)
    assert [check.passed for check in checks.check_attention(FP32)] == [True, False]


@pytest.mark.parametrize("wrong", [lambda logits: logits + 0.01 * (torch.arange(logits.shape[1]) == 5),
                                   lambda logits: logits * torch.nan])  # fmt: skip
def test_steps_that_differ_are_noticed(monkeypatch, wrong):
    step = Transformer.step
    monkeypatch.setattr(Transformer, "step", lambda *arguments: wrong(step(*arguments)))
    [check] = checks.check_steps(FP32)
    assert not check.passed
