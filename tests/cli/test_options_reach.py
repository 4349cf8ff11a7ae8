"""Every option of a command reaches the function that it is for: a double in that function's place notes its arguments.

The options of a row differ from their defaults, and from each other where two have values of one type. The last double
of a row ends the command.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import shlex
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import typer.main
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import option_layer, parse_config, setting_layer
from nmt.convert.foreign import Given
from nmt.data.vocab_record import VocabularySettings
from nmt.errors import DataError
from nmt.evaluation.metrics import Score
from nmt.option_fields import option_fields
from nmt.record import Record
from nmt.reports.comparison_text import ComparedFiles
from nmt.search.settings import Sampling
from nmt.translation.options import TranslateOptions
from nmt.translation.resuming import OutputFile

SETUP = "nmt.training.start.setup"
CHOICE = "nmt.training.start.choose_settings"
RUN = "nmt.training.run"
DATA_OF_RUN = "nmt.training.start.recorded_data.data_to_resume"
AVERAGING = "nmt.checkpoint.averaging"
RECIPE = "nmt.corpora.recipe"
EVALUATION = "nmt.evaluation"
DIFFERENCES = f"{EVALUATION}.differences"
USED = "nmt.checkpoint.describing.models_to_use"

TRAINING = {
    "nmt.data.manifest.read_manifest": "a manifest",
    f"{CHOICE}.choose_settings": MagicMock(description=None),
    f"{SETUP}.settle": "the settings",
    f"{SETUP}.summarize": MagicMock(),
    f"{RUN}.check_run": None,
    "nmt.cli.train.summary_lines": [],
}
CHOSEN = MagicMock(description=None)
CHOSEN.name = "tuned"
MIXTURE = parse_config({"data": {"name": "a", "mixed_with": [{"name": "b", "fingerprint": "f"}]}}, name="settings")
AVERAGE = {f"{AVERAGING}.{which}_checkpoints": [Path("c1"), Path("c2")] for which in ("last", "best", "named")}
COMPARISON = {
    "nmt.data.manifest.read_manifest": MagicMock(target_lang="de"),
    f"{DIFFERENCES}.parallel_texts.parallel_texts": "the texts",
    "nmt.cli.compare._frequencies": "the counts",
}
FOUND = MagicMock()
FOUND.totals.metrics.records = [{"signature": "tok:char"}]
MODEL = {USED: ([Path("m/last")], []), "nmt.checkpoint.describing.describe_model": "m"}
OPTIONS = MagicMock(guard=True)
DRAWING = {
    **MODEL,
    "nmt.machine.device.choose_hardware": "the hardware",
    "nmt.translation.ensemble.load_ensemble": MagicMock(),
    "nmt.translation.options.translate_options": OPTIONS,
}
CERTIFICATES = {"nmt.cli.convert.lines_to_check": ["hi"]}
PAIRS = ("train", "valid", "test")

ROWS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    (
        "train --data a:2 --data b --preset tiny --config c.yaml --set model.heads=2 --out r --accept-changes --fresh "
        "--max-updates 7 --max-minutes 1.5 --init-from i --device cpu --precision fp32",
        TRAINING,
        f"{RUN}.train",
        {
            "choose_settings.preset": "tiny",
            "choose_settings.config_file": Path("c.yaml"),
            "choose_settings.init_from": Path("i"),
            "settle.data": [(Path("a"), 2.0), (Path("b"), 1.0)],
            "settle.options": [
                setting_layer("model.heads=2"),
                option_layer("training.max_updates", 7),
                option_layer("training.max_minutes", 1.5),
                option_layer("training.device", "cpu"),
                option_layer("training.precision", "fp32"),
            ],
            "check_run.fresh": True,
            "check_run.init_from": Path("i"),
            "train.data": [Path("a"), Path("b")],
            "train.run": Path("r"),
            "train.config": "the settings",
            "train.fresh": True,
            "train.accept_changes": True,
            "train.init_from": Path("i"),
        },
    ),
    (  # a mixture does not collide with the run of its first data set
        "train --data a --data b",
        {**TRAINING, f"{CHOICE}.choose_settings": CHOSEN, f"{SETUP}.settle": MIXTURE},
        f"{RUN}.train",
        {"check_run.run": Path("runs/a+b-tuned"), "train.run": Path("runs/a+b-tuned")},
    ),
    (
        "train --data a --out r --accept-changes",
        TRAINING,
        f"{RUN}.train",
        {
            "check_run.run": Path("r"),
            "check_run.accept_changes": True,
            "train.fresh": False,
            "train.accept_changes": True,
        },
    ),
    (
        "train --data a --out r --init-from i --dry-run",
        TRAINING,
        f"{RUN}.rehearse",
        {"rehearse.data": [Path("a")], "rehearse.run": Path("r"), "rehearse.init_from": Path("i")},
    ),
    ("train --data a --out r --nproc 3", TRAINING, "nmt.training.ranks.launch.launch", {"launch.ranks": 3}),
    (
        "train --data a --out r --show-settings",
        TRAINING,
        "nmt.config.describe_config",
        {"settle.data": []},
    ),
    (
        "train --resume r --data a --set model.heads=2 --max-minutes 1.5 --accept-changes",
        {**TRAINING, f"{CHOICE}.settings_of_run": MagicMock(description=None), DATA_OF_RUN: [(Path("found"), 2.0)]},
        f"{RUN}.train",
        {
            "settings_of_run.run": Path("r"),
            "data_to_resume.run": Path("r"),
            "data_to_resume.named": ["a"],
            "settle.data": [(Path("found"), 2.0)],
            "settle.options": [setting_layer("model.heads=2"), option_layer("training.max_minutes", 1.5)],
            "check_run.run": Path("r"),
            "check_run.accept_changes": True,
            "train.data": [Path("found")],
            "train.run": Path("r"),
            "train.accept_changes": True,
        },
    ),
    *(
        (
            f"average-checkpoints r {words} --out o",
            AVERAGE,
            f"{AVERAGING}.average",
            {
                f"{which}_checkpoints.run": Path("r"),
                f"{which}_checkpoints.{name}": value,
                "average.folders": [Path("c1"), Path("c2")],
                "average.out": Path("o"),
            },
        )
        for words, which, name, value in (
            ("--last 2", "last", "count", 2),
            ("--best 3", "best", "count", 3),
            ("--updates 4,6", "named", "updates", ["4", "6"]),
        )
    ),
    (
        "average-checkpoints r",
        AVERAGE,
        f"{AVERAGING}.average",
        {"last_checkpoints.count": 5, "average.out": Path("r/average")},
    ),
    (
        "build-vocab --data a --data b --size 77 --model-type unigram --character-coverage 0.985 --normalization nfkc "
        "--source-normalization nmt_nfkc --byte-fallback --sampling-temperature 3 --max-length 99 --workers 6",
        {},
        "nmt.data.build.build_vocabulary",
        {
            "build_vocabulary.data": [Path("a"), Path("b")],
            "build_vocabulary.settings": VocabularySettings(
                size=77,
                model_type="unigram",
                character_coverage=0.985,
                normalization="nfkc",
                source_normalization="nmt_nfkc",
                byte_fallback=True,
                sampling_temperature=3.0,
            ),
            "build_vocabulary.existing": None,
            "build_vocabulary.max_length": 99,
            "build_vocabulary.threads": 6,
        },
    ),
    (
        "build-vocab --data a --vocab v.model --no-byte-fallback",
        {},
        "nmt.data.build.build_vocabulary",
        {
            "build_vocabulary.existing": Path("v.model"),
            "build_vocabulary.settings": VocabularySettings(byte_fallback=False),
        },
    ),
    (
        "prepare-data mine --out o --cache c --mirror m1 --mirror m2 --offline --workers 6 --force --source-lang en "
        "--target-lang de --columns 'en, de' --header --max-length 9 --max-ratio 2 --no-dedup "
        "--filter html " + " ".join(f"--{name} {name}" for name in PAIRS),
        {
            f"{RECIPE}.own_recipe": "the recipe",
            "nmt.corpora.filters.filter_changes": {"html": True},
            f"{RECIPE}.with_filters": "filtered",
        },
        "nmt.corpora.prepare.prepare",
        {
            "own_recipe.name": "mine",
            "own_recipe.source_lang": "en",
            "own_recipe.target_lang": "de",
            **{f"own_recipe.{name}": [name] for name in PAIRS},
            "own_recipe.columns": ["en", "de"],
            "own_recipe.header": True,
            "filter_changes.given": ["html"],
            "with_filters.changes": {
                "html": True,
                "max_length": 9,
                "max_ratio": 2.0,
                "dedup": False,
            },
            "prepare.recipe": "filtered",
            "prepare.out": Path("o"),
            "prepare.cache": Path("c"),
            "prepare.mirrors": ["m1", "m2"],
            "prepare.offline": True,
            "prepare.workers": 6,
            "prepare.force": True,
        },
    ),
    (
        "score h --reference r1 --reference r2 --metric chrf --metric bleu --tokenize char --lowercase --paper-bleu "
        "--target-lang de",
        {
            f"{EVALUATION}.scored_systems.score": MagicMock(signature="tok:char"),
            f"{EVALUATION}.scored_systems.make_metric": "a metric",
        },
        f"{EVALUATION}.scored_systems.paper_bleu",
        {
            "make_metric.metric": ["chrf", "bleu"],
            "make_metric.target_lang": "de",
            "make_metric.tokenize": "char",
            "make_metric.lowercase": True,
            "score.metric": "a metric",
            "score.hypotheses": ["h"],
            "score.references": [["r1"], ["r2"]],
            "paper_bleu.target_lang": "de",
        },
    ),
    (
        "score h --test-set wmt14 --langpair en-de --cache c --mirror m --offline --sheet --lowercase --tokenize char",
        {
            "nmt.corpora.download.Fetcher": "the fetcher",
            "nmt.corpora.testsets.fetch_test_set": MagicMock(references=[["r"]], source=["s"]),
        },
        f"{EVALUATION}.score_sheet.score_sheet",
        {
            "fetch_test_set.name": "wmt14",
            "fetch_test_set.langpair": "en-de",
            "fetch_test_set.fetcher": "the fetcher",
            "Fetcher.cache": Path("c"),
            "Fetcher.mirrors": ["m"],
            "Fetcher.offline": True,
            "score_sheet.references": [["r"]],
            "score_sheet.references_name": "wmt14, en-de (newstest2014, filtered)",
            "score_sheet.target_lang": "de",
            "score_sheet.tokenize": "char",
            "score_sheet.lowercase": True,
        },
    ),
    (
        "score h h2 --reference r1 --reference r2 --metric chrf --metric bleu --tokenize char --lowercase "
        "--target-lang de",
        {
            f"{EVALUATION}.scored_systems.score": MagicMock(signature="tok:char"),
            f"{EVALUATION}.scored_systems.make_metric": "a metric",
        },
        f"{EVALUATION}.scored_systems.evaluate",
        {
            "make_metric.metric": ["chrf", "bleu"],
            "make_metric.target_lang": "de",
            "make_metric.tokenize": "char",
            "make_metric.lowercase": True,
            "evaluate.systems": {"h": ["h"], "h2": ["h2"]},
            "evaluate.references": [["r1"], ["r2"]],
            "evaluate.metrics": ["a metric", "a metric"],
        },
    ),
    (
        "score h --reference r1 --metric chrf --metric bleu --paper-bleu --tokenize char --lowercase --target-lang de "
        "--json --sentence-scores",
        {
            "nmt.lineage.scores.score_record": Record(kind="score", path="-"),
            f"{EVALUATION}.scored_systems.make_metric": "a metric",
            f"{EVALUATION}.scored_systems.score": Score("a score", 1.0, "tok:char", ""),
            f"{EVALUATION}.scored_systems.paper_bleu": Score("paper BLEU", 1.0, "", ""),
        },
        f"{EVALUATION}.scored_systems.sentence_scores",
        {
            "score_record.hypotheses": [Path("h")],
            "score_record.references": [Path("r1")],
            "score_record.options": {
                "sheet": None,
                "metric": ["chrf", "bleu"],
                "paper_bleu": True,
                "lowercase": True,
                "tokenize": "char",
                "target_lang": "de",
                "test_set": None,
                "langpair": None,
            },
            "make_metric.metric": ["chrf", "bleu", "chrf", "bleu"],
            "make_metric.sentences": True,
            "make_metric.target_lang": "de",
            "make_metric.tokenize": "char",
            "make_metric.lowercase": True,
            "sentence_scores.metric": "a metric",
            "sentence_scores.hypotheses": ["h"],
            "sentence_scores.references": [["r1"]],
        },
    ),
    (
        "score h --reference r --metric comet --comet-model c --source s",
        {},
        f"{EVALUATION}.comet.Comet",
        {"Comet.model": Path("c"), "Comet.source": ["s"]},
    ),
    (
        "export m --to ctranslate2 --out o --quantization int8 --check-text t",
        {**MODEL, **CERTIFICATES},
        "nmt.convert.converting.export_model",
        {
            "models_to_use.named": [Path("m")],
            "lines_to_check.path": Path("t"),
            "export_model.bundle_folder": Path("m/last"),
            "export_model.out": Path("o"),
            "export_model.to": "ctranslate2",
            "export_model.quantization": "int8",
            "export_model.lines": ["hi"],
        },
    ),
    (
        "import p --out o --format marian --source-spm s.spm --target-spm t.spm --source-lang en --target-lang de "
        "--check-text t",
        CERTIFICATES,
        "nmt.convert.converting.import_model",
        {
            "lines_to_check.path": Path("t"),
            "import_model.path": Path("p"),
            "import_model.out": Path("o"),
            "import_model.format": "marian",
            "import_model.given": Given(Path("s.spm"), Path("t.spm"), "en", "de"),
            "import_model.lines": ["hi"],
        },
    ),
    (
        "compare h h2 --reference r1 --source s --data d --out o.html --samples 3 --target-lang nl --tokenize char",
        {**COMPARISON, f"{DIFFERENCES}.finding.find_differences": FOUND},
        "nmt.reports.comparison_page.write_comparison",
        {
            "parallel_texts.systems": (["h"], ["h2"]),
            "parallel_texts.reference": ["r1"],
            "parallel_texts.source": ["s"],
            "parallel_texts.target_lang": "nl",
            "parallel_texts.tokenize": "char",
            "_frequencies.data": Path("d"),
            "_frequencies.language": "nl",
            "find_differences.frequencies": "the counts",
            "find_differences.counted_in": "the training data d",
            "find_differences.samples": 3,
            "write_comparison.files": ComparedFiles(("h", "h2"), "r1", "s", "d"),
            "write_comparison.path": Path("o.html"),
        },
    ),
    (
        "compare h h2 --reference r1 --data d --json",
        {**COMPARISON, f"{DIFFERENCES}.finding.find_differences": FOUND},
        "nmt.reports.comparison_text.comparison_json",
        {
            "parallel_texts.target_lang": "de",
            "_frequencies.language": "de",
            "comparison_json.files": ComparedFiles(("h", "h2"), "r1", None, "d"),
        },
    ),
    (
        "attention 'a b' --model m --target 'c d' --out o.json --device cpu --threads 3",
        {**DRAWING, "nmt.translation.attention_maps.attention_maps": "the maps"},
        "nmt.reports.attention_files.write_attention",
        {
            "models_to_use.named": [Path("m")],
            "choose_hardware.device": "cpu",
            "choose_hardware.threads": 3,
            "attention_maps.sources": ["a b"],
            "attention_maps.targets": ["c d"],
            "write_attention.maps": "the maps",
            "write_attention.path": Path("o.json"),
        },
    ),
    (
        "attention --input s --json",
        {**DRAWING, "nmt.translation.attention_maps.attention_maps": "the maps"},
        "nmt.reports.attention_files.json_lines",
        {"attention_maps.sources": ["s"], "json_lines.maps": "the maps"},
    ),
    (
        "translate -m m -i s -o o.txt --prefix r --format tsv --device cpu --precision bf16 --threads 3 --workers 5 "
        "--fresh --beam 7 --length-penalty 0.3 --max-source-length 60 --split-sentences never "
        "--no-guard",
        {**DRAWING, "nmt.translation.ensemble.product_sizes": (128, 512)},
        "nmt.translation.translator.Translator",
        {
            "models_to_use.named": [Path("m")],
            "choose_hardware.device": "cpu",
            "choose_hardware.precision": "bf16",
            "choose_hardware.threads": 3,
            "product_sizes.folder": Path("m/last"),
            "choose_hardware.product": (128, 512),
            "translate_options.options": {
                "beam": 7,
                "length_penalty": 0.3,
                "max_source_length": 60,
                "split_sentences": "never",
                "guard": False,
            },
            "Translator.options": OPTIONS,
            "Translator.workers": 5,
        },
    ),
    (
        "translate -m m -i s --engine ctranslate2 --device cpu --precision int8 --threads 3 --workers 5 --beam 7",
        {
            "nmt.convert.ctranslate2.loading.model_for_ctranslate2": (Path("m/last"), []),
            "nmt.checkpoint.describing.describe_model": "m",
            "nmt.convert.ctranslate2.loading.exported_folder": Path("exported"),
            "nmt.convert.ctranslate2.engine.CTranslate2Engine": MagicMock(config=MagicMock(decoding="the settings")),
            "nmt.translation.options.translate_options": OPTIONS,
        },
        "nmt.translation.translator.Translator",
        {
            "model_for_ctranslate2.named": [Path("m")],
            "exported_folder.model": Path("m/last"),
            "CTranslate2Engine.folder": Path("exported"),
            "CTranslate2Engine.device": "cpu",
            "CTranslate2Engine.precision": "int8",
            "CTranslate2Engine.threads": 3,
            "translate_options.decoding": "the settings",
            "translate_options.options": {"beam": 7},
            "Translator.options": OPTIONS,
            "Translator.workers": 5,
        },
    ),
    (
        "translate -m m -i s -o o.txt --input-format paragraphs --split-sentences never --interactive --nbest 3 "
        "--alignment --format jsonl --invalid-utf8 replace",
        {
            **DRAWING,
            "nmt.translation.translator.Translator": "the translator",
        },
        "nmt.translation.jobs.TranslationJob",
        {
            "Translator.window": 1,
            "translate_options.options": {"nbest": 3, "split_sentences": "never", "alignment": True},
            "TranslationJob.translator": "the translator",
            "TranslationJob.form": "jsonl",
            "TranslationJob.nbest": OPTIONS.nbest,
            "TranslationJob.alignment": OPTIONS.alignment,
            "TranslationJob.paragraphs": True,
        },
    ),
    (
        "translate -m m -i s -o o.txt --input-format paragraphs --format jsonl --invalid-utf8 replace",
        {**DRAWING, "nmt.translation.translator.Translator": MagicMock(settings={"beam": 7})},
        "nmt.cli.line_streams.translation_record",
        {
            "translate_options.options": {"split_sentences": "always"},
            "translation_record.bundles": (Path("m/last"),),
            "translation_record.settings": {
                "beam": 7,
                "format": "jsonl",
                "input_format": "paragraphs",
                "invalid_utf8": "replace",
            },
        },
    ),
    (
        "translate -m m -i s -o o.txt --score-target r --interactive --length-penalty 0.3 --alignment "
        "--batch-tokens 99 --format jsonl --invalid-utf8 replace",
        {
            **DRAWING,
            "nmt.translation.target_scorer.TargetScorer": MagicMock(settings={"length_penalty": 0.3}),
        },
        "nmt.cli.line_streams.translation_record",
        {
            "translate_options.options": {"length_penalty": 0.3, "alignment": True, "batch_tokens": 99},
            "TargetScorer.options": OPTIONS,
            "load_ensemble.hardware": "the hardware",
            "TargetScorer.window": 1,
            "translation_record.bundles": (Path("m/last"),),
            "translation_record.files": {"input": Path("s"), "score_target": Path("r")},
            "translation_record.settings": {"length_penalty": 0.3, "format": "jsonl", "invalid_utf8": "replace"},
        },
    ),
    (
        "serve m --host 0.0.0.0 --port 7 --api-keys r --allow-origin https://a.org --allow-origin https://b.org "
        "--requests-per-minute 5 "
        "--max-characters 9 --max-waiting 8 --timeout 1.5 --engine ctranslate2 --device cpu --precision int8 "
        "--threads 3 --workers 6 --beam 7",
        {
            "nmt.convert.ctranslate2.loading.model_for_ctranslate2": (Path("m/last"), []),
            "nmt.checkpoint.describing.describe_model": "m",
            "nmt.serve.engine_process.load_in_process": "the engine",
            "nmt.serve.running.bound": MagicMock(),
            "nmt.serve.models.ServedModel": "the model",
            "nmt.serve.access.read_keys": ["key"],
            "nmt.serve.access.Access": "the access",
            "nmt.serve.exchange.Limits": "the limits",
        },
        "nmt.serve.running.run",
        {
            "model_for_ctranslate2.named": [Path("m")],
            "bound.host": "0.0.0.0",
            "bound.port": 7,
            "read_keys.path": Path("r"),
            "load_in_process.device": "cpu",
            "load_in_process.precision": "int8",
            "load_in_process.threads": 3,
            "ServedModel.engine": "the engine",
            "ServedModel.options": {"beam": 7},
            "ServedModel.workers": 6,
            "Access.keys": ["key"],
            "Access.requests_per_minute": 5,
            "Access.origins": ["https://a.org", "https://b.org"],
            "Access.only_loopback": False,
            "Limits.max_characters": 9,
            "Limits.seconds": 1.5,
            "run.served": ["the model"],
            "run.access": "the access",
            "run.limits": "the limits",
            "run.max_waiting": 8,
        },
    ),
    (
        "serve m --host 0.0.0.0 --public",
        {**MODEL, "nmt.serve.engine_process.load_in_process": MagicMock(), "nmt.serve.running.bound": MagicMock()},
        "nmt.serve.running.run",
        {"models_to_use.named": [Path("m")], "bound.host": "0.0.0.0"},
    ),
    (
        "report r1 r2 --out o.html",
        {},
        "nmt.reports.run_report.write_run_report",
        {"write_run_report.folders": [Path("r1"), Path("r2")], "write_run_report.out": Path("o.html")},
    ),
    (
        "inspect p --out o.html",
        {"nmt.lineage.reading.read_lineage": "the lineage"},
        "nmt.reports.lineage_page.write_lineage",
        {"read_lineage.path": Path("p"), "write_lineage.lineage": "the lineage", "write_lineage.path": Path("o.html")},
    ),
]

PRINTS = {
    "prepare-data": {"--list", "--show-recipe", "--show-dropped"},
    "score": {"--json", "--format", "--sentence-scores"},
    "inspect": {"--json"},
    "average-checkpoints": {"--data"},
    "build-vocab": {"--force"},
    "translate": {"--score-target", "--interactive", "--invalid-utf8", "--input-format"},
}
"""Options without a function of their own, which other tests run."""


@pytest.mark.parametrize(("command", "doubles", "last", "arguments"), ROWS, ids=[row[0][:70] for row in ROWS])
def test_every_option_reaches_its_function(command, doubles, last, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("h", "h2", "r1", "r2", "r", "s"):
        Path(name).write_text(f"{name}\n", "utf-8")
    heard: dict[str, list[Any]] = {}
    for name, answer in doubles.items():
        replace(monkeypatch, name, heard, answer)
    replace(monkeypatch, last, heard, DataError("the last double"))
    result = CliRunner().invoke(app, shlex.split(command))
    assert "error: the last double" in result.stderr, (result.stderr, result.exception)
    got = {name: heard[name][0] if len(set(map(repr, heard[name]))) == 1 else heard[name] for name in arguments}
    assert got == arguments


def test_an_output_is_resumed_in_the_precision_that_it_was_begun_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s").write_text("a\nb\n", "utf-8")
    record = Record(kind="translation", path="o.txt", command=("translate", "--precision=bf16"))
    with contextlib.suppress(KeyboardInterrupt), OutputFile(Path("o.txt")).growing(record) as (stream, _):
        stream.write(b"a\n")
        raise KeyboardInterrupt
    heard: dict[str, list[Any]] = {}
    for name, answer in MODEL.items():
        replace(monkeypatch, name, heard, answer)
    replace(monkeypatch, "nmt.machine.device.choose_hardware", heard, DataError("the last double"))
    result = CliRunner().invoke(app, ["translate", "-m", "m", "-i", "s", "-o", "o.txt"])
    assert "error: the last double" in result.stderr
    assert heard["choose_hardware.begun_in"] == ["bf16"]


def replace(monkeypatch: pytest.MonkeyPatch, dotted: str, heard: dict[str, list[Any]], answer: object) -> None:
    """Put a double in a function's place, which accepts what the function accepts."""
    place, _, name = dotted.rpartition(".")
    module = importlib.import_module(place)
    signature = inspect.signature(getattr(module, name))

    def double(*args: object, **kwargs: object) -> object:
        for key, value in signature.bind(*args, **kwargs).arguments.items():
            heard.setdefault(f"{name}.{key}", []).append(value)
        if isinstance(answer, DataError):
            raise answer
        return answer

    monkeypatch.setattr(module, name, double)


@pytest.mark.parametrize("command", sorted({row[0].split()[0] for row in ROWS}))
def test_every_option_has_a_row(command):
    tried = {word for row in ROWS if row[0].startswith(f"{command} ") for word in row[0].split()}
    generated = {field.name for kind in (TranslateOptions, Sampling) for field in option_fields(kind)}
    found = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]
    for param in found.params:
        if command in ("translate", "serve") and param.name in generated:
            continue
        words = {*param.opts, *param.secondary_opts}
        if param.param_type_name == "option" and not getattr(param, "hidden", False) and "--quiet" not in words:
            assert words & (tried | PRINTS.get(command, set())), param.name
