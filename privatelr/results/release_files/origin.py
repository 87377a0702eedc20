"""The origin of a file: who signed it, what reading it verifies, and what its writer only states.

A file contains numbers. Anyone can compute that a guarantee follows from the numbers. The numbers
do not show how they were made. The card, the page, `Fit.origin` and the vignette about the
guarantee take their sentences from this module.

A signature (Ed25519, by `cryptography`) is over the content hash, which is over everything else in
the file. A reader who has the public key from its owner, and not from the file, knows that the
owner of the private key wrote this content. Whether it is true, the signature does not show.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privatelr.errors import ArgumentError, MissingDependencyError, ReleaseFileError, show
from privatelr.page_model import Bullets, as_text
from privatelr.privacy import REPLACE_PERSON, NonPrivate
from privatelr.results.fit_record import ModelRecord, SelectedRecord

if TYPE_CHECKING:
    from privatelr.results.release_files.document_entries import SignatureEntry

_ALGORITHM = "Ed25519"
_PURPOSE = b"privatelr release file, sha256 "
"""The signed bytes begin with this, so that a signature cannot be used for anything else."""
_FINGERPRINT = 32
"""A fingerprint has this number of hexadecimal digits, enough that no two keys can share one."""
_LARGEST_KEY_FILE = 10_000
Key = Any
"""A key object of `cryptography`, PEM as bytes or text, or the name of a PEM file."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a fit that was read from a file, and what is known about it.

    Attributes
    ----------
    signed_by : str or None
        Fingerprint of the ``public_key`` that was given to `privatelr.load`, whose owner signed the
        file; None if no key was given.
    named_key : str or None
        Fingerprint of the public key that the file itself names; None if it is not signed. A
        forger can name any key.
    written_by : tuple of (str, str)
        Programs and their versions, as the file states them.
    recomputed : tuple of str
        Sentences about what was computed again when the file was read, and agreed with the file.
    stated : tuple of str
        Sentences about what the writer of the file states and no reader can check.
    """

    signed_by: str | None
    named_key: str | None
    written_by: tuple[tuple[str, str], ...]
    recomputed: tuple[str, ...]
    stated: tuple[str, ...]

    @property
    def source(self) -> str:
        """A phrase that says whether the file was signed, and by which key."""
        if self.signed_by is not None:
            return f"read from a file that was signed by the key {self.signed_by}"
        if self.named_key is not None:
            named = self.named_key
            return f"read from a file whose signature, by the key {named}, was not verified"
        return "read from a file that is not signed"

    def __str__(self) -> str:
        return as_text(
            [
                f"{self.source[0].upper()}{self.source[1:]}.",
                "Recomputed when it was read:",
                Bullets(self.recomputed),
                "Stated by its writer, and not checkable:",
                Bullets(self.stated),
            ]
        )


def source_fact(fit: ModelRecord) -> list[tuple[str, str]]:
    """The line of the printed page about the origin of a fit that was read from a file."""
    return [("Source", f"{fit.origin.source}; see fit.origin")] if fit.origin else []


def recomputed(fit: ModelRecord) -> tuple[str, ...]:
    """Sentences about what is computed again when the release file of a fit is read."""
    found = [
        "The content has the hash that the file states. That finds accidents; a forger can "
        "compute the hash too.",
        "The columns, their map to the units of the data and the length of a row are what "
        "formula, bounds and levels give.",
    ]
    release, proof = fit.release, "by the proof that the fit itself used."
    if isinstance(release.calibration.target, NonPrivate):
        pass
    elif isinstance(fit, SelectedRecord):
        found += [
            f"The number of choices and their law are enough for the guarantee, {proof}",
            "The coefficients are what the counts of choices give.",
        ]
        if fit.has_roc:
            found.append(
                "So is the law of the noise on the counts of scores for its part, and the parts "
                "add up to the whole."
            )
    else:
        enough = f"The law of the noise is enough for the guarantee, {proof}"
        if release.moments is not None or fit.has_roc:
            enough = (
                "The law of the noise of each part is enough for its part of the guarantee, and "
                "the parts add up to the whole, by the proofs that the fit itself used."
            )
        found += [enough, "Every released number is a multiple of the stated rounding."]
    if release.entry is not None:
        found.append(
            "The ledger entry has this guarantee, and its events, if it lists any, are those of "
            "the stated noise or choices."
        )
    return tuple(found)


def stated(fit: ModelRecord) -> tuple[str, ...]:
    """Sentences about what the writer of a release file states and no reader can check."""
    about_persons = fit.guarantee.neighbours is REPLACE_PERSON
    sample = f"the records of {fit.nobs} persons" if about_persons else f"{fit.nobs} records"
    computed = f"The numbers were computed from a table of {sample}, by the stated mechanism."
    programs = "The programs and versions that wrote the file are as stated. It has no date."
    if isinstance(fit.guarantee, NonPrivate):
        return (computed, programs)
    charged = (
        "A ledger was charged for this release, under this label, before the data were read."
        if fit.release.entry is not None
        else "No ledger was charged for this release. The file does not tell what else was "
        "released about the same records."
    )
    return (
        "The randomness came from the operating system, was drawn once, and was not kept. No file "
        "can show how its noise was drawn: if it was made from a seed, or if the best of many "
        "draws was taken, nothing is private.",
        computed,
        "The formula, the bounds, the levels and lambda were chosen without a look at the data, or "
        "by a release that was paid for apart.",
        charged,
        programs,
    )


# -- signatures --------------------------------------------------------------------------------


def fingerprint(public_key: str) -> str:
    """The fingerprint of a public key that is given in hexadecimal digits."""
    return hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:_FINGERPRINT]


def signature_entry(sha256: str, key: Key) -> dict[str, str]:
    """The signature of a document with this content hash.

    Raises
    ------
    ArgumentError
        If `key` is not a private Ed25519 key.
    MissingDependencyError
        If `cryptography` is not installed.
    """
    signer = _read_key("key", key, "private")
    return {
        "algorithm": _ALGORITHM,
        "public_key": signer.public_key().public_bytes_raw().hex(),
        "value": signer.sign(_PURPOSE + sha256.encode("ascii")).hex(),
    }


def require_signature(entry: SignatureEntry | None, sha256: str, public_key: Key) -> None:
    """Raise an error if a document was not signed by the owner of a public key.

    Parameters
    ----------
    entry
        The signature entry of the file; None if it is not signed.
    sha256
        The content hash, which must have been verified.
    public_key
        The argument of `privatelr.load`.

    Raises
    ------
    ReleaseFileError
        If the file is not signed, is signed by another key, or has a wrong signature. The message
        is part of a sentence.
    ArgumentError
        If `public_key` is not a public Ed25519 key.
    """
    expected = _read_key("public_key", public_key, "public")
    from cryptography.exceptions import InvalidSignature

    if entry is None:
        raise ReleaseFileError("the file is not signed, and public_key= asks for a signature")
    known = expected.public_bytes_raw().hex()
    if entry.public_key != known:
        raise ReleaseFileError(
            f"the file names the key {fingerprint(entry.public_key)}, and not the key "
            f"{fingerprint(known)} of public_key="
        )
    try:
        expected.verify(bytes.fromhex(entry.value), _PURPOSE + sha256.encode("ascii"))
    except InvalidSignature:
        raise ReleaseFileError(
            f"the signature is not one of the key {fingerprint(known)} for this content"
        ) from None


def _read_key(argument: str, key: Key, side: str) -> Any:
    """Read a private or a public key; no error message quotes its content."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingDependencyError(
            f"{argument}: signatures take cryptography; install it, or privatelr[signatures]."
        ) from None
    private = side == "private"
    kind = ed25519.Ed25519PrivateKey if private else ed25519.Ed25519PublicKey
    if isinstance(key, kind):
        return key
    if isinstance(key, str) and "-----BEGIN" in key:
        key = key.encode("utf-8", "replace")
    shown = show(key) if isinstance(key, str) else f"<{type(key).__name__}>"
    if isinstance(key, str | os.PathLike):
        try:
            with open(key, "rb") as file:
                key = file.read(_LARGEST_KEY_FILE)
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or type(error).__name__).lower()
            raise ArgumentError(
                f"{argument}={shown}: the file cannot be opened ({reason})."
            ) from None
    if isinstance(key, bytes):
        try:
            key = (
                serialization.load_pem_private_key(key, password=None)
                if private
                else serialization.load_pem_public_key(key)
            )
        except TypeError:
            raise ArgumentError(
                f"{argument}={shown}: the key is encrypted; give the key object that "
                "cryptography's load_pem_private_key makes of it and of its password."
            ) from None
        except (ValueError, UnsupportedAlgorithm):
            key = None
    if not isinstance(key, kind):
        raise ArgumentError(
            f"{argument}={shown}: {argument} takes an Ed25519 {side} key, PEM bytes of one, or "
            "the name of a PEM file."
        )
    return key
