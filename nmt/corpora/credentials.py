"""User names and passwords for downloads: from the address, the environment or netrc. They are never written."""

from __future__ import annotations

import netrc
import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nmt.errors import DownloadError

VARIABLE = "NMT_CREDENTIALS"
"""Entries ``user:password@host`` or ``user:password@host:port``, percent-encoded, separated by white space."""

Credentials = tuple[str, str]


def credentials_for(address: str) -> Credentials | None:
    """User and password for an address; a host's credentials are sent only to that host.

    They come from the address, else from ``$NMT_CREDENTIALS``, else from ``$NETRC`` or ``~/.netrc``. netrc's
    ``default`` entry is ignored: a recipe may name any host.

    Raises:
        DownloadError: the variable or the file cannot be read.
    """
    parts = urlsplit(address)
    if parts.username is not None:
        return unquote(parts.username), unquote(parts.password or "")
    host = parts.hostname or ""
    return _of_environment(host, parts.port) or _of_netrc(host)


def _of_environment(host: str, port: int | None) -> Credentials | None:
    for number, entry in enumerate(os.environ.get(VARIABLE, "").split(), start=1):
        try:
            known = urlsplit(f"//{entry}")
            known_port = known.port
        except ValueError:
            known_port, known = None, urlsplit("")
        if known.username is None or not known.hostname:
            raise DownloadError(
                f"{VARIABLE}: entry {number} is not USER:PASSWORD@HOST. Percent-encode '@', ':' and '/' in a password."
            )
        if known.hostname == host and known_port in (None, port):
            return unquote(known.username), unquote(known.password or "")
    return None


def _of_netrc(host: str) -> Credentials | None:
    named = os.environ.get("NETRC")
    path = Path(named or "~/.netrc").expanduser()
    if not named and not path.is_file():
        return None
    try:
        entry = netrc.netrc(str(path)).hosts.get(host) if host != "default" else None
    except OSError as error:
        raise DownloadError(f"{path}: cannot be read ({error.strerror}).") from None
    except netrc.NetrcParseError as error:
        # The original message quotes the file.
        raise DownloadError(f"{path}, line {error.lineno}: is not in the format of netrc.") from None
    except UnicodeDecodeError:
        raise DownloadError(f"{path}: is not text in UTF-8.") from None
    return None if entry is None else (entry[0], entry[2] or "")
