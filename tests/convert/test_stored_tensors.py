"""The check of stored weights passes for rounding to any type, and fails for more than that."""

import math

import numpy as np
import pytest
import torch

from nmt.convert.exported_files import check_tensors
from nmt.convert.foreign import StoredTensor
from nmt.convert.formats import find_target
from tests.convert.test_exported_changes import with_weights

DRAW = np.random.default_rng(3)
OURS = {
    "matrix": (DRAW.standard_normal((40, 30)) * 10.0 ** DRAW.integers(-9, 3, (40, 30))).astype(np.float32),
    "bias": DRAW.standard_normal(30).astype(np.float32),
}
INT8 = np.abs(OURS["matrix"]).max(axis=1, keepdims=True) / np.float32(127)
"""The step of each row."""


def as_float(quantization: str) -> dict[str, StoredTensor]:
    dtype = getattr(torch, quantization)
    return {name: StoredTensor(name, torch.from_numpy(ours).to(dtype).float().numpy()) for name, ours in OURS.items()}


def as_int8() -> dict[str, StoredTensor]:
    matrix = np.rint(OURS["matrix"] / INT8) * INT8
    return {"matrix": StoredTensor("matrix", matrix, INT8), "bias": StoredTensor("bias", OURS["bias"])}


STORED = {name: as_float(name) for name in ("float32", "float16", "bfloat16")} | {"int8": as_int8()}


def changed(tensors: dict[str, StoredTensor], name: str, change) -> list[StoredTensor]:
    found = tensors | {name: StoredTensor(name, change(tensors[name].numbers), tensors[name].step)}
    return list(found.values())


@pytest.mark.parametrize("quantization", STORED)
def test_rounded_numbers_pass(quantization):
    check = check_tensors(STORED[quantization].values(), OURS, quantization)
    assert check.passed, check.detail
    how = "number by number" if quantization == "float32" else f"up to the rounding of {quantization}"
    assert check.detail == f"2 tensors are the bundle's, {how}"


@pytest.mark.parametrize("quantization", STORED)
@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("factor", [1.5, 1.05, 0.95, 0, math.nan])
def test_another_scale_fails(quantization, name, factor):
    check = check_tensors(changed(STORED[quantization], name, lambda x: x * np.float32(factor)), OURS, quantization)
    assert not check.passed
    assert check.detail.startswith(f"{name} (by ")


@pytest.mark.parametrize(("coarse", "fine"), [("bfloat16", "float16"), ("float16", "float32"), ("int8", "float16")])
def test_coarser_numbers_fail(coarse, fine):
    tensors = [StoredTensor(name, tensor.numbers) for name, tensor in STORED[coarse].items()]
    assert not check_tensors(tensors, OURS, fine).passed


def test_an_integer_is_rounded_by_half_a_step():
    for steps, passed in ((0.5, True), (0.51, False)):
        moved = StoredTensor("matrix", OURS["matrix"] + np.float32(steps) * INT8, INT8)
        assert check_tensors([moved, StoredTensor("bias", OURS["bias"])], OURS, "int8").passed is passed


def test_the_worst_tensors_are_named_first():
    check = check_tensors(changed(STORED["float32"], "bias", lambda x: x + np.float32(0.25))[1:], OURS, "float32")
    assert check.detail == "matrix (not found), bias (by 0.25) differ"


def test_a_tensor_of_another_size_differs():
    check = check_tensors(changed(STORED["float32"], "matrix", lambda x: x[1:]), OURS, "float32")
    assert check.detail == "matrix (by inf) differs"


def change_nothing(weights) -> None:
    pass


def scale(weights) -> None:
    weights["decoder.0.cross_attention.output.weight"] *= 1.5


def zero_a_row(weights) -> None:
    """CTranslate2 gives it a scale of 1."""
    weights["embedding.weight"][5] = 0


def zero_a_tensor(weights) -> None:
    weights["encoder.0.feed_forward.inner.weight"][:] = 0


@pytest.mark.parametrize("quantization", find_target("ctranslate2").quantizations)
def test_a_model_of_ctranslate2_is_compared_in_every_type(quantization, make_bundle, tmp_path):
    pytest.importorskip("ctranslate2", reason="an extra is not installed")
    target, bundle = find_target("ctranslate2"), make_bundle()

    def tensors(change):
        folder = tmp_path / change.__name__
        folder.mkdir()
        target.write(with_weights(change)(bundle), folder, quantization)
        return next(check for check in target.check_files(folder, bundle, quantization) if check.name == "tensors")

    assert tensors(change_nothing).passed
    assert tensors(scale).detail.startswith("decoder/layer_0/attention/output/weight (by 0.")
    assert tensors(zero_a_row).figure == 3  # the matrix is stored for each of its uses
    if quantization != "int16":  # CTranslate2 divides by the largest number
        assert tensors(zero_a_tensor).detail.startswith("encoder/layer_0/ffn/linear_0/weight (by 0.")
