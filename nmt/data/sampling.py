"""The training text of each epoch, changed or segmented at random and encoded ahead of time.

Encoding keeps a core busy, so another process encodes the next epoch while this process trains.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import TypeAdapter

from nmt.data.encoded_text import TextFile, changed_files
from nmt.data.manifest import read_manifest
from nmt.data.shard_index import SHARDS, Sampling, ShardIndex, build_command, read_folder_index, read_index
from nmt.data.shard_writing import Encoding
from nmt.data.shards import ParallelShards
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import DataError, NmtError
from nmt.io.files import replacing_folder
from nmt.machine.modules import start_module

_POLL_SECONDS = 0.2
_NICENESS = 10
_VOCAB_NAME = "vocab.model"
"""A copy of the vocabulary for the encoding process."""
_SAMPLING = TypeAdapter(Sampling)


def write_sampled_shards(data: Path, folder: Path, vocab: VocabularyPair, sampling: Sampling) -> ShardIndex:
    """Encode both sides of a data set's training text at random, as shards in ``folder``.

    The bytes are a pure function of the text, the vocabulary and the sampling. Pairs with more pieces than the limit of
    the data set's shards are left out and counted. They differ between epochs, so a pair may have another number in
    each epoch. The folder gets its name only once it is complete.

    Raises:
        DataError: the data set has no shards yet, or cannot be read.
    """
    encoding, text = _encoding(data, vocab, sampling)
    with replacing_folder(folder, SHARDS) as temporary:
        index = encoding.write(data, text, temporary)
        for name in changed_files(data, text):
            raise DataError(f"{data / name}: was changed since it was encoded. Run {build_command(data)} again.")
        return index


def _encoding(data: Path, vocab: VocabularyPair, sampling: Sampling) -> tuple[Encoding, Mapping[str, TextFile]]:
    """How the training text of a data set is encoded at random, and its files as the data set's own shards record them.

    Raises:
        DataError: the data set has no shards yet, or cannot be read.
    """
    index, manifest = read_index(data), read_manifest(data)
    names = [f"train.{language}" for language in (manifest.source_lang, manifest.target_lang)]
    encoding = Encoding(vocab, index.max_pieces, index.steps, sampling=sampling)
    return encoding, {name: index.text[name] for name in names}


class SampledEpochs:
    """The sampled shards of successive epochs; those of the next epoch are made in the background.

    Use it as a context manager, or call :meth:`close`.
    """

    def __init__(
        self,
        data: Path,
        folder: Path,
        vocab: VocabularyPair,
        sampling: Sampling,
        *,
        writer: bool = True,
        keep: int = 0,
        timeout_seconds: float = 3_600,
    ) -> None:
        """No shards are made before the first :meth:`open`.

        Args:
            folder: for the shards of the current and the next epoch, named ``epoch-00003`` and so on.
            sampling: of any epoch.
            writer: whether this process makes the shards. Of all processes that share a folder, exactly one must; the
                others wait for its shards.
            keep: number of earlier epochs to keep, for processes that are behind.
            timeout_seconds: how long the other processes wait.
        """
        self._data, self._folder, self._vocab = data, folder, vocab
        self._sampling = sampling
        self._writer, self._keep, self._timeout_seconds = writer, keep, timeout_seconds
        self._child: _Child | None = None
        if writer:
            vocab.save(self._folder / _VOCAB_NAME)
            self._remove_unfinished()  # A run that was killed may have left some.

    def open(self, epoch: int) -> ParallelShards:
        """The shards of an epoch, counted from 0. Starts making those of the next, and removes all others.

        Raises:
            DataError: the shards could not be made, or not in time.
        """
        folder = self._path(epoch)
        if not self._writer:
            self._wait_for(epoch)
            return ParallelShards.open_folder(folder, "train")
        self._make(epoch)
        shards = ParallelShards.open_folder(folder, "train")
        # A process that still reads an earlier epoch has mapped its files, so they stay readable after their removal.
        needed = [self._path(number) for number in range(epoch - self._keep, epoch + 2)]
        for other in self._folder.glob("epoch-*"):
            if other not in needed:
                shutil.rmtree(other, ignore_errors=True)
        self._begin(epoch + 1)
        return shards

    def close(self) -> None:
        """End the process in the background; complete shards stay."""
        if self._child is not None:
            self._child.end()
            self._child = None
            self._remove_unfinished()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _path(self, epoch: int) -> Path:
        return self._folder / f"epoch-{epoch:05}"

    def _remove_unfinished(self) -> None:
        for leftover in self._folder.glob(".epoch-*"):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)

    def _exists(self, epoch: int) -> bool:
        try:
            index = read_folder_index(self._path(epoch))
        except DataError:
            return False
        encoding, text = _encoding(self._data, self._vocab, replace(self._sampling, epoch=epoch))
        return index.as_json() == encoding.inputs(read_manifest(self._data), text).as_json()

    def _begin(self, epoch: int) -> None:
        if self._child is None and not self._exists(epoch):
            sampling = replace(self._sampling, epoch=epoch)
            self._child = _Child(self._data, self._path(epoch), self._folder / _VOCAB_NAME, sampling)

    def _make(self, epoch: int) -> None:
        is_running = self._child is not None and self._child.epoch == epoch
        if not is_running and self._exists(epoch):
            return
        if not is_running:
            self.close()
            self._begin(epoch)
        if self._child is not None:
            try:
                self._child.wait()
            finally:
                self.close()

    def _wait_for(self, epoch: int) -> None:
        end = time.monotonic() + self._timeout_seconds
        while not self._exists(epoch):
            if time.monotonic() > end:
                raise DataError(
                    f"{self._path(epoch)}: was not written within {self._timeout_seconds:g} seconds. The first rank on "
                    "this machine writes it: see its messages."
                )
            time.sleep(_POLL_SECONDS)


class _Child:
    """A process that writes the sampled shards of one epoch. It ends when this process ends for any reason."""

    def __init__(self, data: Path, folder: Path, vocab: Path, sampling: Sampling) -> None:
        self.epoch = sampling.epoch
        self._folder = folder
        # Nothing is written to the child's stdin, which closes when this process ends; then the child ends too.
        self._process = start_module(
            __name__,
            [data, folder, vocab, _SAMPLING.dump_json(sampling).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def wait(self) -> None:
        """Wait for the shards.

        Raises:
            DataError: the process failed.
        """
        assert self._process.stderr is not None
        message = self._process.stderr.read().decode("utf-8", errors="replace").strip()
        code = self._process.wait()
        if code != 0:
            raise DataError(
                f"{self._folder}: the sampled shards could not be made. {message or f'Exit status {code}.'}"
            )

    def end(self) -> None:
        """Kill the process if it is still running."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stderr):
            assert stream is not None
            stream.close()


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def _run_child(data: str, folder: str, vocab: str, sampling: str) -> int:
    """The child's main function; returns its exit status."""
    os.nice(_NICENESS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        write_sampled_shards(
            Path(data), Path(folder), VocabularyPair.load(Path(vocab)), _SAMPLING.validate_json(sampling)
        )
    except NmtError as error:
        sys.stderr.write(str(error))
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(_run_child(*sys.argv[1:]))
