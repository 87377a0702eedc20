"""A planned study on made-up records, and a forecast of its errors.

What a tilt adds to the coefficients is taken to be linear in it, which is off by a few percent
where the noise is large. All draws use a public seed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from privatelr import errors as refusals
from privatelr import inference, mechanisms
from privatelr.design import (
    DesignSpec,
    in_standard_units,
    prior_of,
    standardise,
    with_equal_weights,
)
from privatelr.errors import ArgumentError, GuaranteeError
from privatelr.fitting import DoScale
from privatelr.inference import PUBLIC_SEED
from privatelr.inference import released_roc as roc
from privatelr.mechanisms import Request, StagedCalibration
from privatelr.mechanisms.request import LENGTHS
from privatelr.mechanisms.signed_rows import SignedRows, hessian, minimisers
from privatelr.mechanisms.stages.histogram import (
    HistogramCalibration,
    HistogramRelease,
    ScoreScale,
    cells_of,
)
from privatelr.mechanisms.stages.lengths import (
    LengthCalibration,
    counts_of_lengths,
    likely_length,
)
from privatelr.mechanisms.stages.scale import ScaleCalibration
from privatelr.method import Method, perturbation
from privatelr.model import several_classes
from privatelr.numerics import Loss
from privatelr.numerics import softmax_objective as softmax
from privatelr.numerics.rows import RowBounds
from privatelr.numerics.solve.softmax_minimum import plain_softmax
from privatelr.planning.made_up_records import ClassRows, Population
from privatelr.privacy import ZCDP, ApproxDP, PureDP
from privatelr.privacy.noise import draw_many
from privatelr.sources import Schema
from privatelr.types import FloatArray

_WORK = 1e8
"""One Newton step for all releases of the scale takes about this number of products."""
_FEWEST_SCALES, _MOST_SCALES = 8, 24
"""Between so many releases of the scale of the columns are simulated."""
_FLAT = 1e-12
"""Share of the trace of the curvature below which a direction counts as flat."""
_LEAST_SPREAD = 1e-6
"""Smallest spread of scores that is told from none."""


# -- studies -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """All inputs of a forecast, none of which is private.

    Attributes
    ----------
    spec : DesignSpec
        The rows in scaled units, before they are standardised.
    loss : Loss
    request : Request
    n : int
        Number of records of the study.
    population, worse : Population
        Made-up records by the guesses, and by pessimistic ones.
    schema : Schema
    do_scale : str, bool or None
        As in `dplr`.
    """

    spec: DesignSpec
    loss: Loss
    request: Request
    n: int
    population: Population
    worse: Population
    schema: Schema
    do_scale: DoScale = None

    @property
    def method(self) -> Method:
        """The mechanism of a fit."""
        asked = (self.request, self.schema, self.do_scale)
        if self.classes:
            return several_classes(*asked)
        return perturbation(self.loss, *asked, prior=self.spec.prior)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes of the response if there are several, the reference first; else none."""
        response = self.spec.response
        return response.classes if response.kind == "classes" else ()

    @property
    def named(self) -> list[tuple[Any, str]]:
        """Each coefficient as its class and its column; of two classes the class is None."""
        classes = self.classes[1:] or (None,)
        return [(of, name) for of in classes for name in self.spec.columns.names]

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the coefficients: those of the columns, or ``class: column`` for each class."""
        return tuple(name if of is None else f"{of}: {name}" for of, name in self.named)


def rows_of(study: Study, term: Any) -> list[int]:
    """The positions of a coefficient or of a term, or those of all but the intercept."""
    columns = study.spec.columns
    if term not in study.terms:
        places: dict[Any, Collection[int]] = {one.label: one.columns for one in columns.terms}
        places[None] = range(int(columns.has_intercept), len(columns.names))
        if term in places:
            p = len(columns.names)
            return [at for at in range(len(study.terms)) if at % p in places[term]] or [0]
        names = [*study.terms, *(label for label in places if label not in (None, *study.terms))]
        listed, end = ", ".join(map(repr, names)), refusals.or_meant(term, names)
        raise ArgumentError(f"term={refusals.show(term)}: term takes one of {listed}{end}")
    return [study.terms.index(term)]


class Counted(NamedTuple):
    """How many records count where some count less, or not at all; by guesses or by a pilot.

    Attributes
    ----------
    total : float
        What they add up to, in records that count fully. The noise is that of n of these.
    effective : float
        The number of records that count equally and have the same sampling errors (Kish).
    """

    total: float
    effective: float


def counted(study: Study) -> Counted | None:
    """How many records of a study count; None if each of them does."""
    if study.spec.weight is None:
        return None
    y = study.population.rows(study.spec).y
    weights = np.where(y == 0, 0.0, 1 / np.maximum(np.abs(y), 1.0) ** 2)
    total = float(weights.mean())
    square = float((weights**2).mean())
    return Counted(study.n * total, study.n * total**2 / square if square else 0.0)


def price_of(study: Study) -> tuple[str, float]:
    """The kind of the study's guarantee, ``"eps"`` or ``"rho"``, and its number."""
    match study.request.target:
        case ZCDP(rho=rho):
            return "rho", rho
        case PureDP(epsilon=epsilon) | ApproxDP(epsilon=epsilon):
            return "eps", epsilon
    raise GuaranteeError("eps=0: a plan without privacy has no epsilon to vary.")


def at_price(study: Study, price: float) -> Study:
    """The same study with another epsilon or rho."""
    target, currency = study.request.target, price_of(study)[0]
    changed: Any = {"rho" if currency == "rho" else "epsilon": price}
    return replace(study, request=replace(study.request, target=replace(target, **changed)))


# -- the minimum without noise -------------------------------------------------------------------


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
        The map from design coefficients to those in the user's units. Those of K classes are
        ``(K d,)``, one class after the other, and lead to differences from the first class.
    drawn : ndarray of shape (d,)
        The coefficients to which the penalty draws; 0 without a prior. The data have their margins
        by these beforehand, as by offsets.
    moved : ndarray of shape (d,)
        The minimiser without noise, less `drawn`.
    curvature : ndarray of shape (d, d)
        H, the second derivative of the mean objective at the minimiser, with the penalty.
    length : float or None
        The length of rows that a fit will most likely release, in lengths of a typical one.
    """

    study: Study
    spec: DesignSpec
    stages: StagedCalibration
    data: SignedRows | ClassRows
    units: FloatArray
    drawn: FloatArray
    moved: FloatArray
    curvature: FloatArray
    length: float | None = None

    @property
    def problem(self) -> mechanisms.Problem:
        """The public facts of the coefficients, with lambda."""
        return self.stages.coefficients.problem

    @property
    def centre(self) -> FloatArray:
        """The minimiser ``(d,)`` without noise."""
        return self.drawn + self.moved

    @property
    def penalty(self) -> FloatArray:
        """The second derivative ``(d, d)`` of the penalty of the mean objective, with a prior's."""
        found = self.problem.lambda_ * np.eye(self.problem.size)
        if isinstance(self.data, ClassRows) or self.data.held is None:
            return found
        return np.asarray(found + self.data.held / self.problem.n)

    @property
    def scores(self) -> FloatArray:
        """The mean ``(d, d)`` of the squares of gradients of records at the minimiser."""
        data, n = self.data, self.problem.n
        if isinstance(data, ClassRows):
            return data.scores(self.moved)
        slopes = self.problem.loss.slope(data.margins(self.moved)) / data.sizes
        return np.asarray((data.rows * (slopes**2 * data.counts / n)[:, None]).T @ data.rows)


def simulate(study: Study) -> Simulator:
    """Calibrate a study as a fit would, and compute its minimiser without noise.

    Rows are standardised by moments without noise; `scale_sd` is what the noise on them adds.
    """
    spec, stages = study.method.planned(study.spec, study.n)
    length = None
    if stages.scale is not None:
        moments = moments_of(study, stages.scale)
        length = _expected_length(study, spec, stages, moments)
        spec = _standardised_by(spec, moments, stages.scale, length)
    problem = stages.coefficients.problem
    data, drawn, moved = _minimum(study, spec, problem)
    if isinstance(data, ClassRows):
        curvature = data.classes * softmax.hessian(data.objective(problem.lambda_), moved)
    else:
        curvature = hessian(data, problem, moved[None])[0] / problem.n
    units = _units(study, spec)
    return Simulator(study, spec, stages, data, units, drawn, moved, curvature, length)


def _minimum(
    study: Study, spec: DesignSpec, problem: mechanisms.Problem, near: FloatArray | None = None
) -> tuple[SignedRows | ClassRows, FloatArray, FloatArray]:
    """The made-up records, the coefficients w0 to which the penalty draws, and w less w0.

    The penalty of a prior is ``(w - w0)' P (w - w0) / 2``. So ``w - w0`` minimises an objective
    with a penalty about 0, in which a record has its margin by w0 beforehand, as by an offset.
    """
    none = np.zeros(problem.size)
    if study.classes:
        classes = study.population.by_class(spec)
        asked = classes.objective(problem.lambda_)
        return classes, none, plain_softmax(asked.rows, asked.classes, asked.lambda_, none)
    shares, w0 = study.population.signed(spec), none
    data = replace(shares, counts=study.n * shares.counts)
    if spec.prior is not None:
        prior = prior_of(spec, problem)
        w0, stiff = prior["centre"], prior["stiff"]
        held = None if stiff is None else problem.n * stiff.T @ stiff
        data = replace(data, shifts=data.shifts + data.rows @ w0, held=held)
    return data, w0, minimisers(data, problem, none[None], near)[0]


def _units(study: Study, spec: DesignSpec) -> FloatArray:
    rows, classes = spec.user_rows(), len(study.classes)
    return _contrasts(rows, classes) if classes else rows


def _contrasts(units: FloatArray, classes: int) -> FloatArray:
    """The rows ``((K - 1) m, K d)`` that take coefficients of the first class off those of others.

    `units` ``(m, d)`` leads from the coefficients of a class to the user's units.
    """
    others = np.hstack([-np.ones((classes - 1, 1)), np.eye(classes - 1)])
    return np.asarray(np.kron(others, units), dtype=np.float64)


def moments_of(study: Study, calibration: ScaleCalibration) -> FloatArray:
    """The means and mean squares of made-up records, without noise."""
    rows = study.population.rows(with_equal_weights(study.spec))
    return mechanisms.mean_squares(rows, calibration)


def _expected_length(
    study: Study, spec: DesignSpec, stages: StagedCalibration, moments: FloatArray
) -> float | None:
    """The length of rows that a fit will most likely release, from made-up records."""
    chosen: LengthCalibration | None = stages.parts.get(LENGTHS)
    if chosen is None or stages.scale is None:
        return None
    centre, factor = mechanisms.scale_map(mechanisms.ScaleRelease(moments.copy(), stages.scale))
    change = partial(in_standard_units, spec, centre=centre, factor=factor)
    rows = study.population.rows(with_equal_weights(study.spec))
    counts = counts_of_lengths(rows, change, RowBounds(**spec.limits))
    return likely_length(counts * (study.n / rows.n), chosen)


def _standardised_by(
    spec: DesignSpec, moments: FloatArray, calibration: ScaleCalibration, length: float | None
) -> DesignSpec:
    """Map declared columns by moments, as a fit does by those that it has released."""
    release = mechanisms.ScaleRelease(moments.copy(), calibration)
    return standardise(spec, *mechanisms.scale_map(release, length))


# -- errors of coefficients ----------------------------------------------------------------------


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


def errors(sim: Simulator, target: str = "penalised") -> Errors:
    """The two parts of each standard error of a target, and the share of effects that remains."""
    problem, by_scale = sim.problem, scale_sd(sim)
    sim = replace(sim, units=sim.units @ _step(sim, target).T)
    solved, pulled = _solved(sim), sim.penalty @ sim.moved
    scores = sim.scores - np.outer(pulled, pulled)
    sampling = np.einsum("dm,de,em->m", solved, scores, solved) / problem.n
    privacy = np.hypot(linear_sd(sim), by_scale)
    return Errors(privacy, np.sqrt(np.maximum(sampling, 0.0)), kept_by_penalty(sim))


def scale_sd(sim: Simulator) -> FloatArray:
    """The standard deviation that the noise on the scale adds to each coefficient ``(m,)``.

    Another map gives other rows, and their minimiser is another one in the user's units.
    """
    study, calibration = sim.study, sim.stages.scale
    if calibration is None:
        return np.zeros(len(sim.units))
    count = int(np.clip(_WORK / _products(sim), _FEWEST_SCALES, _MOST_SCALES))
    noise = draw_many(calibration.noise, count, np.random.default_rng(PUBLIC_SEED))
    plain, found = replace(sim.spec, columns=study.spec.columns), []
    for values in moments_of(study, calibration) + noise:
        spec = _standardised_by(plain, values, calibration, sim.length)
        _, drawn, moved = _minimum(study, spec, sim.problem, sim.moved)
        found.append(_units(study, spec) @ (drawn + moved))
    return np.asarray(np.std(found, axis=0, ddof=1))


def kept_by_penalty(sim: Simulator) -> FloatArray:
    """The share ``(m,)`` of a small effect that remains under the penalty.

    Effects w become ``H^-1 (H - P) w`` by the penalty P, in the units of the design, in which a
    column counts from the middle of its bounds, or from its mean if that is released. With a prior
    they are differences from it.
    """
    lost = np.linalg.solve(sim.curvature, sim.penalty)
    if not sim.study.classes:
        return np.asarray(1 - np.diag(lost))
    effects = _contrasts(np.eye(sim.problem.d), len(sim.study.classes))
    return np.asarray(1 - np.einsum("md,de,me->m", effects, lost, effects) / 2)


def linear_sd(sim: Simulator) -> FloatArray:
    """The standard deviation ``(m,)`` that the noise adds to each coefficient, linear in the noise.

    It is exact for noise on the minimiser.
    """
    calibration = sim.stages.coefficients
    if calibration.placement == "output" or calibration.noise.scale == 0:
        return np.asarray(np.sqrt(sim.units**2 @ calibration.noise.variances))
    carried = (_solved(sim) / sim.problem.n) ** 2
    shield = sim.units**2 @ calibration.shield.variances
    return np.asarray(np.sqrt(carried.T @ calibration.noise.variances + shield))


def _products(sim: Simulator) -> float:
    """How many products a curvature of the made-up records takes."""
    return float(len(sim.data.rows) * sim.problem.size**2)


def _solved(sim: Simulator) -> FloatArray:
    """``H^-1 a`` for each row a of the map to the user's units, as columns ``(d, m)``."""
    return np.asarray(np.linalg.solve(sim.curvature, sim.units.T))


def _step(sim: Simulator, target: str) -> FloatArray:
    """``H H0^-1`` with ``H0 = H - P``: errors of the target from those of the minimiser.

    It is the identity for the penalised target (theory.md#one-step).
    """
    if target != "unpenalised":
        return np.eye(len(sim.curvature))
    least = _FLAT * float(np.trace(sim.curvature))
    bare = inference.floored(sim.curvature - sim.penalty, least)
    return np.asarray(sim.curvature @ np.linalg.inv(bare))


# -- the error of an area under a ROC curve ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpectedArea:
    """What a private ROC curve will say of made-up records, with the parts of its error.

    Attributes
    ----------
    calibration : HistogramCalibration
        The number of bins and the noise on a count.
    value : float
        The area of the model without noise.
    sampling_sd : float
        Standard deviation by the choice of the records.
    privacy_sd : float
        Standard deviation by the noise, as root mean square of what it does to the area.
    binning_sd : float
        Standard deviation by the places of scores within bins.
    """

    calibration: HistogramCalibration
    value: float
    sampling_sd: float
    privacy_sd: float
    binning_sd: float

    @property
    def std_error(self) -> float:
        """Standard error of the area, of all parts together."""
        return float(np.linalg.norm([self.sampling_sd, self.privacy_sd, self.binning_sd]))

    def __str__(self) -> str:
        return (
            f"an AUC near {self.value:.2f} with a Std. Error near {self.std_error:.2g}, of "
            f"sampling {self.sampling_sd:.2g}, noise {self.privacy_sd:.2g} and bins "
            f"{self.binning_sd:.2g}"
        )


def expected_area(sim: Simulator, calibration: HistogramCalibration) -> ExpectedArea:
    """Return what counts of scores of this calibration are expected to say.

    Scores are those of the model without noise, and bins lie where such scores are expected. The
    noise on coefficients moves the area, and its error by little.
    """
    population = sim.study.population
    rows = population.rows(sim.spec)
    offset, usable = (0.0 if rows.offset is None else rows.offset), rows.y != 0
    link = (rows.x @ sim.centre + offset) * np.maximum(np.abs(rows.y), 1.0)
    positive = (rows.y > 0).astype(float) if population.positive is None else population.positive
    used = link[usable] if usable.any() else np.zeros(1)
    scale = ScoreScale(float(used.mean()), max(float(used.std()), _LEAST_SPREAD))
    edges, cells = scale.edges(calibration.bins), 2 * calibration.bins + 1
    counts = np.zeros(cells)
    for sign, shares in ((-1.0, 1 - positive), (1.0, positive)):
        label = np.where(usable, sign, 0.0)
        counts += np.bincount(cells_of(link, label, edges), shares, minlength=cells)
    counts *= calibration.n / counts.sum()
    release = HistogramRelease(counts, scale, calibration, calibration.target)
    exact = roc.counts_of(release)
    return ExpectedArea(
        calibration,
        value=float(roc.areas(exact)),
        sampling_sd=roc.sampling_sd_of_area(exact),
        privacy_sd=float(roc.parts_of(release, roc.areas).privacy),
        binning_sd=roc.binning_sd_of_area(release),
    )
