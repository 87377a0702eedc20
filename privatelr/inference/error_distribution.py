"""The law of the error of combinations of coefficients: sampling error plus privacy noise.

Given the matrices, ``a.(w - w*)`` is a normal number plus a linear function of the noise that was
drawn, whose exact law is public (inference.md 3.2 and 3.3). Spherical Laplace noise is a scale
mixture of normals; any other noise that is not normal is represented by points of its law. So every
law here is a mixture of normal laws, and every tail is a mean of normal tails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy

from privatelr.privacy.noise import NODES, NoiseLaw, draw_many
from privatelr.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from privatelr.inference.noisy_moments import NoisyMoments

PUBLIC_SEED = 20_190_901
"""The seed of the points that represent known laws: public, and the same at every call."""
_FEW_NODES = 12
"""Number of normal laws in a mixture for many matrices, which mix by themselves."""
_POINTS, _DRAWS = 8192, 20_000
"""Number of points that represent a law of noise, and of draws of joint errors."""
_WIDE = 60.0
"""Number of standard deviations of a normal law beyond which its tail is neglected."""
_STEPS, _LAST = 60, 1e-10
"""Largest number of steps to a quantile, and the length of the last, in standard deviations."""
_SHORT, _STRIDE = 1000, 31
"""Number of components from which on every 31st of them gives a first guess of a quantile; it has
no factor in common with numbers of nodes."""
_HALVINGS = 34
"""Number of halvings of an interval, after which 6e-11 of its width is left."""
SMALLEST = 1e-290
"""Least variance of an error, which stands for 0, as in a plain fit to one record."""


@dataclass(frozen=True, slots=True, eq=False)
class Matrices:
    """Pairs of matrices H and S that are treated as equally likely.

    Attributes
    ----------
    curvature : ndarray of shape (k, d, d)
        H, penalty included.
    scores : ndarray of shape (k, d, d)
        S.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import evidence_of, plug_in
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> plug_in(evidence_of(fit.release)).curvature.shape  # one pair, as there is no noise
    (1, 3, 3)
    """

    curvature: FloatArray
    scores: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ErrorLaw:
    """A mixture of normal laws for the errors of m combinations.

    Attributes
    ----------
    centre, sd : ndarray of shape (c, m)
        Means and standard deviations of the components.
    weight : ndarray of shape (c,)
        Sums to 1.
    sampling, privacy : ndarray of shape (m,)
        Mean variances: what the sample contributes, and what the noise does.
    is_symmetric : bool
        Whether errors up and down are equally likely.
    """

    centre: FloatArray
    sd: FloatArray
    weight: FloatArray
    sampling: FloatArray
    privacy: FloatArray
    is_symmetric: bool

    def below(self, limit: FloatArray) -> FloatArray:
        """Probability ``(m,)`` of an error up to `limit` ``(m,)``."""
        return np.asarray(self.weight @ scipy.special.ndtr((limit - self.centre) / self.sd))

    def above(self, limit: FloatArray) -> FloatArray:
        """Probability ``(m,)`` of an error of at least `limit` ``(m,)``, accurate if small, too."""
        return np.asarray(self.weight @ scipy.special.ndtr((self.centre - limit) / self.sd))

    def beyond(self, size: FloatArray) -> FloatArray:
        """Probability ``(m,)`` of an error of at least `size` ``(m,)``, up or down."""
        up = self.above(size)
        if self.is_symmetric:
            return 2 * up
        return np.asarray(up + self.weight @ scipy.special.ndtr((-self.centre - size) / self.sd))

    def half_width(self, level: float) -> FloatArray:
        """Sizes ``(m,)`` that errors stay within with probability `level`."""
        unit = np.sqrt(self.weight @ (self.centre**2 + self.sd**2))
        aim = scipy.special.ndtri((1 - level) / 2)
        reach = unit / np.sqrt(1 - level)  # by Chebyshev's inequality
        return root_of(
            lambda size: aim - scipy.special.ndtri(self.beyond(size) / 2),
            -aim * unit if self._is_short else self._every().half_width(level),
            unit,
            (0 * reach, reach),
        )

    def quantile(self, share: float) -> FloatArray:
        """Errors ``(m,)`` that are exceeded with probability ``1 - share``."""
        aim, middle = scipy.special.ndtri(share), self.weight @ self.centre
        unit = np.sqrt(self.weight @ ((self.centre - middle) ** 2 + self.sd**2))
        reach = (np.abs(self.centre) + _WIDE * self.sd).max(axis=0)
        return root_of(
            lambda limit: scipy.special.ndtri(self.below(limit)) - aim,
            middle + aim * unit if self._is_short else self._every().quantile(share),
            unit,
            (-reach, reach),
        )

    @property
    def _is_short(self) -> bool:
        return len(self.weight) <= _SHORT

    def _every(self) -> ErrorLaw:
        """Return a law of a few components, whose quantiles are near those of this one."""
        weight = self.weight[::_STRIDE]
        centre, sd = self.centre[::_STRIDE], self.sd[::_STRIDE]
        return replace(self, centre=centre, sd=sd, weight=weight / weight.sum())


def root_of(
    rising: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    unit: FloatArray,
    ends: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Find where m rising functions are 0, by secants, and halvings where a secant leads astray.

    Parameters
    ----------
    rising : callable
        Takes m numbers, one for each function, and returns m values, which may be infinite.
    start, unit : ndarray of shape (m,)
        First numbers, and steps on which the functions rise by about 1.
    ends : tuple of ndarray of shape (m,)
        Numbers on both sides of the roots.
    """
    (low, high), at, value, rate = ends, start, rising(start), 1 / unit
    for _ in range(_STEPS):
        low, high = np.where(value < 0, at, low), np.where(value < 0, high, at)
        with np.errstate(all="ignore"):
            there = at - value / rate
        there = np.where((there >= low) & (there <= high), there, (low + high) / 2)
        if (np.abs(there - at) <= _LAST * unit).all():
            return there
        before, (at, value) = (at, value), (there, rising(there))
        with np.errstate(all="ignore"):
            slope = (value - before[1]) / (at - before[0])
        # beside the root a difference of values is rounding alone; the slope before it is as good
        rate = np.where((slope > 0) & np.isfinite(slope), slope, rate)
    return at


def bisect(
    is_short: Callable[[FloatArray], BoolArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Find where a condition on ``(m,)`` numbers ends that holds for small ones, from above."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = is_short(middle)
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return high


def solved_for(curvature: FloatArray, contrasts: FloatArray) -> FloatArray:
    """``H^-1 a`` ``(k, d, m)`` for curvatures ``(k, d, d)`` and combinations ``(m, d)``."""
    right = np.broadcast_to(contrasts.T, (len(curvature), *contrasts.T.shape))
    return np.asarray(np.linalg.solve(curvature, right), dtype=np.float64)


def carriers(evidence: NoisyMoments, solved: FloatArray, contrasts: FloatArray) -> FloatArray:
    """Return the factors ``(k, d, m)`` of the noise in the errors of the combinations.

    Under objective perturbation a tilt of the sum form moves the minimiser by ``-H^-1 b / n``;
    output noise is added to it.

    Parameters
    ----------
    solved : ndarray of shape (k, d, m)
        ``H^-1 a``.
    contrasts : ndarray of shape (m, d)

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import carriers, evidence_of, plug_in
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> evidence, rows = evidence_of(fit.release), fit.spec.user_rows()
    >>> solved = np.linalg.solve(plug_in(evidence).curvature, rows.T)  # H^-1 a
    >>> np.allclose(carriers(evidence, solved, rows) * len(votes), solved)  # of a sum of n losses
    True
    """
    if evidence.calibration.placement == "objective":
        return solved / evidence.problem.n
    return np.broadcast_to(contrasts.T, solved.shape)


def law_of(
    evidence: NoisyMoments,
    solved: FloatArray,
    carried: FloatArray,
    matrices: Matrices,
    contrasts: FloatArray,
    centre: FloatArray | float = 0.0,
) -> ErrorLaw:
    """The law of the errors of combinations ``(m, d)`` under equally likely matrices.

    It is made from the factors of the mean gradient and those of the noise.

    Parameters
    ----------
    solved, carried : ndarray of shape (k, d, m)
    centre : ndarray of shape (k, m), optional
        Where each pair of matrices centres the errors.
    """
    noise, shield = evidence.calibration.noise, evidence.calibration.shield
    sampling, privacy = variances_of(evidence, solved, carried, matrices, contrasts)
    fixed = sampling + contrasts**2 @ shield.variances
    means = np.broadcast_to(centre, sampling.shape)[:, None, :]
    scales = noise.mixture(NODES if len(solved) == 1 else _FEW_NODES)
    if scales is not None:
        nodes, weight = scales
        squared = np.einsum("kdm,kdm->km", carried, carried)
        variances = fixed[:, None, :] + squared[:, None, :] * nodes[None, :, None]
        centres = np.broadcast_to(means, variances.shape)
    else:
        points = points_of(noise, len(solved))
        weight = np.full(points.shape[1], 1 / points.shape[1])
        centres = means + np.einsum("kpd,kdm->kpm", points, carried)
        variances = np.broadcast_to(fixed[:, None, :], centres.shape)
    m = contrasts.shape[0]
    return ErrorLaw(
        centre=centres.reshape(-1, m),
        sd=np.sqrt(np.maximum(variances, SMALLEST)).reshape(-1, m),
        weight=np.tile(weight / len(solved), len(solved)),
        sampling=sampling.mean(axis=0),
        privacy=privacy.mean(axis=0),
        is_symmetric=not np.any(centre),
    )


def variances_of(
    evidence: NoisyMoments,
    solved: FloatArray,
    carried: FloatArray,
    matrices: Matrices,
    contrasts: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Variances ``(k, m)`` that the sample contributes, and that the noise does; as in `law_of`."""
    noise, shield = evidence.calibration.noise, evidence.calibration.shield
    spread = np.einsum("kdm,kdm->km", solved, matrices.scores @ solved)
    sampling = np.maximum(spread, 0.0) / evidence.problem.n
    return sampling, noise.variances @ carried**2 + contrasts**2 @ shield.variances


@lru_cache(maxsize=8)
def points_of(noise: NoiseLaw, groups: int) -> FloatArray:
    """Points ``(groups, p, d)`` of a noise law and their mirror images.

    Examples
    --------
    >>> from privatelr.inference import points_of
    >>> from privatelr.privacy.noise import SphericalLaplace
    >>> points = points_of(SphericalLaplace(3, 1.0), 2)
    >>> points.shape, float(abs(points.sum(axis=1)).max().round(6))  # each has its mirror image
    ((2, 4096, 3), 0.0)
    """
    each = max(8, _POINTS // groups // 2)
    drawn = draw_many(noise, each * groups, np.random.default_rng(PUBLIC_SEED))
    drawn = drawn.reshape(groups, each, -1)
    found = np.concatenate([drawn, -drawn], axis=1)
    found.flags.writeable = False
    return found


def errors_of(
    evidence: NoisyMoments,
    solved: FloatArray,
    carried: FloatArray,
    matrices: Matrices,
    contrasts: FloatArray,
    centre: FloatArray | float = 0.0,
) -> FloatArray:
    """Draws ``(c, m)`` from the joint law whose marginal laws `law_of` makes from the same."""
    rng, law = np.random.default_rng(PUBLIC_SEED), evidence.calibration.noise
    count, d = len(matrices.curvature), len(evidence.w)
    size = count, max(1, _DRAWS // count)
    values, vectors = np.linalg.eigh(matrices.scores)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    gradients = rng.standard_normal((*size, d)) @ np.swapaxes(root, 1, 2)
    scales = law.mixture()
    if scales is None:
        noise = draw_many(law, size[0] * size[1], rng).reshape(*size, -1)
    else:
        variances = rng.choice(scales[0], (*size, 1), p=scales[1])
        noise = np.sqrt(variances) * rng.standard_normal((*size, law.dimension))
    shield = rng.standard_normal((*size, d)) * np.sqrt(evidence.calibration.shield.variances)
    means = np.broadcast_to(centre, (count, len(contrasts)))[:, None, :]
    errors = gradients @ solved / np.sqrt(evidence.problem.n)
    errors = means + errors + noise @ carried + shield @ contrasts.T
    return np.asarray(errors.reshape(-1, len(contrasts)))
