"""Errors of any number of combinations at once, such as the rows of a new frame.

`infer` computes a law for each combination. Here one matrix bounds the variances of all of them,
and one factor turns standard errors into half widths. Neither depends on the combinations, so the
interval of a row does not depend on the other rows. In the posterior mode it is never shorter than
the interval of `infer`; in the conservative mode both are bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from privatelr.inference.conservative import SHARE, NoiseLimits, WorstErrors, limits_of
from privatelr.inference.error_distribution import mixture_of
from privatelr.inference.noisy_moments import NoisyMoments, evidence_of, floored, is_exact
from privatelr.inference.question import Question, answerable, matrices_for
from privatelr.mechanisms import Release, vector_of
from privatelr.privacy.noise import SphericalLaplace
from privatelr.types import FloatArray

_PORTIONS = np.linspace(0.0, 1.0, 9)
"""Shares of the variance that may be noise; the heaviest tail among them is used."""
_HALVINGS = 16
_RATIOS = 120
_TINY = 1e-300
_FIRST = np.log([2.0, 2e-3, 2e-3, 2e-3])
"""Logarithms of the first multipliers of a search, relative to their natural sizes."""
_SEARCHES = 3
_FAR = 50.0
"""Largest change of the logarithm of a multiplier during a search."""


@dataclass(frozen=True, slots=True, eq=False)
class RowErrors:
    """Half widths of the intervals of ``a.w``, for any combination a.

    Attributes
    ----------
    roots : tuple of ndarray of shape (d, d)
        Each of them gives a standard error ``|a' root|``; the smallest is used.
    factor : float
        Half width of an interval over the standard error.
    level : float
    mode : str
    """

    roots: tuple[FloatArray, ...]
    factor: float
    level: float
    mode: str

    def sd(self, rows: FloatArray) -> FloatArray:
        """Standard errors ``(n,)`` of combinations ``(n, d)``, each by itself to the last bit."""
        found = []
        for root in self.roots:
            # summed in a fixed order; that of a product of matrices would depend on the batch
            total = np.zeros(len(rows))
            for column in root.T:
                image = np.zeros(len(rows))
                for entry, weight in zip(rows.T, column, strict=True):
                    image += entry * weight
                total += image * image
            found.append(np.sqrt(total))
        return np.asarray(np.min(found, axis=0))

    def half_width(self, rows: FloatArray) -> FloatArray:
        """Half widths ``(n,)`` for combinations ``(n, d)``."""
        return self.factor * self.sd(rows)


def row_errors(release: Release, asked: Question) -> RowErrors:
    """Bound the errors of all combinations of the design coefficients.

    Parameters
    ----------
    release : Release
        With moments.
    asked : Question
        A question about the penalised target; its level is for each combination by itself.

    Raises
    ------
    GuaranteeError
        As `infer`.

    Notes
    -----
    **Privacy.** *Covered*: a function of the release, free to repeat. *Neighbours*, *Assumed
    public*: those of the release. *Not covered*: nothing.
    """
    return _row_errors(release, answerable(release, asked))


@lru_cache(maxsize=16)
def _row_errors(release: Release, asked: Question) -> RowErrors:
    if asked.mode == "conservative" and not is_exact(evidence_of(release)):
        return _worst(evidence_of(release), asked)
    return _averaged(release, asked)


# -- over equally likely matrices ------------------------------------------------------------


def _averaged(release: Release, asked: Question) -> RowErrors:
    """Return the mean covariance, and the factor of the worst combination.

    For one of the equally likely matrices, let r be the variance of a combination over the mean of
    that variance over all matrices. The mean of r is 1, and r lies between the extreme eigenvalues
    of the whitened covariances. Its variance is at most the largest eigenvalue of their covariance.
    """
    matrices, calibration = matrices_for(release, asked), release.calibration
    n = calibration.problem.n
    solved = np.linalg.inv(matrices.curvature)
    sampling = solved @ matrices.scores @ solved / n
    added = np.broadcast_to(np.diag(calibration.noise.variances), solved.shape)
    if calibration.placement == "objective":
        added = solved @ added @ solved / n**2
    total = sampling + added + np.diag(calibration.shield.variances)
    values, vectors = np.linalg.eigh(total.mean(axis=0))
    root = np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
    ratios, spread = np.ones(1), 0.0
    if len(total) > 1:
        white = vectors / np.sqrt(values)
        relative = white.T @ total @ white
        ends = np.linalg.eigvalsh(relative)
        ratios = np.unique([1.0, *np.geomspace(max(ends.min(), _TINY), ends.max(), _RATIOS)])
        moments = np.atleast_2d(np.cov(vector_of(relative).T, bias=True))
        spread = float(np.linalg.eigvalsh(moments)[-1])
    portion = 0.0  # the largest share of the noise in the variance of any combination
    if added.any():
        lower = np.linalg.cholesky(total)
        half = np.linalg.solve(lower, added)
        shares = np.linalg.eigvalsh(np.linalg.solve(lower, np.swapaxes(half, 1, 2)))
        portion = min(1.0, float(shares.max()))
    # noise that is not a mixture of normal laws is treated as a Laplace number, which has the
    # heaviest tails that a log-concave law can have
    mixed = mixture_of(calibration.noise) or mixture_of(SphericalLaplace(1, 1.0))
    assert mixed is not None
    nodes, weight = mixed
    mean = float(weight @ nodes)
    relative = nodes / mean if mean > 0 else np.ones(1)
    parts = portion * _PORTIONS[:, None, None]
    variances = ratios[:, None] * (1 - parts + parts * relative)
    factor = _factor(np.sqrt(variances), weight, ratios, spread, 1 - asked.level)
    return RowErrors((root,), factor, asked.level, asked.mode)


def _factor(
    sd: FloatArray, weight: FloatArray, ratios: FloatArray, spread: float, miss: float
) -> float:
    """Return the number of standard errors that an error exceeds with probability `miss`.

    It holds for the worst law of r. `sd` ``(u, c, j)`` has the standard deviations of the mixed
    normal laws, for each portion of noise and each ratio r.
    """

    def misses(size: float) -> float:
        chance = (2 * scipy.special.ndtr(-size / sd) @ weight).max(axis=0)
        if spread == 0:
            return float(chance[ratios == 1.0][0])
        worst = scipy.optimize.linprog(
            -chance / miss,
            A_eq=np.array([np.ones_like(ratios), ratios]),
            b_eq=np.ones(2),
            A_ub=(ratios - 1)[None, :] ** 2,
            b_ub=np.array([spread]),
        )
        return float(-worst.fun) * miss

    low, high = 0.0, 1 / np.sqrt(miss)  # Chebyshev's inequality
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if misses(middle) > miss else (low, middle)
    return float(high)


# -- over all matrices that the noise leaves possible ----------------------------------------


def _worst(evidence: NoisyMoments, asked: Question) -> RowErrors:
    """Return matrices that bound the variance of any combination within the limits of the noise."""
    miss = 1 - asked.level
    limits, n = limits_of(evidence, SHARE * miss), evidence.problem.n
    noise = np.diag(evidence.calibration.noise.variances)
    fixed = np.diag(evidence.calibration.shield.variances)
    form = floored(evidence.scores + limits.scores * np.eye(len(evidence.w)), 0.0) / n
    if evidence.calibration.placement == "objective":
        form = form + noise / n**2
    else:
        fixed = fixed + noise
    roots = []
    for reference in (np.eye(len(form)), floored(evidence.curvature, evidence.floor)):
        bound = bounding_form(form, evidence, limits, reference)
        values, vectors = np.linalg.eigh(bound + fixed)
        roots.append(np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))))
    factor = WorstErrors(evidence, 1 - _PORTIONS, _PORTIONS).half_width((1 - SHARE) * miss).max()
    return RowErrors(tuple(roots), float(factor), asked.level, asked.mode)


def bounding_form(
    form: FloatArray, evidence: NoisyMoments, limits: NoiseLimits, reference: FloatArray
) -> FloatArray:
    """Return a matrix M with ``v' form v <= a' M a`` for all a and all possible ``v = H^-1 a``.

    The inequalities of `conservative`, times multipliers, are added to the form. If the sum is
    concave in v, its largest value is a quadratic form in a. The multipliers are chosen to make
    the trace of M times `reference` small.
    """
    h, floor, identity = evidence.curvature, evidence.floor, np.eye(len(form))
    across, along = limits.across, limits.along
    top = max(float(np.linalg.eigvalsh(form)[-1]), _TINY)
    # alone, the first inequality gives |form| |a|^2 / floor^2
    size = np.array([1 / floor, 1 / across**2, 1 / along, 1 / along]) * top

    def bound(logs: FloatArray) -> FloatArray | None:
        m = np.exp(np.clip(logs, -_FAR, _FAR)) * size
        concave = (
            m[0] * floor * identity
            - m[1] * (across**2 * identity - h @ h)
            - m[2] * (along * identity - h)
            - m[3] * (along * identity + h)
            - form
        )
        try:
            np.linalg.cholesky(concave)
        except np.linalg.LinAlgError:
            return None
        linear = (m[0] + m[2] - m[3]) / 2 * identity + m[1] * h
        return np.asarray(linear @ np.linalg.solve(concave, linear) - m[1] * identity)

    def size_of(logs: FloatArray) -> float:
        found = bound(logs)
        return np.inf if found is None else float(np.sum(found * reference)) / top

    logs = _FIRST
    for _ in range(_SEARCHES):  # each starts where the last one ended, with a wide simplex again
        logs = scipy.optimize.minimize(size_of, logs, method="Nelder-Mead").x
    found = bound(logs)
    assert found is not None
    return found
