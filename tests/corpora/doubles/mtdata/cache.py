"""Members of archives."""

import fnmatch
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Cache:
    root: Path

    def get_local_in_paths(self, path, entry):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        found = []
        for pattern in entry.in_paths:
            matches = fnmatch.filter(names, pattern)
            if len(matches) != 1:
                raise Exception(f" {pattern} matched {matches}; expected one file")
            found.append(zipfile.Path(path, matches[0]))
        return found
