"""Who may ask, and how often; and which web pages may."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.errors import ConfigError
from nmt.server.errors import RequestError

_LONGEST_ADDRESS = 64
"""Characters of an address that are kept: a proxy may name one of any length."""
# Older ones are forgotten, so that memory does not grow with the number of addresses.
_MAX_KNOWN = 10_000
# As browsers send it: in small letters, without a default port, and with nothing behind the host.
_ORIGIN = re.compile(r"(?!http:.*:80$|https:.*:443$)[a-z][a-z0-9+.-]*://[a-z0-9._:\[\]-]+|null|\*")


def read_keys(path: Path) -> list[str]:
    """The API keys in a file, one per line. Empty lines and comments (``#``) are left out.

    Raises:
        ConfigError: the file cannot be read or holds no key.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--api-keys {path}: cannot be read: {error}.") from None
    keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not keys:
        raise ConfigError(f"--api-keys {path}: it holds no key. Write one key per line.")
    if not all(key.isascii() and key.isprintable() for key in keys):
        raise ConfigError(f"--api-keys {path}: a key has characters outside ASCII, which do not fit into a header.")
    return keys


def check_origin(origin: str) -> None:
    """Check that an origin is written as browsers send it, since any other spelling would never match.

    Raises:
        ConfigError: it is not.
    """
    if not _ORIGIN.fullmatch(origin):
        raise ConfigError(
            f"--allow-origin {origin}: no browser sends this origin. Give scheme and host in small letters, and the "
            "port if it is not the scheme's, without a slash at the end: https://example.org."
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


@dataclass(frozen=True)
class Access:
    """Checks keys, counts requests, and refuses those of web pages that may not ask."""

    keys: Sequence[str] = ()
    """The keys that are accepted; empty if none is needed."""
    requests_per_minute: int | None = None
    """For each key, or each address where no key is needed or the key is wrong. None for no limit."""
    origins: Sequence[str] = ()
    """The web pages that may ask, by their origin (``https://example.org``); ``*`` for all."""
    only_loopback: bool = False
    """Whether requests must name this machine by a loopback address, or as ``localhost``.

    Otherwise a web page could let the name of its own server lead to this machine (DNS rebinding), and so pass for a
    page of this server.
    """
    clock: Callable[[], float] = time.monotonic
    _free: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    """Key or address -> the number of requests that it may send at once, and when that was computed."""

    def check(self, key: str | None, address: str) -> None:
        """Admit a request.

        Raises:
            RequestError: the key is missing or wrong (403), or there were too many requests (429).
        """
        is_known = any(hmac.compare_digest((key or "").encode(), known.encode()) for known in self.keys)
        if self.requests_per_minute is not None:
            self._count(key if is_known and key else address[:_LONGEST_ADDRESS], self.requests_per_minute)
        if self.keys and not key:
            raise RequestError(403, "An API key is needed. Ask the operator of this server for one.")
        if self.keys and not is_known:
            raise RequestError(403, "Invalid API key.")

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Admit a request by what browsers say about the page that sends it. Other clients say nothing.

        Raises:
            RequestError: a page sends it that may not ask.
        """
        host = re.sub(r":[0-9]*$", "", headers.get("host", "")).strip("[]").lower()
        if self.only_loopback and host and not is_loopback(host):
            raise RequestError(
                403,
                "This server is asked by another name than localhost. Ask for localhost or 127.0.0.1, or start the "
                "server with --public or --api-keys.",
            )
        origin, site = headers.get("origin", ""), headers.get("sec-fetch-site")
        if not site and origin:  # browsers send no site over plain HTTP
            site = "same-origin" if origin.partition("://")[2] == headers.get("host", "").lower() else "cross-site"
        is_allowed = "*" in self.origins or origin in self.origins
        if site == "cross-site" and not is_allowed:
            raise RequestError(
                403, "Pages of other sites may not ask this server. Start it with --allow-origin ORIGIN to allow one."
            )

    def _count(self, who: str, per_minute: int) -> None:
        """Take a request from a budget of one minute's, which fills up steadily."""
        now = self.clock()
        free, since = self._free.pop(who, (float(per_minute), now))
        free = min(per_minute, free + (now - since) * per_minute / 60)
        is_allowed = free >= 1
        self._free[who] = (free - is_allowed, now)
        if len(self._free) > _MAX_KNOWN:
            self._free.popitem(last=False)
        if not is_allowed:
            seconds = math.ceil((1 - free) * 60 / per_minute)
            raise RequestError(
                429, f"Too many requests: {per_minute:,} per minute are allowed.", retry_after=max(1, seconds)
            )
