"""Reading files, also as numbered lines, and writing files either completely or not at all."""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import TextIOWrapper
from itertools import count
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any

from privatelr.cli.outcomes import (
    InputError,
    NotWrittenError,
    OutputError,
    flush_output,
    is_kept,
    note,
    print_page,
    reason_of,
    say,
)
from privatelr.errors import MissingDependencyError, ReleaseFileError
from privatelr.lazy_import import lazy_import
from privatelr.locks import has_file_locks, lock_file, still_has_name
from privatelr.privacy.accounting import NAMED, Entry, complete
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.release_files import (
    IS_DATABASE,
    create_file,
    is_database,
    load_with_hash,
    replace_file,
    reservation_of,
)

if TYPE_CHECKING:
    from privatelr.results.answers import chosen_fit
else:
    chosen_fit = lazy_import("privatelr.results.answers.chosen_fit")


@contextmanager
def reserved(path: str | None, force: bool, option: str = "--out") -> Iterator[None]:
    """Raise an error before any work is done, if a file could not be written afterwards.

    Within the block no other command can write a file of this name. A locked file in the same
    folder prevents it; an empty file of that name could be mistaken for a result.
    """
    if path is None:
        yield
        return
    _require_place(path, force, option)
    target = Path(os.path.realpath(path))
    sign = reservation_of(target)
    try:
        held = _hold(sign)
    except BlockingIOError:
        raise OutputError(
            f"{option} {path!r}: another command is at work that writes this file; nothing was "
            "done."
        ) from None
    except OSError as error:
        raise OutputError(f"{option} {path!r} cannot be reserved ({reason_of(error)}).") from None
    try:
        _require_place(
            path, force, option
        )  # another command may have written the file in the meantime
        yield
    finally:
        if held is not None:
            with suppress(OSError):
                sign.unlink()  # while it is locked; afterwards it could be that of another command
            os.close(held)


def _hold(sign: Path) -> int | None:
    """The descriptor of a locked file; raises `BlockingIOError` if another process holds the lock.

    The file of a process that was killed has no lock any more. On a system without locks
    (Windows) there is no descriptor; then a file of the same name is not replaced either, but it
    is found only after the work.
    """
    while has_file_locks():
        held = os.open(sign, os.O_RDONLY | os.O_CREAT, 0o644)
        try:
            lock_file(held, wait=False)
        except BlockingIOError:
            os.close(held)
            raise
        except OSError:  # the file system has no locks
            pass
        if still_has_name(held, sign):
            return held
        os.close(held)  # the process that held the lock has just removed the file
    return None


def _require_place(path: str, force: bool, option: str) -> None:
    def refuse(wrong: bool, what: str) -> None:
        if wrong:
            raise OutputError(f"{option} {path!r}: {what}.")

    is_name = "\0" not in path and path not in ("", "-") and not os.path.isdir(path)
    refuse(not is_name, f"{option} takes the name of a file")
    target = Path(os.path.realpath(path))
    refuse(not target.parent.is_dir(), f"there is no folder {str(target.parent)!r}")
    refuse(os.path.lexists(path) and not force, "the file exists; --force replaces it")
    is_file = target.is_file() or not target.exists()
    refuse(not is_file, f"{option} takes a file, and this is a device or a pipe")
    refuse(is_database(target), IS_DATABASE)
    refuse(not os.access(target.parent, os.W_OK), "the folder may not be written to")


@contextmanager
def open_to_read(path: str) -> Iterator[IO[bytes]]:
    """Open a file as bytes; raises `InputError` if it cannot be opened."""
    try:
        stream = open(path, "rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        raise InputError(f"{path!r}: there is no such file.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path!r}: the file cannot be opened ({reason_of(error)}).") from None
    with stream:
        yield stream


def save_picture(plot: Callable[..., Any], path: str, size: tuple[float, float]) -> None:
    """Draw with ``plot(ax=axes)``, and write the file of ``--plot`` in one step."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure, drawn = Figure(figsize=size, layout="constrained"), io.BytesIO()
    FigureCanvasAgg(figure)
    plot(ax=figure.subplots())
    figure.savefig(drawn, format=PurePath(path).suffix[1:].lower(), dpi=150)
    write(path, drawn.getvalue(), force=False, option="--plot")


def write(path: str, data: bytes, force: bool, option: str = "--out") -> None:
    """Write a file; without `force`, a file that was created in the meantime is not replaced."""
    try:
        if force:
            _require_place(path, force, option)
            replace_file(Path(os.path.realpath(path)), data)
        else:
            create_file(Path(path), data)
    except (OutputError, ReleaseFileError) as error:
        raise NotWrittenError(str(error)) from None
    except FileExistsError:
        raise NotWrittenError(
            f"{option} {path!r}: the file has appeared meanwhile and was left as it is."
        ) from None
    except OSError as error:
        raise NotWrittenError(f"{option} {path!r} was not written ({reason_of(error)}).") from None


_ANSWERS = {"bounds", "choose", "levels", "roc"}
"""These say so if they charge no ledger, because the study whose data they read may have one."""


def deliver_paid(
    page: str,
    content: Callable[[], bytes],
    chosen: argparse.Namespace,
    entry: Entry | None,
    prints_file: bool,
    hash_of: Callable[[bytes], str] = lambda data: sha256(data).hexdigest(),
) -> None:
    """Write the file of ``--out``, and print a page even if that fails, because it is paid for.

    The ledgers of the charge `entry` are told of what was saved: a file that was written, or what
    was printed if that is the file (`prints_file`) and went elsewhere than to a terminal.
    """
    charged = entry is not None and entry.receipts  # of ledgers on disk, where it stands
    named = chosen.ledger or os.environ.get(NAMED)
    if chosen.command in _ANSWERS and chosen.data and not named:
        note("privatelr", "no ledger was charged; --ledger LEDGER charges one.")
    done, data = "the charge stands in the ledger" if charged else None, b""
    written = False
    try:
        if prints_file or chosen.out is not None:
            data = content()
            page = data.decode().removesuffix("\n") if prints_file else page
        if chosen.out is not None:
            write(chosen.out, data, chosen.force)
            written, done = True, f"--out {chosen.out!r} was written"
            tell(entry, hash_of(data))
    finally:
        with suppress(*[BrokenPipeError] if written else ()):  # a page that nobody has to read
            print_page(page, done)
    if prints_file and not written and is_kept(data):
        flush_output()  # an error of it leaves the charge without a release
        tell(entry, hash_of(data))


def tell(entry: Entry | None, digest: str) -> None:
    """Note the hash of what was saved in the ledgers of its charge."""
    for told in complete(entry, digest):
        say("privatelr", f"what was saved stands in the ledger without its hash: {told}")


def deliver(text: str, chosen: argparse.Namespace) -> None:
    """Print a text that costs nothing, or write it to the file of ``--out``."""
    complete = text if text.endswith("\n") else f"{text}\n"
    if chosen.out is None:
        sys.stdout.write(complete)
    else:
        write(chosen.out, complete.encode(), chosen.force)


def read_model(path: str) -> Any:
    """Read a saved model, or the one that was chosen; raises `InputError` if that fails."""
    return model_in(read_release(path)[0], path)


def model_in(found: Any, path: str) -> Any:
    """The model of a file that was read; raises `InputError` if it has none."""
    if not isinstance(found, PaidAnswer):
        return found
    if isinstance(found, chosen_fit.ChosenFit):
        return found.fit
    raise InputError(f"{path!r} has an answer, and no model.")


def read_release(path: str) -> tuple[Any, str]:
    """Read a saved model or answer once; returns it and the hash of its content."""
    try:
        return load_with_hash(path)
    except FileNotFoundError:
        raise InputError(f"{path!r}: there is no such file.") from None
    except ReleaseFileError as error:
        raise InputError(str(error)) from None


def unpacked(stream: IO[bytes], path: str) -> tuple[IO[bytes], str]:
    """The decompressed content of a file, and the ending of its name without the compression's.

    Raises
    ------
    InputError
        While the content is read, if it is damaged or not compressed.
    MissingDependencyError
        If a library for the compression is not installed.
    """
    name = PurePath(path)
    ending = name.suffix.lower()
    if ending not in _UNPACKERS:
        return stream, ending
    source = _Guarded(_UNPACKERS[ending](stream), repr(path), ending)
    return io.BufferedReader(source), name.with_suffix("").suffix.lower()


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
    """The stream of a decompressor, whose errors could quote bytes of the file; these do not."""

    def __init__(self, source: Any, shown: str, ending: str) -> None:
        self._source, self._shown, self._ending = source, shown, ending

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._source.readinto(buffer))
        except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError):
            raise InputError(
                f"{self._shown}: the file is damaged, or not of the kind that {self._ending} tells."
            ) from None


LONGEST_LINE = 2**24
"""A line must be shorter than this, in bytes, or in characters if it was decoded before."""
UTF8 = "utf-8"
_PACKED = "it is compressed by {}; unpack it, or let its name end in {}"
_UTF = "it is text in {}; pass --encoding {}"
_MARKS = {
    b"\xff\xfe\0\0": _UTF.format("UTF-32", "utf-32"),
    b"\0\0\xfe\xff": _UTF.format("UTF-32", "utf-32"),
    b"\xff\xfe": _UTF.format("UTF-16", "utf-16"),
    b"\xfe\xff": _UTF.format("UTF-16", "utf-16"),
    b"\x1f\x8b": _PACKED.format("gzip", ".gz"),
    b"BZh": _PACKED.format("bzip2", ".bz2"),
    b"\xfd7zXZ\0": _PACKED.format("xz", ".xz"),
    b"\x28\xb5\x2f\xfd": _PACKED.format("zstd", ".zst"),
    b"PAR1": "it is a Parquet file; let its name end in .parquet",
    b"ARROW1": "it is a Feather file; let its name end in .feather",
    b"PK\x03\x04": "it is an archive or a spreadsheet; save the table in it as CSV",
    b"\xd0\xcf\x11\xe0": "it is a spreadsheet; save the table in it as CSV",
}
"""Files that are not UTF-8 text begin with such bytes; each kind has a remedy."""


class LineError(InputError):
    """A line of a table cannot be read.

    Attributes
    ----------
    unnumbered : str
        The message without the number of the line, which is one of records: where neighbours
        replace all records of a person, it depends on what is not public.
    """

    def __init__(self, shown: str, number: int, what: str) -> None:
        super().__init__(f"{shown}, line {number}: {what}.")
        self.unnumbered = f"{shown}, in a line: {what}."


def wrong_line(shown: str, number: int, what: str) -> LineError:
    """An error about a line, which does not quote its content."""
    return LineError(shown, number, what)


def unreadable(shown: str, error: OSError) -> InputError:
    """An error about a file that stops being readable."""
    return InputError(f"{shown}: the file cannot be read ({reason_of(error)}).")


def text_lines(
    stream: IO[bytes], shown: str, encoding: str, first: int = 1
) -> Iterator[tuple[int, str]]:
    """Yield lines without line breaks, with numbers from that of the first; `shown` is the file.

    If lines end with the same byte as in ASCII, they are split before they are decoded, so that an
    error has the number of its line. In other encodings, such as UTF-16, a line break is two bytes;
    then the file is decoded in pieces.

    Raises
    ------
    InputError
        At a line that is too long, is blank, has another encoding, or contains control codes.
    """
    in_bytes = '\n,"1'.encode(encoding, "replace") == b'\n,"1'
    source: Any = stream if in_bytes else TextIOWrapper(stream, encoding, newline="\n")
    start, told = b"", "UTF-8" if encoding == UTF8 else encoding
    not_text = (
        f"{'this is' if in_bytes else 'from here on this is'} not text in {told}; --encoding names "
        "another, such as latin-1 or utf-16"
    )
    try:
        for number in count(first):
            try:
                line = source.readline(LONGEST_LINE)
                if not line:
                    return
                if len(line) == LONGEST_LINE:
                    long = f"the line is longer than {LONGEST_LINE - 1} bytes"
                    raise wrong_line(shown, number, long)
                if in_bytes:
                    start = line[:8] if number == 1 else b""
                    line = line.decode(encoding)
            except UnicodeError:
                raise wrong_line(shown, number, _hint(start) or not_text) from None
            except OSError as error:
                raise unreadable(shown, error) from None
            if number == 1:
                line = line.removeprefix("\ufeff")
            line = line.removesuffix("\n").removesuffix("\r")
            if "\0" in line or "\r" in line:
                codes = "this is not a line of a table, but holds control codes"
                raise wrong_line(shown, number, _hint(start) or codes)
            if not line.strip(" "):
                raise wrong_line(shown, number, "the line is blank, and every line is a record")
            yield number, line
    finally:
        if not in_bytes:
            with suppress(OSError, ValueError):
                source.detach()


def _hint(start: bytes) -> str | None:
    """A remedy for a file that is not UTF-8 text, by its first bytes; None for an unknown kind."""
    for mark, what in _MARKS.items():
        if start.startswith(mark):
            return f"this is not text in UTF-8: {what}"
    for ending, pair in (("le", start[1:2]), ("be", start[:1])):
        if pair == b"\0":
            return f"this holds zeros as UTF-16 does; pass --encoding utf-16-{ending}"
    return None
