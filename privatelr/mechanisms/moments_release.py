"""The second release: curvature and score covariance at coefficients that are public by now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from privatelr.lazy_import import lazy_import
from privatelr.mechanisms.perturbation import require_match, rounded_sum
from privatelr.numerics.rows import gram, row_products

if TYPE_CHECKING:
    import flint

    from privatelr.mechanisms.calibration.moment_noise import MomentsCalibration
    from privatelr.privacy.noise import Draw
    from privatelr.types import FloatArray, IntArray, Rows
else:
    flint = lazy_import("flint")


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Paid for, and free to publish: two noisy matrices at the released coefficients w.

    Attributes
    ----------
    values : ndarray of shape (d (d + 1),), read-only
        ``(svec H, eta svec S)`` with noise, where H is the mean of ``l'' x x'`` and S the mean of
        ``l'^2 x x'``, without penalty; see `MomentsCalibration`. Raw: neither matrix need be
        positive definite.
    calibration : MomentsCalibration
        What was paid, and the law of the noise.
    """

    values: FloatArray
    calibration: MomentsCalibration

    def __post_init__(self) -> None:
        self.values.flags.writeable = False

    @property
    def curvature(self) -> FloatArray:
        """Noisy H ``(d, d)``, scaled units."""
        return matrix_of(self.values[: len(self.values) // 2])

    @property
    def scores(self) -> FloatArray:
        """Noisy S ``(d, d)``, scaled units."""
        return matrix_of(self.values[len(self.values) // 2 :]) / self.calibration.balance


def vector_of(matrices: FloatArray) -> FloatArray:
    """Svec ``(..., d (d + 1) / 2)`` of symmetric ``(..., d, d)``: lengths are Frobenius norms."""
    rows, columns, weights = _triangle(matrices.shape[-1])
    return np.asarray(matrices[..., rows, columns] * weights)


def matrix_of(vectors: FloatArray) -> FloatArray:
    """The symmetric matrices ``(..., d, d)`` of svecs ``(..., d (d + 1) / 2)``."""
    d = round((np.sqrt(8 * vectors.shape[-1] + 1) - 1) / 2)
    rows, columns, weights = _triangle(d)
    found = np.empty((*vectors.shape[:-1], d, d))
    found[..., rows, columns] = found[..., columns, rows] = vectors / weights
    return found


@lru_cache(maxsize=16)
def _triangle(d: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Places of the upper triangle, by rows, and what svec multiplies them by."""
    rows, columns = np.triu_indices(d)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


def release_moments(
    rows: Rows, coef: FloatArray, calibration: MomentsCalibration, noise: Draw
) -> Moments:
    """Fold both matrices in one pass over the rows, add the noise, round, release.

    Parameters
    ----------
    rows : Rows
    coef : ndarray of shape (d,)
        What was released before, on the same rows.
    calibration : MomentsCalibration
    noise : Draw
        Of ``calibration.noise``.

    Notes
    -----
    **Privacy.** *Covered*: the matrices, by ``calibration.target``, whatever `coef` is as long
    as it was paid for. *Neighbours*: replace one record. *Assumed public*: everything in
    ``calibration.problem``. *Not covered*: time and memory.
    """
    require_match(rows, calibration)
    exact = mean_moments(rows, coef, calibration)
    if calibration.grid == 0:
        return Moments(exact, calibration)
    return Moments(rounded_sum(exact, noise, calibration.grid), calibration)


def mean_moments(rows: Rows, coef: FloatArray, calibration: MomentsCalibration) -> FloatArray:
    """``(svec H, eta svec S)`` of the rows themselves, which nothing protects."""
    loss = calibration.problem.loss

    def kernel(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        # each margin by itself, so that no record changes what another one adds
        margin = y * row_products(x, coef)
        used = y * y
        return gram(x, loss.curvature(margin) * used), gram(x, loss.slope(margin) ** 2 * used)

    curvature, scores = rows.fold(kernel)
    weighted = [vector_of(curvature), calibration.balance * vector_of(scores)]
    return np.concatenate(weighted) / rows.n
