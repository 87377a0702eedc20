"""The guarantee of noise, by a second implementation that shares no code with the first.

A search finds the privacy loss on pairs of datasets. Where that is far below the claim, a wrong
factor in a calibration could go unnoticed. So this module evaluates the theorem of each
calibration again, at the noise that it chose: with the slope and the curvature of the loss
measured on a grid, and with SciPy's normal distribution. The result is the share of its claim that
a calibration spends; above 1 the calibration is wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special, stats

from privatelr.audit.checks import no_claim
from privatelr.audit.density.exact import candidate_margins
from privatelr.audit.law_definitions import definition_of
from privatelr.mechanisms import Problem, StagedCalibration
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.stages import StageCalibration
from privatelr.mechanisms.stages.histogram import HistogramCalibration
from privatelr.mechanisms.stages.matrices import MomentsCalibration
from privatelr.mechanisms.stages.scale import ScaleCalibration
from privatelr.numerics import Loss
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP, SharedApproxDP
from privatelr.privacy.noise import NoiseLaw
from privatelr.types import ColumnGroup, FloatArray

ORDERS = (1.0, 1.1, 1.5, 2.0, 3.0, 5.0)
"""A zCDP claim is checked at these Renyi orders; order 1 is the Kullback-Leibler divergence."""
_LARGEST_LOSS = 700.0
"""Losses beyond it have no probability in doubles, and their exponential would overflow."""
_UNLIKELY = 1e-18
"""Outcomes of a smaller probability are left out of a composition."""
_JOINT_ROUNDING = 1e-9
_SPLITS, _CHANCES = np.linspace(0.5, 1.0, 4001), np.linspace(0.0, 1.0, 2001)
_TOUCHED = np.append(0.0, np.geomspace(1e-8, 4.0, 4001))
"""How far beyond epsilon lines touch the curve of what a loss adds to delta."""
_SMALLEST = 1e-300
_ENTRIES = np.linspace(-1.0, 1.0, 401)
"""Entries of a column of which a record has one and its neighbour another."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLossDistribution:
    """A discrete law of the privacy loss.

    Attributes
    ----------
    losses, weights : ndarray of shape (m,)
        Values of the loss, and their probabilities.
    error : float
        The standard error of the mean of a variable with standard deviation one. It is 0 if the
        law is an integral and not a sample.
    """

    losses: FloatArray
    weights: FloatArray
    error: float = 0.0

    def in_unit_of(self, claim: Guarantee, mu: float = 0.0) -> float:
        """The number that a claim is compared with, next to a Gaussian release of ratio `mu`.

        It is the largest loss under a pure claim, a rho, or the delta at the epsilon of the claim.
        """
        match claim:
            case PureDP():
                return max(0.0, float(self.losses.max()))
            case ZCDP():
                return self.rho() + mu * mu / 2
            case ApproxDP(epsilon=epsilon):
                return self.delta(epsilon, mu)
        raise no_claim(claim)

    def with_choices(self, up: float, down: float, times: int = 1) -> PrivacyLossDistribution:
        """The law after further choices between two options whose log ratios are these."""
        if not up > down:
            return self
        if math.isinf(up):  # all is told
            return PrivacyLossDistribution(np.array([math.inf]), np.ones(1))
        truth = -math.expm1(down) / (1 - math.exp(down - up))
        ups = np.arange(times + 1)
        chances = stats.binom.pmf(ups, times, truth)
        likely = (chances > _UNLIKELY) | (times == 1)
        each = (ups * up + (times - ups) * down)[likely]
        losses = np.add.outer(self.losses, each).ravel()
        return PrivacyLossDistribution(losses, np.outer(self.weights, chances[likely]).ravel())

    def epsilon(self, delta: float) -> float:
        """The least epsilon at which this delta is not exceeded."""
        return least_epsilon(self.delta, delta, float(self.losses.max()))

    def delta(self, epsilon: float, mu: float = 0.0) -> float:
        """Delta at epsilon after composition with a further Gaussian release of ratio `mu`."""
        rest = epsilon - self.losses
        kept = delta_of_gaussian(rest, mu) if mu > 0 else -np.expm1(np.minimum(rest, 0.0))
        return float(self.weights @ kept)

    def rho(self) -> float:
        """Largest ratio of a Renyi divergence to its order; a lower bound if the law is sampled."""
        return max(self.divergence(order) / order for order in ORDERS)

    def divergence(self, order: float) -> float:
        """``log E exp((a - 1) loss) / (a - 1)``, and ``E loss`` at order 1.

        The mean of ``exp(-loss)`` is one, so a multiple of ``exp(-loss) - 1`` may be added to the
        terms. It cancels the part that is linear in the loss, and with it most of the variance.
        """
        excess = order - 1
        gained = np.expm1(np.minimum(-self.losses, _LARGEST_LOSS))
        if excess == 0:
            return max(0.0, self._mean(self.losses + gained))
        with np.errstate(over="ignore"):
            terms = np.expm1(excess * self.losses) + excess * gained
        mean = self._mean(terms)
        if math.isinf(mean):  # losses are infinite, or too large for their exponentials
            return float(special.logsumexp(excess * self.losses, b=self.weights)) / excess
        return math.log1p(max(0.0, mean)) / excess

    def _mean(self, terms: FloatArray) -> float:
        """The weighted mean of terms, less four standard errors."""
        seen = self.weights > 0  # a weight may be zero where a term is infinite
        with np.errstate(over="ignore"):
            mean = float(self.weights[seen] @ terms[seen])
            if self.error == 0 or math.isinf(mean):
                return mean
            spread = math.sqrt(float(self.weights @ (terms / mean - 1) ** 2)) if mean else 0.0
        return mean - 4 * self.error * spread * abs(mean)


NOTHING = PrivacyLossDistribution(np.zeros(1), np.ones(1))
"""The law of the loss where nothing was released."""


def share_spent(calibration: Calibration) -> float:
    """The share of its claim that a calibration of coefficients spends; above 1 it is wrong."""
    if calibration.placement == "output":
        distance = 2 * _length(calibration.problem)
        lost = 2 * calibration.tau * calibration.problem.touched
        return share_of_distance(
            calibration.noise, calibration.target, (distance + lost) / calibration.problem.penalty
        )
    return _share_of_tilt(calibration)


def share_of_plan(plan: StagedCalibration) -> float:
    """The share of its claim that all stages of a plan spend, each by its own noise.

    The coefficients are composed with the others under a shared (epsilon, delta), and every stage
    is compared with its own part.
    """
    spends: dict[type[Any], Callable[[Any], tuple[float, float]]] = {
        ScaleCalibration: scale_spends,
        MomentsCalibration: _moments_spend,
        HistogramCalibration: counts_spend,
    }
    # of each other stage its part, its epsilon and its mu
    stages = [stage for stage in plan.stages if stage is not plan.coefficients]
    others = [(stage.target, *spends.get(type(stage), _spends)(stage)) for stage in stages]
    coefficients, mu = plan.coefficients, math.hypot(0.0, *(mu for *_, mu in others))
    if isinstance(coefficients.target, SharedApproxDP):
        target = replace(coefficients.target, beside=mu)  # what the others really spend
        if any(epsilon for _, epsilon, _ in others):
            return math.inf
        coefficients = replace(coefficients, target=target)
    shares = [share_spent(coefficients), *(share_of(*each) for each in others)]
    shares.append(share_of_parts(plan.target, tuple(s.target for s in plan.stages)))
    return float(np.max(shares))


def _spends(stage: StageCalibration) -> tuple[float, float]:
    """The epsilon and the mu of the noise on a vector that moves as far as its stage says."""
    return definition_of(stage.noise).cost(stage.sensitivity)


def _moments_spend(moments: MomentsCalibration) -> tuple[float, float]:
    """The epsilon and the mu of the noise on moments.

    The worst case is two orthogonal records, each at its worst margin; in two fits, one loses the
    first of them and the other gains the second.
    """
    problem = moments.problem
    margins = candidate_margins(problem.loss)
    square = problem.radius**2
    bend, steep = problem.loss.curvature(margins), problem.loss.slope(margins) ** 2
    steep *= moments.balance
    traces = moments.noise.hides_matrices
    sizes = (bend + steep if traces else np.hypot(bend, steep)) * square
    if moments.typical is not None:  # the trace of a longer row is reduced
        sizes *= np.minimum(1.0, moments.largest / np.maximum((bend + steep) * square, _SMALLEST))
    one = float(sizes.max()) / problem.n
    apart = math.sqrt(2) if problem.d > 1 or problem.touched > 1 else 1.0
    if (problem.touched > 1 and moments.noise.is_pure) or (problem.d > 1 and traces):
        apart = 2.0
    return definition_of(moments.noise).cost(apart * one)


def counts_spend(made: HistogramCalibration) -> tuple[float, float]:
    """The epsilon and the mu of the noise on counts: a record leaves a cell and enters another.

    In two fits it leaves and enters a cell of each.
    """
    moves = np.eye(1, made.noise.dimension)[0] - np.eye(1, made.noise.dimension, 1)[0]
    return definition_of(made.noise).cost_of([moves] * min(made.touched, 2))


def scale_spends(scale: ScaleCalibration) -> tuple[float, float]:
    """The epsilon and the mu of the noise on means and mean squares of columns.

    The worst case is a record at its worst in every group of columns.
    """
    groups, noise, n = scale.facts.groups, scale.noise, scale.facts.n
    if scale.of_numbers:
        numbers = sum(group.kind == "number" for group in groups)
        ends = [2.0] * numbers + [scale.weight] * numbers  # of a number, and of its square
        if len(ends) != noise.dimension:
            return math.inf, 0.0
        return definition_of(noise).cost_of([np.array(ends) / n])
    moved = math.sqrt(math.fsum(_moved(group, scale.weight) for group in groups)) / n
    return definition_of(noise).cost(moved)


def _moved(group: ColumnGroup, weight: float) -> float:
    """The largest squared distance that was found between two records in a group of columns."""
    if group.kind == "indicators":
        return float(min(group.size, 2))
    most = min(group.largest, group.radius)
    one, other = most * _ENTRIES[:, None], most * _ENTRIES
    found = float(((one - other) ** 2 + weight**2 * (one**2 - other**2) ** 2).max())
    if group.size == 1:
        return found
    # opposite rows, and rows without a column in common that are as long as they may be
    half, square = group.size // 2, group.radius**2
    whole = min(half, int(square / most**2 * (1 + _JOINT_ROUNDING)))
    rest = max(square - whole * most**2, 0.0) if whole < half else 0.0
    apart = whole * (most**2 + weight**2 * most**4) + rest + weight**2 * rest**2
    return max(found, 4 * square, 2 * apart)


def share_of_parts(whole: Guarantee, parts: tuple[Guarantee, ...]) -> float:
    """The sum of the parts' epsilon, rho or delta over that of the whole, the largest ratio."""
    match whole:
        case ApproxDP() if shared := [p for p in parts if isinstance(p, SharedApproxDP)]:
            (first,) = shared
            rho = sum(part.rho for part in parts if isinstance(part, ZCDP))
            numbers = first.epsilon / whole.epsilon, first.delta / whole.delta
            return max(*numbers, math.sqrt(2 * rho) / first.beside)
        case PureDP():
            return sum(part.epsilon for part in parts if isinstance(part, PureDP)) / whole.epsilon
        case ZCDP():
            return sum(part.rho for part in parts if isinstance(part, ZCDP)) / whole.rho
        case ApproxDP():
            epsilon = sum(part.epsilon for part in parts if isinstance(part, PureDP | ApproxDP))
            delta = sum(part.delta for part in parts if isinstance(part, ApproxDP))
            return max(epsilon / whole.epsilon, delta / whole.delta)
    return math.inf


# -- noise on a vector that moves ---------------------------------------------------------------


def share_of_distance(noise: NoiseLaw, target: Guarantee, moved: float) -> float:
    """The share of a claim that noise spends if the vector under it moves by this distance."""
    return share_of(target, *definition_of(noise).cost(moved))


def share_of_changes(noise: NoiseLaw, target: Guarantee, changes: list[FloatArray]) -> float:
    """The share of a claim that noise on these changes spends."""
    return share_of(target, *definition_of(noise).cost_of(changes))


def share_of(target: Guarantee, epsilon: float, mu: float) -> float:
    """The share of a claim that a pure release and a Gaussian one of this mu spend together."""
    match target:
        case SharedApproxDP():
            law = NOTHING.with_choices(epsilon, -epsilon)
            return law.delta(target.epsilon, math.hypot(mu, target.beside)) / target.delta
        case PureDP() | ApproxDP() if mu == 0:
            return epsilon / target.epsilon
        case ZCDP():
            pure = rho_of_pure(epsilon) if epsilon > 0 else 0.0
            return (pure + mu * mu / 2) / target.rho
        case ApproxDP() if epsilon <= target.epsilon:
            return float(delta_of_gaussian(target.epsilon - epsilon, mu) / target.delta)
    return math.inf


def delta_of_gaussian(epsilon: Any, mu: Any) -> Any:
    """Delta of a Gaussian release of this mu (Balle and Wang 2018), by SciPy's normal cdf."""
    ratio = np.maximum(mu, 1e-300)
    first, second = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
    found = special.ndtr(first) - np.exp(epsilon + special.log_ndtr(second))
    return np.where(mu > 0, found, 0.0)[()]


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    """The epsilon at delta of a Gaussian release of this mu."""
    most = 10 * (mu * mu + mu * math.sqrt(-2 * math.log(delta)))
    return least_epsilon(lambda epsilon: delta_of_gaussian(epsilon, mu), delta, most)


def least_epsilon(delta_at: Callable[[float], Any], delta: float, high: float) -> float:
    """The least epsilon between 0 and `high` at which delta is not exceeded, by bisection."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


def rho_of_pure(epsilon: float) -> float:
    """The rho of a pure release: that of randomised response."""
    return NOTHING.with_choices(epsilon, -epsilon).rho()


def share_of_choices(eta: float, times: int, target: Guarantee) -> float:
    """The share of a claim that a number of choices of bounded range eta spend.

    Under a delta it is a lower bound: the exact composition of the worst choices between two
    options.
    """
    match target:
        case PureDP():
            return times * eta / target.epsilon
        case ZCDP():
            return times * eta * eta / 8 / target.rho
        case ApproxDP():
            tilts = eta * np.linspace(0.02, 0.98, 49)
            laws = (NOTHING.with_choices(tilt, tilt - eta, times) for tilt in tilts)
            return max(law.epsilon(target.delta) for law in laws) / target.epsilon
    return math.inf


# -- a tilt -------------------------------------------------------------------------------------


def _share_of_tilt(calibration: Calibration) -> float:
    problem, noise, target = calibration.problem, calibration.noise, calibration.target
    if noise.scale == 0:
        return math.inf
    shield, apart = calibration.shield, 2 * calibration.tau * problem.touched / problem.penalty
    epsilon, mu = definition_of(shield).cost(apart)
    match noise.is_pure, target:
        case False, ZCDP() if epsilon == 0:
            return (_rho_of_gaussian(problem, noise.scale) + mu * mu / 2) / target.rho
        case False, ApproxDP() if epsilon == 0:
            beside = math.hypot(mu, target.beside)
            return _delta_of_gaussian(problem, noise.scale, target.epsilon, beside) / target.delta
        case False, _:
            return math.inf
    return share_of(target, epsilon + epsilon_of_laplace(problem, noise), mu)


def epsilon_of_laplace(problem: Problem, noise: NoiseLaw) -> float:
    """Largest log ratio of a Laplace tilt over all margins of the old and of the new record.

    A person may have the whole weight at one margin, in so many directions that no curvature is
    lost to the logarithm.
    """
    if problem.classes > 2:
        return _epsilon_of_classes(problem, noise)
    margins = candidate_margins(problem.loss)
    slopes = np.abs(problem.loss.slope(margins))
    bends = problem.radius**2 / problem.penalty * problem.loss.curvature(margins)
    bends = bends if problem.persons else np.log1p(bends)
    charge = definition_of(noise).charge(problem)
    return float((charge * slopes + bends).max() + charge * slopes.max())


def _epsilon_of_classes(problem: Problem, noise: NoiseLaw) -> float:
    """The same for several classes: slopes of one class and of the others, over their chances.

    The other classes have equal chances, at which the determinant of the curvature is largest; it
    is computed as one.
    """
    k = problem.classes
    if len(noise.parts) != k:
        return math.inf
    charge = definition_of(noise).charge(problem)
    s = _CHANCES[:, None, None]
    chances = np.where(np.arange(k) == 0, 1 - s, s / (k - 1))
    curvature = np.swapaxes(chances, 1, 2) * np.eye(k) - np.swapaxes(chances, 1, 2) * chances
    bend = problem.radius**2 / problem.penalty * curvature
    bends = (
        np.trace(bend, axis1=1, axis2=2)
        if problem.persons
        else np.linalg.slogdet(np.eye(k) + bend)[1]
    )
    return float((2 * charge * s.ravel() + bends).max() + 2 * charge)


def _length(problem: Problem) -> float:
    """The largest length of the gradient of a record: of several classes one rises, one falls."""
    slope = math.sqrt(2) if problem.classes > 2 else _steepest(problem.loss)
    return slope * problem.radius


def _steepest(loss: Loss) -> float:
    return float(np.abs(loss.slope(candidate_margins(loss))).max())


def _sharpest(loss: Loss) -> float:
    return float(loss.curvature(candidate_margins(loss)).max())


def joint_factor(loss: Loss) -> float | None:
    """The k that the loss states, or None if its curvature exceeds ``k s (1 - s)`` on a grid."""
    if loss.joint_factor is None:
        return None
    margins = candidate_margins(loss)
    s = np.abs(loss.slope(margins))
    allowed = loss.joint_factor * s * (1 - s)
    holds = np.all(loss.curvature(margins) <= allowed * (1 + _JOINT_ROUNDING) + 1e-12)
    return loss.joint_factor if holds else None


def _rho_of_gaussian(problem: Problem, sd: float) -> float:
    """The rho of a Gaussian tilt: ``2 m^2 + m sqrt(2 / pi)``, plus a term for the curvature.

    That term is not needed if the curvature of the loss vanishes where its slope is one, and is
    small compared with m, and if no record has a weight, which shortens the slope alone.
    """
    m, k = _length(problem) / sd, problem.classes
    factor, kappa = joint_factor(problem.loss), problem.radius**2 / problem.penalty
    if k > 2:
        return 2 * m * m + math.sqrt(2) * _mean_maximum(k) * m + _bend_of_classes(problem, m)
    found = 2 * m * m + math.sqrt(2 / math.pi) * m
    if factor is not None and factor * kappa <= m * m / 2 and not problem.weighted:
        return found
    bend = _sharpest(problem.loss) * kappa
    return found + (bend if problem.persons else math.log1p(bend))


def _mean_maximum(k: int) -> float:
    """The mean of the largest of k standard normal numbers, from its density."""
    z = np.linspace(-10.0, 10.0, 4001)
    density = k * np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * special.ndtr(z) ** (k - 1)
    return float((z * density).sum() * (z[1] - z[0]))


def _bend_of_classes(problem: Problem, m: float) -> float:
    """The most that a record of several classes adds to the log determinant: at equal chances.

    A small curvature costs nothing beside a long gradient.
    """
    k, kappa = problem.classes, problem.radius**2 / problem.penalty
    if kappa <= m * m / 4 and not problem.weighted:
        return 0.0
    return kappa * (k - 1) / k if problem.persons else (k - 1) * math.log1p(kappa / k)


def _delta_of_gaussian(problem: Problem, sd: float, epsilon: float, mu: float) -> float:
    """The delta of a Gaussian tilt: the smallest of the three bounds of theory.md 4.2.

    For a person it is that of two bounds on the mean of a line that no delta exceeds.
    """
    m, kappa = _length(problem) / sd, problem.radius**2 / problem.penalty
    if problem.persons:
        return _delta_of_person(problem, m, kappa, epsilon, mu)
    if problem.classes > 2:
        paid = epsilon - _bend_of_classes(problem, m)
        changes = _changes_of_classes(problem.classes)
        return (
            1.0
            if paid < 0
            else sum(t * delta_of_gaussian(paid, math.hypot(v * m, mu)) for v, t in changes)
        )
    one, two = math.hypot(m, mu), math.hypot(2 * m, mu)
    bounds = [1.0]
    paid = epsilon - math.log1p(_sharpest(problem.loss) * kappa)
    if paid >= 0:
        bounds.append(
            delta_of_gaussian(paid, two)
            + 2 * delta_of_gaussian(paid, one)
            + delta_of_gaussian(paid, mu)
        )
    factor = joint_factor(problem.loss)
    if factor is None:
        return min(bounds)
    bend = factor * kappa
    rest, gap = epsilon - math.log1p(bend / 4), max(0.0, bend - m * m / 2)
    gap = max(gap, epsilon - rest) if problem.weighted else gap
    if rest >= 0:
        still = delta_of_gaussian(rest, mu)
        if epsilon >= gap:
            split = delta_of_gaussian(rest, one) + delta_of_gaussian(epsilon - gap, one)
            bounds.append(delta_of_gaussian(epsilon, two) + split + still)
        paid_by_split = epsilon - np.log1p(bend * _SPLITS * (1 - _SPLITS))
        part = np.hypot((1 + _SPLITS) * m, mu)
        whole = (
            delta_of_gaussian(paid_by_split, two)
            + delta_of_gaussian(paid_by_split, part)
            + delta_of_gaussian(rest, part)
        )
        bounds.append(float((whole + 2 * delta_of_gaussian(rest, one)).min()) + still)
    return min(bounds)


def _changes_of_classes(k: int) -> list[tuple[float, int]]:
    """How long the extreme changes of a gradient are in units of m, and how many are so long.

    Both records are of the first class and opposite, and each is certain to be of some class.
    """
    slopes = np.eye(k) - np.eye(k)[0]
    ends = [slopes[i] + slopes[j] for i in range(k) for j in range(k)]
    lengths = [round(float(end @ end) / 2, 9) for end in ends]
    return [(math.sqrt(v), t) for v, t in sorted(Counter(lengths).items())]


def _delta_of_person(problem: Problem, m: float, kappa: float, epsilon: float, mu: float) -> float:
    """The least mean of a line above ``1 - exp(epsilon - loss)``, over the points it touches at."""
    ends = epsilon + _TOUCHED
    slopes = np.exp(epsilon - ends)
    starts = ends - np.expm1(ends - epsilon)

    def mean(v: float, shift: float) -> FloatArray:
        """The mean of what a normal number is above where each line starts."""
        sd = math.hypot(v, mu)
        far = shift + sd * sd / 2 - starts
        if sd == 0:
            return np.maximum(far, 0.0)
        z = far / sd
        normal = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return np.asarray(far * special.ndtr(z) + sd * normal)

    if problem.classes > 2:
        bend = _bend_of_classes(problem, m)
        changes = _changes_of_classes(problem.classes)
        several = np.sum([times * mean(size * m, bend) for size, times in changes], axis=0)
        return float(min(1.0, (slopes * several).min()))
    bend = _sharpest(problem.loss) * kappa
    bounds = [mean(2 * m, bend) + 2 * mean(m, bend) + mean(0.0, bend)]
    if (factor := joint_factor(problem.loss)) is not None:
        gap = max(0.0, factor * kappa - m * m / 2)
        gap = max(gap, factor * kappa / 4) if problem.weighted else gap
        bounds.append(mean(2 * m, 0.0) + mean(m, 0.0) + mean(m, gap) + mean(0.0, gap))
    return float(min(1.0, *((slopes * each).min() for each in bounds)))
