"""Export of a bundle: written in another format, compared with the bundle in a fresh process, and only then named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.checkpoint.bundle import load_bundle
from nmt.checkpoint.bundle_files import ORIGIN_NAME, PARITY_NAME
from nmt.checkpoint.lineage import EXPORTED, bundle_record
from nmt.config.documents import parse_json
from nmt.convert.card import CARD_NAME, model_card
from nmt.convert.certificate.examining import ExportJob, examine
from nmt.convert.certificate.record import Certificate
from nmt.convert.exported_files import write_json
from nmt.convert.failure import REPORT, failed
from nmt.convert.own_bundles import behind_link
from nmt.convert.target import Target
from nmt.convert.targets import find_target
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
    target = find_target(to)
    quantization = quantization or target.quantizations[0]
    if quantization not in target.quantizations:
        raise ConfigError(
            f"--quantization {quantization}: {target.toolkit} has {', '.join(target.quantizations)} here."
        )
    check_replaceable(out, exported_kind(target))
    bundle_folder = behind_link(bundle_folder)
    bundle = load_bundle(bundle_folder)
    with replacing_folder(out, exported_kind(target)) as temporary:
        target.write(bundle, temporary, quantization)
        certificate = examine(ExportJob(bundle_folder, temporary, target.name, quantization, tuple(lines)))
        if certificate.failed:
            is_exact = quantization == target.quantizations[0]
            raise failed(bundle_folder, out, certificate, advice=REPORT if is_exact else _ANOTHER)
        write_file(temporary / PARITY_NAME, certificate.as_json())
        write_json(temporary / ORIGIN_NAME, _record(bundle_folder, out, target.name, quantization).stored())
        card = model_card(bundle, target, quantization, certificate, out.name)
        write_file(temporary / CARD_NAME, card.encode())
    return certificate


def _record(bundle_folder: Path, out: Path, to: str, quantization: str) -> Record:
    """The record of an exported model, whose files its certificate lists."""
    bundle = bundle_record(bundle_folder).as_found(bundle_folder)
    options = option_words({"to": to, "quantization": quantization, "out": out})
    return Record(kind=EXPORTED, path=str(out), command=("export", bundle.path, *options), made_from=(bundle,))


def exported_kind(target: Target) -> Kind:
    """A folder that this program exported to a format."""

    def is_ours(folder: Path) -> bool:
        try:
            parity = parse_json((folder / PARITY_NAME).read_bytes())["parity"]
            return bool(parity["direction"] == "export" and parity["toolkit"] == target.toolkit)
        except (OSError, ValueError, TypeError, KeyError):
            return False

    holds = (*target.holds, PARITY_NAME, ORIGIN_NAME, CARD_NAME)
    return Kind(f"a {target.toolkit} model that nmt exported", is_ours, is_folder=True, holds=holds)
