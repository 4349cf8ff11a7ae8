"""Web addresses of files: which are accepted, the file's name, and the part of an address that may be recorded.

User information (``user:password@``) and queries may be secrets. They are used to request the file, but never written:
all records and messages hold the public form of an address.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from nmt.text.printable import has_control_characters

SCHEMES = ("http://", "https://")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/+)(?:[^/?#]*@)?([^?#]*)", re.DOTALL)
_ADDRESS_IN_TEXT = re.compile(r"(://)(?:.*@)?([^?]*)(\?.*)?", re.DOTALL)
_USER_IN_TEXT = re.compile(r"://[^\s/'\"]*@")
# Longer names leave no room for the endings of the downloader's own files.
_LONGEST_NAME = 200
# Endings of the downloader's own files, beside the downloaded one.
_RESERVED_ENDINGS = (".part", ".sha256")


def is_address(place: str) -> bool:
    """Whether a place is a web address, not a path."""
    return place.lower().startswith(SCHEMES)


def check_address(address: str) -> None:
    """Refuse an address without a host or a safe file name.

    Raises:
        ValueError: the address is refused; the message does not quote it.
    """
    if not address.startswith(SCHEMES):
        raise ValueError("must begin with http:// or https://")
    if has_control_characters(address):
        raise ValueError("contains a control character")
    if host_folder(address) in ("", ".", ".."):
        raise ValueError("names no host")
    file_name(address)


def file_name(address: str) -> str:
    """The name of the file at an address: the last part of its path, percent-decoded.

    Raises:
        ValueError: it is not a plain file name.
    """
    last = _split(address).path.rpartition("/")[2]
    try:
        name = unquote(last, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("ends in a name that is not UTF-8") from None
    if name in ("", ".", ".."):
        raise ValueError("does not end in the name of a file")
    if "/" in name or "\\" in name or has_control_characters(name):
        raise ValueError(f"ends in the name {name!r}, which contains a separator or a control character")
    if len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"ends in a name of more than {_LONGEST_NAME} bytes")
    if name.endswith(_RESERVED_ENDINGS):
        raise ValueError(
            f"ends in the name {name!r}: {' and '.join(_RESERVED_ENDINGS)} are reserved for the downloader"
        )
    return name


def host_folder(address: str) -> str:
    """Host and port as the name of a folder.

    Raises:
        ValueError: the address has no valid host and port.
    """
    parts = _split(address)
    try:
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    host = parts.netloc.rpartition("@")[2]
    if not valid or "\\" in host or "%" in host:
        raise ValueError("has no valid host and port")
    return host.replace(":", "_")


def folder_parts(address: str) -> list[str]:
    """The parts of the folder for the file of an address, so that files with the same name are kept apart.

    Raises:
        ValueError: the address has no valid host and port.
    """
    folders = _split(address).path.split("/")[:-1]
    return [host_folder(address), *(part for part in folders if part not in ("", ".", ".."))]


def beside(address: str, name: str) -> str:
    """The address of a file in the folder at an address; the query, if any, is kept."""
    parts = _split(address)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{quote(name)}"))


def without_user(address: str) -> str:
    """An address without its user information."""
    parts = _split(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def public_address(address: str) -> str:
    """An address without user information, query and fragment, which may be recorded. A path is left unchanged."""
    match = _PARTS.match(address)
    return match[1] + match[2] if match else address


def without_secrets(text: str) -> str:
    """Text that quotes a valid or invalid address, without any part that may be secret. It may remove too much."""
    return _ADDRESS_IN_TEXT.sub(lambda match: f"{match[1]}{match[2]}{'?…' if match[3] else ''}", text)


def without_passwords(text: str) -> str:
    """A message without the users and passwords of the addresses in it."""
    return _USER_IN_TEXT.sub("://", text)


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:
        raise ValueError("is not a valid address") from None  # Python's own message quotes the address.
