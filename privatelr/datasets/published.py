"""Files of published tables: where they are kept, where they come from, and their checksums.

A file is looked for in the folder that ``PRIVATELR_DATA_HOME`` names, then in a cache of the
user; at last it is downloaded into the cache. In a folder it lies under the name of its table,
compressed or not: ``adult/adult.data.gz`` or ``adult/adult.data``.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import secrets
import sys
import urllib.error
import urllib.request
import zlib
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from privatelr.errors import DatasetError

HOME = "PRIVATELR_DATA_HOME"
_PATIENCE = 60.0
"""Seconds without an answer after which a download is given up."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One file of a table.

    Attributes
    ----------
    name : str
        Where it lies in a folder of tables, uncompressed.
    address : str
        Where it was published; one that ends in ``.gz`` is compressed.
    sha256 : str
        Of the uncompressed bytes.
    size : int
        Number of uncompressed bytes.
    """

    name: str
    address: str
    sha256: str
    size: int


def read_published(file: PublishedFile) -> bytes:
    """The uncompressed bytes of a file, which are the published ones.

    Raises
    ------
    DatasetError
        If the file is nowhere and cannot be downloaded, or its bytes are other ones.
    """
    for folder in _folders():
        for path in (folder / f"{file.name}.gz", folder / file.name):
            if path.is_file():
                return _checked(file, _read(path, file), f"{str(path)!r}")
    content = _checked(file, _download(file), file.address)
    _keep(content, _cache() / f"{file.name}.gz")
    return content


def _folders() -> list[Path]:
    home = os.environ.get(HOME)
    return [Path(home), _cache()] if home else [_cache()]


def _cache() -> Path:
    """The folder of this package where the user's programs keep what they can fetch again."""
    if sys.platform == "win32":
        usual = os.environ.get("LOCALAPPDATA")
        return (Path(usual) if usual else Path.home() / "AppData" / "Local") / "privatelr"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "privatelr"
    usual = os.environ.get("XDG_CACHE_HOME")
    return (Path(usual) if usual else Path.home() / ".cache") / "privatelr"


def _read(path: Path, file: PublishedFile) -> bytes:
    try:
        return _unpacked(path.read_bytes(), path.suffix == ".gz", file.size)
    except (OSError, EOFError, zlib.error) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise DatasetError(f"{str(path)!r}: the file cannot be read ({reason}).") from None


def _unpacked(content: bytes, compressed: bool, size: int) -> bytes:
    """At most one byte more than there should be, so that no archive fills the memory."""
    if not compressed:
        return content
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    found = unpacker.decompress(content, size + 1)
    if not unpacker.eof and len(found) <= size:
        raise EOFError("the archive ends early")
    return found


def _checked(file: PublishedFile, content: bytes, source: str) -> bytes:
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DatasetError(
            f"{source}: the file is not {file.name} as it was published, whose SHA-256 is "
            f"{file.sha256}; remove it, or get it anew."
        )
    return content


def _download(file: PublishedFile) -> bytes:
    try:
        with urllib.request.urlopen(file.address, timeout=_PATIENCE) as answer:
            content: bytes = answer.read(file.size + 1)
        return _unpacked(content, file.address.endswith(".gz"), file.size)
    except (OSError, EOFError, HTTPException, zlib.error) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise DatasetError(
            f"{file.name} could not be downloaded from {file.address} ({reason}); get it by other "
            f"means, put it into a folder as {file.name} or {file.name}.gz, and name the folder "
            f"in the environment variable {HOME}."
        ) from None


def _keep(content: bytes, path: Path) -> None:
    """Put a complete file into the cache; a cache that takes none is no reason to fail."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(gzip.compress(content, mtime=0))
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError:
        return
