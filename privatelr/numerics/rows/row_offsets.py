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
    **Privacy.** An offset needs no bound of its own: it moves a margin and nothing else, and all
    that proofs use of a loss holds at every margin. Let z be the offset of a record, and
    ``f(w) = l(y (x.w + z))`` what it adds to the objective. As functions of w,

    - ``grad f = l'(y (x.w + z)) y x`` is the multiple of x by a slope in ``[-L, L]``, so it is as
      long as without an offset, and lies in the same blocks. Minimisers of neighbours are as far
      apart as before: output perturbation (Chaudhuri et al. 2011, Lemma 1) is unchanged;
    - ``hess f = l''(y (x.w + z)) x x'`` has rank one and a curvature in ``[0, c]``, so the factor
      ``det(I + hess f / Lambda)`` is at most ``1 + c R**2 / Lambda``: the determinant of the map
      from tilts to minimisers is bounded as before;
    - slope and curvature are taken at one and the same margin, which is what the joint bounds use:
      ``|l''| <= k s (1 - s)`` where ``|l'| = s L`` (privacy.md 3.2, 3.1b, 4.2);
    - f is convex and differentiable with the same Lipschitz constants, so that F has one minimiser.

    The hinge losses of a support vector machine are functions of the margin with such constants,
    and nothing else is used of them. Two neighbours may differ in their offsets by any number. Only
    the rounding of a margin grows with the size of an offset, for which certificates take the
    declared bounds (`privatelr.mechanisms.Problem`).
    """
    held = np.minimum(np.maximum(offset, -bound), bound) / np.maximum(np.abs(labels), 1.0)
    return np.asarray(np.where(labels != 0, held, 0.0))
