"""Downloads: fetch, resume, verify.

A file is written as ``NAME.part`` and renamed once its checksum is verified. The next attempt resumes from the part, if
a checksum is known; else it starts again.
Mirrors are tried before the file's own address.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.locations import Input
from nmt.corpora.transfer import Progress, RemoteFile, UnavailableError, download
from nmt.errors import DownloadError
from nmt.io.files import free_name, replacing, why_not_made
from nmt.io.hashing import sha256_of
from nmt.io.locking import exclusive
from nmt.io.writing import WriteError, open_to_write
from nmt.machine.cache_folder import default_cache
from nmt.text.addresses import beside, folder_parts, host_folder, is_address, public_address

Notify = Callable[[str], None]
"""Called with a notice: a sentence that a user should know but need not act upon."""


@dataclass(frozen=True)
class Fetcher:
    """How files are fetched."""

    cache: Path | None = None
    """Where downloads are kept, if the user named a folder; see :func:`nmt.machine.cache_folder.default_cache`."""
    mirrors: Sequence[str] = ()
    """Folders or URLs that hold files by their base names, tried in this order before a file's address.

    Passwords come from the address or from netrc; they are never written.
    """
    offline: bool = False
    """Do not use the network; folders among the mirrors are still read."""
    progress: Progress = lambda description, done, total: None
    """Called for every block that arrives."""
    notify: Notify = lambda notice: None
    """Called with notices, for example about a recorded checksum."""

    def fetch_input(self, part: Input) -> Path:
        """Fetch a download of a recipe into its folder in the cache; see :meth:`fetch`."""
        assert part.remote is not None
        if part.shared_folder is not None and self.cache is None:
            return self.fetch(part.remote, part.shared_folder, part.name)
        folder = Path(*folder_parts(part.remote.url)) if part.folder is None else part.folder
        if digest := part.remote.query_digest:
            folder /= f"query-{digest}"
        return self.fetch(part.remote, (self.cache or default_cache()) / folder, part.name)

    def fetch(self, file: RemoteFile, folder: Path, name: str | None = None) -> Path:
        """Fetch a file into a folder, unless the folder has it, and verify it in both cases.

        Args:
            file: what to fetch. If no checksum is known, the sha256 of the first complete copy is recorded beside it
                (``NAME.sha256``) and expected from then on. A copy is known to be complete if the server sent its
                length.
            folder: where it is kept.
            name: the file's name there; its base name if unset.

        Returns:
            The verified file.

        Raises:
            DownloadError: no mirror or address has the right file. The message says how each attempt failed, and where
                to put the file by hand.
            WriteError: the system refused to write it.
        """
        path = folder / (name or file.name)
        places = _places(file, self.mirrors)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DownloadError(
                f"{folder}: cannot be made ({why_not_made(folder, error)}). Name another folder with --cache."
            ) from None
        with ExitStack() as stack:
            try:
                stack.enter_context(exclusive(path.with_name(f".{path.name}.lock")))
            except OSError as error:
                # The cache may be read-only. A process that only reads needs no lock.
                if path.is_file() and _fault(file, path, path) is None:
                    return path
                raise DownloadError(
                    f"{path}: cannot be written ({error.strerror}). Name another folder with --cache."
                ) from None
            failures = []
            if path.is_file():
                fault = _fault(file, path, path)
                if fault is None:
                    return path
                failures.append(f"{path}: {fault}")
                self.notify(f"{path}: {fault}. Fetching the right file; this one will be kept as {path.name}.wrong.")
            for place in places:
                shown = public_address(str(place))
                if self.offline and not isinstance(place, Path):
                    failures.append(f"{shown}: not tried (offline)")
                    continue
                try:
                    is_whole = _fetch_from(place, file, path, self.progress)
                except UnavailableError as error:
                    failures.append(f"{shown}: {error}")
                except OSError as error:
                    raise WriteError.of(error, path) from error
                else:
                    for failure in failures:
                        self.notify(f"{failure}; took {shown} instead.")
                    if not _verifiable(file, path):
                        self._pin(path, is_whole)
                    return path
        tried = "".join(f"\n  {failure}" for failure in failures)
        raise DownloadError(
            f"{file.name} could not be fetched:{tried}\nFetch {file.public_url} by other means and put it at {path}, "
            "or name a folder that holds it with --mirror."
        )

    def _pin(self, path: Path, is_whole: bool) -> None:
        """Record the sha256 of a file without a known checksum, in the format of ``sha256sum --check``."""
        if not is_whole:
            self.notify(
                f"{path.name}: has no known checksum, and the server did not send its length. It may be incomplete, so "
                "its sha256 is not recorded."
            )
            return
        found = sha256_of(path)
        with replacing(_pin_path(path)) as stream:
            stream.write(f"{found}  {path.name}\n".encode())
        self.notify(f"{path.name}: has no known checksum; its sha256, {found}, is recorded and expected from now on.")


def _places(file: RemoteFile, mirrors: Sequence[str]) -> list[str | Path]:
    """The paths and URLs to try, in order.

    Raises:
        DownloadError: a mirror is neither a folder nor a web address.
    """
    places: list[str | Path] = []
    for mirror in mirrors:
        if is_address(mirror):
            try:
                host_folder(mirror)
            except ValueError as error:
                raise DownloadError(f"--mirror: an address {error}.") from None
            places.append(beside(mirror, file.name))
        elif "://" in (folder := mirror.removeprefix("file://")):
            raise DownloadError(
                f"--mirror {public_address(mirror)}: must be a folder, or an address that begins with http:// or "
                "https://."
            )
        else:
            places.append(Path(folder) / file.name)
    return [*places, file.url]


def _fetch_from(place: str | Path, file: RemoteFile, path: Path, progress: Progress) -> bool:
    """Fetch the file from one place into the cache, and verify it.

    Returns:
        Whether the file is known to be complete: by its checksum, or because its length was sent.

    Raises:
        UnavailableError: the place does not have the right file.
    """
    is_whole, is_verifiable = True, _verifiable(file, path)
    part = _part(path)
    if isinstance(place, Path):
        if not place.is_file():
            raise UnavailableError("there is no such file")
        part.unlink(missing_ok=True)
        _copy(place, part)
        fault = _fault(file, part, path)
        progress(file.name, part.stat().st_size, part.stat().st_size)
    else:
        resumed = is_verifiable and part.exists()
        try:
            is_whole = download(place, part, file, progress, resumes=is_verifiable)
        except BaseException:
            if not is_verifiable:  # No later attempt resumes it.
                part.unlink(missing_ok=True)
            raise
        fault = _fault(file, part, path)
        if fault is not None and resumed:
            # The part may have come from another copy.
            part.unlink()
            is_whole = download(place, part, file, progress, resumes=True)
            fault = _fault(file, part, path)
    if fault is not None:
        part.unlink()
        raise UnavailableError(fault)
    if path.exists():
        # Its checksum is wrong, so it may be the user's own file.
        path.rename(free_name(path.with_name(f"{path.name}.wrong")))
    part.replace(path)
    return is_whole


def _copy(place: Path, part: Path) -> None:
    try:
        with place.open("rb") as stream, open_to_write(part, "xb", follow=False) as out:
            shutil.copyfileobj(stream, out)
    except OSError as error:
        raise UnavailableError(f"cannot be read ({error.strerror})") from None


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _fault(file: RemoteFile, candidate: Path, path: Path) -> str | None:
    """Why a candidate is not the file that belongs at the path; None if it is."""
    if file.size is not None and candidate.stat().st_size != file.size:
        return f"has {candidate.stat().st_size:,} bytes, expected {file.size:,}"
    for kind, expected, digest in (("sha256", file.sha256, sha256_of), ("md5", file.md5, _md5_of)):
        if expected is not None and (found := digest(candidate)) != expected.lower():
            return f"its {kind} is {found}, expected {expected.lower()}"
    if file.sha256 is None and file.md5 is None:
        pinned = _pinned(path)
        if pinned is not None and (found := sha256_of(candidate)) != pinned:
            return (
                f"its sha256 is {found}, but that of the first download was {pinned}; "
                f"delete {_pin_path(path)} to accept another"
            )
    return None


def _verifiable(file: RemoteFile, path: Path) -> bool:
    return bool(file.sha256 or file.md5 or _pinned(path))


def _pin_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _pinned(path: Path) -> str | None:
    """The sha256 that was recorded when the file was first fetched."""
    try:
        return _pin_path(path).read_text("utf-8").split()[0]
    except (OSError, IndexError):
        return None


def _md5_of(path: Path) -> str:
    """The only checksum that some publishers give. It detects accidents, not forgery."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
