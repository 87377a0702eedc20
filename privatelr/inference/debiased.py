"""Inference about the unpenalised coefficients: one step that takes the penalty's bias off.

``H0^-1 H w`` with ``H0 = H - lambda`` solves the unpenalised score equation to first order; its
private value is known because w is the minimiser, so the step costs nothing (inference.md 3.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privatelr.inference.error_law import Matrices, carriers, law_of, solved_for
from privatelr.inference.matrices import floored

if TYPE_CHECKING:
    from privatelr.inference.error_law import ErrorLaw
    from privatelr.inference.evidence import Evidence
    from privatelr.types import FloatArray

_LEAST = 1e-12
"""Of the largest curvature: what is flatter is as good as flat."""


def debiased_law(evidence: Evidence, matrices: Matrices, contrasts: FloatArray) -> ErrorLaw:
    """The law of ``a.(w - w0)`` for combinations ``(m, d)``; its centre is what the penalty took.

    Under objective perturbation the step is ``H0^-1 (H w - g - b / n)``; output noise is added
    to w, so that H carries it too.
    """
    least = _LEAST * evidence.largest_trace
    bare = floored(matrices.curvature - evidence.floor * np.eye(len(evidence.w)), least)
    solved = solved_for(bare, contrasts)
    if evidence.calibration.placement == "output":
        carried = np.einsum("kde,kem->kdm", matrices.curvature, solved)
    else:
        carried = carriers(evidence, solved, contrasts)
    taken = -evidence.floor * np.einsum("d,kdm->km", evidence.w, solved)
    return law_of(evidence, solved, carried, matrices, contrasts, centre=taken)
