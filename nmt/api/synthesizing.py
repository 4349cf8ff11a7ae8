"""Synthetic parallel text from Python: back-translation and distillation, as ``nmt synthesize`` does.

It composes the other functions, with files between them (:mod:`nmt.synthesis.files`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from annotated_types import Ge, Gt, Le

from nmt.api.arguments import BATCHES, DEVICE, ENGINE, PRECISION, THREADS, Assignments, Paths, Text, Texts, checked
from nmt.api.data import PreparedData, prepare_data
from nmt.api.files import INVALID_UTF8, score_target, translate_file
from nmt.errors import ConfigError, DataError
from nmt.option_fields import (
    CLEANING,
    HARDWARE,
    OWN_TEXT,
    STREAMS,
    TEACHER,
    Argument,
    DeviceChoice,
    EngineName,
    Option,
    TranslationPrecision,
)
from nmt.reporting import SILENT, Reporter
from nmt.text.lines import InvalidUtf8
from nmt.translation.options import SearchOptions

if TYPE_CHECKING:
    from nmt.record import Record
    from nmt.synthesis.chat_server import ChatServer
    from nmt.synthesis.files import SynthesisFiles
    from nmt.synthesis.teacher import ChatRequest
    from nmt.translation.guard import Languages
    from nmt.translation.line_numbers import LineNumbers

_CANDIDATES = 8
"""The default number of candidates that a reference chooses from."""


@checked
def synthesize(
    dataset: Annotated[Text, Argument("Name of the new data set, such as synthetic-en-de.", metavar="DATASET")],
    *,
    mono: Annotated[Path, Option("Text in one language, one sentence per line.", STREAMS)],
    valid: Annotated[Texts, Option("Real text for validation, as of prepare-data.", OWN_TEXT, metavar="TEXT")],
    test: Annotated[Texts, Option("Real text for testing, likewise.", OWN_TEXT, metavar="TEXT")],
    model: Annotated[
        Paths, Option("Run or bundle that translates it; several: ensemble.", STREAMS, unset="or {teacher}", letter="m")
    ] = (),
    forward: Annotated[
        bool, Option("The text is source text: distillation instead of back-translation.", STREAMS)
    ] = False,
    reference: Annotated[
        Path | None,
        Option("Translations of the text: of {nbest} candidates, the nearest by chrF is taken.", STREAMS),
    ] = None,
    out: Annotated[Path | None, Option("Folder of the data set.", STREAMS, unset="data/NAME", letter="o")] = None,
    tag: Annotated[
        str | None, Option("Tag of its pairs, such as BT; see `translate --tag`.", STREAMS, unset="none", metavar="TAG")
    ] = None,
    fresh: Annotated[bool, Option("Start over in the next free folder.", STREAMS)] = False,
    force: Annotated[bool, Option("Replace the data set even if it was edited or runs use it.", STREAMS)] = False,
    source_lang: Annotated[
        str | None, Option("Source language of the pairs.", OWN_TEXT, unset="of the name", metavar="LANG")
    ] = None,
    target_lang: Annotated[
        str | None, Option("Target language of the pairs.", OWN_TEXT, unset="of the name", metavar="LANG")
    ] = None,
    invalid_utf8: Annotated[InvalidUtf8, INVALID_UTF8] = "error",
    keep: Annotated[
        float | None, Ge(0.01), Le(1), Option("Share of the pairs to keep, by score per piece.", CLEANING, unset="all")
    ] = None,
    scored_by: Annotated[
        Paths,
        Option("Model of the opposite direction, which scores for {keep}.", CLEANING, unset="{model}", metavar="MODEL"),
    ] = (),
    filter: Annotated[
        Assignments, Option("Turn on a filter of prepare-data; may be repeated.", CLEANING, metavar="NAME[=VALUE]")
    ] = (),
    teacher: Annotated[
        Text | None,
        Option("Language model that translates it: its server's address, up to /v1.", TEACHER, metavar="URL"),
    ] = None,
    teacher_model: Annotated[Text | None, Option("Name of that model on the server.", TEACHER, metavar="NAME")] = None,
    teacher_request: Annotated[
        Path | None, Option("YAML of a request: prompt, temperature and so on.", TEACHER, unset="a plain prompt")
    ] = None,
    concurrency: Annotated[int, Ge(1), Le(1000), Option("Requests at the same time.", TEACHER)] = 8,
    timeout: Annotated[float, Gt(0), Option("Seconds that a request may take.", TEACHER)] = 120,
    tries: Annotated[int, Ge(1), Option("Tries per request.", TEACHER)] = 6,
    engine: Annotated[EngineName, ENGINE] = "torch",
    device: Annotated[DeviceChoice, DEVICE] = "auto",
    precision: Annotated[TranslationPrecision, PRECISION] = "auto",
    threads: Annotated[int | None, Ge(1), THREADS] = None,
    batches: Annotated[int | None, Ge(1), BATCHES] = None,
    jobs: Annotated[int | None, Ge(1), Option("Processes for cleaning.", HARDWARE, unset="one per core")] = None,
    report: Reporter = SILENT,
    **options: Unpack[SearchOptions],
) -> PreparedData:
    """Make a data set of text in one language and its translations.

    Args:
        own options: listed by ``help(nmt.synthesize)``.
        options: those of :meth:`nmt.Model.translate` that concern the search.
        report: hears notices, warnings and progress.

    Raises:
        NmtError: as :func:`nmt.translate_file`, :func:`nmt.score_target` and :func:`nmt.prepare_data` do.
    """
    from nmt.corpora.filters import filter_changes
    from nmt.corpora.prepare import refuse_other
    from nmt.corpora.recipe import own_recipe, tagged
    from nmt.loading import NamedModels
    from nmt.synthesis.chat_server import ChatServer
    from nmt.synthesis.files import SynthesisFiles, accepted, minimum_score, nearest, paired, write_derived
    from nmt.synthesis.record import same_data_set, synthesis_record
    from nmt.text.addresses import is_address, public_address
    from nmt.translation.guard import Languages

    _refuse_contradictions(mono, reference, options.get("nbest"), keep, scored_by, forward=forward)
    request = _teachers_request(teacher, teacher_model, teacher_request, model, reference, keep, scored_by, options)
    languages: dict[str, Any] = {"source_lang": source_lang, "target_lang": target_lang}
    evaluated: dict[str, Any] = {"valid": valid, "test": test}
    named = own_recipe(dataset, **languages, train=("pairs.tsv",), **evaluated)
    # Now, rather than after hours of translating.
    filter_changes((*filter, *(["min-score=0"] if keep is not None else [])))
    named = named if tag is None else tagged(named, tag)
    folder = out or Path("data") / dataset
    read, written = named.source_lang, named.target_lang
    if not forward:
        read, written = written, read
    if fresh:
        folder = _first_free(folder)
        report.notice(f"data set: {folder}")
    refuse_other(folder, named, force=force)
    work = SynthesisFiles.beside(folder if folder.name else folder.resolve(), written)
    if reference is not None:
        nbest = options.get("nbest") or options.get("beam") or _CANDIDATES
        options["nbest"], options["beam"] = nbest, options.get("beam") or nbest
    chosen = tuple(NamedModels.of(model, engine).folders) if model else ()
    scorers = tuple(NamedModels.of(scored_by, engine).folders) if scored_by else ()
    _check_languages(chosen, (read, written))
    _check_languages(scorers, (written, read))
    shown = {
        name: [public_address(each) if is_address(each) else each for each in evaluated[name]] for name in evaluated
    }
    asked = synthesis_record(
        dataset,
        work.pairs,
        {"model": chosen, "scored-by": scorers},
        {"mono": mono, "reference": reference, "teacher-request": teacher_request},
        {
            "teacher": teacher and public_address(teacher),
            "teacher-model": teacher_model,
            "forward": forward or None,
            **languages,
            **shown,
            "tag": tag,
            "keep": keep,
            "filter": filter,
            "out": folder,
        },
        {"invalid_utf8": invalid_utf8, "engine": engine, "precision": precision, **options},
    )
    if not (force or work.folder.exists()) and (manifest := same_data_set(folder, asked)):
        return PreparedData(folder, named, manifest)
    server = None if teacher is None else ChatServer(teacher, concurrency=concurrency, timeout=timeout, tries=tries)

    with work.made():
        report.notice(f"intermediate files: {work.folder} (removed at the end)")
        hardware: dict[str, Any] = {"engine": engine, "device": device, "precision": precision, "threads": threads}
        shared: dict[str, Any] = {**hardware, "invalid_utf8": invalid_utf8, "report": report}
        translation = work.translation if teacher is None and reference is None else work.chosen
        if server is not None and request is not None:
            _ask(server, request, mono, work, Languages(read, written), invalid_utf8, report)
            dropped: dict[str, LineNumbers] = {}
            write_derived(translation, asked, accepted(work.translation, dropped))
            asked = _with_dropped(asked, dropped, report)
        else:
            translate_file(
                mono,
                work.translation,
                model=chosen,
                input_format="lines",
                batches=batches,
                source_lang=read,
                target_lang=written,
                **shared,
                **options,
            )
        if reference is not None:
            write_derived(translation, asked, nearest(work.translation, reference, options["nbest"] or 1, invalid_utf8))
        scores = None
        if keep is not None:
            per_piece: dict[str, Any] = {"length_normalization": "length", "length_penalty": 1.0}
            sides = (translation, mono, written, read) if scorers else (mono, translation, read, written)
            score_target(
                sides[0],
                work.scores,
                target=sides[1],
                model=scorers or chosen,
                source_lang=sides[2],
                target_lang=sides[3],
                **per_piece,
                **shared,
            )
            scores = work.scores
        pairs = paired(mono, translation, scores, invalid_utf8, forward=forward, drops=teacher is not None)
        write_derived(work.pairs, asked, pairs)
        minimum = [] if keep is None else [f"min-score={minimum_score(work.pairs, keep)!r}"]
        prepared = prepare_data(
            dataset,
            out=folder,
            tag=tag,
            jobs=jobs,
            force=force,
            train=(str(work.pairs),),
            columns="source,target" + ",score" * (keep is not None),
            filter=(*filter, *minimum),
            **languages,
            **evaluated,
            report=report,
        )
        work.remove()
    return prepared


def _refuse_contradictions(
    mono: Path, reference: Path | None, nbest: int | None, keep: float | None, scored_by: Paths, *, forward: bool
) -> None:
    from nmt.text.lines import can_be_read_again, count_lines, not_parallel, read_lines

    if reference is not None and not forward:
        raise ConfigError("--reference only goes with --forward: the target text of a back-translation is real.")
    if nbest is not None and reference is None:
        raise ConfigError("--nbest only goes with --reference, which chooses among the candidates.")
    if scored_by and keep is None:
        raise ConfigError("--scored-by only goes with --keep, the share of the pairs to keep.")
    for option, path in (("--mono", mono), ("--reference", reference)):
        if path is None:
            continue
        if str(path) == "-" or (path.exists() and not can_be_read_again(path)):
            raise ConfigError(f"{option} {path}: is read several times, so a pipe will not do. Name a file.")
        if not path.is_file():
            raise DataError(f"{path}: there is no such file. It was given by {option}.")
    if reference is not None:
        # Now, rather than after hours of translating: compressed files are read for this.
        lines, others = (
            count_lines(path) or sum(1 for _ in read_lines(path, invalid="replace")) for path in (mono, reference)
        )
        if lines != others:
            raise not_parallel((str(mono), lines), (str(reference), others))


def _teachers_request(
    address: str | None,
    name: str | None,
    path: Path | None,
    model: Paths,
    reference: Path | None,
    keep: float | None,
    scored_by: Paths,
    options: SearchOptions,
) -> ChatRequest | None:
    """What is asked of a teacher; None without one."""
    from nmt.synthesis.teacher import ChatRequest

    if bool(model) == (address is not None):
        raise ConfigError("--model MODEL translates the text, or a language model with --teacher URL: give one.")
    if address is None:
        for option, value in (("--teacher-model", name), ("--teacher-request", path)):
            if value is not None:
                raise ConfigError(f"{option} only goes with --teacher, the address of the language model.")
        return None
    if name is None:
        raise ConfigError("--teacher needs --teacher-model, the name of the model on that server.")
    if reference is not None or any(value is not None for value in options.values()):
        raise ConfigError(
            "--reference and the options of the search only go with --model. What a teacher is asked stands in "
            "--teacher-request."
        )
    if keep is not None and not scored_by:
        raise ConfigError("--keep needs --scored-by MODEL beside --teacher, which scores nothing.")
    return ChatRequest.read(path, name)


def _ask(
    server: ChatServer,
    request: ChatRequest,
    mono: Path,
    work: SynthesisFiles,
    languages: Languages,
    invalid_utf8: InvalidUtf8,
    report: Reporter,
) -> None:
    """Write the answers of a teacher. They resume as translations do."""
    from nmt.synthesis.teacher import Teacher
    from nmt.translation.jobs import TranslationJob
    from nmt.translation.streams import Streams
    from nmt.translation.writing_lines import write_lines

    streams = Streams(mono, {}, work.translation, invalid_utf8=invalid_utf8, report=report)
    with streams.claimed() as claimed, Teacher.opened(server, request, work.answers, languages) as teacher:
        write_lines(claimed, TranslationJob(teacher, "jsonl"))


def _with_dropped(asked: Record, dropped: Mapping[str, LineNumbers], report: Reporter) -> Record:
    """The record with the numbers of answers that were dropped, which are reported with their lines."""
    from nmt.synthesis.answers import WITHOUT_ANSWER

    facts = {}
    for reason, lines in sorted(dropped.items(), key=lambda item: -item[1].count):
        fact = f"answers dropped as {reason.replace('_', ' ')}"
        facts[fact] = lines.count
        again = ". The same command with --force asks for them again" if reason in WITHOUT_ANSWER else ""
        report.notice(f"{fact}: {lines.count:,} ({lines}){again}")
    return asked.model_copy(update={"facts": facts})


def _check_languages(models: Paths, languages: tuple[str, str]) -> None:
    from nmt.checkpoint.bundle_files import BundleFolder
    from nmt.config import read_config
    from nmt.text.languages import fitting
    from nmt.translation.directions import codes_of

    for model in models:
        data = read_config(BundleFolder(model).config).data
        known = [codes_of(data, "source"), codes_of(data, "target")]
        if all(not codes or fitting(codes, code) for codes, code in zip(known, languages, strict=True)):
            continue
        translates = " to ".join("/".join(codes) or "?" for codes in known)
        raise ConfigError(
            f"{model}: translates from {translates}, but one from {languages[0]} to {languages[1]} is needed."
        )


def _first_free(folder: Path) -> Path:
    """The data set's folder, or the first numbered one, of which no part exists."""
    from nmt.synthesis.files import SynthesisFiles

    numbered = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    return next(
        each
        for each in itertools.chain([folder], numbered)
        if not each.exists() and not SynthesisFiles.beside(each, "").folder.exists()
    )
