"""Writing and reading the release file: a fit as JSON, without a row of the data or any code.

The file contains public facts and numbers that the guarantee covers: the plan of the design, the
coefficients, the noisy moments of inference if they were requested, the guarantee, and the
calibrations that give it. Its JSON Schema is `release.schema.json` in the folder of results. The
entry ``sha256`` is the hash of all other content as canonical JSON. It finds accidental changes,
but no forgery, because a forger can compute it, too. Reading therefore recomputes what it can, and
imports or runs nothing that the file names.

A file that is being written has another name in the folder of its target, and a lock. If its
writer is killed, the file remains, but the operating system releases the lock. So the next save to
the same target can tell an abandoned file from one that another process is writing, without regard
to its age. A save removes those of other targets in its folder, too, once they are an hour old.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import secrets
import stat
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privatelr.arguments import suggests_arguments
from privatelr.design import DesignSpec
from privatelr.errors import ArgumentError, PrivacyWarning, ReleaseFileError, SchemaError, show
from privatelr.lazy_import import lazy_import
from privatelr.locks import has_file_locks, lock_file, still_has_name
from privatelr.privacy.accounting import Entry, complete, ledger_store
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.fit import Fit
from privatelr.results.fit_record import ModelRecord
from privatelr.results.multinomial_fit import MultinomialFit
from privatelr.results.release_files import origin
from privatelr.results.release_files.design_entries import FormulaEntry, MatrixEntry
from privatelr.results.release_files.design_file import restore_plan
from privatelr.results.release_files.document import plain, plan_entry, release_document
from privatelr.results.release_files.json_values import (
    LARGEST_FILE,
    canonical,
    parse,
    read_entry,
    spell_json,
)
from privatelr.results.release_files.restored_fit import read_document, restore, restore_content
from privatelr.selection.selected_fit import SelectedFit

if TYPE_CHECKING:
    from privatelr.results.release_files import answer_file, strata_file
    from privatelr.results.release_files.answer_file import AnyAnswer
    from privatelr.results.strata_of_fits import Strata
else:
    answer_file = lazy_import("privatelr.results.release_files.answer_file")
    strata_file = lazy_import("privatelr.results.release_files.strata_file")

_LONGEST_SHOWN = 120
"""An error quotes at most this number of characters of a path."""
_SUFFIX = ".tmp"
_OURS = re.compile(r"\.privatelr-[0-9a-f]{16}(-[0-9a-f]{16}\.tmp|\.lock)")
"""Names of unfinished files and of reservations, of any target."""
_OLD = 3600.0
"""Seconds after which a file without a lock is abandoned, whatever its target is."""
IS_DATABASE = "the file is a ledger, or another database, and is not replaced"


# -- a fit -------------------------------------------------------------------------------------


@suggests_arguments
def load(
    path: str | os.PathLike[str],
) -> Fit | SelectedFit | MultinomialFit | Strata | AnyAnswer:
    """Read a fit that `Fit.save` wrote, or `Strata` of fits, or a private answer.

    Nothing in the file is run or imported. All that can be recomputed is recomputed and compared:
    the content hash, the columns and their map from the formula and the declared bounds and
    levels, the row radius, and the guarantee from the noise of each part. Other statements of the
    writer cannot be checked, above all that the noise was drawn at random and only once.
    ``fit.origin`` lists both.

    Parameters
    ----------
    path
        Name of the file.

    Returns
    -------
    Fit, SelectedFit, MultinomialFit, Strata, or an answer
        What was saved; an answer is a `PrivateRoc`, `ChosenFit`, `SuggestedBounds` or
        `ReleasedLevels`. The predictions of a fit are exactly those of the fit
        that was saved. It has no diagnostics, because these are computed from the training data
        and are not in the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ReleaseFileError
        If the file is not a release, was cut off or changed, contradicts itself, or has another
        version of the format.

    Notes
    -----
    **Privacy.** *Covered*: the content of the file; its release was charged when it was made, so
    reading it costs nothing. *Neighbours*: those of the guarantee. *Assumed public*: the file.
    *Not covered*: who wrote it, and whether it is true. The hash finds accidental changes, but a
    forger can compute it, too. Of a forged file, `load` only verifies that the guarantee follows
    from the numbers. Sign the file as any other file to show who states them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from privatelr import dplr, load, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age", votes, eps=1.0, **public)
    >>> with TemporaryDirectory() as folder:
    ...     fit.save(f"{folder}/votes.json")
    ...     print(load(f"{folder}/votes.json").guarantee)
    epsilon = 1 (pure)
    """
    return load_with_hash(path)[0]


def load_with_hash(
    path: str | os.PathLike[str],
) -> tuple[Fit | SelectedFit | MultinomialFit | Strata | AnyAnswer, str]:
    """Read a file as `load` does, once; returns its fit, or fits, and the hash of its content."""
    name = _require_path(path)
    try:
        try:
            with open(name, "rb") as file:
                data = file.read(LARGEST_FILE + 1)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ReleaseFileError(f"the file cannot be opened ({reason})") from None
        value = parse(data)
        found: Fit | SelectedFit | MultinomialFit | Strata | AnyAnswer
        if strata_file.is_strata(value):
            found = strata_file.restore_strata(value)
        elif answer_file.is_answer(value):
            found = answer_file.restore_answer(value)
        else:
            found = restore_fit(value)
        return found, str(value["sha256"])
    except ReleaseFileError as error:
        raise ReleaseFileError(f"{_shown(name)}: {error}.") from None


def restore_fit(value: Any) -> Fit | SelectedFit | MultinomialFit:
    """The fit of a value that was read from a file; see `load`.

    Raises
    ------
    ReleaseFileError
        Part of a sentence.
    """
    document = read_document(value)
    record: Any = restore_content(document, value)
    known = origin.Origin(
        written_by=tuple(document.written_by.items()),
        recomputed=origin.recomputed(record),
        stated=origin.stated(record),
    )
    made: type[Fit | SelectedFit | MultinomialFit] = Fit
    if isinstance(record, SelectedFit | MultinomialFit):
        made = type(record)
    return made(record.spec, record.release, record.threshold, origin=known)


def write_release(fit: Any, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a release file, either completely or not at all; see `Fit.save`."""
    name = _require_path(path)
    try:
        if os.path.isdir(name):
            raise ReleaseFileError("it is a folder; name a file in it")
        if os.path.lexists(name) and not overwrite:
            raise ReleaseFileError("the file exists, and overwrite=True replaces it")
        data = file_bytes(fit)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"{_shown(name)} was not written: {error}.") from None
    try:
        (replace_file if overwrite else create_file)(Path(os.path.realpath(name)), data)
    except OSError as error:  # about an unfinished file beside it
        raise type(error)(error.errno, error.strerror, name) from None
    tell_ledgers(fit, data)


def tell_ledgers(fit: Any, data: bytes) -> None:
    """Note the hash of a release that was written by its charge, in ledgers on disk.

    Warns
    -----
    PrivacyWarning
        If a ledger cannot be told. The release is saved nevertheless, and the charge counts.
    """
    entry = charge_of(fit)
    if entry is None or not entry.receipts:
        return
    for told in complete(entry, hash_in(data)):
        warnings.warn(
            f"the release was saved, and its charge stands without its hash: {told}",
            PrivacyWarning,
            stacklevel=4,
        )


def charge_of(fit: Any) -> Entry | None:
    """The charge for a fit, for `Strata` of fits, which were paid for together, or an answer."""
    if isinstance(fit, PaidAnswer):
        paid: Entry | None = fit.entry
        return paid
    charged: ModelRecord = fit if isinstance(fit, ModelRecord) else fit.first
    entry: Entry | None = charged.release.entry
    return entry


def hash_in(data: bytes) -> str:
    """The hash of its content that a release file states, as its writer computed it."""
    return str(parse(data)["sha256"])


def file_bytes(fit: Any) -> bytes:
    """The content of the file of a fit, of `Strata` of fits, or of a private answer."""
    if isinstance(fit, PaidAnswer):
        return answer_file.answer_bytes(fit)
    made = release_bytes if isinstance(fit, ModelRecord) else strata_file.strata_bytes
    return made(fit)


def release_bytes(fit: ModelRecord) -> bytes:
    """The content of a release file.

    It is read again before it is returned, and the result is compared with the fit.

    Raises
    ------
    ReleaseFileError
        If the fit has no place in a file. The message is part of a sentence.
    """
    document = release_document(fit)
    data = as_bytes(document)
    if canonical(release_document(restore(parse(data)))) != canonical(document):
        raise ReleaseFileError("the fit would not be read back")
    return data


_writable: deque[Any] = deque(maxlen=16)
"""Columns of plans that were written and read back; a plan that is kept has the same ones again."""


def require_writable(spec: Any) -> None:
    """Refuse a plan that a file cannot hold, or does not give back, before its fit is paid for.

    It is written and read by the code of the file itself. All of it is public.

    Raises
    ------
    SchemaError
        With the entry that a file cannot hold.
    """
    if any(columns is spec.columns for columns in _writable):
        return
    kind = FormulaEntry if isinstance(spec, DesignSpec) else MatrixEntry
    try:
        written = canonical(plain(plan_entry(spec)))
        again = restore_plan(read_entry(parse(written), kind, "design"))
        if canonical(plain(plan_entry(again))) != written:
            raise ReleaseFileError("it would be read back as another one")
    except ReleaseFileError as error:
        raise SchemaError(
            f"formula {show(spec.formula.text)}: no file could hold its fit, because {error}; use "
            "other names or levels, or fewer of them."
        ) from None
    _writable.append(spec.columns)


def as_bytes(document: dict[str, Any]) -> bytes:
    """The bytes of a file; raises `ReleaseFileError` for half a character, which no file holds."""
    try:
        return f"{spell_json(document)}\n".encode()
    except UnicodeEncodeError:
        raise ReleaseFileError("a text in it holds half a character") from None


def _require_path(path: Any) -> str:
    if not isinstance(path, str | os.PathLike) or "\0" in os.fsdecode(path):
        raise ArgumentError(f"path={show(path)}: path takes the name of a file.")
    return os.fsdecode(path)


def _shown(name: str) -> str:
    """The end of a path, which an error quotes, because files differ by the ends of their paths."""
    return repr(name if len(name) <= _LONGEST_SHOWN else f"...{name[-_LONGEST_SHOWN:]}")


# -- any file ----------------------------------------------------------------------------------


def is_database(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a file, and it is a ledger or another database."""
    return os.path.isfile(path) and ledger_store.is_database(path)


def replace_file(target: Path, data: bytes) -> None:
    """Write a complete file in place of an existing one, if there is one.

    Raises
    ------
    ReleaseFileError
        If the existing one is a ledger, or another database; nothing is written then.
    """
    if is_database(target):
        raise ReleaseFileError(f"{_shown(str(target))}: {IS_DATABASE}.")
    with complete_beside(target, data) as temporary:
        temporary.replace(target)


def create_file(target: Path, data: bytes) -> None:
    """Write a complete file; raise `FileExistsError` if one exists."""
    with complete_beside(target, data) as temporary:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:  # without hard links: an empty file reserves the name, and is replaced
            target.touch(exist_ok=False)
            temporary.replace(target)


def remove_abandoned(target: Path) -> None:
    """Remove the unfinished files of killed processes that were writing to this target.

    Files that another process is writing remain, and so do files that cannot be opened.
    """
    own = _start_of(target)
    _sweep(target.parent, lambda name: name.startswith(own) and name.endswith(_SUFFIX), math.inf)


def _remove_old(target: Path, now: float) -> None:
    """Remove what killed processes left for other targets in the folder, if it is an hour old.

    `now` is the time by the clock of the file system. Without an age, a file would be lost that
    another machine writes, if its lock is not seen here; a file is written in less than an hour.
    """
    own = _start_of(target).removesuffix("-")
    _sweep(target.parent, lambda name: not name.startswith(own), now - _OLD)


def _sweep(folder: Path, chosen: Callable[[str], bool], before: float) -> None:
    if not has_file_locks():  # nothing tells abandoned files from those that are being written
        return
    with suppress(OSError):
        for name in filter(chosen, filter(_OURS.fullmatch, os.listdir(folder))):
            with suppress(OSError):
                _remove_unlocked(folder / name, before)


def _remove_unlocked(path: Path, before: float) -> None:
    """Remove a plain file that nobody holds, if it was changed before a time."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_mtime < before:
            lock_file(descriptor, wait=False)
            path.unlink()
    finally:
        os.close(descriptor)


@contextmanager
def complete_beside(target: Path, data: bytes) -> Iterator[Path]:
    """A complete temporary file with the data on disk, in the folder of the target.

    Within the block it may be renamed to the target; after the block it is removed. What killed
    processes left in the folder is removed first.
    """
    remove_abandoned(target)
    while True:
        path = target.with_name(f"{_start_of(target)}{secrets.token_hex(8)}{_SUFFIX}")
        file = path.open("xb")
        if not has_file_locks():
            break
        with suppress(OSError):  # some file systems have no locks
            lock_file(file.fileno(), wait=True)  # another process may hold it to look for a lock
        if still_has_name(file.fileno(), path):
            break
        file.close()  # that process found the file without a lock, and removed it
    try:
        _remove_old(target, os.fstat(file.fileno()).st_mtime)
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if not has_file_locks():  # a system without locks may not be able to rename open files
                file.close()
            yield path
    finally:
        with suppress(OSError):
            path.unlink()


def _start_of(target: Path) -> str:
    """The start of the names of all unfinished files of a target.

    It contains a hash, because the name of the target may itself have the largest length.
    """
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    return f".privatelr-{name}-"


def reservation_of(target: Path) -> Path:
    """The name of the file whose lock a command holds that is going to write a target."""
    return target.with_name(f"{_start_of(target)[:-1]}.lock")
