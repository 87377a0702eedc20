"""Files of models and answers, which are written completely or not at all."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from privatelr.cli.options import Written
from privatelr.cli.outcomes import (
    STDIN,
    InputError,
    NotWrittenError,
    OutputError,
    flush_output,
    print_page,
    reason_of,
    say,
)
from privatelr.errors import ReleaseFileError
from privatelr.privacy.accounting import Entry, ledger_store
from privatelr.results.release_files import (
    IS_DATABASE,
    create_file,
    file_bytes,
    hash_in,
    is_database,
    load_with_hash,
    replace_file,
)


def require_place(path: str | None, force: bool, option: str = "--out") -> None:
    """Refuse a file that could not be written, before any work is done."""
    if path is None:
        return

    def refuse(wrong: bool, what: str) -> None:
        if wrong:
            raise OutputError(f"{option} {path!r}: {what}.")

    refuse("\0" in path or path in ("", STDIN), f"{option} takes the name of a file")
    target = Path(os.path.realpath(path))
    refuse(target.exists() and not target.is_file(), f"{option} takes a file, and this is none")
    refuse(not target.parent.is_dir(), f"there is no folder {str(target.parent)!r}")
    refuse(os.path.lexists(path) and not force, "the file exists; --force replaces it")
    refuse(is_database(target), IS_DATABASE)
    refuse(not os.access(target.parent, os.W_OK), "the folder may not be written to")


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
            require_place(path, force, option)
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


def content_of(release: Any) -> bytes:
    """The file of a model or an answer; raises `NotWrittenError` if it cannot be saved."""
    try:
        return file_bytes(release)
    except ReleaseFileError as error:
        raise NotWrittenError(f"the release cannot be saved: {error}.") from None


def deliver_paid(
    page: str,
    content: Callable[[], bytes],
    written: Written,
    entry: Entry | None,
    *,
    prints_file: bool = False,
    hash_of: Callable[[bytes], str] = hash_in,
) -> None:
    """Write the file of ``--out``, and print a page even if that fails, because it is paid for.

    The ledgers of the charge `entry` are told of what was saved: a file that was written, or what
    was printed if that is the file (`prints_file`) and went elsewhere than to a terminal.
    """
    charged = entry is not None and entry.receipts  # of ledgers on disk, where it stands
    done, data = "the charge stands in the ledger" if charged else None, b""
    is_written = False
    try:
        if prints_file or written.out is not None:
            data = content()
            page = data.decode().removesuffix("\n") if prints_file else page
        if written.out is not None:
            write(written.out, data, written.force)
            is_written, done = True, f"--out {written.out!r} was written"
            tell(entry, hash_of(data))
    finally:
        with suppress(*[BrokenPipeError] if is_written else ()):  # a page that nobody has to read
            print_page(page, done)
    if prints_file and not is_written and not sys.stdout.isatty():
        flush_output()  # an error of it leaves the charge without a release
        tell(entry, hash_of(data))


def tell(entry: Entry | None, digest: str) -> None:
    """Note the hash of what was saved in the ledgers of its charge."""
    for told in ledger_store.complete(entry, digest):
        say("privatelr", f"what was saved stands in the ledger without its hash: {told}")


def deliver(text: str, written: Written) -> None:
    """Print a text that costs nothing, or write it to the file of ``--out``."""
    whole = text if text.endswith("\n") else f"{text}\n"
    if written.out is None:
        sys.stdout.write(whole)
    else:
        write(written.out, whole.encode(), written.force)


def read_model(path: str) -> tuple[Any, str]:
    """Read a saved model, or the one that was chosen, and the hash of the file's content.

    Raises
    ------
    InputError
        If the file has another answer.
    """
    found, digest = load_with_hash(path)
    model = getattr(found, "fit", found)  # of a choice
    if not hasattr(model, "predict"):
        raise InputError(f"{path!r} has an answer, and no model.")
    return model, digest
