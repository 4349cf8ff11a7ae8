"""What lies below a folder."""

from pathlib import Path


def contents(root: Path) -> dict[str, bytes | str | None]:
    """All below a folder: the bytes of files, where links lead, None for folders."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found
