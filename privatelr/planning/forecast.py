"""A forecast of the errors of a study, by simulations of its release on made-up records.

The coefficients depend on a tilt linearly only if it is small, so many tilts are drawn from their
exact law, and the minimiser is computed under each. All draws use a public seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from privatelr import inference, mechanisms
from privatelr.design import DesignSpec, prior_of, standardise, with_equal_weights
from privatelr.inference import PUBLIC_SEED
from privatelr.mechanisms import signed_rows
from privatelr.mechanisms.calibration import ScaleCalibration
from privatelr.mechanisms.signed_rows import SignedRows
from privatelr.method import standardised
from privatelr.planning import several_classes
from privatelr.planning.several_classes import ClassRows
from privatelr.planning.study import Study
from privatelr.privacy.noise import draw_many
from privatelr.types import FloatArray

_WORK = 1e8
"""One Newton step of all minimisers takes about this number of products."""
FEWEST_DRAWS, MOST_DRAWS = 64, 256
_MOST_WORK = 2e9
"""Beyond this, minimisers of several classes are not drawn, and follow linearly from the noise."""
_FEWEST_SCALES, _MOST_SCALES = 8, 24
"""Between so many releases of the scale of the columns are simulated."""
_SMALLEST = 1e-300
"""In a ratio or a logarithm, this replaces a standard deviation of 0."""
_FLAT = 1e-12
"""Share of the trace of the curvature below which a direction counts as flat."""


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """The expected errors of m coefficients in the user's units.

    Attributes
    ----------
    privacy_sd : ndarray of shape (m,)
        Standard deviation that is due to the noise.
    sampling_sd : ndarray of shape (m,)
        Standard deviation that is due to sampling.
    kept : ndarray of shape (m,)
        The share of a small effect that remains under the penalty.
    """

    privacy_sd: FloatArray
    sampling_sd: FloatArray
    kept: FloatArray

    @property
    def sd(self) -> FloatArray:
        """The standard error, which is due to both."""
        return np.asarray(np.hypot(self.privacy_sd, self.sampling_sd))


@dataclass(frozen=True, slots=True, eq=False)
class Simulator:
    """A calibrated study on its made-up records.

    Attributes
    ----------
    study : Study
    spec : DesignSpec
        The rows of a fit, standardised if it releases the scale of the columns.
    stages : StagedCalibration
        The calibration of a fit.
    data : SignedRows or ClassRows
    units : ndarray of shape (m, d)
        The map from design coefficients to those in the user's units; those of K classes are
        ``(K d,)``, and differences from the first class in the user's units.
    drawn : ndarray of shape (d,)
        The coefficients to which the penalty draws; 0 without a prior. The data have their margins
        by these beforehand, as by offsets.
    centre : ndarray of shape (d,)
        The minimiser without noise.
    curvature : ndarray of shape (d, d)
        H, the second derivative of the mean objective at the minimiser, with the penalty.
    """

    study: Study
    spec: DesignSpec
    stages: mechanisms.StagedCalibration
    data: SignedRows | ClassRows
    units: FloatArray
    drawn: FloatArray
    centre: FloatArray
    curvature: FloatArray

    @property
    def problem(self) -> mechanisms.Problem:
        """The public facts of the coefficients, with lambda."""
        return self.stages.coefficients.problem

    @property
    def moved(self) -> FloatArray:
        """The minimiser less what the penalty draws to, ``(d,)``, at which `data` have margins."""
        return self.centre - self.drawn

    @property
    def penalty(self) -> FloatArray:
        """The second derivative ``(d, d)`` of the penalty of the mean objective, with a prior's."""
        found = self.problem.lambda_ * np.eye(self.problem.size)
        if isinstance(self.data, ClassRows) or self.data.held is None:
            return found
        return np.asarray(found + self.data.held / self.problem.n)


def simulate(study: Study, like: DesignSpec | None = None) -> Simulator:
    """Calibrate a study as a fit would, and compute its minimiser without noise.

    Rows are standardised by moments without noise; `scale_sd` is what the noise on them adds.

    Parameters
    ----------
    like
        The rows of another study, which take the place of those that a fit would have.
    """
    method, declared, n = study.method, study.spec, study.n
    found = None if like else standardised(method, declared, n)
    spec, stages = found or (like or declared, method.calibrate(method.facts(n, like or declared)))
    if stages.scale is not None:
        spec = _standardised_by(spec, moments_of(study, stages.scale), stages.scale)
    problem = stages.coefficients.problem
    data, drawn = _records(study, spec, problem)
    centre = minimisers(data, problem, np.zeros((1, problem.size)))[0]
    curvature = _hessian(data, problem, centre) / problem.n
    units = _units(study, spec)
    return Simulator(study, spec, stages, data, units, drawn, drawn + centre, curvature)


def minimisers(
    data: SignedRows | ClassRows,
    problem: mechanisms.Problem,
    tilts: FloatArray,
    near: FloatArray | None = None,
) -> FloatArray:
    """Minimisers ``(m, d)`` of the sum form under the tilts ``(m, d)``.

    `near` ``(d,)`` is the minimiser without a tilt of data that are nearly the same.
    """
    if isinstance(data, ClassRows):
        return several_classes.minimisers(data, problem, tilts)
    return signed_rows.minimisers(data, problem, tilts, near)


def _hessian(
    data: SignedRows | ClassRows, problem: mechanisms.Problem, w: FloatArray
) -> FloatArray:
    if isinstance(data, ClassRows):
        return several_classes.hessian(data, problem, w)
    return np.asarray(signed_rows.hessian(data, problem, w[None])[0])


def _units(study: Study, spec: DesignSpec) -> FloatArray:
    rows, classes = spec.user_rows(), len(study.classes)
    return several_classes.contrasts(rows, classes) if classes else rows


def _records(
    study: Study, spec: DesignSpec, problem: mechanisms.Problem
) -> tuple[SignedRows | ClassRows, FloatArray]:
    """The made-up records of a study, and the coefficients w0 to which its penalty draws.

    The penalty of a prior is ``(w - w0)' P (w - w0) / 2``. So ``w - w0`` minimises an objective
    with a penalty about 0, in which a record has its margin by w0 beforehand, as by an offset.
    """
    shares = study.population.signed(spec)
    data = replace(shares, counts=study.n * shares.counts)
    if isinstance(data, ClassRows) or spec.prior is None:
        return data, np.zeros(problem.size)
    prior = prior_of(spec, problem)
    w0, stiff = prior["centre"], prior["stiff"]
    held = None if stiff is None else problem.n * stiff.T @ stiff
    return replace(data, shifts=data.shifts + data.rows @ w0, held=held), w0


def errors(sim: Simulator, draws: int = MOST_DRAWS, target: str = "penalised") -> Errors:
    """The two parts of each standard error of a target, and the share of effects that remains.

    The argument `draws` is that of `privacy_sd`.
    """
    problem, by_scale = sim.problem, scale_sd(sim)
    sim = replace(sim, units=sim.units @ _step(sim, target).T)
    solved = _solved(sim)
    scores = _scores(sim)
    pulled = sim.penalty @ sim.moved
    scores -= np.outer(pulled, pulled)
    sampling = np.einsum("dm,de,em->m", solved, scores, solved) / problem.n
    privacy = np.hypot(privacy_sd(sim, draws), by_scale)
    return Errors(privacy, np.sqrt(np.maximum(sampling, 0.0)), kept_by_penalty(sim))


@lru_cache(maxsize=16)
def scale_sd(sim: Simulator) -> FloatArray:
    """The standard deviation that the noise on the scale adds to each coefficient ``(m,)``.

    Another map gives other rows, and their minimiser is another one in the user's units.
    """
    study, calibration = sim.study, sim.stages.scale
    if calibration is None:
        return np.zeros(len(sim.units))
    per_draw = len(sim.data.rows) * sim.problem.size**2
    count = int(np.clip(_WORK / per_draw, _FEWEST_SCALES, _MOST_SCALES))
    noise = draw_many(calibration.noise, count, np.random.default_rng(PUBLIC_SEED))
    plain, found = replace(sim.spec, columns=study.spec.columns), []
    none = np.zeros((1, sim.problem.size))
    for values in moments_of(study, calibration) + noise:
        spec = _standardised_by(plain, values, calibration)
        data, drawn = _records(study, spec, sim.problem)
        w = drawn + minimisers(data, sim.problem, none, sim.moved)[0]
        found.append(_units(study, spec) @ w)
    return np.asarray(np.std(found, axis=0, ddof=1))


def moments_of(study: Study, calibration: ScaleCalibration) -> FloatArray:
    """The means and mean squares of made-up records, without noise."""
    rows = study.population.rows(with_equal_weights(study.spec))
    return mechanisms.mean_squares(rows, calibration)


def _standardised_by(
    spec: DesignSpec, moments: FloatArray, calibration: ScaleCalibration
) -> DesignSpec:
    """Map declared columns by moments, as a fit does by those that it has released."""
    release = mechanisms.ScaleRelease(moments.copy(), calibration)
    return standardise(spec, *mechanisms.scale_map(release))


def kept_by_penalty(sim: Simulator) -> FloatArray:
    """The share ``(m,)`` of a small effect that remains under the penalty.

    Effects w become ``H^-1 (H - P) w`` by the penalty P, in the units of the design, in which a
    column counts from the middle of its bounds, or from its mean if that is released. With a prior
    they are differences from it.
    """
    lost = np.linalg.solve(sim.curvature, sim.penalty)
    if not sim.study.classes:
        return np.asarray(1 - np.diag(lost))
    effects = several_classes.contrasts(np.eye(sim.problem.d), len(sim.study.classes))
    return np.asarray(1 - np.einsum("md,de,me->m", effects, lost, effects) / 2)


def privacy_sd(sim: Simulator, draws: int = MOST_DRAWS) -> FloatArray:
    """The standard deviation that the noise adds to each coefficient.

    It is exact for noise on the minimiser. For a tilt, a linear formula is multiplied by a ratio
    of standard deviations: those of the minimisers under random tilts, over those of the linear
    formula for the same tilts. Since both use the same tilts, most of the random error cancels.

    Parameters
    ----------
    draws
        The largest number of random tilts; fewer are drawn if each takes long.
    """
    calibration = sim.stages.coefficients
    if calibration.placement == "output" or calibration.noise.scale == 0:
        return np.asarray(np.sqrt(sim.units**2 @ calibration.noise.variances))
    carried = _solved(sim) / sim.problem.n
    per_draw = len(sim.data.rows) * sim.problem.size**2
    count = int(np.clip(_WORK / per_draw, FEWEST_DRAWS, draws))
    if isinstance(sim.data, ClassRows) and count * per_draw > _MOST_WORK:
        return np.asarray(np.sqrt((carried**2).T @ calibration.noise.variances))
    tilts = draw_many(calibration.noise, count, np.random.default_rng(PUBLIC_SEED))
    found = minimisers(sim.data, sim.problem, tilts) @ sim.units.T
    ratio = found.std(axis=0) / np.maximum((tilts @ carried).std(axis=0), _SMALLEST)
    linear = np.sqrt((carried**2).T @ calibration.noise.variances)
    shield = np.sqrt(sim.units**2 @ calibration.shield.variances)
    return np.asarray(np.hypot(linear * ratio, shield))


def _solved(sim: Simulator) -> FloatArray:
    """``H^-1 a`` for each row a of the map to the user's units, as columns ``(d, m)``."""
    return np.asarray(np.linalg.solve(sim.curvature, sim.units.T))


def _step(sim: Simulator, target: str) -> FloatArray:
    """``H H0^-1`` with ``H0 = H - P``: errors of the target from those of the minimiser.

    It is the identity for the penalised target (inference.md 3.4).
    """
    if target != "unpenalised":
        return np.eye(len(sim.curvature))
    least = _FLAT * float(np.trace(sim.curvature))
    bare = inference.floored(sim.curvature - sim.penalty, least)
    return np.asarray(sim.curvature @ np.linalg.inv(bare))


def _scores(sim: Simulator) -> FloatArray:
    """The mean ``(d, d)`` of the squares of gradients of records, ``l'^2 x x'``, at the centre."""
    data, n = sim.data, sim.problem.n
    if isinstance(data, ClassRows):
        return several_classes.scores(data, sim.moved) / n
    slopes = sim.problem.loss.slope(data.margins(sim.moved)) / data.sizes
    return np.asarray((data.rows * (slopes**2 * data.counts / n)[:, None]).T @ data.rows)
