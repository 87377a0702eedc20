"""Minima of an entropy-penalised objective over the simplex of signed columns, with a certificate.

    F(theta) = sum_i loss(y_i x_i.w) + lam sum_k theta_k log(theta_k / prior_k)
    w = radius (theta[:d] - theta[d:]),    theta >= 0, sum theta = 1

over the weights theta of 2 d options: the columns, and the columns with opposite sign. A
minimiser has one number in all entries of ``gradient of the losses + lam log(theta / prior)``. The
range of these numbers (the spread) measures how exact a point is. A point of spread r is the exact
minimiser after a linear term with coefficients in an interval of length r was added. So r enters
the stability of the minimiser, and a tolerance for it is fixed before the data is seen.

At the minimiser the logarithms of theta are linear in q, the gradient ``(d,)`` of the losses by
w, so a point is a vector q here: ``theta_k`` in proportion to ``prior_k exp(-+ radius q_j / lam)``.
Newton's method solves ``q = gradient at w(q)``, along a path of falling penalties or of narrowing
bends; where it fails, mirror descent takes over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from privatelr.errors import ArgumentError, NotConvergedError, require_number
from privatelr.numerics.losses import Loss
from privatelr.numerics.rows.entries import EntryRows
from privatelr.types import FloatArray

UNIT = 2.0**-53
"""Largest relative error of one rounding to a double."""
_GRAIN = 2.0**-46
"""Bound on the rounding error of F, relative to the sum of sizes of its terms."""
_HALVINGS = 30
"""Largest number of halvings of a step."""
_NEWTON_STEPS = 60
"""Largest number of Newton steps for one penalty or bend."""
_FALL = 4.0
"""Ratio of one penalty of a path, or one width of a bend, to the next."""
_CONJUGATE_STEPS = 400
"""Largest number of conjugate gradient steps within one Newton step."""
_FORCING = 0.1
"""Relative error to which the linear system of a Newton step is solved."""


@dataclass(frozen=True, slots=True, eq=False)
class Entropic:
    """The parts of F.

    Attributes
    ----------
    rows : EntryRows
    loss : Loss
    radius : float
        Largest sum of the sizes of the coefficients.
    penalty : float
        lam of the sum form, above 0.
    log_prior : ndarray of shape (2 d,)
        Logarithms of the priors, which need not sum to one: an option that represents z equal
        options has the prior z.
    """

    rows: EntryRows
    loss: Loss
    radius: float
    penalty: float
    log_prior: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class SimplexPoint:
    """A vector q ``(d,)``, and the quantities that are computed from it.

    Attributes
    ----------
    theta : ndarray of shape (2 d,)
    margins : ndarray of shape (n,)
    residual : ndarray of shape (d,)
        The gradient of the losses at ``w(q)``, less q.
    value, grain : float
        F, and the approximate size of its rounding error.
    """

    q: FloatArray
    theta: FloatArray
    margins: FloatArray
    residual: FloatArray
    value: float
    grain: float


def point_at(problem: Entropic, q: FloatArray) -> SimplexPoint:
    """Compute the point of q."""
    logs = log_weights(problem, q)
    theta = shares(logs)
    w = coefficients(theta, problem.radius)
    margins = problem.rows.margins(w)
    gradient = problem.rows.weighted_sum(problem.loss.slope(margins))
    top = logs.max()
    excess = logs - problem.log_prior
    # theta log(theta / prior), without the logarithm of a weight that underflowed to 0
    log_total = top + math.log(float(np.exp(logs - top).sum()))
    lost = float(problem.loss.value(margins).sum())
    value = lost + problem.penalty * (float(theta @ excess) - log_total)
    size = lost + problem.penalty * (float(theta @ np.abs(excess)) + abs(log_total))
    return SimplexPoint(q, theta, margins, gradient - q, value, _GRAIN * size)


def log_weights(problem: Entropic, q: FloatArray) -> FloatArray:
    """Return the logarithms ``(2 d,)`` of the weights that belong to q."""
    tilt = problem.radius * q / problem.penalty
    return np.concatenate([-tilt, tilt]) + problem.log_prior


def shares(logs: FloatArray) -> FloatArray:
    """Return weights that sum to one, from logarithms of any size."""
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def coefficients(theta: FloatArray, radius: float) -> FloatArray:
    """Return the coefficients w ``(d,)`` of options ``(2 d,)``."""
    d = len(theta) // 2
    return np.asarray(radius * (theta[:d] - theta[d:]))


def rounding_spread(n: int, d: int, x_bound: float, loss: Loss, radius: float) -> float:
    """Bound what rounding adds to a spread, as a function of public facts.

    Let u = 2**-53, let R be the radius times the largest entry, and let logs be the returned log
    weights. Each weight is the exponential of a difference. Its relative error is at most ``8 u``
    plus u times the difference, which contributes at most ``log(2 d)`` to the sum. The relative
    error of a sum is at most u times the number of its terms, in any order. So the error of a
    margin is at most ``(4 d + 2 log(2 d) + 24) u R``. By the contract of `Loss` the error of a
    slope is at most c times that plus c times ``4 u (1 + R)``, plus ``8 u L``. The gradient adds n
    of these and the rounding of its own sum, ``(n + 4) u n L`` times an entry, and the spread is
    twice the radius times that. One percent more covers products of errors. The rounding of the
    log weights is added in `spread_bound`, where they are known.
    """
    reach = radius * x_bound
    margin = (4 * d + 2 * math.log(2 * d) + 24) * reach + 4 * (1 + reach)
    slope = loss.curvature_bound * margin + 8 * loss.slope_bound
    gradient = n * slope + (n + 4) * n * loss.slope_bound
    return 1.01 * 2 * reach * gradient * UNIT


def smallest_tolerance(
    n: int, d: int, x_bound: float, loss: Loss, radius: float, penalty: float
) -> float:
    """Return a spread that doubles can reach whatever the rows hold; a function of public facts.

    Log weights are as large as ``n L R / lam``. Their rounding changes the weights, hence the
    margins, and hence the gradient: by up to ``n c R**2`` per unit. A multiple of this, added to
    the rounding that the certificate accounts for, leaves the solver some slack.
    """
    reach = radius * x_bound
    rounding = rounding_spread(n, d, x_bound, loss, radius)
    size = 1 + math.log(2 * d) + n * loss.slope_bound * reach / penalty
    moved = (n * loss.curvature_bound * reach**2 + penalty) * size * UNIT
    return 4 * rounding + 4 * moved


def spread_bound(problem: Entropic, point: SimplexPoint, floor: float) -> float:
    """Bound the spread of a point from above, for its log weights as they would be returned."""
    logs = log_weights(problem, point.q)
    slopes = problem.radius * (point.residual + point.q)
    pull = problem.penalty * (logs - problem.log_prior)
    differences = np.concatenate([slopes, -slopes]) + pull
    # adding and subtracting the prior rounds the logs twice, and each term three times
    sizes = problem.penalty * (np.abs(logs) + np.abs(problem.log_prior)).max()
    rounding = 2 * 8 * UNIT * (float(sizes) + float(np.abs(slopes).max()))
    bound = float(np.ptp(differences)) + rounding + floor
    return bound if math.isfinite(bound) else math.inf


# --- minimisation ---------------------------------------------------------------------------


def entropic_minimum(
    problem: Entropic, tolerance: float, *, patience: int | None = None
) -> FloatArray:
    """Return log weights ``(2 d,)`` of a point whose spread is certainly at most `tolerance`.

    The theta of the point is exactly proportional to the exponentials of the returned doubles.
    The function never raises or warns because of the rows: where Newton's method fails, mirror
    descent takes over, which approaches the minimum by a known factor in each step.

    Parameters
    ----------
    problem : Entropic
    tolerance : float
        At least `smallest_tolerance`; above `rounding_spread` in any case.
    patience : int, optional
        Number of steps of mirror descent after which to give up, for fits without privacy.

    Returns
    -------
    ndarray of shape (2 d,)
        Finite, up to a common constant.

    Raises
    ------
    NotConvergedError
        Only if `patience` was given and is exhausted.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the minimiser is as private as the data; a
    mechanism draws from it and pays for the tolerance. *Neighbours*: any. *Assumed public*:
    everything but the entries and labels of the rows. *Not covered*: time and memory.
    """
    rows = problem.rows
    floor = rounding_spread(rows.n, rows.d, rows.x_bound, problem.loss, problem.radius)
    takes = f"a finite number above {floor:.3g}"
    require_number(ArgumentError, "tolerance", tolerance, takes, above=floor)
    require_number(ArgumentError, "penalty", problem.penalty, "a number above 0", above=0)
    with np.errstate(all="ignore"):
        # the second path takes longer, because it contains a first one; only narrow bends need it
        for path in (_along_penalties, _along_bends):
            point = path(problem, tolerance, floor)
            if spread_bound(problem, point, floor) <= tolerance:
                return log_weights(problem, point.q)
        taken = 0
        while spread_bound(problem, point, floor) > tolerance:
            if taken == patience:
                raise NotConvergedError(
                    "lambda_: at so small a penalty the minimum was not found; take a larger one."
                )
            # slow, but each step shrinks the distance by a known factor, so it ends for all rows
            point, taken = _mirror_step(problem, point), taken + 1
        return log_weights(problem, point.q)


def _along_penalties(problem: Entropic, tolerance: float, floor: float) -> SimplexPoint:
    """Follow the minima of falling penalties, from one at which the penalty dominates F.

    Each start has the theta of the point before. Options of tiny weight at the end so lose their
    weight slowly, and no weight underflows on the way.
    """
    penalty = max(problem.penalty, _smoothness(problem))
    q = np.zeros(problem.rows.d)
    while penalty > problem.penalty:
        relaxed = replace(problem, penalty=penalty)
        # a spread of one penalty changes every theta by at most a factor e: enough on the way
        point = _newton(relaxed, point_at(relaxed, q), max(penalty, tolerance), floor)
        ahead = max(penalty / _FALL, problem.penalty)
        # log weights are q over the penalty, so scaling q with the penalty keeps theta
        q, penalty = point.q * (ahead / penalty), ahead
    return _newton(problem, point_at(problem, q), tolerance, floor)


def _along_bends(problem: Entropic, tolerance: float, floor: float) -> SimplexPoint:
    """Follow the minima of smoothed losses whose bends narrow to that of the problem.

    Where margins reach far beyond a narrow bend, the curvature at most points does not show the
    bend, and Newton's method fails.
    """
    loss, farthest = problem.loss, problem.radius * problem.rows.x_bound
    reach = farthest
    smoothed = replace(problem, loss=_Smoothed(loss, reach))
    point = _along_penalties(smoothed, max(problem.penalty, tolerance), floor)
    while reach > loss.slope_bound / loss.curvature_bound / _FALL:
        reach /= _FALL
        smoothed = replace(problem, loss=_Smoothed(loss, reach))
        # margins have to be accurate to a fraction of the width of the bend
        enough = max(problem.penalty * reach / farthest / _FALL, tolerance)
        point = _newton(smoothed, point_at(smoothed, point.q), enough, floor)
    return _newton(problem, point_at(problem, point.q), tolerance, floor)


def _newton(problem: Entropic, point: SimplexPoint, tolerance: float, floor: float) -> SimplexPoint:
    """Take Newton steps until the spread is small, and mirror steps where they do not help."""
    for _ in range(_NEWTON_STEPS):
        if spread_bound(problem, point, floor) <= tolerance:
            return point
        ahead = _searched(problem, point, _newton_step(problem, point))
        point = _mirror_step(problem, point) if ahead is None else ahead
    return point


def _newton_step(problem: Entropic, point: SimplexPoint) -> FloatArray:
    """Return the change of q ``(d,)`` by Newton's method.

    Let H be the Hessian of the losses by w. Let B be the map from options to w, with each column
    times the root of its theta, and without the part that changes the sum of theta. The change of
    w is ``B v`` where ``(lam + B' H B) v = -B' residual``. Conjugate gradients solve it fast,
    because it has only as many large eigenvalues as there are options of notable weight.
    """
    rows, radius, lam = problem.rows, problem.radius, problem.penalty
    root = np.sqrt(point.theta)
    curvature = problem.loss.curvature(point.margins)

    def forward(v: FloatArray) -> FloatArray:
        centred = root * (v - root * float(root @ v))
        return coefficients(centred, radius)

    def backward(g: FloatArray) -> FloatArray:
        entries = radius * root * np.concatenate([g, -g])
        return np.asarray(entries - root * float(root @ entries))

    # lam bounds the eigenvalues of the system from below, so a small remainder means a small
    # error of v
    remainder = -backward(point.residual)
    direction, v = remainder.copy(), np.zeros_like(remainder)
    bent = np.zeros(rows.d)  # H B v
    length = float(remainder @ remainder)
    for _ in range(_CONJUGATE_STEPS):
        if not length > (_FORCING * lam) ** 2 * float(v @ v):
            break
        product = rows.weighted_sum(curvature * rows.margins(forward(direction)))
        image = lam * direction + backward(product)
        step = length / float(direction @ image)
        bent += step * product  # accumulating H B v here saves a pass at the end
        v += step * direction
        remainder -= step * image
        before, length = length, float(remainder @ remainder)
        direction = remainder + length / before * direction
    return np.asarray(point.residual + bent)


def _searched(problem: Entropic, point: SimplexPoint, step: FloatArray) -> SimplexPoint | None:
    """Return the first better point after a full step, a half, a quarter ...; None if none is.

    A point is better if F is no higher, apart from rounding, and if its slope along the step is
    at most half of the first descent upwards. Rounding hides changes of F before those of options
    of tiny weight. So a point is also better if its residual is at most half of the former one.
    """
    if not np.isfinite(step).all():
        return None
    descent, share = _slope_along(problem, point, step), 1.0
    residual = np.abs(point.residual).max()
    for _ in range(_HALVINGS):
        ahead = point_at(problem, point.q + share * step)
        # the value of a smoothed loss is NaN; the comparison is then false and slopes decide
        if not ahead.value > point.value + point.grain:
            falls = descent < 0 and _slope_along(problem, ahead, step) <= -descent / 2
            if falls or np.abs(ahead.residual).max() <= residual / 2:
                return ahead
        if not descent < 0:  # in a direction that is not downhill shorter steps do not help
            return None
        share /= 2
    return None


def _slope_along(problem: Entropic, point: SimplexPoint, step: FloatArray) -> float:
    """Return the derivative of F along a step of q."""
    gradient = problem.radius * np.concatenate([point.residual, -point.residual])
    speed = -problem.radius / problem.penalty * np.concatenate([step, -step])
    centred = speed - float(point.theta @ speed)
    return float(point.theta @ (gradient * centred))


def _mirror_step(problem: Entropic, point: SimplexPoint) -> SimplexPoint:
    """Take one step of mirror descent, of a length for which F always falls."""
    share = problem.penalty / (problem.penalty + _smoothness(problem))
    return point_at(problem, point.q + share * point.residual)


def _smoothness(problem: Entropic) -> float:
    """Bound how fast the gradient of the losses changes with theta, in the l1 norm."""
    reach = problem.radius * problem.rows.x_bound
    return problem.rows.n * problem.loss.curvature_bound * reach**2


@dataclass(frozen=True, slots=True)
class _Smoothed(Loss):
    """The mean of a loss over margins up to `reach` away.

    Its value has no closed form, so slopes alone decide about steps.
    """

    loss: Loss
    reach: float

    @property
    def slope_bound(self) -> float:
        return self.loss.slope_bound

    @property
    def curvature_bound(self) -> float:
        return min(self.loss.curvature_bound, self.loss.slope_bound / (2 * self.reach))

    def value(self, margin: FloatArray) -> FloatArray:
        return np.full_like(margin, math.nan)

    def slope(self, margin: FloatArray) -> FloatArray:
        return self._difference(self.loss.value, margin)

    def curvature(self, margin: FloatArray) -> FloatArray:
        return self._difference(self.loss.slope, margin)

    def _difference(
        self, function: Callable[[FloatArray], FloatArray], margin: FloatArray
    ) -> FloatArray:
        change = function(margin + self.reach) - function(margin - self.reach)
        return np.asarray(change / (2 * self.reach))
