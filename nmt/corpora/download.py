"""Files from elsewhere: fetch, resume, verify.

A file counts as fetched only when its checksum is right; until then it lies beside its place as ``NAME.part``, from
which the next attempt goes on. Mirrors are tried before the file's own address.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import httpx

from nmt.addresses import beside, file_name, host_folder, is_address, public_address, without_user
from nmt.corpora.archive import FETCH_AGAIN, check_whole
from nmt.corpora.credentials import VARIABLE, credentials_for
from nmt.errors import DownloadError
from nmt.files import free_name, replacing, why_not_made
from nmt.locking import exclusive
from nmt.writing import WriteError, open_to_write

Progress = Callable[[str, int, int | None], None]
"""Told what is being fetched, the bytes so far, and the bytes in all where they are known."""

Notify = Callable[[str], None]
"""Told, in a sentence, what a user should know but need not act upon."""

_TIMEOUT = httpx.Timeout(60.0, connect=20.0)
_HEADERS = {
    "User-Agent": "nmt",
    # An archive must arrive as it lies on the server: its checksum is that of the packed bytes.
    "Accept-Encoding": "identity",
}

# Waits, in seconds, before an attempt that follows one which brought nothing new.
_BACKOFF = (0.5, 1.0, 2.0, 4.0)
_MOMENTARY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18}|\*)")


@dataclass(frozen=True)
class RemoteFile:
    """A file at an address, and what is known of its content."""

    url: str = field(repr=False)
    """May hold secrets: messages and records take :attr:`public_url`."""
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    """In bytes."""

    @property
    def name(self) -> str:
        """The last part of the address, by which mirrors hold the file.

        Raises:
            DownloadError: it is no plain file name.
        """
        try:
            return file_name(self.url)
        except ValueError as error:
            raise DownloadError(f"the address {self.public_url} {error}.") from None

    @property
    def public_url(self) -> str:
        """The address without user information and query."""
        return public_address(self.url)


class _UnavailableError(Exception):
    """One place does not have the file; the next may."""


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
            except _UnavailableError as error:
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


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    return _digest(path, "sha256")


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
            raise _UnavailableError("there is no such file")
        part.unlink(missing_ok=True)
        _copy(place, part)
        fault = _fault(file, part, path)
        progress(file.name, part.stat().st_size, part.stat().st_size)
    else:
        if not _verifiable(file, path):
            # Nothing would tell whether the two halves belong together.
            part.unlink(missing_ok=True)
        resumed = part.exists()
        is_whole = _download(place, part, file, progress)
        fault = _fault(file, part, path)
        if fault is not None and resumed:
            # The part may have been of another copy.
            part.unlink()
            is_whole = _download(place, part, file, progress)
            fault = _fault(file, part, path)
        if fault is None and not is_whole and not _verifiable(file, path):
            try:
                is_whole = check_whole(part, name=file.name)
            except DownloadError as error:
                fault = f"came without its length, and {_without_name(error, part)}"
    if fault is not None:
        part.unlink()
        raise _UnavailableError(fault)
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
        raise _UnavailableError(f"cannot be read ({error.strerror})") from None


def _kept(file: RemoteFile, path: Path) -> str:
    """What there is of a file that could not be written."""
    part = _part(path)
    if _size(part) and _verifiable(file, path):
        return f"What was fetched is kept in {part}, from where the next attempt resumes."
    return ""


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _without_name(error: DownloadError, path: Path) -> str:
    """A message about a file whose name is told already."""
    return str(error).removeprefix(f"{path}: ").removesuffix(FETCH_AGAIN).rstrip(".")


def _download(url: str, part: Path, file: RemoteFile, progress: Progress) -> bool:
    """Add to the part what is missing, over as many connections as it takes while each brings something.

    Returns:
        Whether the server told how long the file is, and all of it came.
    """
    checked = file.sha256 is not None or file.md5 is not None
    validator: str | None = None
    furthest = _size(part)
    attempt = 0
    auth = credentials_for(url)
    url = without_user(url)
    with _client() as client:
        while True:
            try:
                with client.stream("GET", url, auth=auth, headers=_range(_size(part), validator)) as response:
                    if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                        return False  # Nothing lies beyond the part: it is whole, or its checksum will tell.
                    response.raise_for_status()
                    validator = _strong_validator(response)
                    return _receive(response, part, file, progress)
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if status not in _MOMENTARY_STATUS or attempt >= len(_BACKOFF):
                    reason = f"the server answers {status} {error.response.reason_phrase}".rstrip()
                    if status == httpx.codes.UNAUTHORIZED:
                        reason += f"; give user and password in {VARIABLE} or ~/.netrc"
                    raise _UnavailableError(reason) from None
            except (httpx.ConnectError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
                if attempt or not isinstance(error, httpx.ConnectError):
                    raise _UnavailableError(f"cannot be reached ({error})") from None
            except httpx.HTTPError as error:
                if _size(part) > furthest:
                    furthest = _size(part)
                    attempt = 0
                if attempt >= len(_BACKOFF):
                    raise _UnavailableError(f"the connection breaks off ({error})") from None
            if validator is None and not checked:
                # Nothing would tell whether the rest is of the same copy.
                part.unlink(missing_ok=True)
            time.sleep(_BACKOFF[attempt])
            attempt += 1


def _client() -> httpx.Client:
    try:
        return httpx.Client(follow_redirects=True, timeout=_TIMEOUT, headers=_HEADERS)
    except (ValueError, ImportError, httpx.InvalidURL):
        # Their words may quote an address with a password.
        raise DownloadError(
            "the proxy of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used: give it as http://HOST:PORT (for "
            "socks5:// install httpx[socks]), or unset it."
        ) from None


def _range(have: int, validator: str | None) -> dict[str, str]:
    if not have:
        return {}
    return {"Range": f"bytes={have}-"} | ({"If-Range": validator} if validator else {})


def _strong_validator(response: httpx.Response) -> str | None:
    """What names the very copy that a server sends, so that the rest can be asked of that copy alone."""
    tag: str = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else None


def _receive(response: httpx.Response, part: Path, file: RemoteFile, progress: Progress) -> bool:
    """Write an answer's body behind what the part holds, or from the start where the server sends the whole file.

    Returns:
        Whether the answer told the length of the whole file.
    """
    done, total = _extent(response, part)
    with open_to_write(part, "ab" if done else "wb", follow=False) as stream:
        # Blocks as they arrive: gathered into larger ones, the last of them would be lost with the connection.
        for block in response.iter_raw():
            stream.write(block)
            done += len(block)
            if file.size is not None and done > file.size:
                break  # A body may have no end.
            progress(file.name, done, file.size if total is None else total)
    if file.size is not None and done > file.size:
        part.unlink()
        raise _UnavailableError(f"sends more than the {file.size:,} bytes of the file that was asked for")
    if total is not None and done != total:
        raise httpx.RemoteProtocolError(f"{done:,} of {total:,} bytes arrived")
    return total is not None


def _extent(response: httpx.Response, part: Path) -> tuple[int, int | None]:
    """How many bytes of the part an answer's body follows, and how long the whole file is, if the answer tells.

    Raises:
        httpx.RemoteProtocolError: the body is neither the rest of the part nor the whole file; the part is removed.
    """
    length = response.headers.get("Content-Length")
    if response.status_code != httpx.codes.PARTIAL_CONTENT:
        return 0, None if length is None else int(length)
    found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    start = int(found[1]) if found else None
    if found is None or start not in (0, _size(part)):
        part.unlink(missing_ok=True)
        raise httpx.RemoteProtocolError("the server sends another range than was asked for")
    if found[2] != "*":
        return int(found[1]), int(found[2])
    return int(found[1]), None if length is None else int(found[1]) + int(length)


def _fault(file: RemoteFile, candidate: Path, path: Path) -> str | None:
    """Why a candidate is not the file that belongs at the path; None if it is."""
    if file.size is not None and candidate.stat().st_size != file.size:
        return f"has {candidate.stat().st_size:,} bytes, not the {file.size:,} of the file that was asked for"
    checks: list[tuple[Literal["sha256", "md5"], str | None]] = [("sha256", file.sha256), ("md5", file.md5)]
    for kind, expected in checks:
        if expected is not None and (found := _digest(candidate, kind)) != expected.lower():
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


def _digest(path: Path, kind: Literal["sha256", "md5"]) -> str:
    with path.open("rb") as stream:
        # md5 is what some publishers give; it guards against accidents here, not against forgery.
        return hashlib.file_digest(stream, lambda: hashlib.new(kind, usedforsecurity=kind != "md5")).hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _unseen(description: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""


def _silent(notice: str) -> None:
    """A notice that nobody reads."""
