"""What a release says about its own error, and how far that can be trusted.

Conventions are those of inference.md with its 2c written as the package's lambda: H is the
curvature of the mean objective, penalty included, and S the covariance of one record's gradient.
All of it is in scaled units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.privacy.noise import NoNoise

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.record import Calibration
    from privatelr.mechanisms.moments import Moments
    from privatelr.mechanisms.problem import Problem
    from privatelr.mechanisms.release import Release
    from privatelr.privacy.noise import NoiseLaw
    from privatelr.types import FloatArray

Mode = Literal["posterior", "conservative", "plug-in"]
MODES: tuple[Mode, ...] = ("posterior", "conservative", "plug-in")
FRAGILE = 0.3
"""Ratio of noise to signal from which the noise in H is not small any more (inference.md 9.0)."""

_FLAT = 1e-13
"""Of the largest curvature: eigenvalues below are rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
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
        eta: the noise in S is smaller by it.
    calibration : Calibration
        Of the coefficients.
    noise : NoiseLaw
        Of the moments, on ``(svec H, eta svec S)``.
    """

    w: FloatArray
    curvature: FloatArray
    scores: FloatArray
    curvature_sd: float
    balance: float
    calibration: Calibration
    noise: NoiseLaw

    @property
    def problem(self) -> Problem:
        return self.calibration.problem

    @property
    def scores_sd(self) -> float:
        """Standard deviation of the noise on a diagonal entry of S."""
        return self.curvature_sd / self.balance

    @property
    def floor(self) -> float:
        """lambda: H is nowhere flatter."""
        return self.problem.lambda_

    @property
    def largest_trace(self) -> float:
        """Of H without its penalty: ``c R^2``."""
        return self.problem.loss.curvature_bound * self.problem.radius**2

    @property
    def largest_scores(self) -> float:
        """Of S: ``L^2 R^2``."""
        return self.problem.reach**2


@dataclass(frozen=True, slots=True)
class Quality:
    """How far the released matrices can be trusted; all of it is a function of the release.

    Attributes
    ----------
    noise_to_signal : float
        Typical size of the noise in H over its smallest eigenvalue.
    relative_bias : float
        Length of what the penalty shrinks the coefficients by, over their length; infinite
        where the data hardly bends the objective.
    is_fragile : bool
        Whether H may be near its floor and the noise is not small (inference.md 9.0).
    mode : str
        What intervals are made by, unless asked for otherwise.
    """

    noise_to_signal: float
    relative_bias: float
    is_fragile: bool

    @property
    def mode(self) -> Mode:
        if self.noise_to_signal == 0:
            return "plug-in"  # there is nothing to average over
        return "conservative" if self.is_fragile else "posterior"


def require_moments(release: Release) -> Moments:
    """The moments of a release; raises `GuaranteeError` if they were not requested."""
    if release.moments is None:
        raise GuaranteeError(
            "spend: standard errors were not requested with this fit, and cannot be added to it; "
            "fit with spend='inference', which divides eps between the coefficients and inference."
        )
    return release.moments


def evidence_of(release: Release) -> Evidence:
    """Read a release; raises `GuaranteeError` if inference was not requested."""
    moments = require_moments(release)
    problem = release.calibration.problem
    w, calibration = release.coef, moments.calibration
    return Evidence(
        w=w,
        curvature=moments.curvature + problem.lambda_ * np.eye(problem.d),
        scores=moments.scores - problem.lambda_**2 * np.outer(w, w),
        curvature_sd=calibration.entry_sd,
        balance=calibration.balance,
        calibration=release.calibration,
        noise=calibration.noise,
    )


def quality(release: Release) -> Quality:
    """Noise and bias of what was released, and the mode of inference that they call for."""
    evidence = evidence_of(release)
    values = np.linalg.eigvalsh(evidence.curvature)
    smallest, sd = float(values[0]), evidence.curvature_sd
    ratio = sd * math.sqrt(2 * len(values)) / max(smallest, evidence.floor)
    fragile = ratio > FRAGILE and smallest < evidence.floor + 2 * sd
    return Quality(ratio, relative_bias(evidence), fragile)


def relative_bias(evidence: Evidence) -> float:
    """``|lambda H0^-1 w| / |w|`` with H0 the curvature without its penalty (inference.md 3.4)."""
    bare = evidence.curvature - evidence.floor * np.eye(len(evidence.w))
    length = float(np.linalg.norm(evidence.w))
    if float(np.linalg.eigvalsh(bare)[0]) <= _FLAT * evidence.largest_trace:
        return math.inf
    if length == 0:
        return 0.0
    return evidence.floor * float(np.linalg.norm(np.linalg.solve(bare, evidence.w))) / length


def is_exact(evidence: Evidence) -> bool:
    """Whether the matrices are without noise, as those of a plain fit."""
    return isinstance(evidence.noise, NoNoise)
