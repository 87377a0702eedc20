"""Compressed files, which their names tell, as pandas has it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any

from privatelr.cli.outcomes import InputError
from privatelr.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

_DAMAGE = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


def unpacked(stream: IO[bytes], path: str) -> tuple[IO[bytes], str]:
    """The content of a file, and the ending of its name without that of a compression.

    Raises
    ------
    InputError
        On reading, if the content is damaged or not compressed.
    MissingDependencyError
        If it takes a library that is not installed.
    """
    name = PurePath(path)
    ending = name.suffix.lower()
    if ending not in _UNPACKERS:
        return stream, ending
    source = _UNPACKERS[ending](stream)
    return io.BufferedReader(_Guarded(source, repr(path), ending)), name.with_suffix(
        ""
    ).suffix.lower()


def _unzstd(stream: IO[bytes]) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingDependencyError(
            "reading .zst takes pyarrow; install it with `pip install 'privatelr[parquet]'`, or "
            "unpack the file, as in: unzstd FILE."
        ) from None
    return pyarrow.CompressedInputStream(stream, "zstd")


_UNPACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda stream: gzip.GzipFile(fileobj=stream),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _unzstd,
}


class _Guarded(io.RawIOBase):
    """What a decompressor reads; its errors quote bytes of the file, and these do not."""

    def __init__(self, source: Any, shown: str, ending: str) -> None:
        self._source, self._shown, self._ending = source, shown, ending

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._source.readinto(buffer))
        except _DAMAGE:
            raise InputError(
                f"{self._shown}: the file is damaged, or not of the kind that {self._ending} tells."
            ) from None
