"""Errors of any number of combinations at once, such as the rows of a new frame.

`infer` computes a law for each combination. Here one matrix bounds the variances of all of them,
and one factor turns standard errors into half widths. Neither depends on the combinations, so the
interval of a row does not depend on the other rows. In the posterior mode it is never shorter than
the interval of `infer`; in the conservative mode both are bounds.

Without the penalty, `infer` gives intervals whose sides differ, because the bias of the penalty has
a skew law. Those here are symmetric about the same estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from privatelr.inference.conservative import SHARE, NoiseLimits, WorstErrors, limits_of
from privatelr.inference.intervals import MatrixErrors, errors_by_matrices, is_unseen
from privatelr.inference.noisy_moments import (
    NoisyMoments,
    evidence_of,
    floored,
    is_exact,
    undivided,
)
from privatelr.inference.question import Question, answerable
from privatelr.mechanisms import Release, vector_of
from privatelr.privacy.noise import NoiseLaw, SphericalLaplace
from privatelr.types import FloatArray, IntArray

_PORTIONS = np.linspace(0.0, 1.0, 9)
"""Shares of the variance that may be noise; the heaviest tail among them is used."""
_BIASES = np.linspace(0.0, 1.0, 4)
"""The same for squared bias."""
_LEFT_OUT = (1 / 15, 1 / 6, 1 / 3)
"""Shares of the misses that matrices with large errors may use up."""
_HALVINGS = 16
_RATIOS = 120
_TINY = 1e-300
_FIRST = np.log([2.0, 2e-3, 2e-3, 2e-3])
"""Logarithms of the first multipliers of a search, relative to their natural sizes."""
_SEARCHES = 3
RootsAndReaches = tuple[tuple[FloatArray, ...], tuple[FloatArray, ...]]
"""Those of `RowErrors`."""
_FAR = 50.0
"""Largest change of the logarithm of a multiplier during a search."""


@dataclass(frozen=True, slots=True, eq=False)
class RowErrors:
    """Intervals of all combinations a of the design coefficients, about ``a.estimate``.

    Attributes
    ----------
    estimate : ndarray of shape (d,)
        Estimates of the coefficients of the target.
    roots : tuple of ndarray of shape (d, d)
        Each of them gives a standard error ``|a' root|``; the smallest is used.
    reaches : tuple of ndarray of shape (d, d)
        Each of them gives a half width ``|a' reach|``; the smallest is used.
    evidence : NoisyMoments
    level : float
    mode, target : str

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import Question, row_errors
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> errors = row_errors(fit.release, Question(level=0.9))
    >>> rows = fit.spec.user_rows()  # any combinations of the design coefficients
    >>> (errors.half_width(rows) / errors.sd(rows)).round(2)
    array([1.64, 1.64, 1.64])
    """

    estimate: FloatArray
    roots: tuple[FloatArray, ...]
    reaches: tuple[FloatArray, ...]
    evidence: NoisyMoments
    level: float
    mode: str
    target: str

    def sd(self, rows: FloatArray) -> FloatArray:
        """Standard errors ``(n,)`` of combinations ``(n, d)``, each by itself to the last bit."""
        return self._where_seen(rows, _least_lengths(rows, self.roots))

    def half_width(self, rows: FloatArray) -> FloatArray:
        """Half widths ``(n,)`` for combinations ``(n, d)``, each by itself to the last bit."""
        return self._where_seen(rows, _least_lengths(rows, self.reaches))

    def _where_seen(self, rows: FloatArray, lengths: FloatArray) -> FloatArray:
        return np.where(is_unseen(self.evidence, rows, self.target), np.nan, lengths)


def _least_lengths(rows: FloatArray, roots: tuple[FloatArray, ...]) -> FloatArray:
    found = []
    for root in roots:
        # summed in a fixed order; that of a product of matrices would depend on the batch
        total = np.zeros(len(rows))
        for column in root.T:
            image = np.zeros(len(rows))
            for entry, weight in zip(rows.T, column, strict=True):
                if weight != 0:
                    image += entry * weight
            total += image * image
        found.append(np.sqrt(total))
    return np.asarray(np.min(found, axis=0))


def _root(form: FloatArray) -> FloatArray:
    """A triangular matrix M with ``M M' = form``, which may be singular."""
    values, vectors = np.linalg.eigh(form)
    half = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.linalg.qr(half.T)[1].T)


def row_errors(release: Release, asked: Question) -> RowErrors:
    """Bound the errors of all combinations of the design coefficients.

    Parameters
    ----------
    release : Release
        With moments.
    asked : Question
        The level is for each combination by itself.

    Raises
    ------
    GuaranteeError
        As `infer`.

    Notes
    -----
    **Privacy.** *Covered*: a function of the release, free to repeat. *Neighbours*, *Assumed
    public*: those of the release. *Not covered*: nothing.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import Question, row_errors
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> row_errors(fit.release, Question()).sd(fit.spec.user_rows()).round(3)
    array([0.396, 0.005, 0.072])
    """
    return _row_errors(release, answerable(release, asked))


@lru_cache(maxsize=16)
def _row_errors(release: Release, asked: Question) -> RowErrors:
    evidence = evidence_of(release)
    found: RootsAndReaches
    if asked.withheld:
        nothing = (np.full((len(release.coef),) * 2, np.nan),)
        estimate, found = release.coef, (nothing, nothing)
    elif asked.mode == "conservative" and not is_exact(evidence):
        estimate, found = evidence.w, _worst(evidence, asked.level)
    else:
        errors = errors_by_matrices(release, asked)
        estimate, found = errors.estimate, _averaged(errors, release, asked.level)
    return RowErrors(estimate, *found, evidence, asked.level, asked.mode, asked.target)


# -- over equally likely matrices ------------------------------------------------------------


def _averaged(errors: MatrixErrors, release: Release, level: float) -> RootsAndReaches:
    """Return the mean covariance, and the smallest bound of squared half widths that was found.

    The matrices with the largest errors may be left out of a bound: they count as misses, and the
    others then have to miss less often.
    """
    noise, miss, k = release.calibration.noise, 1 - level, len(errors.total)
    squares = np.diagonal(errors.total, axis1=1, axis2=2)
    usual = np.maximum(np.median(squares, axis=0), _TINY)  # large errors hardly move medians
    order = np.argsort((squares / usual).sum(axis=1))
    squared = _squared_reach(errors, order, noise, miss)
    for out in sorted({int(share * miss * k) for share in _LEFT_OUT} - {0}):
        left = _squared_reach(errors, order[: k - out], noise, (miss * k - out) / (k - out))
        if (np.diag(left) / usual).sum() >= (np.diag(squared) / usual).sum():
            break
        squared = left
    return (_root(errors.total.mean(axis=0)),), (_root(squared),)


def _squared_reach(
    errors: MatrixErrors, kept: IntArray, noise: NoiseLaw, miss: float
) -> FloatArray:
    """Return a matrix M: an error ``a.e`` exceeds ``sqrt(a' M a)`` with probability `miss` at most.

    For one of the equally likely matrices, let r be the mean square of ``a.e`` over the mean of
    that over all matrices. The mean of r is 1, and r lies between the extreme eigenvalues of the
    whitened mean products. Its variance is at most the largest eigenvalue of their covariance.
    Shares of r are noise and squared bias; each is at most that of the worst combination.
    """
    total, mean = errors.total[kept], errors.total[kept].mean(axis=0)
    ratios, spread = np.ones(1), 0.0
    try:
        if len(total) > 1:
            white = np.linalg.inv(np.linalg.cholesky(mean))
            relative = white @ total @ white.T
            ends = np.linalg.eigvalsh(relative)
            ratios = np.unique([1.0, *np.geomspace(max(ends.min(), _TINY), ends.max(), _RATIOS)])
            moments = np.atleast_2d(np.cov(vector_of(relative).T, bias=True))
            spread = float(np.linalg.eigvalsh(moments)[-1])
        shares = _largest_shares(total, errors.noise[kept], errors.left[kept])
    except np.linalg.LinAlgError:  # matrices that are nearly singular, whose errors have no limit
        return np.asarray(mean / miss)  # Chebyshev's inequality
    # noise that is not a mixture of normal laws is treated as a Laplace number, which has the
    # heaviest tails that a log-concave law can have
    mixed = noise.mixture() or SphericalLaplace(1, 1.0).mixture()
    assert mixed is not None
    nodes, weight = mixed
    size = float(weight @ nodes)
    heavier = nodes / size if size > 0 else np.ones(1)
    parts = np.array([(p, b) for p in _PORTIONS * shares[0] for b in _BIASES * shares[1]])
    of_noise, of_bias = parts[parts.sum(axis=1) <= 1].T[:, :, None, None]
    variances = ratios[:, None] * np.maximum(1 - of_bias - of_noise + of_noise * heavier, _TINY)
    centre, sd = np.sqrt(ratios[:, None] * of_bias), np.sqrt(variances)
    return np.asarray(_factor(centre, sd, weight, ratios, spread, miss) ** 2 * mean)


def _largest_shares(total: FloatArray, noise: FloatArray, bias: FloatArray) -> tuple[float, float]:
    """The largest shares that noise ``(k, d, d)`` and bias ``(k, d)`` have for any combination."""
    if not noise.any():  # without noise nothing is unknown, and the total may be singular
        return 0.0, 0.0
    lower = np.linalg.cholesky(total)
    half = np.linalg.solve(lower, noise)
    shares = np.linalg.eigvalsh(np.linalg.solve(lower, np.swapaxes(half, 1, 2)))
    squares = (np.linalg.solve(lower, bias[:, :, None]) ** 2).sum(axis=1)
    return min(1.0, float(shares.max())), min(1.0, float(squares.max()))


def _factor(
    centre: FloatArray,
    sd: FloatArray,
    weight: FloatArray,
    ratios: FloatArray,
    spread: float,
    miss: float,
) -> float:
    """Return the number of standard errors that an error exceeds with probability `miss`.

    It holds for the worst law of r. `sd` ``(u, c, j)`` has the standard deviations of the mixed
    normal laws, and `centre` ``(u, c, 1)`` their means, for each pair of shares and each ratio r.
    """

    def misses(size: float) -> float:
        beyond = scipy.special.ndtr((centre - size) / sd) + scipy.special.ndtr(
            -(centre + size) / sd
        )
        chance = (beyond @ weight).max(axis=0)
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


def _worst(evidence: NoisyMoments, level: float) -> RootsAndReaches:
    """Return matrices that bound the variance of any combination within the limits of the noise."""
    miss, units = 1 - level, evidence.units
    evidence = undivided(evidence)  # the limits of the noise are in the units of the matrices
    limits, n = limits_of(evidence, SHARE * miss), evidence.problem.n
    noise = evidence.calibration.noise.variances
    fixed = np.diag(evidence.calibration.shield.variances / units**2)
    form = floored(evidence.scores + limits.scores * np.eye(len(evidence.w)), 0.0) / n
    if evidence.calibration.placement == "objective":
        form = form + np.diag(noise * units**2) / n**2
    else:
        fixed = fixed + np.diag(noise / units**2)
    references = (np.eye(len(form)), floored(evidence.curvature, evidence.floor))
    forms = (bounding_form(form, evidence, limits, ref) + fixed for ref in references)
    roots = tuple(units[:, None] * _root(form) for form in forms)
    factor = WorstErrors(evidence, 1 - _PORTIONS, _PORTIONS).half_width((1 - SHARE) * miss).max()
    return roots, tuple(factor * root for root in roots)


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
