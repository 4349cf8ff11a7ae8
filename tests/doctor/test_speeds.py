"""Rates and speeds: what is counted, and that everything measured is there."""

import pytest
import torch

from nmt.config import parse_config
from nmt.data.vocab_pair import VocabularyPair
from nmt.doctor import rates, speeds
from nmt.doctor.speeds import Choice, TrainingSpeed, TranslatingSpeed, choices, operations_per_token
from nmt.machine.device import choose_hardware


def test_operations_per_token_are_those_of_the_products():
    D, F, V, S, T, W = 16, 32, 40, 5, 16, 4
    config = parse_config(
        {
            "model": {"encoder_layers": 1, "decoder_layers": 1, "d_model": D, "d_ff": F, "heads": 2},
            "data": {"vocab_size": V},
        },
        name="test",
    )
    encoder = S * (4 * D * D + 2 * D * F) + 2 * S * S * D
    memory = S * 2 * D * D
    decoder = 0
    for step, width in enumerate([1] + [W] * (T - 1)):
        written = (step + 1) * width  # the slots so far, over which each query is multiplied
        decoder += width * (4 * D * D + 2 * D * D + 2 * D * F + V * D) + 2 * width * (written + S) * D
    assert operations_per_token(config, S) == pytest.approx(2 * (encoder + memory + decoder) / T)


def test_rates_are_measured_for_each_type_number_of_rows_and_threads(monkeypatch):
    hardware = choose_hardware("cpu", "fp32", 1)
    monkeypatch.setattr(rates, "_ROWS", (2, 8))
    monkeypatch.setattr(rates, "bf16_speedup", lambda *sizes: 0.1)  # emulated: it would take too long
    monkeypatch.setattr(rates, "computes", lambda device, precision: precision != "int8")
    found = rates.product_rates(hardware)
    kinds = {rate.precision for rate in found}
    assert kinds == {"fp32"}
    assert [(rate.rows, rate.threads) for rate in found if rate.precision == "fp32"] == [(2, 1), (8, 1)]
    assert all(rate.operations_per_second > 1e6 for rate in found)
    monkeypatch.setattr(rates, "_COPIED_NUMBERS", 1 << 16)
    assert rates.memory_bandwidth(hardware) > 1e6


@pytest.mark.parametrize("seconds", [1.0, 0.25])
def test_rates_are_numbers_by_the_time_that_was_measured(monkeypatch, seconds):
    monkeypatch.setattr(rates, "_seconds", lambda compute, device: compute() is None or seconds)
    monkeypatch.setattr(rates, "_COPIED_NUMBERS", 1_000)
    hardware = choose_hardware("cpu", "fp32", 1)
    assert rates.memory_bandwidth(hardware) == 2 * 4_000 / seconds  # each number is read and written
    monkeypatch.setattr(rates, "BASE_PRODUCT", (8, 16))
    # A product and a sum for each of 3 x 16 results and 8 features.
    assert rates._product_rate(3, torch.float32, hardware.device) == 2 * 3 * 16 * 8 / seconds


def test_a_computation_is_timed_by_the_median_of_one(monkeypatch):
    clock = [0.0]
    durations = iter([9.0, 0.001, 0.003, 0.002, 0.004, 0.001, 0.009, 0.004, 0.004, 0.004, 0.1, 0.1, 0.004, 0.004])

    def compute() -> None:
        clock[0] += next(durations)

    monkeypatch.setattr(rates.time, "perf_counter", lambda: clock[0])
    # The first time does not count; then one, two (as long as they must be), and four more pairs.
    assert rates._seconds(compute, torch.device("cpu")) == pytest.approx(0.008 / 2)


@pytest.mark.parametrize(
    ("taken", "measured", "right"),
    [
        ("bf16", {"fp32": 1.0, "bf16": 2.0}, True),
        ("fp32", {"fp32": 1.0, "bf16": 2.0}, False),
        ("fp32", {"fp32": 0.95, "bf16": 1.0}, True),  # as fast, within the error
        ("fp32", {"fp32": 1.0}, None),
        ("fp16", {"fp32": 1.0, "bf16": 2.0}, None),
    ],
)
def test_a_choice_is_right_if_nothing_is_clearly_faster(taken, measured, right):
    assert Choice("a choice", taken, "", measured, "").is_right is right


def test_the_choice_for_each_size_is_its_own():
    small, base = choose_hardware("cpu", "fp32", 1), choose_hardware("cpu", "bf16", 1)
    assert [choice.taken for choice in choices(small, base, [], [])] == ["fp32", "bf16"]


def test_choices_are_judged_by_what_can_be_chosen_alone():
    hardware = choose_hardware("cpu", "fp32", 1)
    training = [
        TrainingSpeed("small", "fp32", 100.0, 0.5),
        TrainingSpeed("small", "bf16", 300.0, 0.5),
        TrainingSpeed("base", "fp32", 900.0, 0.5),
    ]
    translating = [
        TranslatingSpeed("nmt fp32", "fp32", 100.0, 1, 1, 1, 0.5),
        TranslatingSpeed("nmt int8", "int8", 900.0, 1, 1, 1, 0.5),
        TranslatingSpeed("nmt-ctranslate2 fp32", "fp32", 900.0, 1, 1, 1, None),
    ]
    found = choices(hardware, hardware, training, translating)
    assert [(choice.taken, choice.is_right) for choice in found] == [
        ("fp32", False),  # bf16 would be faster
        ("fp32", None),  # int8 is never taken by itself
    ]
    assert found[0].measured == {"fp32": 100.0, "bf16": 300.0}


def test_a_share_of_products_is_of_their_rate_on_the_same_threads_and_rows():
    hardware = choose_hardware("cpu", "fp32", 2)
    kinds = [(256, 1, 1e9), (256, 2, 4e9), (4, 2, 1e8), (3_600, 2, 9e9)]
    products = [rates.ProductRate("fp32", rows, threads, rate) for rows, threads, rate in kinds]
    values = {"beam": {"target_tokens_per_second": 100.0}, "greedy": {"target_tokens_per_second": 200.0}}
    values |= {"precision": "fp32", "latency": {"median_milliseconds": 5.0}, "peak_memory_bytes": 7}
    found = speeds._speed("nmt fp32", values, 2e7, speeds.rates_of_batches(products, hardware))
    assert found.share_of_products == pytest.approx(100 * 2e7 / 4e9)
    assert speeds._speed("ctranslate2 fp32", values, 2e7, {"fp32": 4e9}).share_of_products is None


def test_the_bandwidth_counts_what_a_copy_reads_and_what_it_writes(monkeypatch):
    monkeypatch.setattr(rates, "_COPIED_NUMBERS", 1_000)
    monkeypatch.setattr(rates, "_seconds", lambda compute, device: 0.5)
    assert rates.memory_bandwidth(choose_hardware("cpu", "fp32", 1)) == 2 * 4 * 1_000 / 0.5


@pytest.mark.slow
def test_training_and_translating_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(speeds, "_PAIRS", 1_000)
    monkeypatch.setattr(speeds, "_VOCAB_SIZE", 300)
    data = speeds.text_to_train_on(tmp_path / "text")
    assert (data / "vocab.txt").read_text("utf-8").count("\n") == 300
    for preset in speeds.PRESETS:
        speed = speeds.training_speed(data, preset, "fp32")
        assert (speed.preset, speed.precision) == (preset, "fp32")
        assert speed.tokens_per_second > 10  # of batches of hundreds of pieces
        assert 0.01 < speed.share_of_products < 1.5
    monkeypatch.setattr(speeds, "_SENTENCES", 2)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    hardware = choose_hardware("cpu", "fp32", 2)
    products = [rates.ProductRate("fp32", 256, 2, 1e11), rates.ProductRate("fp32", 256, 1, 1e10)]
    [speed] = speeds.translating_speeds(data, tmp_path, hardware, products)
    assert speed.engine == "nmt fp32"
    assert speed.latency_milliseconds > 1
    lines = (data / "test.xx").read_text("utf-8").splitlines()[:2]
    length = sum(len(ids) + 1 for ids in VocabularyPair.load(data / "vocab.model").source.encode(lines)) / 2
    operations = operations_per_token(parse_config({"data": {"vocab_size": 300}}, name="base"), round(length))
    assert speed.share_of_products == pytest.approx(speed.beam_tokens_per_second * operations / 1e11, rel=0.05)
