"""Identifiers and entries."""

from dataclasses import dataclass

from mtdata.iso.bcp47 import bcp47


@dataclass(frozen=True)
class DatasetId:
    group: str
    name: str
    version: str
    langs: tuple

    def __str__(self):
        return "-".join([self.group, self.name, self.version, *map(str, self.langs)])

    @classmethod
    def parse(cls, string, delim="-"):
        parts = string.strip().split(delim)
        if len(parts) < 4 or len(parts) > 5:
            raise Exception(f"Dataset ID expected in format: <group>-<name>-<version>-<l1>[-<l2>]; but given {string}")
        group, name, version, *langs = parts
        return cls(group, name, version, tuple(map(bcp47, langs)))


class Entry:
    def __init__(self, did, url, ext, in_paths=None, in_ext=None, cite=None, cols=None):
        self.did = DatasetId.parse(did)
        self.url = tuple(url) if isinstance(url, list) else url
        self.ext, self.in_paths, self.in_ext, self.cols = ext, in_paths, in_ext, cols
        self.cite = tuple(cite) if cite else None
        self.is_archive = ext in ("zip", "tar", "tar.gz", "tgz", "hfds")
