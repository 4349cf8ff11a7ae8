"""Files from elsewhere: fetch, resume, verify.

A file counts as fetched only when its checksum is right; until then it lies beside its place as ``NAME.part``, from
which the next attempt goes on. Mirrors are tried before the file's own address.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from nmt.addresses import beside, host_folder, is_address, public_address
from nmt.corpora.archive import FETCH_AGAIN, check_whole
from nmt.corpora.transfer import Progress, RemoteFile, UnavailableError, download, size_of
from nmt.errors import DownloadError
from nmt.files import free_name, replacing, why_not_made
from nmt.hashing import sha256_of
from nmt.locking import exclusive
from nmt.writing import WriteError, open_to_write

Notify = Callable[[str], None]
"""Told, in a sentence, what a user should know but need not act upon."""


def fetch(
    file: RemoteFile,
    cache: Path,
    *,
    mirrors: Sequence[str] = (),
    offline: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    name: str | None = None,
) -> Path:
    """Bring a file into a folder, unless it lies there already, and verify it either way.

    Args:
        file: what to fetch. Without any checksum, the sha256 of the first copy is kept beside it (``NAME.sha256``)
            and holds from then on, once the file is known to be whole: its length was sent, or it unpacks to its end.
        cache: the folder.
        mirrors: folders or URLs that hold files by their base names, tried in this order before the file's address.
            Credentials come from the address, the environment or netrc; they are never written.
        offline: touch no network; folders among the mirrors are still read.
        progress: called for every block that arrives.
        notify: called with notices, for example of a checksum that was pinned.
        name: what to call the file in the cache; its base name if unset.

    Returns:
        The verified file in the cache.

    Raises:
        DownloadError: no place has the file, or none has the right one; says where each attempt ended, and where to
            put the file by hand.
        WriteError: the system refused to write it.
    """
    tell = notify or _silent
    places = _places(file, mirrors)
    path = cache / (name or file.name)
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(
            f"{cache}: cannot be made ({why_not_made(cache, error)}). Name another folder with --cache."
        ) from None
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(path.with_name(f".{path.name}.lock")))
        except OSError as error:
            # A cache that others fill may be for reading alone; one process that only reads needs no lock.
            if path.is_file() and _fault(file, path, path) is None:
                return path
            raise DownloadError(
                f"{path}: cannot be written ({error.strerror}). Name another folder with --cache."
            ) from None
        failures = []
        if path.is_file():
            fault = _fault(file, path, path)
            try:
                if fault is None:
                    if not _verifiable(file, path) and check_whole(path):
                        _pin(path, tell)
                    return path
            except DownloadError as error:
                fault = _without_name(error, path)
            failures.append(f"{path}: {fault}")
            tell(f"{path}: {fault}. Looking for the right file; this one is then kept as {path.name}.wrong.")
        for place in places:
            shown = public_address(str(place))
            if offline and not isinstance(place, Path):
                failures.append(f"{shown}: not asked (offline)")
                continue
            try:
                is_whole = _bring(file, place, path, progress or _unseen)
            except UnavailableError as error:
                failures.append(f"{shown}: {error}")
            except WriteError as error:
                raise error.changed(path=path, kept=_kept(file, path)) from error
            except OSError as error:
                raise WriteError.of(error, path, kept=_kept(file, path)) from error
            else:
                for failure in failures:
                    tell(f"{failure}; took {shown} instead.")
                if not _verifiable(file, path):
                    if is_whole:
                        _pin(path, tell)
                    else:
                        tell(
                            f"{file.name}: no checksum is known of it, and the server did not send its length: whether "
                            "it is whole is unknown, so its sha256 is not noted."
                        )
                return path
    tried = "".join(f"\n  {failure}" for failure in failures)
    raise DownloadError(
        f"{file.name} could not be fetched:{tried}\nFetch {file.public_url} by other means and put it at {path}, "
        "or name a folder that holds it with --mirror."
    )


def _places(file: RemoteFile, mirrors: Sequence[str]) -> list[str | Path]:
    """Where the file may be: paths of files, and URLs.

    Raises:
        DownloadError: a mirror is neither a folder nor an address on the web.
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
                f"--mirror {public_address(mirror)}: is neither a folder nor an address that begins with http:// or "
                "https://."
            )
        else:
            places.append(Path(folder) / file.name)
    return [*places, file.url]


def _bring(file: RemoteFile, place: str | Path, path: Path, progress: Progress) -> bool:
    """Put the file at one place into the cache, if it is there and right.

    Returns:
        Whether it is known to be whole: by its checksum, its length, or since it unpacks to its end.
    """
    is_whole = True
    part = _part(path)
    if isinstance(place, Path):
        if not place.is_file():
            raise UnavailableError("there is no such file")
        part.unlink(missing_ok=True)
        _copy(place, part)
        fault = _fault(file, part, path)
        progress(file.name, part.stat().st_size, part.stat().st_size)
    else:
        if not _verifiable(file, path):
            # Nothing would tell whether the two halves belong together.
            part.unlink(missing_ok=True)
        resumed = part.exists()
        is_whole = download(place, part, file, progress)
        fault = _fault(file, part, path)
        if fault is not None and resumed:
            # The part may have been of another copy.
            part.unlink()
            is_whole = download(place, part, file, progress)
            fault = _fault(file, part, path)
        if fault is None and not is_whole and not _verifiable(file, path):
            try:
                is_whole = check_whole(part, name=file.name)
            except DownloadError as error:
                fault = f"came without its length, and {_without_name(error, part)}"
    if fault is not None:
        part.unlink()
        raise UnavailableError(fault)
    if path.exists():
        # Its checksum is wrong, so it may be a user's own.
        path.rename(free_name(path.with_name(f"{path.name}.wrong")))
    part.replace(path)
    return is_whole


def _copy(place: Path, part: Path) -> None:
    try:
        with place.open("rb") as stream, open_to_write(part, "xb", follow=False) as out:
            shutil.copyfileobj(stream, out)
    except OSError as error:
        raise UnavailableError(f"cannot be read ({error.strerror})") from None


def _kept(file: RemoteFile, path: Path) -> str:
    """What there is of a file that could not be written."""
    part = _part(path)
    if size_of(part) and _verifiable(file, path):
        return f"What was fetched is kept in {part}, from where the next attempt resumes."
    return ""


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _without_name(error: DownloadError, path: Path) -> str:
    """A message about a file whose name is told already."""
    return str(error).removeprefix(f"{path}: ").removesuffix(FETCH_AGAIN).rstrip(".")


def _fault(file: RemoteFile, candidate: Path, path: Path) -> str | None:
    """Why a candidate is not the file that belongs at the path; None if it is."""
    if file.size is not None and candidate.stat().st_size != file.size:
        return f"has {candidate.stat().st_size:,} bytes, not the {file.size:,} of the file that was asked for"
    for kind, expected, digest in (("sha256", file.sha256, sha256_of), ("md5", file.md5, _md5_of)):
        if expected is not None and (found := digest(candidate)) != expected.lower():
            return f"its {kind} is {found}, not {expected.lower()}: not the file that was asked for"
    if file.sha256 is None and file.md5 is None:
        pinned = _pinned(path)
        if pinned is not None and (found := sha256_of(candidate)) != pinned:
            return (
                f"its sha256 is {found}, but the file first fetched had {pinned}; "
                f"delete {_pin_path(path)} to accept another"
            )
    return None


def _verifiable(file: RemoteFile, path: Path) -> bool:
    return bool(file.sha256 or file.md5 or _pinned(path))


def _pin_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _pinned(path: Path) -> str | None:
    """The checksum that was noted when the file was first fetched."""
    try:
        return _pin_path(path).read_text("utf-8").split()[0]
    except (OSError, IndexError):
        return None


def _pin(path: Path, tell: Notify) -> None:
    """Note the checksum of a file of which none is known, in the form that ``sha256sum --check`` reads."""
    found = sha256_of(path)
    with replacing(_pin_path(path)) as stream:
        stream.write(f"{found}  {path.name}\n".encode())
    tell(f"{path.name}: no checksum is known of it; its sha256, {found}, is noted and expected from now on.")


def _md5_of(path: Path) -> str:
    """What some publishers give: here it guards against accidents, not against forgery."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _unseen(description: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""


def _silent(notice: str) -> None:
    """A notice that nobody reads."""
