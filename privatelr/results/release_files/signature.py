"""Signatures of release files: who states what a file states. Ed25519, by `cryptography`.

The signature is over the content hash, which is over everything else in the file. A reader who
has the public key from its owner, and not from the file, knows that the owner of the private
key wrote these bytes. Whether what they state is true is the owner's word.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from privatelr.errors import ArgumentError, MissingDependencyError, ReleaseFileError, show

if TYPE_CHECKING:
    from privatelr.results.release_files.document_entries import SignatureEntry

_ALGORITHM = "Ed25519"
_PURPOSE = b"privatelr release file, sha256 "
"""So that a signature of a release is a signature of nothing else."""
_FINGERPRINT = 32
"""Hexadecimal digits of a hash; no second key with the same ones can be found."""
_LARGEST_KEY_FILE = 10_000
Key = Any
"""A key object of `cryptography`, PEM as bytes or text, or the name of a PEM file."""


def fingerprint(public_key: str) -> str:
    """Short name of a public key that is given in hexadecimal digits."""
    return hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:_FINGERPRINT]


def signature_entry(sha256: str, key: Key) -> dict[str, str]:
    """The signature of a document with this content hash.

    Raises
    ------
    ArgumentError
        If `key` is no private Ed25519 key.
    MissingDependencyError
        If `cryptography` is not installed.
    """
    _, private, _ = _library("key")
    takes = "an Ed25519 private key, PEM bytes of one, or the name of a PEM file"

    def read(serialization: Any, data: bytes) -> Any:
        return serialization.load_pem_private_key(data, password=None)

    signer = _read_key("key", key, private, read, takes)
    return {
        "algorithm": _ALGORITHM,
        "public_key": signer.public_key().public_bytes_raw().hex(),
        "value": signer.sign(_message(sha256)).hex(),
    }


def require_signature(entry: SignatureEntry | None, sha256: str, public_key: Key) -> None:
    """Refuse a document that the owner of a public key did not sign.

    Parameters
    ----------
    entry
        The entry of the file; None if it is not signed.
    sha256
        Content hash, which was found to be right.
    public_key
        As `privatelr.load` takes it.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: the file is not signed, by another key, or wrongly.
    ArgumentError
        If `public_key` is no public Ed25519 key.
    """
    invalid, _, public = _library("public_key")
    takes = "an Ed25519 public key, PEM bytes of one, or the name of a PEM file"

    def read(serialization: Any, data: bytes) -> Any:
        return serialization.load_pem_public_key(data)

    expected = _read_key("public_key", public_key, public, read, takes)
    if entry is None:
        raise ReleaseFileError("the file is not signed, and public_key= asks for a signature")
    known = expected.public_bytes_raw().hex()
    if entry.public_key != known:
        raise ReleaseFileError(
            f"the file names the key {fingerprint(entry.public_key)}, and not the key "
            f"{fingerprint(known)} of public_key="
        )
    try:
        expected.verify(bytes.fromhex(entry.value), _message(sha256))
    except invalid:
        raise ReleaseFileError(
            f"the signature is not one of the key {fingerprint(known)} for this content"
        ) from None


def _message(sha256: str) -> bytes:
    return _PURPOSE + sha256.encode("ascii")


def _library(argument: str) -> tuple[Any, Any, Any]:
    """The exception of a wrong signature, and the types of a private and of a public key."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingDependencyError(
            f"{argument}: signatures take cryptography; install it, or privatelr[signatures]."
        ) from None
    return InvalidSignature, ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey


def _read_key(
    argument: str, key: Key, kind: type, read: Callable[[Any, bytes], Any], takes: str
) -> Any:
    """A key of this kind; what is wrong with it is said without a word of it."""
    if isinstance(key, kind):
        return key
    if isinstance(key, str) and "-----BEGIN" in key:
        key = key.encode("utf-8", "replace")
    shown = show(key) if isinstance(key, str) else f"<{type(key).__name__}>"
    if isinstance(key, str | os.PathLike):
        key = _read_file(argument, key, shown)
    if isinstance(key, bytes):
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization

        try:
            key = read(serialization, key)
        except TypeError:
            raise ArgumentError(
                f"{argument}={shown}: the key is encrypted; give the key object that "
                "cryptography's load_pem_private_key makes of it and of its password."
            ) from None
        except (ValueError, UnsupportedAlgorithm):
            key = None
    if not isinstance(key, kind):
        raise ArgumentError(f"{argument}={shown}: {argument} takes {takes}.")
    return key


def _read_file(argument: str, path: Any, shown: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST_KEY_FILE)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or type(error).__name__).lower()
        raise ArgumentError(f"{argument}={shown}: the file cannot be opened ({reason}).") from None
