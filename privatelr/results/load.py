"""From a release file to a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privatelr.arguments import suggests_arguments
from privatelr.results.fit import Fit
from privatelr.results.record import SelectedRecord
from privatelr.results.release_file import read_release
from privatelr.results.selected import SelectedFit

if TYPE_CHECKING:
    import os

    from privatelr.results.signature import Key


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
        If `public_key` is no public Ed25519 key.
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
    record, origin = read_release(path, public_key)
    fit = SelectedFit if isinstance(record, SelectedRecord) else Fit
    return fit(record.spec, record.release, record.threshold, origin=origin)
