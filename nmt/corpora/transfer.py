"""One file over HTTP, over as many connections as needed."""

from __future__ import annotations

import hashlib
import netrc
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from nmt.errors import DownloadError
from nmt.io.writing import open_to_write
from nmt.text.addresses import file_name, public_address, without_user

Progress = Callable[[str, int, int | None], None]
"""Called with a description, the amount done so far, and the total if known."""

_TIMEOUT = httpx.Timeout(60.0, connect=20.0)
_HEADERS = {
    "User-Agent": "nmt",
    # An archive must arrive unchanged: its checksum is that of the compressed bytes.
    "Accept-Encoding": "identity",
}

# Seconds to wait after the first, second, … attempt without new bytes.
_BACKOFF = (0.5, 1.0, 2.0, 4.0)
_PATIENCE, _LEAST = 300.0, 2**16
"""A transfer that brings fewer bytes in so many seconds is given up, and so are connections that are lost so early."""
_RESERVE = 2**30
"""Bytes of the disk that no download takes; at most a tenth of those that are free."""
_TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18}|\*)")


@dataclass(frozen=True)
class RemoteFile:
    """A file at an address, with its checksums and size if known."""

    url: str = field(repr=False)
    """May hold secrets: messages and records use :attr:`public_url`."""
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    """In bytes."""

    @property
    def name(self) -> str:
        """The file's name in the cache and on mirrors: the last part of the address.

        Raises:
            DownloadError: it is not a plain file name.
        """
        try:
            return file_name(self.url)
        except ValueError as error:
            raise DownloadError(f"the address {self.public_url} {error}.") from None

    @property
    def public_url(self) -> str:
        """The address without user information and query."""
        return public_address(self.url)

    @property
    def query_digest(self) -> str:
        """A short digest of the query, where that alone says which file it is: no checksum is known. Else empty."""
        query = urlsplit(self.url).query
        is_known = self.sha256 is not None or self.md5 is not None
        return "" if is_known or not query else hashlib.sha256(query.encode()).hexdigest()[:12]


class UnavailableError(Exception):
    """One place does not have the file; the next may."""


def download(url: str, part: Path, file: RemoteFile, progress: Progress, *, resumes: bool) -> bool:
    """Complete a partial file, over as many connections as needed while each one adds bytes.

    Args:
        resumes: request only the rest of a part, whose checksum will show whether it is right; else each connection
            starts again.

    Returns:
        Whether the server sent the file's length, and all of it arrived.

    Raises:
        UnavailableError: the server does not have the file, cannot be reached, or sends more than there is room for.
        WriteError: the system refused to write the part.
    """
    furthest = size_of(part)
    attempt = 0
    was_reached = False
    auth = _auth(url)
    url = without_user(url)
    with _client() as client:
        while True:
            if not resumes:
                part.unlink(missing_ok=True)
            have = size_of(part)
            try:
                headers = {"Range": f"bytes={have}-"} if have else {}
                with client.stream("GET", url, auth=auth, headers=headers) as response:
                    was_reached = True
                    if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                        return False  # The server has no bytes after the part. The checksum shows whether it is right.
                    response.raise_for_status()
                    return _receive(response, part, file, progress)
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if status not in _TRANSIENT_STATUS or attempt >= len(_BACKOFF):
                    reason = f"the server returned {status} {error.response.reason_phrase}".rstrip()
                    if status == httpx.codes.UNAUTHORIZED:
                        reason += "; give user and password in ~/.netrc"
                    raise UnavailableError(reason) from None
            except (httpx.ConnectError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
                # A server that answered before may be restarting.
                most = len(_BACKOFF) if was_reached else 1
                if attempt >= most or not isinstance(error, httpx.ConnectError):
                    raise UnavailableError(f"cannot be reached ({error})") from None
            except httpx.HTTPError as error:
                if size_of(part) - furthest >= _LEAST:
                    furthest = size_of(part)
                    attempt = 0
                if attempt >= len(_BACKOFF):
                    advice = "" if resumes else "; to resume a download, give its sha256 in a recipe"
                    raise UnavailableError(f"the connection was lost ({error}){advice}") from None
            time.sleep(_BACKOFF[attempt])
            attempt += 1


def _auth(url: str) -> httpx.Auth | None:
    """User and password: those of the address, else those of netrc for its host. They are sent only to that host.

    Raises:
        DownloadError: the file that ``$NETRC`` names, or ``~/.netrc``, cannot be read.
    """
    parts = urlsplit(url)
    if parts.username is not None:
        return httpx.BasicAuth(unquote(parts.username), unquote(parts.password or ""))
    named = os.environ.get("NETRC")
    path = Path(named or "~/.netrc").expanduser()
    if not named and not path.is_file():
        return None
    try:
        return httpx.NetRCAuth(str(path))
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError) as error:
        # The original message quotes the file.
        line = f", line {error.lineno}" if isinstance(error, netrc.NetrcParseError) else ""
        raise DownloadError(f"{path}{line}: cannot be read as a netrc file. Correct it, or unset NETRC.") from None


def _client() -> httpx.Client:
    try:
        return httpx.Client(follow_redirects=True, timeout=_TIMEOUT, headers=_HEADERS)
    except (ValueError, ImportError, httpx.InvalidURL):
        # The original message may quote an address with a password.
        raise DownloadError(
            "the proxy of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used: give it as http://HOST:PORT (for "
            "socks5:// install httpx[socks]), or unset it."
        ) from None


def _receive(response: httpx.Response, part: Path, file: RemoteFile, progress: Progress) -> bool:
    """Append a response's body to the part, or replace the part if the server sends the whole file.

    Returns:
        Whether the response gave the length of the whole file.
    """
    done, total = _extent(response, part)
    expected = total if file.size is None else file.size
    free = shutil.disk_usage(part.parent).free
    room = done + free - min(_RESERVE, free // 10)
    if expected is not None and expected > room:
        raise UnavailableError(f"it has {expected:,} bytes, but {part.parent} has room for {room:,}")
    limit = room if expected is None else expected
    begun, before = time.monotonic(), done
    with open_to_write(part, "ab" if done else "wb", follow=False) as stream:
        # Blocks are written as they arrive: a lost connection would lose a larger block that is not full.
        for block in response.iter_raw():
            stream.write(block)
            done += len(block)
            if done > limit:
                break  # A body may be endless.
            progress(file.name, done, expected if total is None else total)
            if (now := time.monotonic()) - begun > _PATIENCE:
                if done - before < _LEAST:
                    raise UnavailableError(f"the server sent only {done - before:,} bytes in {now - begun:.0f} seconds")
                begun, before = now, done
    if done > limit:
        part.unlink()
        known = f"the expected {limit:,} bytes" if expected is not None else f"{limit:,} bytes, for which there is room"
        raise UnavailableError(f"the server sent more than {known}")
    if total is not None and done != total:
        raise httpx.RemoteProtocolError(f"{done:,} of {total:,} bytes arrived")
    return total is not None


def _extent(response: httpx.Response, part: Path) -> tuple[int, int | None]:
    """The offset at which a response's body starts, and the length of the whole file if the response gives it.

    Raises:
        httpx.RemoteProtocolError: the body is neither the rest of the part nor the whole file; the part is removed.
    """
    length = response.headers.get("Content-Length")
    if response.status_code != httpx.codes.PARTIAL_CONTENT:
        return 0, None if length is None else int(length)
    found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    start = int(found[1]) if found else None
    if found is None or start not in (0, size_of(part)):
        part.unlink(missing_ok=True)
        raise httpx.RemoteProtocolError("the server sent a range that was not requested")
    if found[2] != "*":
        return int(found[1]), int(found[2])
    return int(found[1]), None if length is None else int(found[1]) + int(length)


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
