"""Standard errors, intervals and tests of combinations of coefficients.

``H0^-1 H w`` with ``H0 = H - lambda`` solves the unpenalised score equation to first order; its
private value is known because w is the minimiser, so the step costs nothing (theory.md#one-step).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from privatelr.inference import error_distribution as distribution
from privatelr.inference.conservative import SHARE, worst_errors, worst_p_values
from privatelr.inference.noisy_moments import (
    NoisyMoments,
    evidence_of,
    floored,
    step_of,
    unseen_directions,
)
from privatelr.inference.question import (
    PENALISED,
    STANDARD_LEVEL,
    Question,
    after_step,
    answerable,
    matrices_for,
    matrices_without_step,
)
from privatelr.mechanisms import Release
from privatelr.types import BoolArray, FloatArray

_USUAL_REACH = 1.959963984540054
"""Half of an interval at 95 % in standard errors, for a normal law."""
_SHARE = 1e-6
"""Share of a combination along unseen directions below which it is a rounding error."""
_NEAR_ENDS, _NEAR_P = 0.1, 0.05
_USUAL_LEVELS = (0.001, 0.01, 0.05, 0.1)
"""How near to a normal law an answer has to be to have a standard error; see `is_normal`."""
_LEAST = 1e-12
"""Share of the largest curvature below which a direction counts as flat."""


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """Estimates, errors, intervals and tests of m combinations of the coefficients.

    Attributes
    ----------
    estimate, null : ndarray of shape (m,)
    sampling_sd, privacy_sd, unknown_sd : ndarray of shape (m,)
        The three parts of the standard error, whose squares add up to its square: the sampling
        error and what the noise adds, both as their medians over the matrices that the release
        leaves possible, and what is added because the matrices are known through their noise only.
    lower, upper : ndarray of shape (m,)
    p_value : ndarray of shape (m,)
        Two-sided, of ``estimate == null``.
    level : float
    mode, target, method : str

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import infer
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> found = infer(fit.release, fit.spec.user_rows()[2:])  # of selfLR
    >>> print(found.estimate.round(2), found.sd.round(2), found.z.round(1), found.target)
    [1.12] [0.07] [15.5] penalised
    """

    estimate: FloatArray
    null: FloatArray
    sampling_sd: FloatArray
    privacy_sd: FloatArray
    unknown_sd: FloatArray
    lower: FloatArray
    upper: FloatArray
    p_value: FloatArray
    level: float
    mode: str
    target: str
    method: str

    @property
    def sd(self) -> FloatArray:
        """Size ``(m,)`` of the error, whatever its law: the root of the sum of squared parts."""
        return np.asarray(np.hypot(np.hypot(self.sampling_sd, self.privacy_sd), self.unknown_sd))

    @property
    def is_withheld(self) -> bool:
        """Whether there are estimates alone; see `Question.withheld`."""
        return bool(np.isnan(self.lower).all())

    @property
    def is_normal(self) -> BoolArray:
        """Whether a normal law with `sd` says the same as the interval and the p-value ``(m,)``.

        The ends of its interval are at most a tenth of its half width away, its p-value is at most
        .05 away, and both p-values are on one side of each usual level. Where that fails, a reader
        of the standard error or of z would conclude something else than the interval says.
        """
        reach = scipy.special.ndtri((1 + self.level) / 2) * self.sd
        ends = np.array([self.estimate - self.lower, self.upper - self.estimate])
        is_near = (np.abs(ends - reach) <= _NEAR_ENDS * reach).all(axis=0)
        with np.errstate(all="ignore"):
            usual = 2 * scipy.special.ndtr(-np.abs(self.estimate - self.null) / self.sd)
        levels = sorted({*_USUAL_LEVELS, 1 - self.level})
        is_alike = np.digitize(usual, levels) == np.digitize(self.p_value, levels)
        is_alike &= np.abs(usual - self.p_value) <= _NEAR_P
        return np.asarray(is_near & (is_alike | np.isnan(self.null)))

    def if_normal(self, values: FloatArray) -> FloatArray:
        """Return `values` ``(m,)``, NaN where no normal law describes the answer."""
        return np.where(self.is_normal, values, np.nan)

    @property
    def std_error(self) -> FloatArray:
        """`sd` ``(m,)``, NaN where no normal law describes the answer."""
        return self.if_normal(self.sd)

    @property
    def z(self) -> FloatArray:
        """``(estimate - null) / std_error``."""
        with np.errstate(all="ignore"):
            return np.asarray((self.estimate - self.null) / self.std_error)


def combinations(contrasts: Any, null: Any) -> tuple[FloatArray, FloatArray]:
    """Return combinations ``(m, d)`` and the values ``(m,)`` to test, by default 0."""
    rows = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
    return rows, np.zeros(len(rows)) if null is None else np.asarray(null, dtype=np.float64)


def infer(
    release: Release,
    contrasts: FloatArray,
    asked: Question = PENALISED,
    null: FloatArray | None = None,
) -> Inference:
    """Intervals and tests of combinations of the design coefficients.

    Parameters
    ----------
    release : Release
        With moments.
    contrasts : ndarray of shape (m, d)
    asked : Question
        By any method but the bootstrap.
    null : ndarray of shape (m,), optional
        Values to test; by default 0.

    Raises
    ------
    GuaranteeError
        If inference was not requested, or what was released cannot carry the target.

    Notes
    -----
    **Privacy.** *Covered*: a function of the release, free to repeat. *Neighbours*, *Assumed
    public*: those of the release. *Not covered*: nothing.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import Question, infer
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> found = infer(fit.release, fit.spec.user_rows()[2:], Question(level=0.9))  # of selfLR
    >>> print(found.lower.round(2), found.upper.round(2))
    [1.] [1.24]
    """
    evidence, asked = evidence_of(release), answerable(release, asked)
    rows, values = combinations(contrasts, null)
    if asked.withheld:
        return estimates_alone(rows @ evidence.w, asked, asked.mode)
    matrices = matrices_without_step(release, asked)
    taken = bias_at(evidence, mean_of(matrices), rows, asked.target)
    off = rows @ evidence.w - values
    factors = factors_of(evidence, matrices, rows, asked.target)
    if asked.mode == "conservative":
        reach = _worst(release, rows, asked, off)
    else:
        stepped = after_step(release, asked, matrices)
        own = factors
        if stepped is not matrices:
            own = factors_of(evidence, stepped, rows, asked.target)
        reach = _averaged(evidence, rows, asked, off, taken, stepped, own)
    # a mean over draws would count those that are nearly singular, which is what is not known; one
    # matrix in the middle of them is too large where the noise is, and its errors too small
    parts = distribution.variances_of(evidence, *factors[:2], matrices, rows)
    sampling, privacy = (np.median(part, axis=0) for part in parts)
    # the parts add up to the whole, which may be a little less; output noise is known exactly
    privacy = np.minimum(privacy, reach.variance)
    sampling = np.minimum(sampling, reach.variance - privacy)
    estimate = rows @ evidence.w - taken
    found = Inference(
        estimate=estimate,
        null=values,
        sampling_sd=np.sqrt(sampling),
        privacy_sd=np.sqrt(privacy),
        unknown_sd=np.sqrt(np.maximum(reach.variance - (sampling + privacy), 0.0)),
        lower=estimate - reach.below,
        upper=estimate + reach.above,
        p_value=np.minimum(reach.p_value, 1.0),
        level=asked.level,
        mode=asked.mode,
        target=asked.target,
        method=asked.method,
    )
    lost = is_unseen(evidence, rows, asked.target)
    numbers: dict[str, Any] = {
        name: np.where(lost, np.nan, getattr(found, name))
        for name in ("estimate", "sampling_sd", "lower", "upper", "p_value")
    }
    if asked.untested:
        numbers["null"] = numbers["p_value"] = np.full(len(rows), np.nan)
    return replace(found, **numbers)


def is_unseen(evidence: NoisyMoments, rows: FloatArray, target: str | None) -> BoolArray:
    """Of which combinations ``(m, d)`` exact matrices say nothing, as R's NA.

    A penalty defines those that the data tell in part, such as coefficients of collinear columns.
    """
    unseen = unseen_directions(evidence)
    share = np.linalg.norm(rows @ unseen, axis=1) / np.maximum(np.linalg.norm(rows, axis=1), _LEAST)
    return np.asarray(share > (_SHARE if target == "unpenalised" else 1 - _SHARE))


def coefficient_rows(release: Release, units: FloatArray, asked: Question) -> FloatArray:
    """Return the rows ``(m, d)`` of coefficients, given those of all columns as they were fitted.

    As in R, a column that is a sum of earlier ones has no coefficient, so that the others are those
    of the model without it. It keeps its row, of which nothing is known.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import dplr
    >>> from privatelr.inference import Question, coefficient_rows
    >>> x, y = np.arange(20.0), np.arange(20) % 3 == 0
    >>> asked = {"bounds": {"X1": (0, 19), "X2": (0, 38)}, "spend": "inference"}
    >>> fit = dplr(y, np.column_stack([x, 2 * x]), eps=0, lambda_=1e-9, **asked)
    >>> rows = coefficient_rows(fit.release, fit.spec.user_rows(), Question(target=None))
    >>> bool(np.isclose((rows @ fit.release.coef)[1], fit.coef["X1"] + 2 * fit.coef["X2"]))
    True
    """
    unseen = unseen_directions(evidence_of(release))
    if not unseen.size or answerable(release, asked).target != "unpenalised":
        return units
    free = units @ unseen
    left, dropped = free / np.linalg.norm(units, axis=1)[:, None], []
    for place in reversed(range(len(units))):
        length = np.linalg.norm(left[place])
        if length > _SHARE:
            along = left[place] / length
            left = left - np.outer(left @ along, along)
            dropped.append(place)
    moved = free @ np.linalg.solve(free[dropped], units[dropped])
    moved[dropped] = 0.0
    return np.asarray(units - moved)


def estimates_alone(estimate: FloatArray, asked: Question, mode: str) -> Inference:
    """Penalised estimates ``(m,)`` without errors and tests; see `Question.withheld`."""
    names = ["null", "sampling_sd", "privacy_sd", "unknown_sd", "lower", "upper", "p_value"]
    numbers: dict[str, Any] = dict.fromkeys(names, np.full(len(estimate), np.nan))
    how: dict[str, Any] = {"level": asked.level, "mode": mode, "method": asked.method}
    return Inference(estimate=estimate, target="penalised", **numbers, **how)


def bias_at(
    evidence: NoisyMoments, point: distribution.Matrices, rows: FloatArray, target: str | None
) -> FloatArray:
    """The bias ``(m,)`` of the penalty that is taken off estimates, by a single pair of matrices.

    It is 0 for the penalised target.
    """
    return np.asarray(factors_of(evidence, point, rows, target)[2][0])


def mean_of(matrices: distribution.Matrices) -> distribution.Matrices:
    """The mean of equally likely matrices, which is a single pair."""
    means = (part.mean(axis=0)[None] for part in (matrices.curvature, matrices.scores))
    return distribution.Matrices(*means)


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """How far m estimates may be from the truth; all of its fields have the shape ``(m,)``."""

    variance: FloatArray
    below: FloatArray
    above: FloatArray
    p_value: FloatArray


def _worst(release: Release, rows: FloatArray, asked: Question, off: FloatArray) -> Reach:
    """Bounds over all matrices that the noise leaves possible."""
    evidence, count = evidence_of(release), _together(rows, asked)
    miss = (1 - asked.level) / count
    law = worst_errors(evidence, rows, SHARE * miss)
    half = law.half_width((1 - SHARE) * miss)
    p_value = worst_p_values(law, rows, np.abs(off), miss) * count
    return Reach(law.sampling + law.privacy, half, half, p_value)


def _averaged(
    evidence: NoisyMoments,
    rows: FloatArray,
    asked: Question,
    off: FloatArray,
    taken: FloatArray,
    matrices: distribution.Matrices,
    factors: tuple[FloatArray, FloatArray, FloatArray],
) -> Reach:
    """Means over the matrices, by `factors_of` these.

    `taken` ``(m,)`` is what was taken off the estimates.
    """
    solved, carried, biases = factors
    law = distribution.law_of(evidence, solved, carried, matrices, rows, biases)
    variance = law.sampling + law.privacy + ((biases - taken) ** 2).mean(axis=0)
    if law.is_symmetric:
        below = above = law.half_width(asked.level)
        p_value = law.beyond(np.abs(off))
    else:
        low, high = (law.quantile((1 + side * asked.level) / 2) for side in (-1, 1))
        below, above = high - taken, taken - low
        p_value = 2 * np.minimum(law.below(off), law.above(off))
        # few of the matrices may be nearly singular, which says nothing of usual errors
        if asked.level != STANDARD_LEVEL:
            low, high = (law.quantile((1 + side * STANDARD_LEVEL) / 2) for side in (-1, 1))
        variance = np.minimum(variance, ((high - low) / 2 / _USUAL_REACH) ** 2)
    if _together(rows, asked) > 1:
        # joint intervals use the largest of all errors, each in units of its standard error
        sd = np.sqrt(np.maximum(variance, distribution.SMALLEST))
        drawn = distribution.errors_of(evidence, solved, carried, matrices, rows, biases - taken)
        largest = np.abs(drawn / sd).max(axis=1)
        reach = np.quantile(largest, asked.level) * sd
        as_far = (largest[:, None] >= np.abs(off - taken) / sd).sum(axis=0)
        below, above = np.maximum(below, reach), np.maximum(above, reach)
        p_value = np.maximum(p_value, (1 + as_far) / (1 + len(largest)))
    return Reach(variance, below, above, p_value)


def _together(rows: FloatArray, asked: Question) -> int:
    """The number of combinations whose intervals are to hold together."""
    return len(rows) if asked.simultaneous else 1


def bare_curvature(evidence: NoisyMoments, matrices: distribution.Matrices) -> FloatArray:
    """H0 ``(k, d, d)``, the curvatures without the penalty, kept positive definite."""
    least = _LEAST * evidence.largest_trace
    return floored(matrices.curvature - evidence.penalty, least)


def factors_of(
    evidence: NoisyMoments, matrices: distribution.Matrices, rows: FloatArray, target: str | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Factors ``(k, d, m)`` of gradient and noise, and the bias ``(k, m)`` of the penalty.

    For the unpenalised target and objective perturbation the step is ``H0^-1 (H w - g - b / n)``.
    Output noise is added to w, so H multiplies it, too.
    """
    corrected = target == "unpenalised"
    curvature = bare_curvature(evidence, matrices) if corrected else matrices.curvature
    right = np.broadcast_to(rows.T, (len(curvature), *rows.T.shape))
    solved = np.asarray(np.linalg.solve(curvature, right), dtype=np.float64)
    if evidence.calibration.placement == "objective":
        carried = solved / evidence.problem.n  # a tilt of the sum form moves the minimiser
    else:
        carried = matrices.curvature @ solved if corrected else right
    if not corrected:
        return solved, carried, np.zeros((len(solved), len(rows)))
    step = step_of(evidence)[0] * evidence.floor * evidence.drawn
    return solved, carried, -np.einsum("d,kdm->km", step, solved)


@dataclass(frozen=True, slots=True, eq=False)
class MatrixErrors:
    """Estimates of the design coefficients, and their errors under each of k pairs of matrices.

    Attributes
    ----------
    estimate : ndarray of shape (d,)
        They are about the target: for the penalised one they are those that were released.
    left : ndarray of shape (k, d)
        The bias of the penalty that each pair of matrices leaves in the estimates.
    noise : ndarray of shape (k, d, d)
        Covariances of what the noise contributes.
    total : ndarray of shape (k, d, d)
        Mean products of the errors: of all their parts, and of the bias.
    """

    estimate: FloatArray
    left: FloatArray
    noise: FloatArray
    total: FloatArray


def estimates(release: Release, asked: Question = PENALISED) -> FloatArray:
    """Estimates ``(d,)`` of the design coefficients of the target.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import Question, estimates
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> asked = Question(target="unpenalised")
    >>> slope = (fit.spec.user_rows() @ estimates(fit.release, asked))[2]
    >>> print(f"{fit.coef['selfLR']:.2f} as released, {slope:.2f} in one step, 1.19 unpenalised")
    1.12 as released, 1.18 in one step, 1.19 unpenalised
    """
    evidence, asked = evidence_of(release), answerable(release, asked)
    if asked.target == "penalised":
        return evidence.w
    point = mean_of(matrices_without_step(release, asked))
    identity = np.eye(len(evidence.w))
    return np.asarray(evidence.w - bias_at(evidence, point, identity, asked.target))


def errors_by_matrices(release: Release, asked: Question) -> MatrixErrors:
    """Errors of all combinations at once; `asked` has the mode and target of `answerable`."""
    evidence, matrices = evidence_of(release), matrices_for(release, asked)
    identity, calibration = np.eye(len(evidence.w)), evidence.calibration
    solved, carried, biases = factors_of(evidence, matrices, identity, asked.target)
    estimate = estimates(release, asked)
    left = biases - (evidence.w - estimate)
    noise = np.swapaxes(carried, 1, 2) * calibration.noise.variances @ carried
    sampling = np.swapaxes(solved, 1, 2) @ matrices.scores @ solved / calibration.problem.n
    total = sampling + noise + left[:, :, None] * left[:, None, :]
    total += np.diag(calibration.shield.variances)
    return MatrixErrors(estimate, left, noise, total)


def covariance(release: Release, asked: Question = PENALISED) -> FloatArray:
    """Covariance ``(d, d)`` of the estimates of the design coefficients.

    It has the sampling error, the noise, and what is not known of the bias of the penalty. Where
    some matrices are nearly singular it is larger than standard errors, which are then those of a
    normal law with the same interval at 95 %. In the conservative mode it is the covariance of the
    posterior mode, enlarged until no standard error is smaller than the conservative one.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import covariance
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> rows = fit.spec.user_rows()
    >>> np.sqrt(np.diag(rows @ covariance(fit.release) @ rows.T)).round(3)
    array([0.396, 0.005, 0.072])
    """
    asked = answerable(release, asked)
    if asked.withheld:
        return np.full((len(release.coef),) * 2, np.nan)
    found = errors_by_matrices(release, asked).total.mean(axis=0)
    if asked.mode != "conservative":
        return np.asarray(found)
    worst = infer(release, np.eye(len(found)), asked).sd
    ratio = np.maximum(worst / np.sqrt(np.diag(found)), 1.0)
    return np.asarray(found * np.outer(ratio, ratio))
