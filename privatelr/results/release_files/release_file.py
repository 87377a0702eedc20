"""The release file: a fit as JSON, without a row of the data, or code; written and read.

The file holds what is public and what was paid for: the plan of the design, the coefficients,
the noisy moments that inference is made of if they were requested, the guarantee, and the
calibrations that give it. `release.schema.json` beside this module
describes it to a machine. The entry ``sha256`` is the hash of everything else in its canonical
spelling: it finds accidents, not forgers, who can compute it too. Reading therefore recomputes
what can be recomputed, and imports or runs nothing that the file names.

A file that is being written has a name beside its target, and a lock while its writer lives. A
process that is killed leaves the file behind, but not the lock: the system takes back what a dead
process held. So the next save to the same target can tell what was left behind from what another
process is writing now, without asking how old it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, ReleaseFileError, show
from privatelr.locks import has_file_locks, lock_file, still_has_name
from privatelr.results.fit import Fit
from privatelr.results.fit_record import ModelRecord, SelectedRecord
from privatelr.results.release_files import origin
from privatelr.results.release_files.document import release_document
from privatelr.results.release_files.json_values import LARGEST_FILE, canonical, parse
from privatelr.results.release_files.origin import Key
from privatelr.results.release_files.restored_fit import read_document, restore, restore_content
from privatelr.results.selected import SelectedFit

_LONGEST_SHOWN = 120
"""Largest number of characters of a path that an error quotes."""
_SUFFIX = ".tmp"


# -- a fit -------------------------------------------------------------------------------------


@suggests_arguments
def load(path: str | os.PathLike[str], *, public_key: Key = None) -> Fit | SelectedFit:
    """Read a fit that `Fit.save` wrote.

    The file is data: nothing in it is run or imported. What can be recomputed is recomputed and
    compared: the content hash, the columns and their map from the formula and the declared
    bounds and levels, the row radius, and the guarantee from the noise of each part. What cannot
    be checked is the word of the writer, above all that the noise was drawn at random and once:
    ``fit.origin`` lists both.

    Parameters
    ----------
    path
        Name of the file.
    public_key : Ed25519PublicKey, bytes, str or path, optional
        Of the writer, got from the writer and not with the file: a key object of `cryptography`,
        PEM bytes, or the name of a PEM file. A file that this key did not sign is refused.
        Without it a signature is not looked at.

    Returns
    -------
    Fit or SelectedFit
        It predicts to the last bit as the fit that was saved. Its diagnostics, which are
        computed from the training data, were left behind.

    Raises
    ------
    ReleaseFileError
        If the file is not a release, was cut off or changed, contradicts itself, was written
        by a newer version, or is not signed by the key; one sentence that says what is wrong. A
        missing file raises `FileNotFoundError`.
    ArgumentError
        If `public_key` is not a public Ed25519 key.
    MissingDependencyError
        If there is a key, and `cryptography` is not installed (``privatelr[signatures]``).

    Notes
    -----
    **Privacy.** *Covered*: what is read was paid for when it was released, so reading it is
    free. *Neighbours*: those of the guarantee. *Assumed public*: the file. *Not covered*: who
    wrote it, without `public_key`, and whether it is true. The hash finds accidents; a forger can
    compute it too, and all that `load` can say of a forged file is that its guarantee follows
    from its numbers. A signature tells whose word it is.
    """
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
        document = read_document(value)
        signature = document.signature
        if public_key is not None:  # checked first, because an unsigned file may be forged
            origin.require_signature(signature, document.sha256, public_key)
        record: Any = restore_content(document, value)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"{_shown(name)}: {error}.") from None
    key = None if signature is None else origin.fingerprint(signature.public_key)
    known = origin.Origin(
        signed_by=None if public_key is None else key,
        named_key=key,
        written_by=tuple(document.written_by.items()),
        recomputed=origin.recomputed(record),
        stated=origin.stated(record),
    )
    fit = SelectedFit if isinstance(record, SelectedRecord) else Fit
    return fit(record.spec, record.release, record.threshold, origin=known)


def write_release(fit: ModelRecord, path: str | os.PathLike[str], key: Key = None) -> None:
    """Write a release file, whole or not at all; see `Fit.save`."""
    name = _require_path(path)
    try:
        data = release_bytes(fit, key)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"{_shown(name)} was not written: {error}.") from None
    replace_file(Path(os.path.realpath(name)), data)


def release_bytes(fit: ModelRecord, key: Key = None) -> bytes:
    """The content of a release file, which was read back and found to say the same.

    Signed, if there is a key.

    Raises
    ------
    ReleaseFileError
        Part of a sentence that says what is wrong.
    """
    document = release_document(fit)
    written = document
    if key is not None:
        written = {**document, "signature": origin.signature_entry(document["sha256"], key)}
    data = f"{_spell(written)}\n".encode()
    if canonical(release_document(restore(parse(data)))) != canonical(document):
        raise ReleaseFileError("the fit would not be read back")
    return data


def _spell(value: Any, indent: str = "") -> str:
    """JSON with one entry a line, and lists of plain values on one line."""
    inner, plainly = f"{indent}  ", json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    if isinstance(value, dict) and value:
        items = [f"{inner}{plainly(key)}: {_spell(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = [f"{inner}{_spell(item, inner)}" for item in value]
        return "[\n" + ",\n".join(items) + f"\n{indent}]"
    return plainly(value)


def _require_path(path: Any) -> str:
    if not isinstance(path, str | os.PathLike) or "\0" in os.fsdecode(path):
        raise ArgumentError(f"path={show(path)}: path takes the name of a file.")
    return os.fsdecode(path)


def _shown(name: str) -> str:
    """A path as an error quotes it: its end tells files apart."""
    return repr(name if len(name) <= _LONGEST_SHOWN else f"...{name[-_LONGEST_SHOWN:]}")


# -- any file ----------------------------------------------------------------------------------


def replace_file(target: Path, data: bytes) -> None:
    """Put a complete file in place of whatever is there."""
    with complete_beside(target, data) as temporary:
        temporary.replace(target)


def create_file(target: Path, data: bytes) -> None:
    """Put a complete file where there is none; otherwise raise `FileExistsError`."""
    with complete_beside(target, data) as temporary:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links: take the name, then fill it
            target.touch(exist_ok=False)
            temporary.replace(target)


def remove_abandoned(target: Path) -> None:
    """Remove what killed processes left of their writing to this target.

    What another process is writing is left alone, and so is what cannot be opened.
    """
    if not has_file_locks():  # what was left behind stays
        return
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if name.startswith(_start_of(target)) and name.endswith(_SUFFIX):
                with suppress(OSError):
                    path = target.parent / name
                    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                    try:
                        if stat.S_ISREG(os.fstat(descriptor).st_mode):
                            lock_file(descriptor, wait=False)
                            path.unlink()
                    finally:
                        os.close(descriptor)


@contextmanager
def complete_beside(target: Path, data: bytes) -> Iterator[Path]:
    """A file beside the target that holds the data on the disk, and is gone afterwards.

    Within the block it may be given the name of the target. What killed processes left of their
    writing to the same target is removed first.
    """
    remove_abandoned(target)
    while True:
        path = target.with_name(f"{_start_of(target)}{secrets.token_hex(8)}{_SUFFIX}")
        file = path.open("xb")
        if not has_file_locks():
            break
        with suppress(OSError):  # a file system may know no locks
            lock_file(file.fileno(), wait=True)  # for a process that looks at it just now
        if still_has_name(file.fileno(), path):
            break
        file.close()  # that process found no lock on it, and removed it
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if not has_file_locks():  # such a system may not rename what is open
                file.close()
            yield path
    finally:
        with suppress(OSError):
            path.unlink()


def _start_of(target: Path) -> str:
    """What the names of all unfinished files of a target begin with; it may be long itself."""
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    return f".privatelr-{name}-"
