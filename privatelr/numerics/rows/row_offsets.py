"""Offsets of bounded rows: known numbers that are added to linear predictors."""

from __future__ import annotations

import numpy as np

from privatelr.types import FloatArray


def held_offset(offset: FloatArray, labels: FloatArray, bound: float) -> FloatArray:
    """Return offsets ``(n,)`` over the sizes of the labels of bounded rows, 0 for rows of zeros.

    They are clipped to the bound, and none may be missing.

    The label of a row that was shortened multiplies its offset, too, so that the margin is
    ``label (row.w + offset)`` for all rows.

    Notes
    -----
    **Privacy.** No noise depends on an offset, of whatever size: it moves a margin and nothing
    else, and all that the theorems use of a loss holds at every margin. The proof is in
    theory.md#weights-offsets-and-priors. Only the rounding of a margin grows with the size of an
    offset, for which certificates take the declared bounds (`privatelr.mechanisms.Problem`).
    """
    held = np.minimum(np.maximum(offset, -bound), bound) / np.maximum(np.abs(labels), 1.0)
    return np.asarray(np.where(labels != 0, held, 0.0))
