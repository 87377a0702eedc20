"""The law of the error of combinations of coefficients: sampling error plus privacy noise.

Given the matrices, ``a.(w - w*)`` is a normal number plus a linear function of the noise that was
drawn, whose exact law is public. Spherical Laplace noise is a scale mixture of normals; any other
noise that is not normal is represented by points of its law. So every law here is a mixture of
normal laws, and every tail is a mean of normal tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy
from scipy.optimize import elementwise

from privatelr.privacy.noise import NODES, NoiseLaw, draw_many
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    from privatelr.inference.noisy_moments import NoisyMoments

PUBLIC_SEED = 20_190_901
"""The seed of the points that represent known laws: public, and the same at every call."""
_FEW_NODES = 12
"""Number of normal laws in a mixture for many matrices, which mix by themselves."""
_POINTS, _DRAWS = 8192, 20_000
"""Number of points that represent a law of noise, and of draws of joint errors."""
_PRECISION = {"xrtol": 1e-9, "fatol": 1e-12}
"""Relative precision of a quantile, and that of its probability."""
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
        miss = 1 - level
        reach = np.sqrt(self.weight @ (self.centre**2 + self.sd**2) / miss)  # by Chebyshev
        return root_of(lambda size, at: miss - self._of(at).beyond(size), 0 * reach, reach)

    def quantile(self, share: float) -> FloatArray:
        """Errors ``(m,)`` that are exceeded with probability ``1 - share``."""
        mean = self.weight @ self.centre
        unit = np.sqrt(self.weight @ ((self.centre - mean) ** 2 + self.sd**2))
        odds = math.sqrt(share / (1 - share))
        low, high = mean - unit / odds, mean + unit * odds  # by Cantelli's inequality
        return root_of(lambda limit, at: self._of(at).below(limit) - share, low, high)

    def _of(self, places: IntArray) -> ErrorLaw:
        """The laws of some of the combinations."""
        return replace(self, centre=self.centre[:, places], sd=self.sd[:, places])


def root_of(
    rising: Callable[[FloatArray, IntArray], FloatArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Find where m rising functions are 0, between ends ``(m,)`` on both sides of the roots.

    Parameters
    ----------
    rising : callable
        Takes numbers, and which of the functions each is for; returns their values.
    """
    found = elementwise.find_root(
        rising, (low, high), args=(np.arange(len(low)),), tolerances=_PRECISION
    )
    return np.asarray(found.x)


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
