"""The two matrices that inference uses, at the released coefficients, and their noise.

Noise is calibrated before any data is touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.calibration_record import StageCalibration
from privatelr.mechanisms.calibration.lambda_rules import nominal_epsilon
from privatelr.mechanisms.calibration.proven_noise import (
    ROUNDING,
    grid_for,
    lost_in_means,
    require_law,
)
from privatelr.mechanisms.perturbation import Moments, Release, release_moments
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import COEFFICIENTS, INFERENCE, LENGTHS, SCALE, Request
from privatelr.mechanisms.stages.scale import ScaleFacts, scale_map
from privatelr.mechanisms.stages.stage import Calibrations, Expected, Part, Stage
from privatelr.privacy import ZCDP, Guarantee, NonPrivate, PureDP
from privatelr.privacy.noise import LAWS, Draw, GaussianNoise, NoiseLaw, NoNoise
from privatelr.types import FloatArray, Rows

MOST_COLUMNS = 1000
"""Largest number of columns for which the ``d (d + 1)`` moments fit into a release file."""
_JOINT_BALANCE = 0.25
"""The eta of a loss with a joint bound, in units of ``k / L^2``."""
_JOINT_SHARE = (6 - math.sqrt(2)) / 8.5
"""The p in [0, 1] at which ``(p (1 - p))^2 + (p^2 / 4)^2`` is largest."""
_JOINT_TRACE_SHARE = 2 / 3
"""The p in [0, 1] at which ``p (1 - p) + p^2 / 4`` is largest."""
_LITTLE_NOISE = 0.002
"""Square of the length up to which no weight is reduced, over that of a typical row and over
``n epsilon / d**2.5``: the noise is a small share of usual matrices."""
_SMALLEST = 1e-300
"""A trace that is divided by is replaced by this if it is smaller."""
_FARTHEST = 1_000.0
"""Deviations of the noise that no released number is beyond what rows can make."""
_CLIP = 1.25
"""Largest trace that a record adds to both matrices together, over that of a row of typical length
at its worst margin."""


@dataclass(frozen=True, slots=True)
class MomentsCalibration(StageCalibration):
    """Noise for the curvature and the score covariance at released coefficients w.

    Attributes
    ----------
    problem : Problem
        The public facts, with the lambda of the coefficients.
    target : Guarantee
        The guarantee that the release of the moments will satisfy, given the coefficients.
    balance : float
        eta, the weight of the score covariance relative to the curvature.
    noise : NoiseLaw
        The law of the noise on ``(svec H, eta svec S)``, of dimension ``d (d + 1)``. A svec holds
        the upper triangle row by row, with the entries off the diagonal times the root of 2.
    grid : float
        The power of two whose multiples are released; 0 without noise.
    typical : float or None
        The length of a typical row, if the weights of longer rows are reduced; see `traces`.
    """

    problem: Problem
    target: Guarantee
    balance: float
    noise: NoiseLaw
    grid: float
    typical: float | None = None

    @property
    def largest(self) -> float:
        """The largest trace of ``H + eta S`` that a record adds, times n."""
        return largest_trace(self.problem, self.typical)

    def counted(self, traces: FloatArray) -> FloatArray:
        """How much records count that would add these traces ``(m,)``, if weights are reduced."""
        return np.minimum(1.0, self.largest / np.maximum(traces, _SMALLEST))

    @property
    def traces(self) -> tuple[float, float]:
        """The largest trace that a record adds to H and to S, times n."""
        loss, square = self.problem.loss, self.problem.radius**2
        own = loss.curvature_bound * square, loss.slope_bound**2 * square
        return min(own[0], self.largest), min(own[1], self.largest / self.balance)

    @property
    def sensitivity(self) -> float:
        """How far one record moves both matrices; see `moments_sensitivity`."""
        return moments_sensitivity(self.problem, self.typical, type(self.noise))

    @property
    def entry_sd(self) -> float:
        """The standard deviation of the noise on a diagonal entry of H; for S divide it by eta.

        For an entry off the diagonal it is smaller by the root of 2.
        """
        return math.sqrt(float(self.noise.variances[0]))


def largest_trace(problem: Problem, typical: float | None) -> float:
    """Return the largest trace of ``H + eta S`` that a record may add, times n (theory.md#moments).

    Without a typical length it follows from the longest row. Otherwise it is a little more than
    that of a typical row, and the weights of a record that would add more are reduced.
    """
    length = problem.radius if typical is None else math.sqrt(_CLIP) * typical
    return _largest_pair(problem, traces=True) * length**2


def clip_for(
    problem: Problem, target: Guarantee, typical: float | None, *, divided: bool
) -> float | None:
    """Return the length up to which no weight is reduced, or None if no row is so much longer.

    It is that of a typical row, and grows as the noise falls, which is then a small share of the
    matrices all the same. Rows that were `divided` by a released length may be much longer in their
    own units. For persons nothing is reduced: their records, each held to what one record may add,
    would add more.
    """
    if typical is None or problem.persons or not isinstance(target, PureDP | ZCDP):
        return None
    more = _LITTLE_NOISE * problem.n * nominal_epsilon(target) / problem.d**2.5
    length = typical * math.sqrt(max(1.0, more))
    return length if divided or _CLIP * length**2 < problem.radius**2 else None


def moments_balance(problem: Problem) -> float:
    """Return eta, the weight of the score covariance (theory.md#moments).

    With this weight one noise serves both matrices, and they cost little more than one of them.
    """
    loss = problem.loss
    if loss.joint_factor is not None:
        return _JOINT_BALANCE * loss.joint_factor / loss.slope_bound**2
    return loss.curvature_bound / (2 * loss.slope_bound**2)


def moments_sensitivity(
    problem: Problem, typical: float | None = None, law: type[NoiseLaw] = GaussianNoise
) -> float:
    """Bound how far ``(svec H, eta svec S)`` moves when one record is replaced, in any direction.

    For records and for persons it is at most ``sqrt(2) K R^2 / n``, at any coefficients, where K is
    the largest length of ``(l'', eta l'^2)`` over all margins. If weights are reduced, the largest
    trace takes the place of ``K R^2``. Of several fits that neighbours change, Laplace noise hides
    the sum of the lengths, ``2 K R^2 / n``, and Gaussian noise the length of all. A law that hides
    matrices hides their nuclear norms, which are at most twice the largest trace over n. Rounding
    of the sums moves them further, by a small multiple of ``K R^2`` that no data can exceed, in
    every fit that is changed. The proofs are in theory.md#moments and theory.md#strata.
    """
    traces = law.hides_matrices
    if traces or typical is not None:
        largest = largest_trace(problem, typical) * (1 + ROUNDING)
    else:
        largest = _largest_pair(problem, traces=False) * problem.radius**2 * (1 + ROUNDING)
    lost = lost_in_means(problem.n, problem.d, persons=problem.persons)
    if traces:
        # in nuclear norm, at most the root of the number of columns times as much is lost
        lost *= math.sqrt(2 * problem.d)
        return largest * (2 / problem.n + problem.touched * lost)
    if problem.touched > 1 and law.is_pure:
        return largest * (problem.moved / problem.n + problem.touched * lost)
    return largest * (math.sqrt(2) / problem.n + problem.touched * lost)


def _largest_pair(problem: Problem, *, traces: bool) -> float:
    """Return K, the largest length of ``(l'', eta l'^2)`` over all margins, or the largest sum."""
    loss = problem.loss
    if loss.joint_factor is None:  # the balance makes scores half as large as the curvature
        return loss.curvature_bound * (1.5 if traces else math.sqrt(1.25))
    p = _JOINT_TRACE_SHARE if traces else _JOINT_SHARE
    pair = p * (1 - p), _JOINT_BALANCE * p * p
    return loss.joint_factor * (sum(pair) if traces else math.hypot(*pair))


def calibrate_moments(
    problem: Problem,
    target: Guarantee,
    kinds: tuple[type[NoiseLaw], ...] = (),
    typical: float | None = None,
    *,
    divided: bool = False,
) -> MomentsCalibration:
    """Find the smallest noise for a target, of these kinds if any are given; takes no data.

    `typical` is the length of a typical row, where rows are standardised, and `divided` says that
    a released length divides them.

    Raises
    ------
    GuaranteeError
        If the coefficients have no penalty, without which the curvature may be zero, or if there
        are more than a thousand of them.
    """
    if problem.d > MOST_COLUMNS:
        raise GuaranteeError(
            f"spend: inference takes a design of at most {MOST_COLUMNS} columns, and this one has "
            f"{problem.d}; spend=None requests the coefficients alone."
        )
    if problem.lambda_ <= 0:
        raise GuaranteeError(
            "lambda_=0: inference takes lambda_ above 0, since the curvature of an unpenalised "
            "fit may be zero."
        )
    size = problem.d * (problem.d + 1)
    noise: NoiseLaw = NoNoise(size)
    typical = clip_for(problem, target, typical, divided=divided)
    if not isinstance(target, NonPrivate):
        reach = partial(moments_sensitivity, problem, typical)
        laws = (kind.hiding_matrices(reach(kind), problem.d, target) for kind in LAWS.values())
        noise = require_law([law for law in laws if law is not None], target, kinds)
    balance = moments_balance(problem)
    return MomentsCalibration(problem, target, balance, noise, grid_for(noise), typical)


def matrix_units(release: Release, calibration: MomentsCalibration) -> FloatArray | None:
    """Return the factors ``(d,)`` of columns by which the matrices have the units of their noise.

    Rows were divided by a released length, and noise is made for rows up to another length, from
    which on weights are reduced. So rows are multiplied by the released length again. If the
    longest one is still too short for the noise, they are all made longer. The result is None if no
    length was released, or if weights are not reduced: then rows stay as they are.
    """
    if calibration.typical is None or release.scale is None or release.length is None:
        return None
    d, radius = release.calibration.problem.d, release.calibration.problem.radius
    whole = scale_map(release.scale)[1] / scale_map(release.scale, release.length)[1]
    units = np.concatenate([np.ones(d - len(whole)), whole])
    longest = float(units.max()) * radius
    return np.asarray(units * max(1.0, math.sqrt(_CLIP) * calibration.typical / longest))


class MatrixStage(Stage[MomentsCalibration]):
    """The curvature and the score covariance."""

    name, part, drawn, released = INFERENCE, "matrices for inference", 0, Moments

    def calibrate(
        self, request: Request, problem: Problem, columns: ScaleFacts | None, before: Calibrations
    ) -> MomentsCalibration:
        """Calibrate the noise on both matrices together."""
        scale, problem = before.get(SCALE), before[COEFFICIENTS].problem
        typical, divided = None if scale is None else scale.typical, LENGTHS in before
        return calibrate_moments(problem, request.target, request.kinds, typical, divided=divided)

    def release(
        self,
        calibration: MomentsCalibration,
        rows: Rows,
        release: Release,
        noise: Draw,
        expected: Expected,
    ) -> Moments:
        """Release both matrices at the coefficients."""
        units = matrix_units(release, calibration)
        return release_moments(rows, release.coef, calibration, noise, units)

    def read(
        self,
        values: FloatArray,
        calibration: MomentsCalibration,
        release: Release | None,
        expected: Expected,
    ) -> Moments:
        """Return both matrices, if rows and noise can make such numbers."""
        most = calibration.largest + _FARTHEST * calibration.entry_sd
        if np.abs(values).max(initial=0.0) > most:
            raise GuaranteeError("matrices for inference: rows and noise make no such numbers.")
        return Moments(values, calibration)

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return the law of the noise, and how the sums were rounded."""
        made = cast("MomentsCalibration", released.calibration)
        noise, grid = made.noise, made.grid
        if noise.scale == 0:
            return []
        text = (
            f"{noise.title} noise, scale {noise.scale:.6g}, added to their {noise.dimension} "
            f"numbers together; rounded to multiples of {grid:.6g}, decided exactly"
        )
        return [("Matrices for inference", text)]
