"""Text, as rows of segments."""

import gzip
from itertools import zip_longest


class Parser:
    def __init__(self, paths, ext=None, ent=None):
        self.paths, self.ext, self.ent = paths if isinstance(paths, list) else [paths], ext, ent
        assert self.ext

    def read_segs(self, show_pbar=True):
        assert not show_pbar
        readers = [self._lines(path) for path in self.paths]
        if "tsv" in self.ext:
            cols = self.ent.cols or (0, 1)
            rows = (line.split("\t") for line in readers[0])
            return ([row[index].strip() for index in cols] for row in rows)
        return self._zip(readers)

    def _zip(self, readers):
        for row in zip_longest(*readers):
            if None in row:
                raise Exception(f"{self.paths} have unequal number of segments")
            yield row

    @staticmethod
    def _lines(path):
        is_packed = path.name.endswith(".gz")
        with gzip.open(path) if is_packed else path.open("rb") as stream:
            for line in stream:
                yield line.decode("utf-8", "replace").rstrip("\r\n")
