"""Our pipeline with CTranslate2 as its engine translates as it does with torch, where both can."""

import itertools
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nmt
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.run_folder import chosen_bundle
from nmt.convert.ctranslate2 import loading
from nmt.convert.ctranslate2.engine import CTranslate2Engine, choose
from nmt.convert.ctranslate2.loading import exported_folder, model_for_ctranslate2
from nmt.convert.ctranslate2.searcher import CTranslate2Searcher
from nmt.errors import CheckpointError, ConfigError, NmtError
from nmt.io.writing import WriteError
from nmt.loading import NamedModels
from nmt.machine.cores import usable_cores
from nmt.machine.device import choose_hardware
from nmt.search.given_targets import score_targets
from nmt.search.settings import BeamTooWideError
from nmt.translation.ensemble import load_ensemble
from nmt.translation.options import TranslateOptions, translate_options
from nmt.translation.segment import Segment
from nmt.translation.target_scorer import TargetScorer
from nmt.translation.translator import Translator

pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")

BUNDLE = Path(nmt.__file__).parent.parent / "tests/bundles/0.1.0"
LINES = [
    "The old man sees a red house.", "a dog", "", "ä b c d e f", "A dog 貓 sees a cat and 貓 a bird.",
    "The woman reads a book. The man sleeps.",
]  # fmt: skip
CPU = choose_hardware("cpu", "fp32", 1)


@pytest.fixture(scope="module")
def ours():
    return load_ensemble([BUNDLE], CPU)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        folder = exported_folder(BUNDLE, lambda message: None)
    return CTranslate2Engine(folder, "cpu", threads=1)


def translated(engine, lines=LINES, prefixes=None, **options):
    settings = translate_options(engine.config.decoding, guard=False, **options)
    return [line.candidates for line in Translator(engine, settings).translate(lines, prefixes)]


def texts(engine, **options):
    return [[candidate.text for candidate in candidates] for candidates in translated(engine, **options)]


@pytest.mark.parametrize("settings", [{}, {"is_foreign": True, "tied_embeddings": "none", "decoder_start": "zero"}])
def test_greedy_outputs_are_those_of_torch(settings, make_bundle, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = make_bundle(**settings).folder
    engines = load_ensemble([folder], CPU), CTranslate2Engine(exported_folder(folder, print), threads=1)
    lines = ["ba do ki", "lu  me.", ">>deu<< ba do", "Жы ba Ж ki", "", "ba do " * 12]
    assert texts(engines[0], lines=lines, beam=1) == texts(engines[1], lines=lines, beam=1)


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4},
        {"beam": 4, "length_normalization": "length", "length_penalty": 0.0},
        {"beam": 4, "min_length": 14, "split_sentences": "never"},
        {"beam": 4, "max_extra_length": 1},
        {"beam": 1, "max_extra_length": 1},
        {"beam": 4, "mbr": True},
        {"beam": 4, "batch_tokens": 16, "split_sentences": "always", "max_source_length": 9},
        {"beam": 4, "prefixes": ["Der alte", "Ein H", "", "", "", "D"]},
        {"beam": 1, "prefixes": ["Der alte", "Ein H", "", "", "", "D"]},
    ],
    ids=str,
)
def test_options_find_the_translations_of_torch(options, ours, theirs):
    mine, others = translated(ours, **options), translated(theirs, **options)
    assert [[one.text for one in line] for line in mine] == [[one.text for one in line] for line in others]
    for a, b in zip((line[0] for line in mine), (line[0] for line in others), strict=True):
        # CTranslate2 drops pad, bos and unk before the softmax.
        assert b.log_probability == pytest.approx(a.log_probability, abs=0.05 + 0.01 * abs(a.log_probability))
        assert b.score == pytest.approx(a.score, abs=0.05 + 0.01 * abs(a.score))


def test_many_hypotheses_are_ranked_by_their_scores(ours, theirs):
    [candidates, *_] = translated(theirs, beam=8, nbest=5)
    assert len(candidates) == 5
    scores = [candidate.score for candidate in candidates]
    assert scores == sorted(scores, reverse=True)
    [source] = ours.vocab.source.encode(LINES[:1])
    ids = [ours.vocab.target.ids(candidate.pieces) for candidate in candidates]
    for candidate, exact in zip(candidates, score_targets(ours.models, [source] * 5, ids, CPU), strict=True):
        assert candidate.log_probability == pytest.approx(exact.log_probability, abs=0.1)
        assert candidate.score == pytest.approx(exact.score, abs=0.1)


@pytest.mark.parametrize("options", [{"prefixes": ["Der alte Mann"] * len(LINES)}, {"max_extra_length": 0}], ids=str)
def test_outputs_that_were_forced_or_cut_off_have_exact_scores(options, ours, theirs):
    [prefix] = ours.vocab.target.encode(options.get("prefixes", [""])[:1])
    segments = [Segment(line, *ours.vocab.source.encode([line]), prefix=prefix) for line in LINES if line]
    settings = TranslateOptions(beam=4, max_extra_length=options.get("max_extra_length", 50))
    best = [hypotheses[0] for hypotheses in theirs.searcher(settings).search(segments, settings)]
    exact = score_targets(ours.models, [one.pieces for one in segments], [found.pieces for found in best], CPU)
    is_exact = [
        bool(prefix) or len(found.pieces) == len(segment.pieces) for found, segment in zip(best, segments, strict=True)
    ]
    assert sum(is_exact) > 1
    for found, score, exactly in zip(best, exact, is_exact, strict=True):
        limit = 1e-4 if exactly else 0.1
        assert found.log_probability == pytest.approx(score.log_probability, abs=limit)


def test_an_output_may_end_with_its_prefix(make_bundle, tmp_path, monkeypatch):
    """CTranslate2 itself would always go on, unless the end is the likeliest piece."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = make_bundle().folder
    engines = load_ensemble([folder], CPU), CTranslate2Engine(exported_folder(folder, print), threads=1)
    options = {"lines": ["ki lu me"], "prefixes": ["lu me"], "beam": 8, "nbest": 8, "length_penalty": 0.0}
    found = [translated(engine, **options)[0] for engine in engines]
    assert all("lu me" in [candidate.text for candidate in candidates] for candidates in found)
    assert len({tuple(candidate.pieces) for candidate in found[1]}) == len(found[1])
    longer = translated(engines[1], **options, min_length=6)[0]
    assert min(len(candidate.pieces) for candidate in longer) >= 6


@pytest.mark.parametrize(
    "options", [{"min_length": 20}, {"no_repeat_ngram": 1}, {"min_length": 16, "beam": 1}], ids=str
)
def test_scores_are_exact_where_pieces_were_not_allowed(options, theirs):
    for candidates in translated(theirs, lines=LINES[:2], alignment=True, nbest=options.get("beam", 2), **options):
        for candidate in candidates:
            assert candidate.log_probability == pytest.approx(sum(candidate.piece_log_probabilities), abs=1e-3)


def test_no_ngram_is_repeated(theirs):
    for [candidate] in translated(theirs, no_repeat_ngram=2, max_extra_length=50, min_length=30, beam=2)[:2]:
        pairs = list(itertools.pairwise(candidate.pieces))
        assert len(set(pairs)) == len(pairs) >= 29


def test_a_short_sentence_has_its_own_limit_among_long_ones(theirs):
    options = {"beam": 4, "max_extra_length": 2, "min_length": 30}
    lines = ["a dog", "The old man sees a red house."]
    assert texts(theirs, lines=lines, **options) == [texts(theirs, lines=[line], **options)[0] for line in lines]
    [short] = theirs.vocab.source.encode(lines[:1])
    assert len(translated(theirs, lines=lines, **options)[0][0].pieces) == len(short) + 2


def test_alignments_are_those_of_torch(ours, theirs):
    mine, others = (translated(engine, beam=1, alignment=True) for engine in (ours, theirs))
    assert [line[0].alignment for line in mine] == [line[0].alignment for line in others]
    for a, b in zip(mine, others, strict=True):
        assert b[0].piece_log_probabilities == pytest.approx(a[0].piece_log_probabilities, abs=1e-4)


def test_given_targets_are_scored_as_by_torch(ours, theirs):
    pairs = [("a dog", "ein Hund"), ("a dog", ""), ("", "ein"), ("a dog", "貓"), ("a", "Hund " * 2_000)]
    for alignment in (False, True):
        [mine], [others] = (
            TargetScorer(engine, translate_options(engine.config.decoding, alignment=alignment)).score_windows(pairs)
            for engine in (ours, theirs)
        )
        for a, b in zip(mine, others, strict=True):
            assert b.score == pytest.approx(a.score, abs=1e-4)
            assert (b.pieces, b.alignment) == (a.pieces, a.alignment)
    assert others[-1].score == -math.inf


def test_what_it_lacks_is_refused_by_name(theirs):
    with pytest.raises(ConfigError, match=r"CTranslate2 does not support --sample.*engine torch"):
        translated(theirs, sampling=nmt.Sampling())


def test_reranking_is_told_where_it_is_done(theirs):
    def remarks(**options):
        return theirs.remarks(translate_options(theirs.config.decoding, **options))

    assert "reranked" in remarks(beam=4, length_penalty=0.6, length_normalization="paper")[0]
    for options in ({"beam": 1}, {"length_penalty": 0.0}, {"length_normalization": "length"}):
        assert remarks(**options) == []
        assert "refill_beam has no effect" in remarks(refill_beam=True, **options)[0]


class WithoutMemory:
    """A model whose memory is enough for so many sentences."""

    def __init__(self, model, sentences: int) -> None:
        self.model, self.sentences, self.refused = model, sentences, 0

    def __getattr__(self, name):
        return getattr(self.model, name)

    def translate_batch(self, sources, *words, **options):
        if len(sources) > self.sentences:
            self.refused += 1
            raise RuntimeError("CUDA failed with error out of memory")
        return self.model.translate_batch(sources, *words, **options)


def test_a_batch_that_does_not_fit_is_halved(theirs, monkeypatch):
    expected = texts(theirs)
    small = WithoutMemory(theirs.model(), 2)
    monkeypatch.setattr(theirs, "model", lambda workers=1: small)
    assert texts(theirs) == expected
    assert small.refused
    small.sentences = 0
    with pytest.raises(BeamTooWideError, match="line 7: the search with a beam of 4 needs more memory"):
        theirs.searcher(translate_options(theirs.config.decoding)).search(
            [Segment("a", [5], line=7)], translate_options(theirs.config.decoding)
        )


def test_a_conversation_has_all_threads_and_no_model_is_in_memory_twice(theirs):
    engine = CTranslate2Engine(theirs._folder, "cpu", threads=2)
    assert engine.model(1) is engine.model(1)
    assert engine._workers == 1
    wide = engine.model(2)
    # The end of a text: its last window, what the guard searches again, and alignments.
    assert {*(engine.model(1) for _ in range(5)), engine.model(2)} == {wide}
    assert engine._workers == 2


def test_searching_nothing_opens_no_model(theirs):
    engine = CTranslate2Engine(theirs._folder, "cpu")
    engine.searcher(TranslateOptions()).search([], TranslateOptions())
    assert engine._model is None


def test_a_search_that_the_memory_of_a_cpu_does_not_hold_is_never_begun(theirs, monkeypatch):
    """The system would kill the process."""
    lines, options = ["The old man sees a red house."] * 8, translate_options(theirs.config.decoding, beam=4)
    expected, sizes = texts(theirs, lines=lines), []
    searched = CTranslate2Searcher._hypotheses

    def hypotheses(self, batch, *others):
        sizes.append(len(batch))
        return searched(self, batch, *others)

    monkeypatch.setattr(CTranslate2Searcher, "_hypotheses", hypotheses)
    segments = [Segment(line, *theirs.vocab.source.encode([line]), line=7) for line in lines]
    free = theirs.searcher(options)._need(segments[:2], options)
    monkeypatch.setattr("nmt.convert.ctranslate2.searcher.available_memory", lambda: free)
    assert (texts(theirs, lines=lines), max(sizes)) == (expected, 2)
    # All of it is for a single sentence that does not fit into the share of a worker.
    several = CTranslate2Engine(theirs._folder, "cpu", threads=3)
    assert (texts(several, lines=lines), max(sizes[-4:])) == (expected, 1)
    sizes.clear()
    with pytest.raises(BeamTooWideError, match="line 7: the search with a beam of 4,000 needs more memory"):
        theirs.searcher(options).search(segments, options.model_copy(update={"beam": 4_000}))
    assert sizes == []


def test_threads_that_share_the_engine_use_one_model(theirs):
    engine = CTranslate2Engine(theirs._folder, "cpu", threads=2)
    options = translate_options(engine.config.decoding)
    engine.searcher(options, shared=True).search([Segment("a", [5])], options)
    assert [engine.model(1) for _ in range(9)] == [engine.model(2)] * 9


def test_scoring_nothing_opens_no_model(theirs):
    engine = CTranslate2Engine(theirs._folder, "cpu")
    assert engine.score([], [], TranslateOptions(), alignment=True) == []
    assert engine._model is None


def test_in_int8_a_single_batch_has_the_thread_of_a_worker(theirs):
    engine = CTranslate2Engine(theirs._folder, "cpu", "int8", threads=2)
    assert texts(engine, lines=LINES[:1]) and engine._workers == 2


def test_several_workers_find_the_same(theirs):
    several = CTranslate2Engine(theirs._folder, "cpu", threads=3)
    lines = LINES * 5
    assert texts(several, lines=lines, batch_tokens=20) == texts(theirs, lines=lines)
    assert several._workers == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"device": "cuda"}, "device 'cuda' is not available to CTranslate2"),
        ({"device": "mps"}, "device 'mps' is not available to CTranslate2"),
        ({"precision": "fp64"}, "--precision fp64: CTranslate2 has fp32"),
    ],
)
def test_devices_and_precisions_that_it_lacks_are_refused(words, message, theirs, monkeypatch):
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: 0)
    with pytest.raises(ConfigError, match=message):
        CTranslate2Engine(theirs._folder, **words)


def test_an_output_keeps_the_precision_that_it_was_begun_in():
    assert choose("cpu", "auto") == ("cpu", "fp32")
    assert choose("cpu", "auto", "int8") == ("cpu", "int8")
    assert choose("cpu", "auto", "fp64") == ("cpu", "fp32")


@pytest.fixture
def bundle(tmp_path, monkeypatch) -> Path:
    """A copy of a bundle, and a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(BUNDLE, tmp_path / "bundle")
    return tmp_path / "bundle"


def test_a_bundle_is_converted_once_and_again_when_it_changes(bundle, monkeypatch):
    reports = []
    first = exported_folder(bundle, reports.append)
    assert reports == [f"converting the model for CTranslate2, once, into {first}"]
    assert exported_folder(bundle, reports.append) == first
    assert len(reports) == 1
    config = BundleFolder(bundle).config
    config.write_text(config.read_text() + "\n")
    BundleFolder(bundle).checksums.unlink(missing_ok=True)
    second = exported_folder(bundle, reports.append)
    assert (second != first, len(reports)) == (True, 2)
    monkeypatch.setattr("nmt.__version__", "9.9.9")
    assert exported_folder(bundle, reports.append) == second
    assert len(reports) == 3  # by another version of the program


@pytest.mark.slow
def test_a_damaged_conversion_is_made_again(bundle):
    folder = exported_folder(bundle, lambda message: None)
    for name in ("model.bin", "config.yaml"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-1])
        assert exported_folder(bundle, lambda message: None) == folder
        assert (folder / name).read_bytes() == content


def test_a_folder_of_the_user_is_used_as_it_is_or_refused(bundle, tmp_path):
    from nmt.convert.converting import export_model

    folder = tmp_path / "exported"
    export_model(bundle, folder, to="ctranslate2", quantization="int8")
    assert model_for_ctranslate2([folder]) == (folder, [])
    assert exported_folder(folder, print) == folder
    assert not (tmp_path / "cache/nmt/ctranslate2").exists()
    assert all(texts(CTranslate2Engine(folder, precision="int8"), lines=["a dog"])[0])
    with (folder / "model.bin").open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(CheckpointError, match=r"model\.bin is damaged.*Export the model again"):
        exported_folder(folder, print)
    (folder / "model.bin").unlink()
    with pytest.raises(CheckpointError, match=r"model\.bin is missing\. Export the model again"):
        exported_folder(folder, print)


def test_the_stored_weights_of_an_exported_folder_choose_the_precision(bundle, tmp_path):
    from nmt.convert.converting import export_model

    export_model(bundle, tmp_path / "int8", to="ctranslate2", quantization="int8")
    assert NamedModels.of([tmp_path / "int8"], "ctranslate2").load("cpu", "auto", 1).precision == "int8"
    assert NamedModels.of([tmp_path / "int8"], "ctranslate2").load("cpu", "fp32", 1).precision == "fp32"
    without_engine = NamedModels.of([tmp_path / "int8"], "torch")
    assert without_engine.load("cpu", "auto", 1).name == "ctranslate2"
    assert without_engine.remarks == ["engine: ctranslate2, since the model is in its format"]
    with pytest.raises(CheckpointError, match="int8: is a model for CTranslate2"):
        chosen_bundle(tmp_path / "int8")
    assert NamedModels.of([bundle], "ctranslate2").load("cpu", "auto", 1).precision == "fp32"


def test_a_device_is_refused_before_a_model_is_converted(bundle):
    reports = []
    with pytest.raises(ConfigError, match="device 'mps'"):
        NamedModels.of([bundle], "ctranslate2").load("mps", "auto", 1, report=reports.append)
    assert reports == []


def test_a_damaged_bundle_and_a_foreign_folder_are_one_error(bundle, tmp_path):
    files = BundleFolder(bundle)
    files.checksums.write_text("{")
    with pytest.raises(CheckpointError, match=r"checksums\.json is damaged"):
        exported_folder(bundle, print)
    files.checksums.unlink()
    files.vocab.unlink()
    with pytest.raises(CheckpointError, match=r"not a complete bundle: vocab\.model is missing"):
        exported_folder(bundle, print)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/model.bin").touch()
    with pytest.raises(CheckpointError, match="a model of CTranslate2 that nmt did not export"):
        model_for_ctranslate2([tmp_path / "foreign"])


def test_a_cache_that_cannot_be_written_says_what_to_do(bundle, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(WriteError, match="Set XDG_CACHE_HOME to another folder, or run `nmt export"):
        exported_folder(bundle, print)


def test_a_lock_that_cannot_be_taken_is_one_error(bundle, tmp_path):
    folder = exported_folder(bundle, lambda message: None)
    (folder / "model.bin").unlink()
    folder.with_name(f".{folder.name}.converting").mkdir()
    with pytest.raises(WriteError, match="Set XDG_CACHE_HOME to another folder"):
        exported_folder(bundle, print)


@pytest.mark.parametrize(("variable", "threads"), [("2,1", 2), ("0", usable_cores()), ("3", 3), ("", usable_cores())])
def test_threads_are_those_of_openmp(variable, threads, theirs, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert CTranslate2Engine(theirs._folder).threads == threads


def test_several_models_are_refused(bundle):
    with pytest.raises(ConfigError, match="CTranslate2 has no ensembles, and 2 models were given"):
        model_for_ctranslate2([bundle, bundle])


def test_a_model_that_it_cannot_express_is_one_error(make_bundle, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NmtError, match="CTranslate2 cannot express attention: additive"):
        exported_folder(make_bundle(attention="additive").folder, print)
    assert not list((tmp_path / "nmt/ctranslate2").glob("[!.]*"))


def test_without_the_package_the_extra_is_named(theirs, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(NmtError, match=r"The engine ctranslate2 needs ctranslate2, which is not installed.*extra"):
        CTranslate2Engine(theirs._folder)


def test_the_python_api_has_the_engine(bundle):
    model = nmt.load(bundle, engine="ctranslate2", device="cpu", threads=1)
    assert repr(model).endswith("cpu, 1 thread, fp32)")
    assert "CTranslate2" in repr(model)
    assert (
        model.translate(["a dog"], beam=1)[0].text
        == nmt.load(bundle, device="cpu").translate(["a dog"], beam=1)[0].text
    )
    with pytest.raises(ConfigError, match="engine"):
        nmt.load(bundle, engine="fairseq")


def run(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nmt", *words], input=text, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_command_translates_resumes_and_keeps_engines_apart(bundle, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"{line}\n" for line in LINES * 3))
    words = ["translate", "-m", str(bundle), "-i", str(source), "-o", str(out), "--beam", "1"]
    first = run(*words, "--engine", "ctranslate2")
    assert first.returncode == 0, first.stderr
    assert "converting the model for CTranslate2" in first.stderr
    again = run(*words, "--engine", "ctranslate2")
    assert "up to date" in again.stderr
    other = run(*words)
    assert other.returncode == 2
    assert "engine" in other.stderr
    translated_by_torch = run(*words[:5], "--beam", "1", "-q").stdout
    assert translated_by_torch == out.read_text()


def test_the_conversion_is_verified_by_what_it_records(bundle):
    folder = exported_folder(bundle, lambda message: None)
    certificate = loading._certificate(folder)
    assert certificate is not None
    assert {"model.bin", "config.yaml", "vocab.model", "config.json"} <= certificate.files.keys()
    assert loading._certificate(bundle) is None
