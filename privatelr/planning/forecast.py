"""How large the errors of a study will be, by simulating its release on made-up records.

The noise of a tilt moves the coefficients linearly only where it is small, so many tilts are
drawn from their exact law and all their minimisers found. Widths are those of the intervals that
a few simulated releases would give. Everything is drawn by a public seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privatelr import inference, mechanisms
from privatelr.audit.density.exact import hessian, minimisers
from privatelr.audit.density.pairs import SignedRows
from privatelr.inference import PUBLIC_SEED, Mode
from privatelr.planning.study import Study
from privatelr.privacy.noise import NoiseLaw, draw_many
from privatelr.types import FloatArray

_WORK = 1e8
"""Approximate number of products in one Newton step of all minimisers."""
FEWEST_DRAWS, MOST_DRAWS = 64, 256
_PAIRS = 40
"""Number of pairs of simulated releases with opposite noise."""
_LIKELY = 0.5
"""Least share of releases with one mode for which the mode counts as likely."""
_SMALLEST = 1e-300
"""Number that replaces a deviation of 0 in a ratio or a logarithm."""


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Deviations of m coefficients in the user's units; every array ``(m,)``.

    Attributes
    ----------
    privacy_sd : ndarray
        What the noise adds.
    sampling_sd : ndarray
        What the sample does.
    kept : ndarray
        Share of a small effect that the penalty leaves.
    """

    privacy_sd: FloatArray
    sampling_sd: FloatArray
    kept: FloatArray

    @property
    def sd(self) -> FloatArray:
        """Standard error."""
        return np.asarray(np.hypot(self.privacy_sd, self.sampling_sd))


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """The expected intervals of m coefficients.

    Attributes
    ----------
    width : ndarray of shape (m,)
        Typical length in the user's units.
    mode : str
        How intervals will be made, most likely.
    sturdy : float
        In what share of simulated releases intervals are not conservative.
    noise_to_signal : float
        Typical, of the released curvature.
    """

    width: FloatArray
    mode: Mode
    sturdy: float
    noise_to_signal: float


@dataclass(frozen=True, slots=True, eq=False)
class Simulator:
    """A calibrated study on its made-up records.

    Attributes
    ----------
    stages : StagedCalibration
        What a fit is calibrated to.
    data : SignedRows
    units : ndarray of shape (p + 1, d)
        From design coefficients to the user's.
    centre : ndarray of shape (d,)
        The minimiser without noise.
    curvature : ndarray of shape (d, d)
        H there, penalty included.
    """

    stages: mechanisms.StagedCalibration
    data: SignedRows
    units: FloatArray
    centre: FloatArray
    curvature: FloatArray

    @property
    def problem(self) -> mechanisms.Problem:
        return self.stages.coefficients.problem


def simulate(study: Study) -> Simulator:
    """Calibrate as a fit would, and minimise without noise."""
    stages = mechanisms.calibrate_all(study.request, study.facts)
    problem, data = stages.coefficients.problem, study.records
    centre = minimisers(data, problem, np.zeros((1, problem.d)))
    curvature = hessian(data, problem, centre)[0] / problem.n
    return Simulator(stages, data, study.spec.user_rows(), centre[0], curvature)


def errors(sim: Simulator, draws: int = MOST_DRAWS) -> Errors:
    """The two parts of each standard error, and what the penalty leaves; see `privacy_sd`."""
    problem = sim.problem
    solved = _solved(sim)
    scores = _scores(sim, sim.centre[None])[0]
    scores -= problem.lambda_**2 * np.outer(sim.centre, sim.centre)
    sampling = np.einsum("dm,de,em->m", solved, scores, solved) / problem.n
    return Errors(privacy_sd(sim, draws), np.sqrt(np.maximum(sampling, 0.0)), kept_by_penalty(sim))


def kept_by_penalty(sim: Simulator) -> FloatArray:
    """Share ``(d,)`` of a small effect that is left: effects w become ``H^-1 (H - lambda) w``.

    In scaled units, where a column counts from the middle of its bounds.
    """
    return np.asarray(1 - sim.problem.lambda_ * np.diag(np.linalg.inv(sim.curvature)))


def privacy_sd(sim: Simulator, draws: int = MOST_DRAWS) -> FloatArray:
    """Return the deviation that noise adds to each coefficient: exactly, or for a tilt by draws.

    The linear formula and the draws see the same tilts, so that of chance only what touches
    their ratio is left.

    Parameters
    ----------
    draws
        How many, at most; fewer where each takes long.
    """
    calibration = sim.stages.coefficients
    if calibration.placement == "output" or calibration.noise.scale == 0:
        return np.asarray(np.sqrt(sim.units**2 @ calibration.noise.variances))
    carried = _solved(sim) / sim.problem.n
    per_draw = len(sim.data.rows) * sim.problem.d**2
    count = int(np.clip(_WORK / per_draw, FEWEST_DRAWS, draws))
    tilts = draw_many(calibration.noise, count, np.random.default_rng(PUBLIC_SEED))
    found = minimisers(sim.data, sim.problem, tilts) @ sim.units.T
    ratio = found.std(axis=0) / np.maximum((tilts @ carried).std(axis=0), _SMALLEST)
    linear = np.sqrt((carried**2).T @ calibration.noise.variances)
    shield = np.sqrt(sim.units**2 @ calibration.shield.variances)
    return np.asarray(np.hypot(linear * ratio, shield))


def _solved(sim: Simulator) -> FloatArray:
    """``H^-1 a`` for each coefficient a, as columns ``(d, m)``."""
    return np.asarray(np.linalg.solve(sim.curvature, sim.units.T))


def intervals(
    sim: Simulator, rows: Sequence[int], each: int = 1, sure: float = _LIKELY
) -> Intervals:
    """Intervals of some coefficients by simulated releases, as a user would be given them.

    Many releases say which mode is likely. Of those in it, the ones whose ratio of noise to
    signal is nearest to the median are inferred from. Unless conservative, intervals follow the
    standard errors that ignore the noise in the matrices; these are known for all releases, so
    that only by how much intervals are longer is taken from the few.

    Parameters
    ----------
    rows
        Positions of the coefficients.
    each
        How many releases to infer from.
    sure
        Share of releases without conservative intervals that makes these unlikely.
    """
    releases, contrasts = _releases(sim), sim.units[list(rows)]
    known = [inference.quality(release) for release in releases]
    logs = np.log(np.maximum([one.noise_to_signal for one in known], _SMALLEST))
    middle = float(np.median(logs))
    share = float(np.mean([not one.is_fragile for one in known]))
    likely = share >= sure
    having = [at for at, one in enumerate(known) if one.is_fragile != likely]
    typical = sorted(having, key=lambda at: abs(logs[at] - middle))[:each]
    found = [inference.infer(releases[at], contrasts) for at in typical]
    lengths = [np.log(np.maximum(one.upper - one.lower, _SMALLEST)) for one in found]
    width = np.mean(lengths, axis=0)
    if likely:
        short = _log_plug_in(releases, contrasts)
        width += np.median(short[having], axis=0) - np.mean(short[typical], axis=0)
    return Intervals(np.exp(width), known[typical[0]].mode, share, math.exp(middle))


def nonconservative_share(sim: Simulator) -> float:
    """Return the share of simulated releases whose intervals are not conservative."""
    return float(np.mean([not inference.quality(release).is_fragile for release in _releases(sim)]))


def _log_plug_in(releases: Sequence[mechanisms.Release], contrasts: FloatArray) -> FloatArray:
    """Log standard errors ``(k, m)``, the noise in the released matrices being ignored."""
    one, *_ = evidence = [inference.evidence_of(release) for release in releases]
    found = [inference.plug_in(moments) for moments in evidence]
    curvature = np.concatenate([matrices.curvature for matrices in found])
    solved = inference.solved_for(curvature, contrasts)
    scores = np.concatenate([matrices.scores for matrices in found])
    sampling = np.einsum("kdm,kde,kem->km", solved, scores, solved) / one.problem.n
    carried = inference.carriers(one, solved, contrasts)
    privacy = np.einsum("kdm,d->km", carried**2, one.calibration.noise.variances)
    return np.asarray(np.log(np.maximum(sampling + privacy, _SMALLEST)) / 2)


def _releases(sim: Simulator) -> list[mechanisms.Release]:
    """Simulated releases, in pairs whose noise is opposite."""
    calibration, moments = sim.stages.coefficients, sim.stages.moments
    assert moments is not None
    problem, rng = sim.problem, np.random.default_rng(PUBLIC_SEED)
    noise, is_tilt = _opposite(calibration.noise, rng), calibration.placement == "objective"
    w = minimisers(sim.data, problem, noise) if is_tilt else sim.centre + noise
    bare = hessian(sim.data, problem, w) / problem.n - problem.lambda_ * np.eye(problem.d)
    scores = moments.balance * mechanisms.vector_of(_scores(sim, w))
    values = np.hstack([mechanisms.vector_of(bare), scores]) + _opposite(moments.noise, rng)
    noisy = [mechanisms.Moments(value, moments) for value in values]
    return [
        mechanisms.Release(coef, sim.stages.target, calibration, moments=one)
        for coef, one in zip(w, noisy, strict=True)
    ]


def _opposite(law: NoiseLaw, rng: np.random.Generator) -> FloatArray:
    """Draws of a law and their opposites, ``(2 _PAIRS, dimension)``."""
    drawn = draw_many(law, _PAIRS, rng)
    return np.concatenate([drawn, -drawn])


def _scores(sim: Simulator, w: FloatArray) -> FloatArray:
    """Mean of ``l'^2 x x'``, ``(k, d, d)``, at coefficients ``(k, d)``."""
    rows = sim.data.rows
    weight = sim.problem.loss.slope(w @ rows.T) ** 2 * (sim.data.counts / sim.problem.n)
    return np.stack([(rows * share[:, None]).T @ rows for share in weight])
