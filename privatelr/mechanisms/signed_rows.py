"""Datasets as distinct signed rows with counts, and minimisers of their objectives under tilts.

Counts need not be whole, so that a row may stand for the expected records of a planned study. All
functions take many coefficients at once, as arrays ``(m, d)``. The sum form of an objective is n
times its mean form; Lambda is its penalty, and u is a signed row ``y x``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from privatelr.errors import ArgumentError, NotConvergedError
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.stages.matrices import MomentsCalibration
from privatelr.types import BoolArray, FloatArray

_CHUNK = 20_000
"""Minimisers are computed for at most this number of tilts at once."""
_ENOUGH = 1e-11
"""Newton's method ends after a step of at most this length, relative to the minimiser."""
_PATIENCE, _COARSE = 100, 1e-7
"""After this number of steps, a step of this larger relative length ends Newton's method, too."""
_LONGEST, _HALVINGS = 500, 50
"""Newton's method has failed after this number of steps, each of which is halved so often."""
_SMALL, _MANY = 8, 100
"""Elimination in all matrices at once is fast up to the first number of columns, and from the
second number of matrices on."""


@dataclass(frozen=True, slots=True, eq=False)
class SignedRows:
    """A dataset as distinct signed rows ``u = y x`` and their counts.

    Attributes
    ----------
    rows : ndarray of shape (k, d)
    counts : ndarray of shape (k,)
        Not negative. They may be so large that the records could not be listed one by one.
    sizes : ndarray of shape (k,), optional
        Sizes of the labels, by default 1; larger ones are those of rows with weights
        (`privatelr.numerics.rows.row_bounds`).
    shifts : ndarray of shape (k,), optional
        Offsets times the sign of the label, over its size; by default 0.
    held : ndarray of shape (d, d) or None
        What a prior adds to the penalty of the sum form.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr.mechanisms.signed_rows import SignedRows
    >>> SignedRows(np.array([[0.6, 0.8]]), np.array([30.0])).sizes
    array([1.])
    """

    rows: FloatArray
    counts: FloatArray
    sizes: FloatArray = field(default_factory=lambda: np.ones(0))
    shifts: FloatArray = field(default_factory=lambda: np.zeros(0))
    held: FloatArray | None = None

    def __post_init__(self) -> None:
        if len(self.sizes) == 0:
            object.__setattr__(self, "sizes", np.ones(len(self.rows)))
        if len(self.shifts) == 0:
            object.__setattr__(self, "shifts", np.zeros(len(self.rows)))
        if self.rows.ndim != 2 or self.counts.shape != (len(self.rows),):
            raise ArgumentError(
                f"rows of shape {self.rows.shape} and counts of shape {self.counts.shape}: takes "
                "(k, d) and (k,)."
            )

    def margins(self, w: FloatArray) -> FloatArray:
        """Margins ``(..., k)`` of the records at coefficients ``(..., d)``."""
        return np.asarray(self.sizes * (w @ self.rows.T + self.shifts))


def gradient(data: SignedRows, problem: Problem, w: FloatArray) -> FloatArray:
    """Gradient ``(m, d)`` of the sum form without a tilt."""
    slopes = problem.loss.slope(data.margins(w)) * data.counts / data.sizes
    total = slopes @ data.rows + problem.penalty * w
    return total if data.held is None else total + w @ data.held


def hessian(data: SignedRows, problem: Problem, w: FloatArray) -> FloatArray:
    """Second derivative ``(m, d, d)`` of the sum form."""
    weight = problem.loss.curvature(data.margins(w)) * data.counts
    d = data.rows.shape[1]
    if len(w) < d:  # to make all products of columns takes longer than to scale the rows
        total = (weight[:, None, :] * data.rows.T) @ data.rows
    else:
        products = data.rows[:, :, None] * data.rows[:, None, :]
        total = (weight @ products.reshape(len(products), d * d)).reshape(-1, d, d)
    total += problem.penalty * np.eye(d)
    return np.asarray(total if data.held is None else total + data.held)


def solve_each(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """Solutions ``(m, d, k)`` of positive definite systems ``(m, d, d)``.

    For many small matrices, elimination in all of them at once is several times as fast as the
    linear algebra library.
    """
    d = matrices.shape[1]
    if d > _SMALL or len(matrices) < _MANY:
        return np.asarray(np.linalg.solve(matrices, right))
    a, x = (np.array(np.moveaxis(part, 0, -1), order="C") for part in (matrices, right))
    for i in range(d):
        for j in range(i + 1, d):
            share = a[j, i] / a[i, i]
            a[j, i + 1 :] -= share * a[i, i + 1 :]
            x[j] -= share * x[i]
    for i in reversed(range(d)):
        for j in range(i + 1, d):
            x[i] -= a[i, j] * x[j]
        x[i] /= a[i, i]
    return np.asarray(np.moveaxis(x, -1, 0))


def minimisers(
    data: SignedRows, problem: Problem, tilts: FloatArray, near: FloatArray | None = None
) -> FloatArray:
    """Exact minimisers ``(m, d)`` of the sum form under the tilts ``(m, d)``.

    The search begins at `near` ``(d,)``, where the minimiser without a tilt is about known.
    """
    none = np.zeros((1, tilts.shape[1]))
    start = _solve(data, problem, none, none if near is None else near[None])
    if not tilts.any():
        return np.repeat(start, len(tilts), axis=0)
    cuts = range(0, len(tilts), _CHUNK)
    parts = [_solve(data, problem, tilts[at : at + _CHUNK], start) for at in cuts]
    return np.concatenate(parts) if parts else tilts


def _solve(data: SignedRows, problem: Problem, tilts: FloatArray, start: FloatArray) -> FloatArray:
    """Minimisers ``(m, d)`` under the tilts, by Newton steps for all of them at once."""
    found = np.repeat(start, len(tilts), axis=0)
    left = np.arange(len(tilts))
    w, b = found, tilts
    g = gradient(data, problem, w) + b
    least = 1e-3 / problem.radius
    for taken in range(_LONGEST):
        step = -solve_each(hessian(data, problem, w), g[:, :, None])[:, :, 0]
        # a step is halved while the slope at its end is positive and above half of that at its
        # start; values of the objective are no criterion, because at large counts their rounding
        # exceeds their changes
        turned = 0.5 * np.abs(np.einsum("ij,ij->i", g, step))
        g = gradient(data, problem, w + step) + b
        over = np.flatnonzero(np.einsum("ij,ij->i", g, step) > turned)
        for _ in range(_HALVINGS):
            if over.size == 0:
                break
            step[over] /= 2
            turned[over] /= 2
            g[over] = gradient(data, problem, w[over] + step[over]) + b[over]
            over = over[np.einsum("ij,ij->i", g[over], step[over]) > turned[over]]
        w = w + step
        # at large counts the rounding error of a step may exceed the usual limit
        enough = _ENOUGH if taken < _PATIENCE else _COARSE
        size = np.linalg.norm(step, axis=1) / (np.linalg.norm(w, axis=1) + least)
        more: BoolArray = size > enough
        if more.all():
            continue
        found[left[~more]] = w[~more]
        if not more.any():
            return found
        left, w, b, g = left[more], w[more], b[more], g[more]
    raise NotConvergedError(f"a minimiser was not found in {_LONGEST} Newton steps.")


def matrix_weights(
    calibration: MomentsCalibration,
    margins: FloatArray,
    squares: FloatArray | float,
    sizes: FloatArray | float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """The weights of rows with these margins and squared lengths in H, and those in eta S."""
    loss = calibration.problem.loss
    bend, steep = loss.curvature(margins), (loss.slope(margins) / sizes) ** 2
    steep = calibration.balance * steep
    if calibration.typical is not None:
        counted = calibration.counted((bend + steep) * squares)
        bend, steep = counted * bend, counted * steep
    return bend, steep
