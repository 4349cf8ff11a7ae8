"""Import of a model: read, written as a bundle, compared with what it was made from, and only then given its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import ValidationError

import nmt
from nmt.checkpoint.bundle import kind_of, load_bundle, save_bundle
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.kinds import BUNDLE, read_json
from nmt.checkpoint.lineage import IMPORTED, RECORD
from nmt.checkpoint.run_folder import bundle_to_use
from nmt.config import Config, DataConfig
from nmt.config.mistakes import first_mistake
from nmt.convert.archives import unpacked
from nmt.convert.certificate.examining import ImportJob, examine, failed
from nmt.convert.certificate.record import Certificate
from nmt.convert.foreign import NOTHING_GIVEN, ForeignModel, Given
from nmt.convert.formats import find_format
from nmt.convert.naming import model_name
from nmt.convert.own_bundles import OWN, behind_link, is_own
from nmt.convert.vocabulary import our_vocabulary
from nmt.convert.weights import our_weights
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError, ConfigError, OutputError
from nmt.io.hashing import sha256_of
from nmt.io.ownership import check_replaceable
from nmt.io.writing import write_file
from nmt.record import Record, option_words, text_record


def import_model(
    path: Path,
    out: Path,
    *,
    format: str | None = None,
    given: Given = NOTHING_GIVEN,
    lines: Sequence[str] = (),
) -> Certificate:
    """Import a model of another toolkit as a bundle, with its certificate.

    Args:
        path: the other toolkit's file or folder, or a .zip archive of it.
        out: the bundle to write; an earlier bundle is replaced.
        format: its name, if the files do not tell.
        lines: further lines of source text to compare both models on.

    Returns:
        The certificate, which is also ``parity.json`` in the bundle.

    Raises:
        CheckpointError: the model cannot be read or expressed, or a check failed. A failed certificate is written
            beside ``out``, and no bundle.
        ConfigError: ``given`` says something of a bundle of ours.
        OutputError: ``out`` holds something else, or is the model itself.
    """
    with unpacked(path) as folder:
        if not is_own(folder) and format is None:
            find_format(folder)  # a path without a model is told before --out
        _check_apart(path, out)
        if format == OWN or (format is None and is_own(folder)):
            if given != NOTHING_GIVEN:
                raise ConfigError(
                    "--source-lang, --target-lang, --source-spm and --target-spm apply to models of other toolkits; "
                    f"{path} is a bundle of nmt. Leave them out."
                )
            return _copy(behind_link(bundle_to_use(folder)), out, lines)
        check_replaceable(out, BUNDLE)
        return _import(path, folder, out, format, given, lines)


def _copy(folder: Path, out: Path, lines: Sequence[str]) -> Certificate:
    """Write one of our bundles anew, as this version writes it; its notes stay."""
    _check_apart(folder, out)
    notes = read_json(BundleFolder(folder).notes)
    notes = notes if isinstance(notes, dict) else {}
    check_replaceable(out, kind_of(notes))
    bundle = load_bundle(folder)
    certifying = _Certifying(ImportJob(out, folder, OWN, NOTHING_GIVEN, tuple(lines)), folder, out)
    save_bundle(out, bundle.weights, bundle.config, bundle.vocab, notes=notes, examine=certifying)
    return certifying.certificate


def _check_apart(path: Path, out: Path) -> None:
    if out.resolve() == path.resolve():
        raise OutputError(f"{out}: is the model to import, which stays as it is. Name another folder with --out.")


def _import(path: Path, folder: Path, out: Path, format: str | None, given: Given, lines: Sequence[str]) -> Certificate:
    form = find_format(folder, format)
    assert form.read is not None
    try:
        model = form.read(folder, given)
    except ValidationError as error:
        raise CheckpointError(f"{path}: a setting cannot be used: {first_mistake(error)}") from None
    vocab = our_vocabulary(model)
    weights = our_weights(model)
    certifying = _Certifying(ImportJob(out, folder, form.name, given, tuple(lines)), path, out)
    notes = {RECORD: _record(model, path, out, form.name, given).stored()}
    save_bundle(out, weights, _config(model, path, vocab), vocab, notes=notes, examine=certifying)
    return certifying.certificate


class _Certifying:
    """Examines the bundle that is being written, and adds the certificate to it."""

    certificate: Certificate

    def __init__(self, job: ImportJob, path: Path, out: Path) -> None:
        self._job, self._path, self._out = job, path, out

    def __call__(self, bundle: Path) -> None:
        self.certificate = examine(replace(self._job, bundle=bundle))
        if self.certificate.failed:
            raise failed(self._path, self._out, self.certificate)
        write_file(BundleFolder(bundle).certificate, self.certificate.as_json())


def _config(model: ForeignModel, path: Path, vocab: VocabularyPair) -> Config:
    data = DataConfig(
        name=model_name(path),
        source_lang=model.source_lang,
        target_lang=model.target_lang,
        vocab_fingerprint=vocab.fingerprint,
        vocab_size=vocab.source.size,
        target_vocab_size=vocab.target_size,
        punctuation=model.punctuation,
    )
    return Config(model=model.config, decoding=model.decoding, data=data)


def _record(model: ForeignModel, path: Path, out: Path, format: str, given: Given) -> Record:
    """The record of the bundle."""
    files = tuple(
        text_record("file", name, sha256_of(file), bytes=file.stat().st_size) for name, file in model.files.items()
    )
    facts = {"toolkit": model.toolkit, "version": model.version or "unknown", "nmt": nmt.__version__}
    return Record(
        kind=IMPORTED,
        path=str(out),
        command=("import", str(path), *option_words({"format": format, **asdict(given), "out": out})),
        facts=facts,
        settings=dict(model.settings),
        made_from=(Record(kind="foreign model", path=str(path), made_from=files),),
    )
