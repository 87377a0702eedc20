"""The noisy moments of a release, and the true moments that their noise allows.

A flat prior on the feasible cone and the known law of the noise give a posterior. Where the noise
is small, draws of the noise are subtracted and the result is moved into the cone (inference.md 5).

Conventions are those of inference.md with its 2c written as the package's lambda: H is the
curvature of the mean objective, penalty included, and S the covariance of one record's gradient.
All of it is in scaled units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import lapack

from privatelr.errors import GuaranteeError
from privatelr.inference.error_distribution import PUBLIC_SEED, Matrices
from privatelr.mechanisms import Moments, Problem, Release, matrix_of, vector_of
from privatelr.mechanisms.calibration import Calibration
from privatelr.privacy.noise import NoiseLaw, NoNoise, SphericalLaplace
from privatelr.types import BoolArray, FloatArray

Mode = Literal["posterior", "conservative", "plug-in"]
Target = Literal["penalised", "unpenalised"]
TARGETS: tuple[Target, ...] = ("penalised", "unpenalised")
MODES: tuple[Mode, ...] = ("posterior", "conservative", "plug-in")
FRAGILE = 0.3
"""Ratio of noise to signal from which on the posterior is sampled within the cone."""
MISLEADING = 5.0
"""Ratio of noise to signal beyond which an average over the posterior may miss (inference.md 11.2;
``python -m tests.studies.coverage``)."""
LARGEST_BIAS = 1.0
"""Largest relative bias of the penalty that one step takes off (inference.md 3.4)."""

_FLAT = 1e-13
"""Share of the largest curvature below which eigenvalues are rounding errors."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMoments:
    """Noisy matrices and the law of their noise.

    Attributes
    ----------
    w : ndarray of shape (d,)
        Released coefficients.
    curvature : ndarray of shape (d, d)
        Noisy H, penalty included. H itself is at least ``lambda_`` times the identity.
    scores : ndarray of shape (d, d)
        Noisy S, ``lambda_**2 w w'`` taken off. S itself is positive semidefinite.
    curvature_sd : float
        Standard deviation of the noise on a diagonal entry of H.
    balance : float
        eta, the factor by which the noise in S is smaller than that in H.
    calibration : Calibration
        The calibration of the coefficients.
    noise : NoiseLaw
        The law of the noise of the moments, on ``(svec H, eta svec S)``.
    largest_trace, largest_scores : float
        The largest traces of H without its penalty, and of S.
    """

    w: FloatArray
    curvature: FloatArray
    scores: FloatArray
    curvature_sd: float
    balance: float
    calibration: Calibration
    noise: NoiseLaw
    largest_trace: float
    largest_scores: float

    @property
    def problem(self) -> Problem:
        return self.calibration.problem

    @property
    def scores_sd(self) -> float:
        """Standard deviation of the noise on a diagonal entry of S."""
        return self.curvature_sd / self.balance

    @property
    def floor(self) -> float:
        """lambda, a lower bound on the eigenvalues of H."""
        return self.problem.lambda_


@dataclass(frozen=True, slots=True)
class Quality:
    """How reliable the released matrices are; all of it is a function of the release.

    Attributes
    ----------
    noise_to_signal : float
        Typical size of the noise in H over its smallest eigenvalue.
    relative_bias : float
        Length of the bias of the penalty, over the length of the coefficients; infinite if the
        data adds hardly any curvature to the objective.
    is_fragile : bool
        Whether the noise is so large that an average over the posterior may miss.
    mode, target : str
        The default mode of intervals, and what they are about: the coefficients without the penalty
        where the release can carry that, and the model has probabilities.
    """

    noise_to_signal: float
    relative_bias: float
    has_probabilities: bool = True

    @property
    def is_fragile(self) -> bool:
        return self.noise_to_signal > MISLEADING

    @property
    def target(self) -> Target:
        known = self.noise_to_signal > 0 and not self.is_fragile
        carries = known and self.relative_bias <= LARGEST_BIAS
        return "unpenalised" if carries and self.has_probabilities else "penalised"

    @property
    def mode(self) -> Mode:
        if self.noise_to_signal == 0:
            return "plug-in"  # without noise in the matrices there is nothing to average over
        return "conservative" if self.is_fragile else "posterior"


def require_moments(release: Release) -> Moments:
    """Return the moments of a release; raises `GuaranteeError` if they were not requested."""
    if release.moments is None:
        raise GuaranteeError(
            "spend: standard errors were not requested with this fit, and cannot be added to it; "
            "fit with spend='inference', which divides eps between the coefficients and inference."
        )
    return release.moments


def evidence_of(release: Release) -> NoisyMoments:
    """Read a release; raises `GuaranteeError` if inference was not requested."""
    moments = require_moments(release)
    problem = release.calibration.problem
    w, calibration = release.coef, moments.calibration
    largest_trace, largest_scores = calibration.traces
    return NoisyMoments(
        w=w,
        curvature=moments.curvature + problem.lambda_ * np.eye(problem.d),
        scores=moments.scores - problem.lambda_**2 * np.outer(w, w),
        curvature_sd=calibration.entry_sd,
        balance=calibration.balance,
        calibration=release.calibration,
        noise=calibration.noise,
        largest_trace=largest_trace,
        largest_scores=largest_scores,
    )


def quality(release: Release) -> Quality:
    """Measure noise and bias of a release, and choose the mode of inference that suits them."""
    evidence = evidence_of(release)
    values = np.linalg.eigvalsh(evidence.curvature)
    smallest, sd = float(values[0]), evidence.curvature_sd
    ratio = sd * math.sqrt(2 * len(values)) / max(smallest, evidence.floor)
    return Quality(ratio, relative_bias(evidence), evidence.problem.loss.probability is not None)


def relative_bias(evidence: NoisyMoments) -> float:
    """``|lambda H0^-1 w| / |w|`` with H0 the curvature without its penalty (inference.md 3.4)."""
    bare = evidence.curvature - evidence.floor * np.eye(len(evidence.w))
    length = float(np.linalg.norm(evidence.w))
    if float(np.linalg.eigvalsh(bare)[0]) <= _FLAT * evidence.largest_trace:
        return math.inf
    if length == 0:
        return 0.0
    return evidence.floor * float(np.linalg.norm(np.linalg.solve(bare, evidence.w))) / length


def is_exact(evidence: NoisyMoments) -> bool:
    """Whether the matrices have no noise, as in a plain fit."""
    return isinstance(evidence.noise, NoNoise)


_CHAINS, _WARM_UP, _KEPT, _APART = 64, 60, 6, 8
"""Number of chains, of warm-up steps, of draws that a chain keeps, and of steps between them."""
_SHRINKS = 60
"""Largest number of attempts at a step of a chain; after them the chain stays where it is."""
_SHORTEST = 1e-9
"""Least ratio of the length of noise to its scale, which avoids a division by 0."""
_INSIDE = 0.05
"""Distance from the floor at which chains start, in standard deviations of the noise."""


def floored(matrices: FloatArray, floor: float) -> FloatArray:
    """Raise the eigenvalues of symmetric matrices ``(..., d, d)`` to at least `floor`."""
    values, vectors = np.linalg.eigh(matrices)
    raised = np.maximum(values, floor)[..., None, :]
    return np.asarray((vectors * raised) @ np.swapaxes(vectors, -1, -2))


def plug_in(evidence: NoisyMoments, scores_floor: float = 0.0) -> Matrices:
    """Move the released matrices into the feasible cone (inference.md 4.4)."""
    return Matrices(
        floored(evidence.curvature, evidence.floor)[None],
        floored(evidence.scores, scores_floor)[None],
    )


def plausible(evidence: NoisyMoments, noise_to_signal: float) -> Matrices:
    """Draw from the posterior of both matrices; the draws are the same at every call.

    Where the noise is small, they are drawn from the posterior without constraints, and moved into
    the cone.
    """
    if is_exact(evidence):
        return plug_in(evidence)
    if noise_to_signal >= FRAGILE:
        return _posterior(evidence)
    rng, law, count = np.random.default_rng(PUBLIC_SEED), evidence.noise, _CHAINS * _KEPT
    scales = np.full(count, law.scale)
    if isinstance(law, SphericalLaplace):
        shape = (law.dimension + 1) / 2
        scales = np.sqrt(rng.gamma(shape, 2 / law.rate / law.rate, count))
    sd, size = scales[:, None], (count, law.dimension // 2)
    curvature = evidence.curvature - matrix_of(sd * rng.standard_normal(size))
    scores = evidence.scores - matrix_of(sd / evidence.balance * rng.standard_normal(size))
    return Matrices(floored(curvature, evidence.floor), floored(scores, 0.0))


def _posterior(evidence: NoisyMoments) -> Matrices:
    """Sample by elliptical slices in the cone, together with the scale of Laplace noise.

    Many chains run in parallel. Given the scale, the noise is normal (Murray, Adams and MacKay
    2010); given the noise, the reciprocal of the squared scale is inverse Gaussian.
    """
    rng, law = np.random.default_rng(PUBLIC_SEED), evidence.noise
    balance, d = evidence.balance, len(evidence.w)
    bare = evidence.curvature - evidence.floor * np.eye(d)
    curvature = FeasibleCone(bare, evidence.largest_trace)
    scores = FeasibleCone(evidence.scores, evidence.largest_scores)
    x = np.tile(curvature.start(evidence.curvature_sd), (_CHAINS, 1))
    y = np.tile(scores.start(evidence.scores_sd), (_CHAINS, 1))
    sd = np.full((_CHAINS, 1), law.scale)
    kept = []
    for step in range(_WARM_UP + _KEPT * _APART):
        if isinstance(law, SphericalLaplace):
            length = np.linalg.norm(np.hstack([x, balance * y]), axis=1)
            length = np.maximum(length, _SHORTEST / law.rate)
            sd = (1 / np.sqrt(rng.wald(law.rate / length, law.rate**2)))[:, None]
        x = _sliced(x, sd * rng.standard_normal(x.shape), curvature, rng)
        y = _sliced(y, sd / balance * rng.standard_normal(y.shape), scores, rng)
        # several steps lie between the draws of a chain, so they are nearly independent
        if step >= _WARM_UP and (step - _WARM_UP) % _APART == _APART - 1:
            kept.append((x, y))
    xs, ys = (np.concatenate(part) for part in zip(*kept, strict=True))
    return Matrices(evidence.curvature + matrix_of(xs), evidence.scores + matrix_of(ys))


@dataclass(frozen=True, slots=True, eq=False)
class FeasibleCone:
    """Offsets from a noisy matrix ``(d, d)`` to positive definite ones of bounded trace."""

    noisy: FloatArray
    largest_trace: float

    def start(self, sd: float) -> FloatArray:
        """Return an offset ``(k,)`` inside the cone, near the noisy matrix."""
        least = min(_INSIDE * sd, self.largest_trace / (2 * len(self.noisy)))
        inside = floored(self.noisy, least)
        excess = float(np.trace(inside)) / (0.99 * self.largest_trace)
        return vector_of(inside / max(excess, 1.0) - self.noisy)

    def holds(self, offset: FloatArray) -> BoolArray:
        """Whether noisy matrix plus offset ``(c, k)`` is in the cone."""
        matrices = self.noisy + matrix_of(offset)
        small = np.trace(matrices, axis1=1, axis2=2) <= self.largest_trace
        # each matrix is factored by itself, because one failure would end a stack of them
        return np.array(
            [
                ok and lapack.dpotrf(one, clean=0)[1] == 0
                for ok, one in zip(small, matrices, strict=True)
            ]
        )


def _sliced(
    x: FloatArray, y: FloatArray, cone: FeasibleCone, rng: np.random.Generator
) -> FloatArray:
    """Take one step in each chain, to a point in the cone on the ellipse through x and y."""
    angle = rng.uniform(0, 2 * math.pi, len(x))
    low, high = angle - 2 * math.pi, angle.copy()
    found, left = x.copy(), np.arange(len(x))
    for _ in range(_SHRINKS):
        turn = angle[left, None]
        proposal = x[left] * np.cos(turn) + y[left] * np.sin(turn)
        inside = cone.holds(proposal)
        found[left[inside]] = proposal[inside]
        left = left[~inside]
        if left.size == 0:
            break
        beyond = angle[left] < 0
        low[left] = np.where(beyond, angle[left], low[left])
        high[left] = np.where(beyond, high[left], angle[left])
        angle[left] = rng.uniform(low[left], high[left])
    return found
