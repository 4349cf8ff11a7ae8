"""Export of a bundle: written in another format, compared with the bundle in a fresh process, and only then named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.checkpoint.bundle import load_bundle
from nmt.checkpoint.bundle_files import ORIGIN_NAME, PARITY_NAME
from nmt.checkpoint.lineage import EXPORTED, bundle_record
from nmt.config.documents import parse_json
from nmt.convert.card import CARD_NAME, model_card
from nmt.convert.certificate.examining import REPORT, ExportJob, examine, failed
from nmt.convert.certificate.record import Certificate
from nmt.convert.exported_files import write_json
from nmt.convert.formats import Format, find_target
from nmt.convert.own_bundles import behind_link
from nmt.errors import ConfigError
from nmt.io.files import replacing_folder
from nmt.io.ownership import Kind, check_replaceable
from nmt.io.writing import write_file
from nmt.record import Record, option_words

_ANOTHER = "choose another --quantization"


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
    quantization = quantization or form.quantizations[0]
    if quantization not in form.quantizations:
        raise ConfigError(f"--quantization {quantization}: {form.toolkit} has {', '.join(form.quantizations)} here.")
    kind = exported_kind(form)
    check_replaceable(out, kind)
    bundle_folder = behind_link(bundle_folder)
    bundle = load_bundle(bundle_folder)
    with replacing_folder(out, kind) as temporary:
        form.write(bundle, temporary, quantization)
        certificate = examine(ExportJob(bundle_folder, temporary, form.name, quantization, tuple(lines)))
        if certificate.failed:
            is_exact = quantization == form.quantizations[0]
            raise failed(bundle_folder, out, certificate, advice=REPORT if is_exact else _ANOTHER)
        write_file(temporary / PARITY_NAME, certificate.as_json())
        write_json(temporary / ORIGIN_NAME, _record(bundle_folder, out, form.name, quantization).stored())
        card = model_card(bundle, form, quantization, certificate, out.name)
        write_file(temporary / CARD_NAME, card.encode())
    return certificate


def _record(bundle_folder: Path, out: Path, to: str, quantization: str) -> Record:
    """The record of an exported model, whose files its certificate lists."""
    bundle = bundle_record(bundle_folder).as_found(bundle_folder)
    options = option_words({"to": to, "quantization": quantization, "out": out})
    return Record(kind=EXPORTED, path=str(out), command=("export", bundle.path, *options), made_from=(bundle,))


def exported_kind(form: Format) -> Kind:
    """A folder that this program exported to a format."""

    def is_ours(folder: Path) -> bool:
        try:
            parity = parse_json((folder / PARITY_NAME).read_bytes())["parity"]
            return bool(parity["direction"] == "export" and parity["toolkit"] == form.toolkit)
        except (OSError, ValueError, TypeError, KeyError):
            return False

    holds = (*form.holds, PARITY_NAME, ORIGIN_NAME, CARD_NAME)
    return Kind(f"a {form.toolkit} model that nmt exported", is_ours, is_folder=True, holds=holds)
