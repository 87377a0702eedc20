"""The noisy moments of a release, and the true moments that their noise allows.

A flat prior on the feasible cone and the known law of the noise give a posterior. Where the noise
is small, draws of the noise are subtracted and the result is moved into the cone. H is the
curvature of the mean objective, penalty included, and S the covariance of a record's gradient, all
in scaled units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.inference.error_distribution import PUBLIC_SEED, Matrices
from privatelr.inference.posterior import posterior
from privatelr.inference.unresolved_columns import (
    hidden_numbers,
    resolved_columns,
    spread_again,
    thin_numbers,
)
from privatelr.mechanisms import (
    Moments,
    Problem,
    Release,
    matrix_of,
)
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.stages.matrices import matrix_units
from privatelr.privacy.noise import NoiseLaw
from privatelr.types import FloatArray

Mode = Literal["posterior", "conservative", "plug-in"]
Target = Literal["penalised", "unpenalised"]
TARGETS: tuple[Target, ...] = ("penalised", "unpenalised")
MODES: tuple[Mode, ...] = ("posterior", "conservative", "plug-in")
FRAGILE = 0.3
"""Ratio of noise to signal from which on the posterior is sampled within the cone."""
MISLEADING = 5.0
"""Ratio of noise to signal beyond which an average over the posterior may miss
(``python -m tests.studies.coverage``)."""
LARGEST_BIAS, LARGEST_KNOWN_BIAS = 5.0, 0.3
"""Largest relative bias of the penalty that one step takes off, where it is not lost in the noise
of the curvature; a multiple of it is, that of the noise to the curvature. Beyond it, an interval
would be several times as long as the coefficients for the error of the step alone. The second one
is for matrices without noise, whose errors do not count that of the step (theory.md#one-step)."""
LONGEST_CHANGE = 0.95
"""The largest change of links that counts, for which the limit of `step_of` is still finite."""
STEP_ERROR = 3.5
"""Largest share that is missing in Newton's step, for each unit of relative bias. Where effects are
small, the step is exact. Where they are large, curvature falls with the third power of the length
of the coefficients, and the step is 1.5 to 2.5 of that too short (``python -m
tests.studies.coverage --growth``)."""
LEAST_LEFT = 0.5
"""The least share of the curvature that is said to be left after the step. Where less would be, the
noise on the step is large, and its own error counts for more."""
MOST_UNCOUNTED = 0.25
"""Most standard errors that the error of the step may move a combination without noise, where
intervals do not count it. A test at 5 % then rejects 5.8 % of the time at most."""

_EXPLAINED = 0.5
"""Mean share of a standardised column that the other columns explain, in the prior of H: a variance
inflation of 2."""
_FLAT, _LEAST = 1e-13, 1e-290
"""Share of the largest curvature below which eigenvalues are rounding errors; instead of 0."""
_KEPT = 16
"""What is read from so many releases is kept, since every answer about one begins with it."""


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
    determinant : float
        Power of the determinant of H without its penalty in its prior density.
    resolved : ndarray of shape (d,)
        How much of the spread of each column the release shows, from 0, nothing, to 1.
    first : int
        The place of the first covariate, 1 if there is an intercept.
    intercept : float
        The constant in the intercept column of standardised rows; 0 if not known.
    units : ndarray of shape (d,)
        By what a released length divides the columns: the noise is that of undivided ones.
    typical : float
        The length of a typical row, in the units of the noise.
    drawn : ndarray of shape (d,)
        w less the coefficients to which the penalty draws. With a more precise prior it is what has
        the same gradient under the penalty alone.
    held : ndarray of shape (d, d)
        What a more precise prior adds to H; 0 without one.
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
    determinant: float
    resolved: FloatArray
    first: int
    intercept: float
    units: FloatArray
    typical: float
    drawn: FloatArray
    held: FloatArray | float = 0.0

    @property
    def penalty(self) -> FloatArray:
        """The part of H ``(d, d)`` that is no data's."""
        return np.asarray(self.floor * np.eye(len(self.w)) + self.held)

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
        Length of the bias of the penalty, over the length of the coefficients, with a curvature
        that is no smaller than its noise; infinite if there is neither.
    is_at_penalty : bool
        Whether the smallest eigenvalue is lost in the noise, so that the penalty, which is its
        least possible value, stands for it, and the ratio may be larger.
    has_probabilities : bool
        Whether the model has coefficients of its own, which no penalty is needed to define.
    uncounted : float
        Standard errors by which the error of the step that takes the bias off may move some
        combination, where intervals do not count it; 0 for noisy matrices, where they do.
    is_fragile : bool
        Whether the noise is so large that an average over the posterior may miss the penalised
        coefficients.
    target : str
        What intervals are about by default: the coefficients without the penalty, if the model has
        them, one step can take the penalty off, and no number is thin.
    hides_numbers : bool
        Whether the noise hides how much a number or a product varies, whose effect others may take
        over.
    has_thin_number : bool
        Whether the release does not show how much a number varies, and would if its spread were a
        usual one. Then neither its coefficient nor those of others are known without the penalty.
    mode : str
        The default mode of intervals for that target.
    """

    noise_to_signal: float
    relative_bias: float
    is_at_penalty: bool
    has_probabilities: bool
    uncounted: float = 0.0
    hides_numbers: bool = False
    has_thin_number: bool = False

    @property
    def told_noise(self) -> str:
        """The ratio of noise to signal in words."""
        least = "at least " if self.is_at_penalty else ""
        return f"{least}{self.noise_to_signal:.3g} times the smallest eigenvalue of the matrix"

    @property
    def is_fragile(self) -> bool:
        return self.noise_to_signal > MISLEADING

    @property
    def target(self) -> Target:
        carried = self.corrects_bias and not self.has_thin_number
        corrected = carried and self.uncounted <= MOST_UNCOUNTED
        return "unpenalised" if self.has_probabilities and corrected else "penalised"

    @property
    def corrects_bias(self) -> bool:
        """Whether one step takes the bias of the penalty off, up to what its error covers."""
        most = LARGEST_BIAS if self.noise_to_signal > 0 else LARGEST_KNOWN_BIAS
        return self.relative_bias <= most * max(1.0, self.noise_to_signal)

    @property
    def mode(self) -> Mode:
        return self.mode_for(self.target)

    def mode_for(self, target: str) -> Mode:
        """The default mode of intervals for a target."""
        if self.noise_to_signal == 0:
            return "plug-in"  # without noise in the matrices there is nothing to average over
        misses = (self.is_fragile or self.has_thin_number) and target == "penalised"
        return "conservative" if misses else "posterior"


def require_moments(release: Release) -> Moments:
    """Return the moments of a release; raises `GuaranteeError` if they were not requested."""
    if release.moments is None:
        raise GuaranteeError(
            "spend: standard errors were not requested with this fit, and cannot be added to it; "
            "fit with spend='inference', which divides eps between the coefficients and inference."
        )
    return release.moments


@lru_cache(maxsize=_KEPT)
def evidence_of(release: Release) -> NoisyMoments:
    """Read a release; raises `GuaranteeError` if inference was not requested."""
    moments = require_moments(release)
    problem = release.calibration.problem
    w, calibration = release.coef, moments.calibration
    drawn = w - (0.0 if release.centre is None else release.centre)
    largest_trace, largest_scores = calibration.traces
    scale = release.scale
    columns = None if scale is None else scale.calibration.facts
    units = matrix_units(release, calibration)
    units = np.ones(problem.d) if units is None else units
    held: FloatArray | float = 0.0
    if release.stiff is not None:
        held = release.stiff.T @ release.stiff
        drawn = drawn + held @ drawn / problem.lambda_
    return NoisyMoments(
        w=w,
        curvature=divided(moments.curvature, units) + problem.lambda_ * np.eye(problem.d) + held,
        scores=divided(moments.scores, units) - problem.lambda_**2 * np.outer(drawn, drawn),
        units=units,
        drawn=drawn,
        held=held,
        curvature_sd=calibration.entry_sd,
        balance=calibration.balance,
        calibration=release.calibration,
        noise=calibration.noise,
        largest_trace=largest_trace,
        largest_scores=largest_scores,
        determinant=0.0 if scale is None else prior_power(problem.d),
        resolved=resolved_columns(scale, moments),
        first=0 if columns is None else problem.d - columns.p,
        intercept=0.0 if columns is None else columns.intercept * units[0],
        # no length divides the intercept; without a scale it is the guess of `output_balance`
        typical=problem.radius / 4 if scale is None else scale.calibration.typical * units.min(),
    )


def prior_power(d: int) -> float:
    """Return the power of the determinant of H ``(d, d)`` in its prior; columns are standardised.

    A flat prior gives a curvature near 0, in whose direction nothing would be known, so much weight
    that standard errors have no mean. Under a power p the share of a column that the others explain
    has a beta law with the mean ``(d - 1) / (d + 1 + 2 p)``. Here this mean is `_EXPLAINED`, and p
    is at least 1. Columns of declared bounds may fill so little of them that their curvature is as
    small, and have no such prior.
    """
    return max(1.0, (d - 1) * (1 - _EXPLAINED) / (2 * _EXPLAINED) - 1)


def divided(matrices: FloatArray, units: FloatArray) -> FloatArray:
    """Return matrices ``(..., d, d)`` of columns that are divided by units ``(d,)``."""
    return np.asarray(matrices / (units[:, None] * units))


def undivided(evidence: NoisyMoments) -> NoisyMoments:
    """Return the evidence in the units of the noise, in which no length divides the columns.

    A column that is d times as long has a coefficient that is d times smaller. The penalty of it is
    ``d**2`` times as large, of which all but the first is held like a more precise prior.
    """
    d = evidence.units
    if np.all(d == 1):
        return evidence
    return replace(
        evidence,
        w=evidence.w / d,
        curvature=divided(evidence.curvature, 1 / d),
        scores=divided(evidence.scores, 1 / d),
        drawn=evidence.drawn * d,
        held=divided(evidence.penalty, 1 / d) - evidence.floor * np.eye(len(d)),
        units=np.ones(len(d)),
    )


@lru_cache(maxsize=_KEPT)
def quality(release: Release) -> Quality:
    """Measure noise and bias of a release, and choose the mode of inference that suits them."""
    evidence = undivided(evidence_of(release))
    return Quality(
        noise_to_signal(evidence),
        relative_bias(evidence),
        is_at_penalty=float(np.linalg.eigvalsh(evidence.curvature)[0]) < evidence.floor,
        has_probabilities=evidence.problem.loss.probability is not None,
        hides_numbers=bool(hidden_numbers(release.scale, evidence)),
        has_thin_number=bool(thin_numbers(release.scale, evidence)),
        uncounted=step_of(evidence)[1] * bias_in_errors(evidence) if is_exact(evidence) else 0.0,
    )


def noise_to_signal(evidence: NoisyMoments) -> float:
    """The typical size of the noise in H over its smallest eigenvalue."""
    values = np.linalg.eigvalsh(evidence.curvature)
    size = evidence.curvature_sd * math.sqrt(2 * len(values))
    return size / max(float(values[0]), evidence.floor)


def bias_in_errors(evidence: NoisyMoments) -> float:
    """The bias of the penalty in the combination with the most standard errors of it.

    Bias and covariance are ``lambda H0^-1 w`` and ``H0^-1 S H0^-1 / n``, so that H0 does not count.
    With a prior, w is less w0 here and below.
    """
    least = _FLAT * float(np.trace(evidence.scores))
    values, vectors = np.linalg.eigh(evidence.scores)
    # in its own directions a matrix of a low rank, as of few records, needs no inverse
    shares = (evidence.drawn @ vectors) ** 2 / np.maximum(values, max(least, _LEAST))
    return evidence.floor * math.sqrt(evidence.problem.n * float(shares.sum()))


def penalty_bias(evidence: NoisyMoments) -> FloatArray | None:
    """``lambda H0^-1 w`` ``(d,)`` with H0 the curvature without its penalty (theory.md#one-step).

    Eigenvalues of H0 are raised to the noise in them, below which they cannot be told; None if
    even then they are not above 0. Along `unseen_directions` there is no bias.
    """
    bare = evidence.curvature - evidence.penalty
    if unseen_directions(evidence).size:
        return np.asarray(evidence.floor * np.linalg.pinv(bare, _FLAT, True) @ evidence.drawn)
    raised = floored(bare, evidence.curvature_sd)
    if float(np.linalg.eigvalsh(raised)[0]) <= _FLAT * evidence.largest_trace:
        return None
    return np.asarray(evidence.floor * np.linalg.solve(raised, evidence.drawn))


def relative_bias(evidence: NoisyMoments) -> float:
    """The length of `penalty_bias` over that of the coefficients; infinite if it is not known.

    The bias of an unresolved column counts as far as the release shows its spread: its interval
    allows for curvatures that are much smaller than the one that this bias is measured by.
    """
    bias, length = penalty_bias(evidence), float(np.linalg.norm(evidence.w))
    if bias is None:
        return math.inf
    return float(np.linalg.norm(evidence.resolved * bias)) / length if length > 0 else 0.0


@lru_cache(maxsize=_KEPT)
def step_of(evidence: NoisyMoments) -> tuple[float, float]:
    """Return the length of the step that takes the bias off, and the deviation of its error.

    Both are in lengths of Newton's step.

    Newton's step is too short. By how much has a limit if each link moves by so much
    (theory.md#one-step). Here it is the root mean square over typical records, as if their columns
    were uncorrelated and of one size. The share that is missing is taken to lie anywhere from 0 to
    the limit, and the step is longer by half of that. Noise in the curvature is in the step, too,
    and a longer one has more of it: at a quarter of the signal it leaves half. Where links are
    short, the error is counted up to a multiple of the relative bias, which is more. It is as large
    as the step at most.
    """
    whole = undivided(evidence)
    bias = relative_bias(whole)
    change = bias * float(np.linalg.norm(whole.w)) * whole.typical / math.sqrt(len(whole.w))
    change = min(max(change, 1e-9), LONGEST_CHANGE)
    # under the largest limit the error is as large as the step
    short = min(-math.log1p(-change) / change - 1, math.sqrt(3))
    limit = min(max(STEP_ERROR * bias, short), math.sqrt(3))
    longer = 0.0 if is_exact(whole) else short / 2 / (1 + (4 * noise_to_signal(whole)) ** 2)
    return 1 + longer, math.sqrt(limit**2 / 3 - limit * longer + longer**2)


def is_exact(evidence: NoisyMoments) -> bool:
    """Whether the matrices have no noise, as in a plain fit."""
    return evidence.noise.scale == 0


@lru_cache(maxsize=_KEPT)
def unseen_directions(evidence: NoisyMoments) -> FloatArray:
    """Directions ``(d, k)`` about which exact matrices say nothing, as of a level without records.

    Noisy matrices do not tell that they say nothing, and their intervals are wide instead.
    """
    if not is_exact(evidence):
        return np.zeros((len(evidence.w), 0))
    values, vectors = np.linalg.eigh(evidence.curvature - evidence.penalty)
    return np.asarray(vectors[:, values <= _FLAT * max(values[-1], _LEAST)])


_DRAWS = 384  # where the noise is small


def floored(matrices: FloatArray, floor: float) -> FloatArray:
    """Raise the eigenvalues of symmetric matrices ``(..., d, d)`` to at least `floor`."""
    values, vectors = np.linalg.eigh(matrices)
    raised = np.maximum(values, floor)[..., None, :]
    return np.asarray((vectors * raised) @ np.swapaxes(vectors, -1, -2))


def plug_in(evidence: NoisyMoments, scores_floor: float = 0.0) -> Matrices:
    """Move the released matrices into the feasible cone."""
    whole = undivided(evidence)
    found = (floored(whole.curvature, whole.floor), floored(whole.scores, scores_floor))
    return Matrices(*(divided(part, evidence.units)[None] for part in found))


def plausible(evidence: NoisyMoments, noise_to_signal: float) -> Matrices:
    """Draw from the posterior of both matrices; the draws are the same at every call.

    Where the noise is small, they are drawn from the posterior without constraints, and moved into
    the cone.
    """
    if is_exact(evidence):
        return plug_in(evidence)
    units, evidence = evidence.units, undivided(evidence)
    rng, law, count = np.random.default_rng(PUBLIC_SEED), evidence.noise, _DRAWS
    if noise_to_signal >= FRAGILE:
        found = spread_again(evidence, posterior(evidence, rng), rng)
    else:
        scales = np.full(count, evidence.curvature_sd)
        if law.radial_rate is not None:
            shape = (law.dimension + 1) / 2
            scales = np.sqrt(rng.gamma(shape, 2 / law.radial_rate / law.radial_rate, count))
        sd, size = scales[:, None], (count, law.dimension // 2)
        curvature = evidence.curvature - matrix_of(sd * rng.standard_normal(size))
        scores = evidence.scores - matrix_of(sd / evidence.balance * rng.standard_normal(size))
        found = Matrices(floored(curvature, evidence.floor), floored(scores, 0.0))
    return Matrices(divided(found.curvature, units), divided(found.scores, units))


def curvature_left(evidence: NoisyMoments) -> float:
    """The share of the curvature that is left at the coefficients to which the step leads.

    The matrices are those at the released coefficients, where the penalty holds the links of
    records near 0, and so the probabilities of a rare class too large. Curvature and scores, which
    are about as large as these, fall along the step. By how much is told by the link of the mean
    record, each counted by its curvature, and by how far the step moves it: both follow from the
    row of H that belongs to the intercept. It is at most 1.
    """
    evidence = undivided(evidence)
    step, c = penalty_bias(evidence), evidence.intercept
    if step is None or not c or not evidence.first:
        return 1.0
    row = (evidence.curvature - evidence.penalty)[0]
    at, moved = c * (row @ np.array([evidence.w, step]).T) / max(row[0], evidence.curvature_sd)
    before, after = evidence.problem.loss.curvature(np.array([at, at + moved]))
    return float(np.clip(after / before, LEAST_LEFT, 1.0)) if before > 0 else 1.0
