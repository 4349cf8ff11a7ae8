"""Every format that nmt reads: how a small valid one is made, which of its files is damaged, and what reads it."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from safetensors.torch import load_file

from nmt.checkpoint.averaging import best_checkpoints
from nmt.checkpoint.bundle import TrainingState, load_bundle, save_bundle
from nmt.checkpoint.describing import describe_model, newest_trained_run
from nmt.checkpoint.kinds import AVERAGE, BUNDLE, CHECKPOINT
from nmt.checkpoint.run_folder import RUN, RunFolder, bundle_to_use
from nmt.checkpoint.scores import Score
from nmt.config import Config, describe_config, dump_config, load_preset, load_yaml, parse_config
from nmt.convert.foreign import Given
from nmt.convert.formats import find_format
from nmt.convert.vocabulary import our_vocabulary
from nmt.convert.weights import our_weights
from nmt.corpora.corpus_kinds import Text
from nmt.corpora.download import Fetcher
from nmt.corpora.formats import CorpusFile, ParallelText
from nmt.corpora.recipe import dump_recipe, load_recipe, reverse
from nmt.corpora.testsets import fetch_test_set
from nmt.corpora.transfer import RemoteFile
from nmt.corpora.user_corpora import format_by_name
from nmt.data.data_set import DATA_SET
from nmt.data.manifest import newest_data_set, read_manifest
from nmt.data.shards import ParallelShards
from nmt.data.vocab import Vocabulary, train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import DataError, DownloadError
from nmt.evaluation.metrics import make_metric, score
from nmt.evaluation.text_checks import hypothesis_warnings, tokenizer_warnings
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.record import Record
from nmt.reports.run_report import run_report
from nmt.synthesis.answers import Answer, Answers
from nmt.text.lines import count_lines, read_lines, read_parallel
from nmt.training.input.data_sets import TrainingData
from nmt.training.metrics_file import MetricsFile
from nmt.training.progress import Progress
from nmt.training.ranks.exchange import Ranks
from nmt.training.start.data_record import data_to_resume, write_data_record
from nmt.training.start.model_memory import check_memory
from nmt.training.start.resume import find_beginning, make_learner
from nmt.translation.ensemble import load_ensemble, product_sizes
from nmt.translation.options import translate_options
from nmt.translation.resuming import OutputFile
from nmt.translation.translator import Translator
from tests.convert.marian_mt import STORED as MARIAN_MT
from tests.convert.peers import WRITERS
from tests.data.one_data_set import are_current, build_vocabulary
from tests.kit.archives import tarred
from tests.records import average_notes, made
from tests.training.conftest import Silent, make_data_set

MARIAN = MARIAN_MT.parent
"""Stored models that Marian trained."""
LINES = ["the boat leaves at noon", "nobody heard the bell", "two small lamps", "a letter came"] * 3
SIZES = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 8, "heads": 2, "max_positions": 32}


@dataclass(frozen=True)
class Format:
    """A format of a file, in a thing that has it."""

    file: str
    """The one that is damaged, below the thing's folder."""
    make: Callable[[Path], None]
    """Puts a valid thing into an empty folder."""
    read: Callable[[Path], object]
    """Reads the thing as the commands do."""
    tree: str | None = None
    """How the values of the file can be taken apart (``damage.TREES``)."""
    names: tuple[str, ...] = ()
    """What an error may name in the place of the file."""
    is_changed: bool = False
    """Whether reading changes the folder, so that it must be made anew each time."""

    @property
    def named(self) -> tuple[str, ...]:
        """What an error names: one of these."""
        return (Path(self.file).name, *self.names)


def _write_recipe(folder: Path) -> None:
    (folder / "mine.yaml").write_text(dump_recipe(load_recipe("iwslt14-de-en")))


def _write_anchored_recipe(folder: Path) -> None:
    text = dump_recipe(load_recipe("multi30k-en-de"))
    (folder / "mine.yaml").write_text(text.replace("nfc: false", "nfc: &no false").replace("ion: false", "ion: *no"))


def _read_recipe(folder: Path) -> None:
    dump_recipe(reverse(load_recipe(str(folder / "mine.yaml"))))


def _write_settings(folder: Path) -> None:
    values = load_preset("tiny") | {"training": {"freeze": ["encoder.*"]}, "data": {"lines": _LINES_OF_DATA}}
    (folder / "my.yaml").write_text(dump_config(parse_config(values, name="settings")))


_SIDE = {"sentences": [9, 1], "pieces": {"p50": 1, "p90": 2, "p99": 3, "p999": 4, "max": 5}}
_RATIO = {"p1": 0.6, "p10": 0.8, "p50": 1.0, "p90": 1.2, "p99": 1.5}
_LINES_OF_DATA = {"max_pieces": 256, "source": _SIDE, "target": _SIDE, "target_per_source": _RATIO}


def _read_settings(folder: Path) -> None:
    describe_config(parse_config(load_yaml(folder / "my.yaml"), name="my.yaml"))


def _write_data(folder: Path) -> None:
    make_data_set(folder / "data" / "words", pairs=20)


def _read_manifest(folder: Path) -> None:
    data = folder / "data" / "words"
    DATA_SET.is_ours(data)
    newest_data_set(folder / "data")
    manifest = read_manifest(data)
    read_parallel(data / f"train.{manifest.source_lang}", data / f"train.{manifest.target_lang}")


def _read_shards(folder: Path) -> None:
    data = folder / "data" / "words"
    vocab = VocabularyPair.load(data / "vocab.model")
    are_current(data, vocab)
    shards = ParallelShards.open(data, "train")
    for number in range(len(shards)):
        for side in shards.pair(number):  # ids beyond the vocabulary are refused where they are used
            vocab.source.pieces(side[side < vocab.source.size].tolist())


def _rebuild_shards(folder: Path) -> None:
    """The command that repairs shards."""
    data = folder / "data" / "words"
    build_vocabulary(data, size=40, threads=1)
    ParallelShards.open(data, "train")


@cache
def _vocabulary(model_type: str = "bpe", *, bytes_too: bool = False) -> Vocabulary:
    size = 330 if bytes_too else 40
    return train_vocabulary(LINES, size=size, model_type=model_type, byte_fallback=bytes_too).vocab  # type: ignore[arg-type]


def _write_vocabulary(folder: Path, *, model_type: str, bytes_too: bool) -> None:
    VocabularyPair.shared(_vocabulary(model_type, bytes_too=bytes_too)).save(folder / "vocab.model")


def _read_vocabulary(folder: Path) -> None:
    pair = VocabularyPair.load(folder / "vocab.model")
    vocab = pair.source
    encoded = vocab.encode([*LINES, "", "ß▁\0👩", " two  spaces "])
    vocab.decode(encoded)
    vocab.encode_sampled(LINES[:2], dropout=0.3, seed=1)
    vocab.normalize(LINES[0])
    assert vocab.byte_ids is not None
    assert all(0 <= piece < vocab.size for line in encoded for piece in line)
    pair.save(folder / "copy.model")


def _weights(config: Config) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return Transformer(config.model, _vocabulary().size).state_dict()


def _config(**sections: object) -> Config:
    values = {"model": SIZES, "decoding": {"beam": 2, "max_extra_length": 3}, **sections}
    return parse_config(values, name="settings")


def _write_bundle(folder: Path, *, checksums: bool = False) -> None:
    config = _config(
        data={"lines": _LINES_OF_DATA, "source_text": [{"step": "nfc"}], "source_lang": "en", "target_lang": "de"}
    )
    averaged = average_notes(["checkpoints/step-00000001", "checkpoints/step-00000002"])
    save_bundle(folder / "bundle", _weights(config), config, VocabularyPair.shared(_vocabulary()), notes=averaged)
    if not checksums:
        (folder / "bundle" / "checksums.json").unlink()


def _read_bundle(folder: Path) -> None:
    path = bundle_to_use(folder / "bundle")
    describe_model(path)
    for kind in (BUNDLE, AVERAGE, CHECKPOINT):
        kind.is_ours(path)
    hardware = choose_hardware("cpu", "auto", 1, product=product_sizes(path))
    ensemble = load_ensemble([path], hardware)
    settings = translate_options(ensemble.config.decoding)
    list(Translator(ensemble, settings).translate([LINES[0], "", "ä. B. c."]))


_RUN_SECTIONS = {
    "batching": {"update_tokens": 60, "group_tokens": 30, "micro_batch_tokens": 50},
    "training": {"device": "cpu", "precision": "fp32", "threads": 1, "ema_decay": 0.9},
}


def _write_run(folder: Path, *, checksums: bool = False) -> None:
    data = folder / "data" / "words"
    make_data_set(data, pairs=20)
    vocab = VocabularyPair.load(data / "vocab.model")
    about = {"name": "words", "fingerprint": read_manifest(data).fingerprint, "vocab_size": vocab.source.size}
    config = _config(**_RUN_SECTIONS, data=about | {"vocab_fingerprint": vocab.fingerprint})
    run = folder / "runs" / "words"
    for update in (1, 2):
        torch.manual_seed(update)
        model = Transformer(config.model, vocab.source.size)
        moments = {
            f"{kind}.{name}": torch.zeros_like(parameter)
            for name, parameter in model.named_parameters()
            for kind in ("exp_avg", "exp_avg_sq", "learnt")
        }
        progress = Progress(update=update, index=update, seconds=1.5, scores={1: Score(3.0, 3.5), 2: Score(2.5, 4.0)})
        checkpoint = RunFolder(run).checkpoint(update)
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        state = TrainingState(moments, progress.values())
        save_bundle(checkpoint, model.state_dict(), config, vocab, training=state)
        if not checksums:
            (checkpoint / "checksums.json").unlink()
    (run / "config.yaml").write_text(dump_config(config))
    write_data_record(run, [data], config)
    (run / "manifests").mkdir()
    (run / "manifests" / "1-words.json").write_bytes((data / "manifest.json").read_bytes())
    metrics = MetricsFile(run / "metrics.jsonl")
    for record in _RECORDS:
        metrics.append(record)


_SAMPLE = {"source": "a letter came", "reference": "ein Brief kam", "translation": "ein Brief"}
_RECORDS = (
    {"kind": "start", "update": 0, "versions": {"nmt": "1"}, "hardware": "cpu", "ranks": 1},
    {"kind": "update", "update": 1, "epoch": 0, "loss": 3.5, "smoothed_loss": 4.0, "perplexity": 33.1,
     "gradient_norm": 1.0, "learning_rate": 1e-4, "target_tokens": 60, "target_tokens_per_second": 100.0,
     "source_tokens_per_second": 100.0, "data_wait_share": 0.1, "peak_memory_bytes": 10**8, "skipped_updates": 0,
     "seconds": 0.5},
    {"kind": "validation", "update": 1, "epoch": 0, "seconds": 0.6, "valid_loss": 3.0, "valid_perplexity": 20.0,
     "valid_bleu": 3.5, "validation_seconds": 0.1, "samples": [_SAMPLE]},
    {"kind": "event", "update": 2, "event": "skipped", "message": "a gradient was not finite", "epoch": 0, "index": 1},
    {"kind": "update", "update": 2, "epoch": 0, "loss": 3.0, "perplexity": 20.0, "gradient_norm": None,
     "learning_rate": 2e-4, "target_tokens_per_second": 90.0, "peak_memory_bytes": 10**8, "seconds": 1.0},
)  # fmt: skip


def _resume(folder: Path) -> None:
    """What `nmt train --resume` reads before the first update."""
    run = folder / "runs" / "words"
    RUN.is_ours(run)
    newest_trained_run(folder / "runs")
    config = parse_config(load_yaml(run / "config.yaml"), name="config.yaml")
    data = [path for path, _ in data_to_resume(run)]
    hardware = choose_hardware("cpu", "fp32", 1)
    opened = TrainingData.open(data, config)
    beginning = find_beginning(run, opened, hardware, Silent(), Ranks(), accept_changes=False, init_from=None)
    check_memory(config, hardware, Ranks())
    learner = make_learner(beginning, opened, Ranks())
    json.dumps(beginning.progress.values())
    beginning.progress.ending(config)
    del learner


def _average(folder: Path) -> None:
    for checkpoint in best_checkpoints(folder / "runs" / "words", 2):
        load_bundle(checkpoint)


def _resume_and_average(folder: Path) -> None:
    _resume(folder)
    _average(folder)


def _read_metrics(folder: Path) -> None:
    run = folder / "runs" / "words"
    RUN.is_ours(run)
    run_report([run]).encode(errors="replace")
    newest_trained_run(folder / "runs")
    MetricsFile(run / "metrics.jsonl").begin({"kind": "start", "update": 1})


_MADE = made(precision="fp32")


def _write_output(folder: Path) -> None:
    output = OutputFile(folder / "out.de")
    with output.claimed(), output.growing(_MADE) as (stream, _):
        stream.write(b"ein Brief kam\n" * 5)


def _write_partial_output(folder: Path) -> None:
    try:
        with OutputFile(folder / "out.de").growing(_MADE) as (stream, note):
            stream.write(b"ein Brief kam\n" * 4)
            note(4, 4)
            stream.write(b"ein Brief kam\n")
            raise InterruptedError
    except InterruptedError:
        pass


def _write_answers(folder: Path) -> None:
    with Answers.opened(folder / "set.answers") as answers:
        for number in range(5):
            answers.keep(f"{number:064}", Answer("ein Brief kam"))


def _read_answers(folder: Path) -> None:
    with Answers.opened(folder / "set.answers") as answers:
        for number in range(6):
            answers.find(f"{number:064}")
        answers.keep("new", Answer("zwei kleine Lampen"))


def _read_output(folder: Path, made: Record = _MADE) -> None:
    output = OutputFile(folder / "out.de")
    assert output.precision in (None, "fp32", "fp64", "fp16", "bf16", "int8")
    assert output.first_free() is not None
    with output.claimed():
        if not output.is_up_to_date(made):
            output.begun(made)


_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": lambda content: _zstd().compress(content),
}


def _zstd():
    try:
        from compression import zstd
    except ImportError:
        from backports import zstd
    return zstd


def _write_text(folder: Path, *, packer: str | None = None) -> None:
    content = "".join(f"{line}\n" for line in LINES).encode()
    (folder / "reference.de").write_bytes(content)
    name = "hypothesis.de" if packer is None else f"hypothesis.de.{packer}"
    (folder / name).write_bytes(content if packer is None else _PACKERS[packer](content))


def _read_text(folder: Path, *, packer: str | None = None) -> None:
    """As `nmt score` and `nmt translate` do."""
    path = folder / ("hypothesis.de" if packer is None else f"hypothesis.de.{packer}")
    count_lines(path)
    list(read_lines(path, invalid="replace"))
    hypotheses, references = list(read_lines(path)), [list(read_lines(folder / "reference.de"))]
    list(read_parallel(folder / "reference.de", path))
    hypothesis_warnings(hypotheses, references)
    tokenizer_warnings([hypotheses], "13a")
    for metric in ("bleu", "chrf", "ter"):
        score(make_metric(metric, "de"), hypotheses, references)


_TED = """<url>http://example.org/talk</url>
<title>On small boats</title>
<description>What the boats carry.</description>
the boat leaves at noon
<seg id="1"> nobody heard &amp; saw </seg>
<seg id="2">two lamps</seg>
"""


def _write_ted(folder: Path) -> None:
    for side in ("en", "de"):
        (folder / f"talks.{side}").write_text(_TED)


def _read_ted(folder: Path) -> None:
    refused = []
    files = {side: str(folder / f"talks.{side}") for side in ("en", "de")}
    text = ParallelText([CorpusFile(Path(path), path, is_fetched=True) for path in files.values()], "en", "de")
    for form in ("ted-tags", "ted-segments"):
        try:
            list(Text.model_validate({"kind": "text", "format": form, "files": files}).read(text))
        except (DataError, DownloadError) as error:
            refused.append(error)
    if refused:
        raise refused[0]


_TABLE = b"en\tde\tscore\n" + b"the boat leaves\tdas Boot geht\t0.5\n" * 30


def _write_table(folder: Path) -> None:
    (folder / "table.tsv").write_bytes(_TABLE)


def _read_pair_file(folder: Path, *, name: str) -> None:
    """As `nmt prepare-data --train NAME` does."""
    path, form = folder / name, format_by_name(name)
    assert form is not None
    corpus = Text.model_validate({"kind": "text", "files": str(path), "format": form, "header": form == "tsv"})
    for pair in corpus.read(ParallelText([CorpusFile(path, str(path))], "en", "de", scored=form == "tsv")):
        assert pair is None or "\n" not in pair.source + pair.target


_TMX = b"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-GB"><seg>The <hi>boat</hi> leaves<ph>{0}</ph> &amp; sinks</seg></tuv>
<tuv xml:lang="de"><seg>Das Boot <bpt i="1">x</bpt>geht<ept i="1"/></seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Two lamps</seg></tuv></tu>
</body></tmx>
"""


def _write_tmx(folder: Path, *, encoding: str = "utf-8") -> None:
    (folder / "memory.tmx").write_bytes(_TMX.decode().replace("utf-8", encoding).encode(encoding))


def _write_catalogue(folder: Path) -> None:
    head = r'"Content-Type: text/plain; charset=utf-8\nLanguage: de\nPlural-Forms: nplurals=2; plural=n != 1;\n"'
    boats = 'msgid "%d boat"\nmsgid_plural "%d boats"\nmsgstr[0] "%d Boot"\nmsgstr[1] "%d Boote"\n'
    (folder / "a.de.po").write_text(f'msgid ""\nmsgstr {head}\n\n{boats}\nmsgid "&Lamp\\n"\nmsgstr "&Lampe\\n"\n')


def _write_xliff(folder: Path) -> None:
    (folder / "a.xlf").write_text(
        '<?xml version="1.0" encoding="utf-8"?>\n<xliff version="2.0" srcLang="en" trgLang="de"><file><unit>'
        '<segment state="final"><source>The <pc id="1">boat</pc> &amp; we</source>'
        '<target>Das <pc id="1">Boot</pc> &amp; wir</target></segment></unit></file></xliff>'
    )


@dataclass(frozen=True)
class _TestSet:
    """A test set of sacreBLEU in one of its formats: the members that its archive must have."""

    name: str
    source: str
    reference: str | None = None

    def write(self, folder: Path) -> None:
        (folder / "member.xml").write_text(_WMT_XML if self.reference is None else _SGML)

    def read(self, folder: Path) -> None:
        from sacrebleu.dataset import DATASETS

        members = {self.source: (folder / "member.xml").read_bytes()}
        if self.reference is not None:
            members[self.reference] = _SGML.encode()
        remote = RemoteFile("http://localhost/set.tar")
        raw = folder / "cache" / self.name / "raw"
        raw.mkdir(parents=True)
        (raw / DATASETS[self.name]._get_tarball_filename(remote.url)).write_bytes(tarred(members, "w"))
        fetch_test_set(self.name, "en-de", Fetcher(folder / "cache", offline=True), remote)


_SGML = """<srcset setid="x" srclang="any">
<doc docid="d" origlang="en" genre="news">
<seg id="1"> The boat leaves at noon. </seg>
<seg id="2">Two &amp; lamps</seg>
</doc>
</srcset>
"""
_WMT_XML = """<?xml version='1.0' encoding='utf-8'?>
<!DOCTYPE dataset [<!ENTITY boat "boat">]>
<dataset id="wmt24"><collection id="general">
<doc origlang="en" id="d1" domain="news">
<src lang="en"><p><seg id="1">The &boat; leaves.</seg><seg id="2">Two lamps</seg></p></src>
<ref lang="de" translator="refA"><p><seg id="1">Das Boot geht.</seg><seg id="2">Zwei Lampen</seg></p></ref>
<hyp system="S" language="de"><p><seg id="1">Boot</seg><seg id="2">Lampen</seg></p></hyp>
</doc></collection></dataset>
"""
_TEST_SETS = {
    "sgml": _TestSet("wmt14/full", "test-full/newstest2014-deen-src.en.sgm", "test-full/newstest2014-deen-ref.de.sgm"),
    "wmt-xml": _TestSet("wmt24", "xml/wmttest2024.en-de.all.xml"),
}

_CHECKPOINT = "runs/words/checkpoints/step-00000002"
_BUNDLE_NAMES = ("FOLDER/bundle", "the model")  # whose numbers are not finite
_STEP_NAMES = ("step-00000002", "the bundle")


def _write_peer(folder: Path, *, name: str, **options: object) -> None:
    WRITERS[name](folder / "theirs", **options)


def _read_peer(folder: Path) -> None:
    """What an import reads before it writes a bundle."""
    model = find_format(folder / "theirs").read(folder / "theirs", Given())
    our_vocabulary(model)
    our_weights(model)
    json.dumps(dict(model.settings)).encode()


_PEERS: tuple[tuple[str, str, dict[str, object], str | None], ...] = (
    ("fairseq", "checkpoint_best.pt", {}, None),
    ("fairseq", "checkpoint_best.pt", {"legacy": True, "form": "cfg"}, None),
    ("fairseq", "dict.en.txt", {}, None),
    ("opennmt-py", "model_step_10.pt", {}, None),
    ("joeynmt", "best.ckpt", {}, None),
    ("joeynmt", "config.yaml", {}, "yaml"),
    ("joeynmt", "src_vocab.txt", {}, None),
    ("sockeye", "params.best", {}, None),
    ("sockeye", "config", {}, None),
    ("sockeye", "version", {}, None),
    ("sockeye", "vocab.src.0.json", {}, "json"),
    ("eole", "model.01.safetensors", {}, "safetensors"),
    ("eole", "config.json", {}, "json"),
    ("eole", "vocab.json", {}, "json"),
)
"""Format, file, options of what writes it, and its tree."""


def _write_marian(folder: Path, *, name: str) -> None:
    shutil.copytree(MARIAN / name, folder / "marian")


def _read_marian(folder: Path) -> None:
    form = find_format(folder / "marian", "marian")
    model = form.read(folder / "marian", Given())
    our_vocabulary(model)
    our_weights(model)
    json.dumps(dict(model.settings)).encode()


def _write_marian_mt(folder: Path, *, change: Callable[[Path], None] = lambda folder: None) -> None:
    change(Path(shutil.copytree(MARIAN_MT, folder / "marian-mt")))


def _as_pickle(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def _read_marian_mt(folder: Path) -> None:
    form = find_format(folder / "marian-mt", "huggingface")
    model = form.read(folder / "marian-mt", Given())
    our_vocabulary(model)
    our_weights(model)


_MARIAN_MT = {
    "config.json": "json",
    "generation_config.json": "json",
    "tokenizer_config.json": "json",
    "vocab.json": "json",
    "source.spm": None,
    "model.safetensors": "safetensors",
}

FORMATS: dict[str, Format] = {
    **{
        f"{file} of {name}": Format(
            f"marian/{file}", partial(_write_marian, name=name), _read_marian, tree, ("marian",)
        )
        for name, file, tree in (
            ("marian-post", "model.npz", None),
            ("marian-post", "decoder.yml", "yaml"),
            ("marian-post", "vocab.yml", None),
            ("marian-decoder", "source.yml", None),
            ("marian-decoder", "target.spm", None),
        )
    },
    **{
        f"{file} of {name}{' ' + ' '.join(options) if options else ''}": Format(
            f"theirs/{file}", partial(_write_peer, name=name, **options), _read_peer, tree, ("theirs",)
        )
        for name, file, options, tree in _PEERS
    },
    "recipe": Format("mine.yaml", _write_recipe, _read_recipe, "yaml"),
    "recipe with aliases": Format("mine.yaml", _write_anchored_recipe, _read_recipe, "yaml"),
    "settings": Format("my.yaml", _write_settings, _read_settings, "yaml"),
    "manifest": Format("data/words/manifest.json", _write_data, _read_manifest, "json"),
    "index of shards": Format("data/words/shards/index.json", _write_data, _read_shards, "json", ("shards",)),
    "tokens of shards": Format("data/words/shards/train.source.tokens", _write_data, _read_shards, None, ("shards",)),
    "offsets of shards": Format("data/words/shards/train.target.offsets", _write_data, _read_shards, None, ("shards",)),
    "index of shards to repair": Format(
        "data/words/shards/index.json", _write_data, _rebuild_shards, "json", is_changed=True
    ),
    "BPE vocabulary": Format(
        "vocab.model", partial(_write_vocabulary, model_type="bpe", bytes_too=False), _read_vocabulary
    ),
    "unigram vocabulary with bytes": Format(
        "vocab.model", partial(_write_vocabulary, model_type="unigram", bytes_too=True), _read_vocabulary
    ),
    "settings of a bundle": Format("bundle/config.yaml", _write_bundle, _read_bundle, "yaml", _BUNDLE_NAMES),
    "weights of a bundle": Format(
        "bundle/model.safetensors", _write_bundle, _read_bundle, "safetensors", _BUNDLE_NAMES
    ),
    "vocabulary of a bundle": Format("bundle/vocab.model", _write_bundle, _read_bundle, None, _BUNDLE_NAMES),
    "notes of a bundle": Format("bundle/notes.json", _write_bundle, _read_bundle, "json", _BUNDLE_NAMES),
    "checksums of a bundle": Format(
        "bundle/checksums.json", partial(_write_bundle, checksums=True), _read_bundle, "json", _BUNDLE_NAMES
    ),
    "settings of a bundle with checksums": Format(
        "bundle/config.yaml", partial(_write_bundle, checksums=True), _read_bundle, "yaml", _BUNDLE_NAMES
    ),
    "training state": Format(
        f"{_CHECKPOINT}/training.json", _write_run, _resume_and_average, "json", _STEP_NAMES, is_changed=True
    ),
    "training tensors": Format(
        f"{_CHECKPOINT}/training.safetensors", _write_run, _resume, "safetensors", _STEP_NAMES, is_changed=True
    ),
    "weights of a checkpoint": Format(
        f"{_CHECKPOINT}/model.safetensors", _write_run, _resume, "safetensors", _STEP_NAMES, is_changed=True
    ),
    "checksums of a checkpoint": Format(
        f"{_CHECKPOINT}/checksums.json",
        partial(_write_run, checksums=True),
        _resume,
        "json",
        _STEP_NAMES,
        is_changed=True,
    ),
    "data of a run": Format("runs/words/data.json", _write_run, _resume, "json", ("words",), is_changed=True),
    "settings of a run": Format("runs/words/config.yaml", _write_run, _resume, "yaml", ("words",), is_changed=True),
    "metrics": Format("runs/words/metrics.jsonl", _write_run, _read_metrics, "jsonl", ("words",), is_changed=True),
    "manifest in a run": Format(
        "runs/words/manifests/1-words.json", _write_run, _read_metrics, "json", is_changed=True
    ),
    "record of an output": Format(".out.de.nmt.json", _write_output, _read_output, "json", ("out.de",)),
    "output": Format("out.de", _write_output, _read_output),
    "record of a partial output": Format(
        "out.de.partial.json", _write_partial_output, _read_output, "json", ("out.de",)
    ),
    "partial output": Format("out.de.partial", _write_partial_output, _read_output, None, ("out.de",)),
    "answers of a teacher": Format("set.answers", _write_answers, _read_answers, is_changed=True),
    "hypothesis": Format("hypothesis.de", _write_text, _read_text, None, ("hypothes",)),
    **{
        f"hypothesis in {packer}": Format(
            f"hypothesis.de.{packer}",
            partial(_write_text, packer=packer),
            partial(_read_text, packer=packer),
            None,
            ("hypothes",),
        )
        for packer in _PACKERS
    },
    "talks": Format("talks.en", _write_ted, _read_ted),
    "table": Format("table.tsv", _write_table, partial(_read_pair_file, name="table.tsv")),
    "TMX": Format("memory.tmx", _write_tmx, partial(_read_pair_file, name="memory.tmx")),
    "TMX in UTF-16": Format(
        "memory.tmx", partial(_write_tmx, encoding="utf-16"), partial(_read_pair_file, name="memory.tmx")
    ),
    "translated PO": Format("a.de.po", _write_catalogue, partial(_read_pair_file, name="a.de.po")),
    "translated XLIFF": Format("a.xlf", _write_xliff, partial(_read_pair_file, name="a.xlf")),
    **{
        f"test set in {form}": Format("member.xml", each.write, each.read, None, (each.name,), is_changed=True)
        for form, each in _TEST_SETS.items()
    },
    **{
        f"{name} of MarianMT": Format(f"marian-mt/{name}", _write_marian_mt, _read_marian_mt, tree, ("marian-mt",))
        for name, tree in _MARIAN_MT.items()
    },
    "pytorch_model.bin of MarianMT": Format(
        "marian-mt/pytorch_model.bin",
        partial(_write_marian_mt, change=_as_pickle),
        _read_marian_mt,
        None,
        ("marian-mt",),
    ),
}
