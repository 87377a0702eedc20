"""Standard errors, intervals and tests of combinations of coefficients (inference.md 5).

``H0^-1 H w`` with ``H0 = H - lambda`` solves the unpenalised score equation to first order; its
private value is known because w is the minimiser, so the step costs nothing (inference.md 3.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from privatelr.errors import ArgumentError
from privatelr.inference import error_distribution as distribution
from privatelr.inference.conservative import SHARE, WorstErrors, worst_errors, worst_p_values
from privatelr.inference.noisy_moments import NoisyMoments, evidence_of, floored
from privatelr.inference.question import USUAL, Question, answerable, matrices_for
from privatelr.mechanisms import Release
from privatelr.types import FloatArray

_LEAST = 1e-12
"""Share of the largest curvature below which a direction counts as flat."""
_ALIKE = 1e-10
"""Ratio of smallest to largest singular value below which equations count as dependent."""


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """Estimates, errors, intervals and tests of m combinations of the coefficients.

    Attributes
    ----------
    estimate, null : ndarray of shape (m,)
    sampling_sd, privacy_sd : ndarray of shape (m,)
        The two parts of the standard error, whose squares add up to its square.
    lower, upper : ndarray of shape (m,)
    p_value : ndarray of shape (m,)
        Two-sided, of ``estimate == null``.
    level : float
    mode, target, method : str
    """

    estimate: FloatArray
    null: FloatArray
    sampling_sd: FloatArray
    privacy_sd: FloatArray
    lower: FloatArray
    upper: FloatArray
    p_value: FloatArray
    level: float
    mode: str
    target: str
    method: str

    @property
    def sd(self) -> FloatArray:
        """Standard error ``(m,)``."""
        return np.asarray(np.hypot(self.sampling_sd, self.privacy_sd))

    @property
    def z(self) -> FloatArray:
        """``(estimate - null) / sd``."""
        with np.errstate(all="ignore"):
            return np.asarray((self.estimate - self.null) / self.sd)


def combinations(contrasts: Any, null: Any) -> tuple[FloatArray, FloatArray]:
    """Return combinations ``(m, d)`` and the values ``(m,)`` to test, by default 0."""
    rows = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
    return rows, np.zeros(len(rows)) if null is None else np.asarray(null, dtype=np.float64)


def infer(
    release: Release, contrasts: FloatArray, asked: Question = USUAL, null: FloatArray | None = None
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
    """
    evidence, asked = evidence_of(release), answerable(release, asked)
    rows, values = combinations(contrasts, null)
    # factor of the p-values when all intervals are to hold together (Bonferroni)
    count = len(rows) if asked.simultaneous else 1
    level = 1 - (1 - asked.level) / count
    estimate = rows @ evidence.w
    off = estimate - values
    law: distribution.ErrorLaw | WorstErrors
    if asked.target == "unpenalised":
        law = debiased_law(evidence, matrices_for(release, asked), rows)
        taken = law.weight @ law.centre  # the bias of the penalty, with its sign
        low, high = (law.quantile(share) for share in ((1 - level) / 2, (1 + level) / 2))
        estimate, below, above = estimate - taken, high - taken, taken - low
        p_value = 2 * np.minimum(law.below(off), law.above(off)) * count
    elif asked.mode == "conservative":
        alpha = 1 - level
        law = worst_errors(evidence, rows, SHARE * alpha)
        below = above = law.half_width((1 - SHARE) * alpha)
        p_value = worst_p_values(evidence, rows, np.abs(off), alpha) * count
    else:
        matrices = matrices_for(release, asked)
        law = distribution.error_law(evidence, matrices, rows)
        half, p_value = law.half_width(asked.level), law.beyond(np.abs(off))
        if count > 1:
            # joint intervals use the largest of all errors, each in units of its standard error
            sd = np.sqrt(np.maximum(law.sampling + law.privacy, distribution.SMALLEST))
            largest = np.abs(distribution.joint_errors(evidence, matrices, rows) / sd).max(axis=1)
            as_far = (largest[:, None] >= np.abs(off) / sd).sum(axis=0)
            half = np.maximum(half, np.quantile(largest, asked.level) * sd)
            p_value = np.maximum(p_value, (1 + as_far) / (1 + len(largest)))
        below = above = half
    return Inference(
        estimate=estimate,
        null=values,
        sampling_sd=np.sqrt(law.sampling),
        privacy_sd=np.sqrt(law.privacy),
        lower=estimate - below,
        upper=estimate + above,
        p_value=np.minimum(p_value, 1.0),
        level=asked.level,
        mode=asked.mode,
        target=asked.target,
        method=asked.method,
    )


def debiased_law(
    evidence: NoisyMoments, matrices: distribution.Matrices, contrasts: FloatArray
) -> distribution.ErrorLaw:
    """Return the law of ``a.(w - w0)`` for combinations ``(m, d)``, centred at the penalty's bias.

    Under objective perturbation the step is ``H0^-1 (H w - g - b / n)``. Output noise is added
    to w, so H multiplies it, too.
    """
    solved, carried, taken = _step(evidence, matrices, contrasts)
    return distribution.law_of(evidence, solved, carried, matrices, contrasts, centre=taken)


def debiased_errors(
    evidence: NoisyMoments, matrices: distribution.Matrices, contrasts: FloatArray
) -> FloatArray:
    """Draws ``(c, m)`` of the errors of debiased combinations ``(m, d)``; always the same.

    The mean bias is taken off the estimates, so what is left of it is how it differs with the
    curvature.
    """
    solved, carried, taken = _step(evidence, matrices, contrasts)
    left = taken - taken.mean(axis=0)
    return distribution.errors_of(evidence, solved, carried, matrices, contrasts, centre=left)


def bare_curvature(evidence: NoisyMoments, matrices: distribution.Matrices) -> FloatArray:
    """H0 ``(k, d, d)``, the curvatures without the penalty, kept positive definite."""
    least = _LEAST * evidence.largest_trace
    return floored(matrices.curvature - evidence.floor * np.eye(len(evidence.w)), least)


def _step(
    evidence: NoisyMoments, matrices: distribution.Matrices, contrasts: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Factors ``(k, d, m)`` of gradient and noise, and the bias ``(k, m)`` of the penalty."""
    solved = distribution.solved_for(bare_curvature(evidence, matrices), contrasts)
    if evidence.calibration.placement == "output":
        carried = np.einsum("kde,kem->kdm", matrices.curvature, solved)
    else:
        carried = distribution.carriers(evidence, solved, contrasts)
    return solved, carried, -evidence.floor * np.einsum("d,kdm->km", evidence.w, solved)


def covariance(release: Release, asked: Question = USUAL) -> FloatArray:
    """Covariance ``(d, d)`` of the design coefficients: sampling error and noise.

    In the conservative mode it is the covariance of the posterior mode, enlarged until no
    standard error is smaller than the conservative one.
    """
    evidence, asked = evidence_of(release), answerable(release, asked)
    matrices, identity = matrices_for(release, asked), np.eye(len(evidence.w))
    curvature, is_bare = matrices.curvature, asked.target == "unpenalised"
    solved = distribution.solved_for(
        curvature - evidence.floor * identity if is_bare else curvature, identity
    )
    carried = distribution.carriers(evidence, solved, identity)
    if is_bare and evidence.calibration.placement == "output":
        carried = curvature @ solved
    noise = np.einsum("kda,d,kdb->kab", carried, evidence.calibration.noise.variances, carried)
    sampling = np.einsum("kda,kde,keb->kab", solved, matrices.scores, solved) / evidence.problem.n
    found = (noise + sampling).mean(axis=0) + np.diag(evidence.calibration.shield.variances)
    if asked.mode != "conservative":
        return np.asarray(found)
    worst = infer(release, identity, Question(mode=asked.mode)).sd
    ratio = np.maximum(worst / np.sqrt(np.diag(found)), 1.0)
    return np.asarray(found * np.outer(ratio, ratio))


@dataclass(frozen=True, slots=True)
class JointTest:
    """A test of ``df`` equations about the coefficients.

    Attributes
    ----------
    statistic : float
        Wald's quadratic form.
    df : int
    p_value : float
        At least 5e-5 if it is simulated.
    mode, target : str
    """

    statistic: float
    df: int
    p_value: float
    mode: str
    target: str


def joint_test(
    release: Release,
    contrasts: FloatArray,
    null: FloatArray,
    *,
    mode: str | None = None,
    target: str = "penalised",
) -> JointTest:
    """Test that combinations ``(q, d)`` of the design coefficients have the values `null` ``(q,)``.

    A single equation is tested as in `infer`. Several equations are tested by Wald's statistic,
    whose law under the noise is simulated. In the conservative mode the test uses the smallest of
    their p-values times their number.

    Raises
    ------
    ArgumentError
        If the equations are not independent of each other.
    GuaranteeError
        As `infer`.
    """
    rows, values = independent(contrasts, null)
    asked = answerable(release, Question(mode=mode, target=target))
    single = infer(release, rows, asked, values)
    off, q = single.estimate - values, len(rows)
    spread = rows @ covariance(release, asked) @ rows.T
    weight = np.asarray(np.linalg.pinv(spread, hermitian=True), dtype=np.float64)
    matrices, scales = (
        matrices_for(release, asked),
        distribution.mixture_of(release.calibration.noise),
    )
    is_normal = len(matrices.curvature) == 1 and scales is not None and len(scales[0]) == 1
    if q > 1 and is_normal and asked.mode != "conservative":
        # the errors have a single normal law, so the statistic has a chi-square law
        statistic = float(off @ weight @ off)
        p_value = float(scipy.special.chdtrc(q, statistic))
        return JointTest(statistic, q, p_value, asked.mode, asked.target)
    return form_test(release, asked, single, rows, weight)


def independent(contrasts: Any, null: Any) -> tuple[FloatArray, FloatArray]:
    """`combinations`, which raises `ArgumentError` if some follow from others."""
    rows, values = combinations(contrasts, null)
    lengths = np.linalg.svd(rows, compute_uv=False)
    if len(lengths) < len(rows) or lengths[-1] <= _ALIKE * lengths[0]:
        raise ArgumentError("hypotheses: an equation follows from the others, or says nothing.")
    return rows, values


def form_test(
    release: Release, asked: Question, single: Inference, rows: FloatArray, weight: FloatArray
) -> JointTest:
    """Test `rows` ``(q, d)`` together by a quadratic form ``(q, q)`` of their distance from null.

    Parameters
    ----------
    single : Inference
        What `infer` found of each of the rows.
    """
    off, q = single.estimate - single.null, len(rows)
    statistic = float(off @ weight @ off)
    if q == 1:
        p_value = float(single.p_value[0])
    elif asked.mode == "conservative":
        p_value = min(1.0, q * float(single.p_value.min()))
    else:
        is_bare = asked.target == "unpenalised"
        simulated = debiased_errors if is_bare else distribution.joint_errors
        errors = simulated(evidence_of(release), matrices_for(release, asked), rows)
        drawn = np.einsum("ca,ab,cb->c", errors, weight, errors)
        p_value = (1 + int((drawn >= statistic).sum())) / (1 + len(drawn))
    return JointTest(statistic, q, p_value, asked.mode, asked.target)
