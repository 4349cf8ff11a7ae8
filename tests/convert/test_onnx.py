"""ONNX Runtime, given our models, computes and writes what we do."""

import io
import shutil
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.checkpoint.bundle import Bundle, load_bundle
from nmt.config import DecodingConfig
from nmt.convert.certificate.checks import compared, steps_check
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.formats import find_target
from nmt.convert.onnx.writing import QUANTIZATIONS, onnx_remarks, onnx_usage, write_onnx
from nmt.errors import CheckpointError, NmtError
from tests.convert.conftest import export, failed, names, probes_of

ALL = [
    "tensors",
    "settings",
    "vocabulary",
    "segmenters",
    "steps with a past",
    "segmentation",
    "text",
    "encoder states",
    "forced scores",
]
ALL += ["greedy outputs", "beam scores"]
OTHERS = {
    "is_foreign": True, "norm": "pre", "activation": "quick_gelu", "positions": "tensor2tensor", "first_position": 2,
    "tied_embeddings": "none", "output_bias": True, "decoder_start": "zero", "norm_epsilon": 0.3,
}  # fmt: skip
VARIANTS = {
    "attention": "dot_product", "d_k": 4, "source_neighbours": 2, "target_neighbours": 3, "attention_bias": False,
    "positions": "learned", "activation": "gelu", "tied_embeddings": "decoder",
}  # fmt: skip
TARGET = find_target("onnx")


@pytest.fixture(scope="module")
def onnx():
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="the extra `onnx` is not installed")
    return pytest.importorskip("onnx", reason="the extra `onnx` is not installed")


@pytest.fixture(scope="module")
def exported(make_bundle, onnx, made_once) -> tuple[Bundle, Path]:
    """A bundle with most settings that the paper does not have, and its export."""

    def make(folder: Path) -> None:
        shutil.copytree(make_bundle(**OTHERS).folder, folder / "bundle")
        assert names(checks := export(TARGET, load_bundle(folder / "bundle"), folder / "model")) == ALL
        assert not failed(checks), checks

    folder = made_once("onnx", make)
    return load_bundle(folder / "bundle"), folder / "model"


@pytest.fixture
def copy(exported, tmp_path) -> Path:
    return Path(shutil.copytree(exported[1], tmp_path / "copy"))


def checks_of(folder: Path, bundle: Bundle) -> set[str]:
    """The names of the checks that fail."""
    ours, probes = OurSide(bundle.folder), probes_of(bundle)
    [side] = TARGET.sides(folder, bundle)
    return failed([*TARGET.check_files(folder, bundle, "float32"), *compared(ours, side, probes)])


def test_all_checks_pass(exported, copy):
    assert checks_of(copy, exported[0]) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, VARIANTS, {"attention": "additive"}], ids=["the paper's", "variants", "additive attention"]
)
def test_all_checks_pass_for_other_models(settings, make_bundle, onnx, tmp_path):
    checks = export(TARGET, make_bundle(**settings), tmp_path / "model")
    assert names(checks) == ALL
    assert not failed(checks), checks


def changed(change, onnx, path: Path) -> None:
    model = onnx.load(path)
    change(model.graph)
    onnx.save(model, path)


def set_array(onnx, graph, name: str, change) -> None:
    tensor = next(one for one in graph.initializer if one.name == name)
    tensor.CopyFrom(
        onnx.numpy_helper.from_array(np.ascontiguousarray(change(onnx.numpy_helper.to_array(tensor))), name)
    )


def set_epsilon(graph) -> None:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "epsilon":
                attribute.f = 1e-6


FORWARD = {"forced scores", "beam scores"}
WRONG = {
    "a wrong epsilon": ("encoder_model.onnx", lambda onnx, graph: set_epsilon(graph), {"encoder states", *FORWARD}),
    "a lost bias": (
        "decoder_model.onnx",
        lambda onnx, graph: set_array(onnx, graph, "model.embedding.output_bias", np.zeros_like),
        {"tensors", "forced scores"},
    ),
    "shifted positions": (
        "encoder_model.onnx",
        lambda onnx, graph: set_array(onnx, graph, "model.target_positions.weight", lambda a: np.roll(a, 1, 0)),
        {"tensors", "encoder states", *FORWARD},
    ),
    "another order of pieces": (
        "encoder_model.onnx",
        lambda onnx, graph: set_array(onnx, graph, "model.embedding.source_weight", lambda a: a[::-1]),
        {"tensors", "encoder states", *FORWARD},
    ),
    "a wrong weight in the steps alone": (
        "decoder_with_past_model.onnx",
        lambda onnx, graph: set_array(onnx, graph, "model.decoder.0.cross_attention.query.weight", lambda a: -a),
        {"tensors", "steps with a past"},
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_a_graph_is_found(name, exported, copy, onnx):
    file, change, expected = WRONG[name]
    changed(lambda graph: change(onnx, graph), onnx, copy / file)
    assert expected <= checks_of(copy, exported[0])


def test_the_batch_and_all_lengths_may_vary(exported):
    """Padded sources and targets of several lengths give what each gives alone."""
    import onnxruntime

    _, folder = exported
    encoder, decoder = (
        onnxruntime.InferenceSession(folder / name) for name in ("encoder_model.onnx", "decoder_model.onnx")
    )
    source, mask = np.array([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0]]), np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    target = np.array([[2, 5, 6], [2, 7, 8]])

    def logits(source, mask, target):
        [states] = encoder.run(None, {"input_ids": source, "attention_mask": mask})
        inputs = {"input_ids": target, "encoder_hidden_states": states, "encoder_attention_mask": mask}
        return decoder.run(["logits"], inputs)[0]

    both = logits(source, mask, target)
    assert np.allclose(both[:1], logits(source[:1], mask[:1], target[:1]), atol=1e-4)
    assert np.allclose(both[1:], logits(source[1:, :3], mask[1:, :3], target[1:]), atol=1e-4)


def test_axes_have_names(exported):
    import onnxruntime

    session = onnxruntime.InferenceSession(exported[1] / "decoder_with_past_model.onnx")
    shapes = {one.name: one.shape for one in session.get_inputs()}
    assert shapes["input_ids"] == ["batch", "target"]
    assert shapes["past_key_values.0.decoder.key"] == ["batch", 4, "past", 8]
    assert shapes["past_key_values.0.encoder.value"] == ["batch", 4, "source", 8]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, OTHERS], ids=["shared", "two vocabularies"])
def test_the_lines_of_its_readme_translate(settings, make_bundle, onnx, tmp_path):
    bundle = make_bundle(**settings)
    (tmp_path / "model").mkdir()
    write_onnx(bundle, tmp_path / "model")
    lines = ["ba do ki", "lu me", "", "ba " * 30]
    if bundle.vocab.source.language_tags:
        lines = [f">>deu<< {line}" if line else line for line in lines] + ["ba"]
    program = onnx_usage(bundle, "model")
    result = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(lines),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    ours = OurSide(bundle.folder)
    outputs = [best.pieces for [best] in ours.search(ours.segment(lines[:2], "source"), 1, 100)]
    found = result.stdout.splitlines()
    assert found[:2] == [text.strip() for text in ours.text(outputs)]
    assert found[2] == ""
    assert len(found) == len(lines)  # too long a line is cut off


@pytest.mark.slow
def test_an_output_of_its_readme_ends_at_our_limit(make_bundle, onnx, monkeypatch, tmp_path):
    bundle = make_bundle(output_bias=True)
    endless = {"embedding.output_bias": bundle.weights["embedding.output_bias"].clone()}
    endless["embedding.output_bias"][bundle.vocab.target.EOS] = -1e9
    settings = bundle.config.model_copy(update={"decoding": DecodingConfig(max_extra_length=2)})
    bundle = replace(bundle, weights=bundle.weights | endless, config=settings)
    (tmp_path / "model").mkdir()
    write_onnx(bundle, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    program = {}
    exec(onnx_usage(bundle, "model"), program)
    longest = bundle.config.model.max_positions - 1
    for source in ([5, 6, 7], [5] * (longest - 1)):
        assert len(program["translate"](source)) == min(len(source) + 2, longest)


@pytest.mark.slow
def test_int8_is_smaller_and_close(exported, onnx, tmp_path):
    bundle, _ = exported
    checks = export(TARGET, bundle, tmp_path / "model", "int8")
    assert failed(checks) <= {"encoder states", "forced scores", "greedy outputs", "beam scores"}
    assert next(check.figure for check in checks if check.name == "forced scores") < 0.5
    for name in ("decoder_model.onnx", "decoder_with_past_model.onnx"):
        kinds = {node.op_type for node in onnx.load(tmp_path / "model" / name).graph.node}
        assert "MatMulInteger" in kinds
        assert "Gemm" not in kinds


@pytest.mark.slow
def test_float16_is_half_as_large_and_closer(exported, onnx, tmp_path):
    bundle, whole = exported
    checks = export(TARGET, bundle, tmp_path / "model", "float16")
    assert failed(checks) <= {"encoder states", "forced scores", "greedy outputs", "beam scores"}
    assert next(check.figure for check in checks if check.name == "forced scores") < 0.02
    for name in ("encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"):
        found, exact = onnx.load(tmp_path / "model" / name), onnx.load(whole / name)
        assert _weights(found) < 0.6 * _weights(exact)
        assert [one.type for one in found.graph.output] == [one.type for one in exact.graph.output]


def _weights(model) -> int:
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)


@pytest.mark.parametrize("name", ["encoder_model.onnx", "config.json", "source_vocabulary.json", "target.spm"])
@pytest.mark.parametrize("content", [b"", b"\xff{]", b"[1, 2]"])
def test_a_damaged_file_is_one_error_or_a_failed_check(name, content, exported, copy):
    (copy / name).write_bytes(content)
    try:
        checks = TARGET.check_files(copy, exported[0], "float32")
        list(TARGET.sides(copy, exported[0]))
    except CheckpointError:
        return
    assert failed(checks)


@pytest.mark.parametrize(("last", "passed"), [(-1.5, True), (-2.0, False), (np.nan, False)])
def test_a_score_that_is_not_a_number_is_a_failed_check(last, passed):
    side = SimpleNamespace(
        name="ONNX Runtime",
        search=lambda sources, *_: [[SimpleNamespace(pieces=(5,), log_probability=-3.0)] for _ in sources],
        score=lambda sources, _: [np.array([-1.5, last if n else -1.5]) for n in range(len(sources))],
    )
    assert steps_check("steps with a past", side, [(4,), (5,)], 1, 40).passed == passed


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_without_a_package_the_extra_is_named(package, quantization, make_bundle, monkeypatch, tmp_path):
    if package == "onnxscript":
        monkeypatch.setitem(sys.modules, "onnx", types.ModuleType("onnx"))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NmtError, match=rf"needs {package}, which is not installed\..*the extra `onnx`"):
        write_onnx(make_bundle(), tmp_path, quantization)


def test_lists_of_pieces_are_explained(make_bundle):
    assert "source_vocabulary.json" in onnx_remarks(make_bundle())["vocabulary"]
