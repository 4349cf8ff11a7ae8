"""The index, loaded when this module is imported."""

import json
import logging

import mtdata
from mtdata.entry import Entry


class ReferenceDb:
    def get_bibtex(self, key: str) -> str:
        return f'@misc{{{key},\n    title = "A {{corpus}}"\n}}\n\n'


class Index:
    def __init__(self):
        logging.info("Creating a fresh index object")
        records = json.loads((mtdata.cache_dir / "index.json").read_text("utf-8"))
        self.entries = {entry.did: entry for entry in (Entry(did=did, **fields) for did, fields in records.items())}
        self.ref_db = ReferenceDb()

    def get_entries(self):
        return self.entries.values()

    def __contains__(self, item):
        return item in self.entries

    def __getitem__(self, item):
        return self.entries[item]


INDEX = Index()
