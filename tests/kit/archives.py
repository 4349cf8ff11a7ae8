"""Archives made of members in memory."""

import io
import tarfile
import zipfile
from collections.abc import Mapping


def tarred(members: Mapping[str, bytes], mode: str = "w:gz") -> bytes:
    """A tar archive, compressed as the mode says (see :func:`tarfile.open`)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()
