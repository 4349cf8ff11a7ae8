"""Packages that only some tasks need: importing them, and keeping their notes off the terminal."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from nmt.errors import NmtError


def require_package(module: str, package: str, *, what: str, advice: str) -> Any:
    """Import a module of a package that may not be installed.

    Args:
        what: what needs it, as the subject of a sentence.
        advice: how to install it, as a sentence.

    Raises:
        NmtError: it is not installed, or does not work with what is installed beside it.
    """
    try:
        importlib.import_module(module.partition(".")[0])
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module.partition(".")[0]:
            raise NmtError(f"{what} needs {package}, which is not installed. {advice}") from None
        raise _not_importable(what, package, error, advice) from error
    except Exception as error:  # beside packages of other versions, modules raise AttributeError and others
        raise _not_importable(what, package, error, advice) from error


def _not_importable(what: str, package: str, error: Exception, advice: str) -> NmtError:
    reason = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    return NmtError(f"{what} needs {package}, which cannot be imported: {reason.rstrip('.')}. {advice}")


def versioned(package: str) -> str:
    """A package with its version: ``numpy-2.1``; without one if it is not installed as a package."""
    try:
        return f"{package}-{metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return package


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep a package's notes, warnings and advertisements off the terminal, and undo its settings of logging."""
    disabled, handlers, level = logging.root.manager.disable, logging.root.handlers[:], logging.root.level
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)


@contextlib.contextmanager
def discard_output() -> Iterator[None]:
    """Discard what is written to standard output and standard error while the body runs, also by libraries in C++."""
    import ctypes  # it takes long, and few need it

    for stream in filter(None, (sys.stdout, sys.stderr)):  # None if the process was started without it
        stream.flush()
    kept = {}
    with (
        Path(os.devnull).open("wb") as null,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        for descriptor in (1, 2):
            with contextlib.suppress(OSError):  # it is closed
                kept[descriptor] = os.dup(descriptor)
                os.dup2(null.fileno(), descriptor)
        try:
            yield
        finally:
            ctypes.CDLL(None).fflush(None)  # what C has not written yet
            for descriptor, copy in kept.items():
                os.dup2(copy, descriptor)
                os.close(copy)
