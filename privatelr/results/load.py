"""From a release file to a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privatelr.results.fit import Fit
from privatelr.results.record import SelectedRecord
from privatelr.results.release_file import read_release
from privatelr.results.selected import SelectedFit

if TYPE_CHECKING:
    import os


def load(path: str | os.PathLike[str]) -> Fit | SelectedFit:
    """Read a fit that `Fit.save` wrote.

    The file is data: nothing in it is run or imported. What can be recomputed is recomputed and
    compared: the content hash, the columns and their map from the formula and the declared
    bounds and levels, the row radius, and the guarantee from the noise of each part.

    Parameters
    ----------
    path
        Name of the file.

    Returns
    -------
    Fit or SelectedFit
        It predicts to the last bit as the fit that was saved. Its diagnostics, which are
        computed from the training data, were left behind.

    Raises
    ------
    ReleaseFileError
        If the file is not a release, was cut off or changed, contradicts itself, or was written
        by a newer version; one sentence that says what is wrong. A missing file raises
        `FileNotFoundError`.

    Notes
    -----
    **Privacy.** *Covered*: what is read was paid for when it was released, so reading it is
    free. *Neighbours*: those of the guarantee. *Assumed public*: the file. *Not covered*: who
    wrote it. The hash finds accidents; a forger can compute it too, and all that `load` can say
    of a forged file is that its guarantee follows from its numbers.
    """
    record = read_release(path)
    if isinstance(record, SelectedRecord):
        return SelectedFit(record.spec, record.release, record.threshold)
    return Fit(record.spec, record.release, record.threshold)
