"""Import and export of models: each is written, compared with what it was made from, and only then given its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import Tensor

import nmt
from nmt.checkpoint.bundle import Bundle, kind_of, load_bundle, write_bundle, write_checksums
from nmt.checkpoint.bundle_files import ORIGIN_NAME, PARITY_NAME, BundleFolder, is_bundle
from nmt.checkpoint.kinds import BUNDLE, read_json
from nmt.checkpoint.lineage import EXPORTED, IMPORTED, bundle_record
from nmt.checkpoint.run_folder import bundle_to_use, is_run
from nmt.config import Config, DataConfig
from nmt.config.mistakes import first_mistake
from nmt.convert.archives import archive_name, unpacked
from nmt.convert.card import CARD_NAME, model_card
from nmt.convert.certificate.examining import Job, examine
from nmt.convert.certificate.record import Certificate
from nmt.convert.exported_files import is_of_sentencepiece, write_json
from nmt.convert.foreign import ForeignModel, Given
from nmt.convert.formats import OWN, Format, find_format, find_target, place_of
from nmt.convert.huggingface.folder import is_huggingface
from nmt.convert.vocabulary import our_vocabulary
from nmt.convert.weights import our_weights
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError, ConfigError, NmtError, OutputError
from nmt.io.files import replacing, replacing_folder
from nmt.io.hashing import sha256_of
from nmt.io.ownership import Kind, check_replaceable
from nmt.io.writing import write_file
from nmt.record import RECORD, Record, option_words, text_record
from nmt.text.printable import writable

MODELS = Path("models")
_OF_RUN = ("average", "best", "last")
_REPORT, _ANOTHER = "please report this as an error of nmt", "choose another --quantization"


def default_bundle(model: Path) -> Path:
    """``models/NAME`` for a model that is imported."""
    return MODELS / model_name(model)


def default_folder(model: Path, to: str, quantization: str | None) -> Path:
    """``models/NAME-FORMAT`` for a run or bundle that is exported."""
    return MODELS / "-".join(filter(None, (model_name(model), to, quantization)))


def model_name(model: Path) -> str:
    """The name of a run, a bundle or another toolkit's model: that of its folder, or of its archive without the
    suffix."""
    if name := archive_name(model):
        return name
    if model.is_file():
        model = model.absolute().parent
    path = model.resolve() if model.name not in _OF_RUN else model.absolute()
    parent = path.parent
    if path.name in _OF_RUN or parent.name == "checkpoints":
        run = parent.parent if parent.name == "checkpoints" else parent
        return f"{run.name}-{path.name}"
    if parent.name == "snapshots":  # as Hugging Face's cache keeps models--OWNER--NAME/snapshots/REVISION
        path = parent.parent
    return path.name.rpartition("--")[2] if path.name.startswith("models--") else path.name


def import_model(
    path: Path,
    out: Path,
    *,
    format: str | None = None,
    given: Given = Given(),
    lines: Sequence[str] = (),
) -> Certificate:
    """Import a model of another toolkit, or a bundle of ours, as a bundle with its certificate.

    Args:
        path: the other toolkit's file or folder, or a .zip or .tar archive of it.
        out: the bundle to write; an earlier bundle is replaced.
        format: its name, if the files do not tell.
        lines: further lines of source text to compare both models on.

    Returns:
        The certificate, which is also ``parity.json`` in the bundle.

    Raises:
        CheckpointError: the model cannot be read or expressed, or a check failed. A failed certificate is written
            beside ``out``, and no bundle.
        ConfigError: ``given`` says something that models of this format do not need.
        OutputError: ``out`` holds something else, or is the model itself.
    """
    with unpacked(path) as unpacked_path:
        folder = place_of(unpacked_path)
        is_own = format == OWN or (format is None and _is_own(folder))
        form = None if is_own else find_format(folder, format)  # a path without a model is told before --out
        _check_apart(path, out)
        if form is not None:
            if given.ignore_unknown_steps and not form.has_scripts:
                raise ConfigError(
                    "--ignore-unknown-steps applies to models of Marian (OPUS-MT), whose scripts nmt reads; "
                    f"{path} is a model of {form.toolkit}. Leave it out."
                )
            check_replaceable(out, BUNDLE)
            return _import(path, Job("import", folder, out, form.name, given, lines=tuple(lines)), form)
        if given != Given():
            raise ConfigError(
                "--source-lang, --target-lang, --source-spm, --target-spm and --ignore-unknown-steps apply to models "
                f"of other toolkits; {path} is a bundle of nmt. Leave them out."
            )
        bundle = _behind_link(bundle_to_use(folder))
        _check_apart(bundle, out)
        return _copy(Job("import", bundle, out, OWN, lines=tuple(lines)))


def _is_own(folder: Path) -> bool:
    """Whether a path is a folder of a run or a bundle of ours, which name their weights as transformers does."""
    return folder.is_dir() and (is_run(folder) or (is_bundle(folder) and not is_huggingface(folder)))


def _behind_link(folder: Path) -> Path:
    """The folder that a link names now. Training moves a run's ``last`` and ``best`` to other checkpoints."""
    return folder.resolve() if folder.is_symlink() else folder


def _check_apart(path: Path, out: Path) -> None:
    if out.resolve() == path.resolve():
        raise OutputError(f"{out}: is the model to import, which stays as it is. Name another folder with --out.")


def _copy(job: Job) -> Certificate:
    """Write one of our bundles anew; its notes stay."""
    notes = read_json(BundleFolder(job.path).notes)
    notes = notes if isinstance(notes, dict) else {}
    check_replaceable(job.made, kind_of(notes))
    bundle = load_bundle(job.path)
    return _save_compared(job, bundle.weights, bundle.config, bundle.vocab, notes)


def _import(path: Path, job: Job, form: Format) -> Certificate:
    assert form.read is not None
    try:
        model = form.read(job.path, job.given)
    except ValidationError as error:
        raise CheckpointError(f"{path}: a setting cannot be used: {first_mistake(error)}") from None
    vocab = our_vocabulary(model)
    notes = {RECORD: _import_record(model, path, job).stored()}
    return _save_compared(job, our_weights(model), _config(model, path, vocab), vocab, notes)


def _save_compared(
    job: Job, weights: Mapping[str, Tensor], config: Config, vocab: VocabularyPair, notes: Mapping[str, Any]
) -> Certificate:
    """Write a bundle, with its certificate."""
    with replacing_folder(job.made, kind_of(notes)) as folder:
        write_bundle(folder, weights, config, vocab, notes=notes)
        certificate = _compared(job, folder, _REPORT)
        write_checksums(folder)
    return certificate


def _config(model: ForeignModel, path: Path, vocab: VocabularyPair) -> Config:
    data = DataConfig(
        name=model_name(path),
        source_lang=model.source_lang,
        target_lang=model.target_lang,
        vocab_fingerprint=vocab.fingerprint,
        vocab_size=vocab.source.size,
        target_vocab_size=vocab.target_size,
        source_text=model.text.source,
        target_text=model.text.target,
    )
    return Config(model=model.config, decoding=model.decoding, data=data)


def _import_record(model: ForeignModel, path: Path, job: Job) -> Record:
    """The record of the bundle."""
    folder = path.parent.resolve()
    files = tuple(
        text_record(
            "file",
            str(file if file.resolve().is_relative_to(folder) else path / name),  # in an archive, which was unpacked
            sha256_of(file),
            bytes=file.stat().st_size,
        )
        for name, file in model.files.items()
    )
    facts = {"toolkit": model.toolkit, "version": model.version or "unknown", "nmt": nmt.__version__}
    given = {name: value or None for name, value in asdict(job.given).items()}  # no option says no
    options = option_words({"format": job.format, **given, "out": job.made})
    return Record(
        kind=IMPORTED,
        path=str(job.made),
        command=("import", str(path), *options),
        facts=facts,
        settings=dict(model.settings),
        made_from=(Record(kind="foreign model", path=str(path), made_from=files),),
    )


def export_model(
    bundle_folder: Path,
    out: Path,
    *,
    to: str,
    quantization: str | None = None,
    lines: Sequence[str] = (),
) -> Certificate:
    """Export a bundle to the format of another toolkit, with its certificate.

    Args:
        out: the folder to write; an earlier export to the same format is replaced.
        to: the name of the format.
        quantization: the type of the stored weights; by default that of the format that loses nothing.
        lines: further lines of source text to compare both models on.

    Returns:
        The certificate, which is also ``parity.json`` in the folder.

    Raises:
        CheckpointError: the bundle is damaged, or a check failed. A failed certificate is written beside ``out``, and
            no model.
        NmtError: the format cannot express the model, or its software is missing.
        OutputError: ``out`` holds something else.
    """
    form = find_target(to)
    assert form.write is not None
    exact = form.quantizations[0]
    quantization = quantization or exact
    if quantization not in form.quantizations:
        raise ConfigError(f"--quantization {quantization}: {form.toolkit} has {', '.join(form.quantizations)} here.")
    kind = exported_kind(form)
    check_replaceable(out, kind)
    job = Job("export", _behind_link(bundle_folder), out, form.name, quantization=quantization, lines=tuple(lines))
    bundle = load_bundle(job.path)
    _check_text(bundle, form)
    with replacing_folder(out, kind) as folder:
        form.write(bundle, folder, quantization)
        certificate = _compared(job, folder, _REPORT if quantization == exact else _ANOTHER)
        write_json(folder / ORIGIN_NAME, _export_record(job).stored())
        card = model_card(bundle, form, quantization, certificate, out.name)
        write_file(folder / CARD_NAME, writable(card).encode())
    return certificate


def _check_text(bundle: Bundle, form: Format) -> None:
    """Refuse a model whose text needs more than SentencePiece, where users of the format would have to do it."""
    if form.keeps_steps:
        return
    names_languages = bundle.config.data.steps.names_languages
    if names_languages or not is_of_sentencepiece(bundle):
        what = "gets a piece for each language" if names_languages else "goes through a tokeniser or byte-pair codes"
        raise NmtError(
            f"{bundle.folder}: its text {what}, which {form.toolkit} does not do. Export it to ctranslate2, where nmt "
            "does it."
        )


def _export_record(job: Job) -> Record:
    """The record of an exported model, whose files its certificate lists."""
    bundle = bundle_record(job.path).as_found(job.path)
    options = option_words({"to": job.format, "quantization": job.quantization, "out": job.made})
    return Record(kind=EXPORTED, path=str(job.made), command=("export", bundle.path, *options), made_from=(bundle,))


def exported_kind(form: Format) -> Kind:
    """A folder that this program exported to a format."""

    def is_ours(folder: Path) -> bool:
        match read_json(folder / PARITY_NAME):
            case {"parity": {"direction": "export", "toolkit": form.toolkit}}:
                return True
        return False

    holds = (*form.holds, PARITY_NAME, ORIGIN_NAME, CARD_NAME)
    return Kind(f"a {form.toolkit} model that nmt exported", is_ours, is_folder=True, holds=holds)


def _compared(job: Job, folder: Path, advice: str) -> Certificate:
    """The certificate of what was written into a folder, which gets it as ``parity.json``.

    Args:
        advice: what to do if a check fails, as the end of a sentence.

    Raises:
        CheckpointError: a check failed. The certificate is written beside the place of the model.
    """
    certificate = examine(replace(job, made=folder))
    if certificate.failed:
        report = _free(job.made.with_name(f"{job.made.name}.parity.json"))
        with replacing(report) as stream:
            stream.write(certificate.as_json())
        first = certificate.failed[0]
        raise CheckpointError(
            f"{job.path}: the {job.direction}ed model differs from it, so none was written. The check of {first.name} "
            f"failed: {first.detail}. All checks are in {report}: {advice}."
        )
    write_file(folder / PARITY_NAME, certificate.as_json())
    return certificate


def _free(report: Path) -> Path:
    """The path, unless a file that is no certificate lies there: then one with a number."""
    for number in range(1, 1_000):
        path = report if number == 1 else report.with_name(f"{report.stem}-{number}.json")
        values = read_json(path)
        if not path.exists() or (isinstance(values, dict) and "parity" in values):
            return path
    raise OutputError(f"{report}: it and 998 more names with numbers are taken. Move some of them.")
