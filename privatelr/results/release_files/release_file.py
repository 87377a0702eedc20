"""Writing and reading the release file: the arguments of a call, and the numbers that it released.

The file is JSON, without a row of the data or any code. It has public facts and numbers that the
guarantee covers. Its JSON Schema is `release.schema.json` in the folder of results. Everything that
follows from the call and the released numbers is in the file for readers alone: reading it plans
and calibrates again, by the code of a fit, writes the result again, and compares.

The entry ``sha256`` is the hash of all other content as canonical JSON. It finds accidental
changes, but no forgery, because a forger can compute it, too. Nothing that a file names is
imported or run.

A file that is being written has another name in the folder of its target. If its writer is killed,
that file remains, as ``.privatelr-*.tmp``, and the target is what it was before.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import secrets
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import privatelr
from privatelr.arguments import suggests_arguments
from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    PrivacyWarning,
    ReleaseFileError,
    SchemaError,
    show,
)
from privatelr.page_model import shorten
from privatelr.privacy import NonPrivate, void
from privatelr.privacy.accounting import ledger_store
from privatelr.results.answers.chosen_fit import ChosenFit
from privatelr.results.answers.private_roc import PrivateRoc
from privatelr.results.declarations import ReleasedLevels, SuggestedBounds
from privatelr.results.fit_record import ModelRecord
from privatelr.results.release_files import answer_file, fit_file
from privatelr.results.release_files.design_file import DesignEntry, design_entry, plan_again
from privatelr.results.release_files.file_entries import (
    VERSION,
    Document,
    Kind,
    LossEntry,
    charge_entry,
    plain,
    read_loss,
)
from privatelr.results.release_files.json_values import (
    LARGEST_FILE,
    canonical,
    parse,
    read_entry,
    require_same,
    require_version,
    spell_json,
)
from privatelr.results.strata_of_fits import Strata

AnyAnswer = PrivateRoc | ChosenFit | SuggestedBounds | ReleasedLevels
AnyRelease = ModelRecord | Strata | AnyAnswer
_LIBRARIES = ("formulaic", "numpy", "pandas", "python-flint", "scipy")
_OPEN = ("written_by", "sha256")
"""These entries are about the file and not about the release."""
_LONGEST_SHOWN = 120
"""An error quotes at most this number of characters of a path."""
IS_DATABASE = "the file is a ledger, or another database, and is not replaced"


# -- the document ------------------------------------------------------------------------------


def release_document(release: Any) -> dict[str, Any]:
    """A fit, `Strata` of fits or an answer as plain values, with its content hash.

    Raises
    ------
    GuaranteeError
        If the columns were scaled by the data, because their map then contains moments of the
        data; or if an answer was bought with a fit, whose file has it.
    ReleaseFileError
        If a coefficient is not a finite number, or a level not a text, a number or a boolean.
    """
    name, kind = kind_of(release)
    call, released, derived = kind.parts(release)
    guarantee, own = kind.guarantee(release), kind.own_guarantee(release)
    notice = f"covered by {guarantee}; holds no number computed from records without noise"
    if isinstance(guarantee, NonPrivate):
        notice = f"NOT PRIVATE: no guarantee covers this file as a whole ({guarantee.reason})"
    randomness = "operating system"
    if isinstance(own, NonPrivate):
        is_void = own.reason.startswith("void: ")
        is_seeded = own.reason == void("seeded noise").reason
        randomness = "seed" if is_seeded else randomness if is_void else "no noise"
    document = {
        "format": "privatelr release",
        "version": VERSION,
        "kind": name,
        "notice": notice,
        "written_by": programs(),
        "guarantee": plain(guarantee),
        "randomness": randomness,
        "ledger": charge_entry(release.entry),
        "call": call,
        "released": released,
        "derived": derived,
    }
    return {**document, "sha256": content_hash(document)}


def content_hash(document: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON of all entries but the hash itself."""
    rest = {name: value for name, value in document.items() if name != "sha256"}
    return hashlib.sha256(canonical(rest)).hexdigest()


@functools.cache
def programs() -> dict[str, str]:
    """The programs that write a file, with their versions."""
    return {
        "privatelr": privatelr.__version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def restore(value: Any) -> Any:
    """The release of a value that `release_document` made; a fit has no diagnostics.

    Raises
    ------
    ReleaseFileError
        If an entry is wrong, or does not follow from the others. The message is part of a sentence.
    """
    if not isinstance(value, dict) or not str(value.get("format")).startswith("privatelr "):
        raise ReleaseFileError("the file is JSON, and not a release of privatelr")
    require_version(value, VERSION)
    kind = value.get("kind")
    every = kinds()
    if not isinstance(kind, str) or kind not in every:
        raise ReleaseFileError(f"kind takes one of {', '.join(every)}")
    call, released = every[kind].call, every[kind].released
    document: Document[Any, Any] = read_entry(value, Document[call, released])  # type: ignore[valid-type]
    if document.sha256 != content_hash(value):
        raise ReleaseFileError(
            "its content does not have the hash that it states, so it was changed after saving"
        )
    release = every[kind].restore(document)
    _require_derived(value, release)
    return release


def _require_derived(value: dict[str, Any], release: Any) -> None:
    """Refuse a file that differs from what its release writes, but for rounding where it may."""
    try:
        with np.errstate(all="ignore"):  # numbers that were edited may be beyond doubles
            written = release_document(release)
    except GuaranteeError as error:  # prices that cannot be added up
        raise ReleaseFileError(str(error).removesuffix(".")) from None
    written |= {name: value[name] for name in _OPEN}
    if written["kind"] == "choice":  # each was read by itself, and may be of other programs
        written["call"]["candidates"] = value["call"]["candidates"]
    require_same(value, written, "")


def read_objective(entry: LossEntry) -> Any:
    """The loss of a fit, or what stands in its place in another kind of fit."""
    name = str(entry.get("name")) if isinstance(entry, dict) else entry
    objectives = [kind.objectives[name] for kind in kinds().values() if name in kind.objectives]
    return objectives[0](entry) if objectives else read_loss(entry)


def kind_of(release: Any) -> tuple[str, Kind]:
    """The name and the kind of a release."""
    return next(item for item in kinds().items() if isinstance(release, item[1].types))


def kinds() -> dict[str, Kind]:
    """All kinds of releases by their names, with those that the core does not know."""
    return {**_KINDS, **{name: find() for name, find in privatelr.kinds_of_files.items()}}


_KINDS = {
    "fit": fit_file.FIT,
    "roc": answer_file.ROC,
    "choice": answer_file.CHOICE,
    "bounds": answer_file.BOUNDS,
    "levels": answer_file.LEVELS,
}


# -- reading and writing -----------------------------------------------------------------------


@suggests_arguments
def load(
    path: str | os.PathLike[str],
) -> AnyRelease:
    """Read a fit that `Fit.save` wrote, or `Strata` of fits, or a private answer.

    Nothing in the file is run or imported. The columns are planned and the noise is calibrated
    again from the arguments of the call in the file, and all that follows is compared. Other
    statements of the writer cannot be checked, above all that the noise was drawn at random and
    only once. ``fit.origin`` lists both.

    Parameters
    ----------
    path
        Name of the file.

    Returns
    -------
    A fit, Strata, or an answer
        What was saved; an answer is a `PrivateRoc`, `ChosenFit`, `SuggestedBounds` or
        `ReleasedLevels`. The predictions of a fit are exactly those of the fit
        that was saved. It has no diagnostics, because these are computed from the training data
        and are not in the file.

    Raises
    ------
    OSError
        If the file cannot be opened.
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


def load_with_hash(path: str | os.PathLike[str]) -> tuple[AnyRelease, str]:
    """Read a file as `load` does, once; returns its release, and the hash of its content."""
    name = _require_path(path)
    try:
        with open(name, "rb") as file:
            value = parse(file.read(LARGEST_FILE + 1))
        return restore(value), str(value["sha256"])
    except ReleaseFileError as error:
        raise ReleaseFileError(f"{_shown(name)}: {error}.") from None


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
    if fit.entry is None or not fit.entry.receipts:
        return
    for told in ledger_store.complete(fit.entry, hash_in(data)):
        warnings.warn(
            f"the release was saved, and its charge stands without its hash: {told}",
            PrivacyWarning,
            stacklevel=4,
        )


def hash_in(data: bytes) -> str:
    """The hash of its content that a release file states, as its writer computed it."""
    return str(parse(data)["sha256"])


def file_bytes(release: Any) -> bytes:
    """The content of the file of a fit, of `Strata` of fits, or of a private answer.

    It is read again before it is returned, and the result is compared with the release.

    Raises
    ------
    ReleaseFileError
        If the release has no place in a file. The message is part of a sentence.
    """
    document = release_document(release)
    try:
        data = f"{spell_json(document)}\n".encode()
    except UnicodeEncodeError:
        raise ReleaseFileError("a text in it holds half a character") from None
    if canonical(release_document(restore(parse(data)))) != canonical(document):
        raise ReleaseFileError("it would not be read back")
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
    text = spec.formula.text
    try:
        entry = design_entry(spec, text, None)
        written = canonical([entry, fit_file.derived_of_plan(spec)])
        given = read_entry(parse(written)[0], DesignEntry, "call.design")
        again = plan_again(given, len(spec.columns.names))[0]
        read = [design_entry(again, text, None), fit_file.derived_of_plan(again)]
        if canonical(read) != written:
            raise ReleaseFileError("it would be read back as another one")
    except ReleaseFileError as error:
        raise SchemaError(
            f"formula {show(text)}: no file could hold its fit, because {error}; use other names "
            "or levels, or fewer of them."
        ) from None
    _writable.append(spec.columns)


def _require_path(path: Any) -> str:
    if not isinstance(path, str | os.PathLike) or "\0" in os.fsdecode(path):
        raise ArgumentError(f"path={show(path)}: path takes the name of a file.")
    return os.fsdecode(path)


def _shown(name: str) -> str:
    return repr(shorten(name, _LONGEST_SHOWN))


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


@contextmanager
def complete_beside(target: Path, data: bytes) -> Iterator[Path]:
    """A complete temporary file with the data on disk, in the folder of the target.

    Within the block it may be renamed to the target; after the block it is removed.
    """
    path = target.with_name(f".privatelr-{secrets.token_hex(16)}.tmp")
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        with suppress(OSError):
            path.unlink()
