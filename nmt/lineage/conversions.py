"""The chain across toolkits: imported bundles and exported models, each with its certificate.

A certificate is ``parity.json`` beside the model: the checks of the conversion, and what they were made with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.checkpoint.bundle_files import ORIGIN_NAME, BundleFolder
from nmt.checkpoint.kinds import read_json
from nmt.errors import DataError
from nmt.lineage.facts import Fact
from nmt.lineage.link import Link, entries_of, mapping_of, state_of
from nmt.lineage.models import bundle_link, model_link


def _parity(folder: Path) -> Mapping[str, Any]:
    """The certificate in a folder; empty if there is none."""
    return mapping_of(mapping_of(read_json(BundleFolder(folder).certificate)).get("parity"))


def _facts(parity: Mapping[str, Any]) -> dict[str, str | Fact]:
    checks = entries_of(parity.get("checks"))
    if not checks:
        return {}
    passed = sum(check.get("passed") is True for check in checks)
    oracles = list(dict.fromkeys(str(check.get("oracle")) for check in checks))
    software = {str(name): str(version) for name, version in mapping_of(parity.get("software")).items()}
    values = {"passed": passed, "checks": [dict(check) for check in checks], "software": software}
    return {
        "compared": Fact(f"{passed} of {len(checks)} checks passed, with {'; '.join(oracles)}", values),
        "compared by": ", ".join(f"{name} {version}" for name, version in software.items()),
    }


def imported_link(folder: Path) -> Link:
    """A bundle on disk, with what its certificate says if it was imported: its own files are those of the certificate.

    A certificate of other files says nothing of the bundle, whose checksums may have been made anew.
    """
    link, parity = bundle_link(folder), _parity(folder)
    if not parity:
        return link
    recorded = mapping_of(parity.get("bundle"))
    state, change = state_of({path: str(recorded.get(path.name, "none")) for path in BundleFolder(folder).model})
    if state == "unchanged":
        return replace(link, facts={**link.facts, **_facts(parity)})
    facts = {**link.facts, "compared": f"{BundleFolder(folder).certificate} is not the certificate of these files"}
    return replace(link, facts=facts, state=state, change=link.change or change)


def is_exported(folder: Path) -> bool:
    """Whether ``nmt export`` wrote a folder."""
    return _parity(folder).get("direction") == "export"


def is_exported_file(path: Path) -> bool:
    """Whether a file belongs to a folder that ``nmt export`` wrote; others may lie there too."""
    parity = _parity(path.parent)
    names = {BundleFolder(path.parent).certificate.name, ORIGIN_NAME, *mapping_of(parity.get("files"))}
    return path.name in names and is_exported(path.parent)


def exported_link(folder: Path) -> Link:
    """A folder that ``nmt export`` wrote, compared with its certificate's checksums.

    Raises:
        DataError: its record of the bundle is missing or damaged.
    """
    origin = read_json(folder / ORIGIN_NAME)
    if not isinstance(origin, dict) or "path" not in origin:
        raise DataError(f"{folder / ORIGIN_NAME}: is missing or damaged, so the exported bundle is not known.")
    parity = _parity(folder)
    files = {folder / str(name): str(sha256) for name, sha256 in mapping_of(parity.get("files")).items()}
    state, change = state_of(files)
    facts = {"format": str(parity.get("toolkit")), **_facts(parity)}
    return Link("exported model", str(folder), facts, state, change, (model_link(origin),))
