"""Tests of several equations together: Wald's, and that of the deviance of nested models.

To second order, a model with the equations ``A beta = c`` has a deviance that is larger by
``n (A w - c)' (A H0^-1 A')^-1 (A w - c)``, with w the minimiser without a penalty and H0 the
curvature of the mean loss. For the penalised target both have the penalty, and the sum of losses
and penalty takes the place of the deviance. The likelihoods themselves are not released. With
noise in w, and the sandwich, neither form has a chi-square law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from privatelr.errors import ArgumentError
from privatelr.inference import error_distribution as distribution
from privatelr.inference.intervals import (
    Inference,
    bias_at,
    combinations,
    covariance,
    factors_of,
    infer,
    is_unseen,
    mean_of,
)
from privatelr.inference.noisy_moments import evidence_of
from privatelr.inference.question import (
    STANDARD_LEVEL,
    Question,
    answerable,
    matrices_for,
    matrices_without_step,
)
from privatelr.mechanisms import Release
from privatelr.types import FloatArray

_ALIKE = 1e-10
"""Ratio of smallest to largest singular value below which equations count as dependent."""
_USUAL = 1 - STANDARD_LEVEL


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
    critical : float
        The statistic beyond which the p-value is below .05. It is no quantile of a chi-square where
        errors are not normal. NaN for several equations in the conservative mode, whose p-value is
        not by the statistic.
    mode, target : str

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import joint_test
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> found = joint_test(fit.release, fit.spec.user_rows()[1:], [0.0, 0.0])  # age and selfLR
    >>> print(found.df, round(found.statistic, 1), round(found.critical, 2), found.p_value < 0.001)
    2 240.6 5.99 True
    """

    statistic: float
    df: int
    p_value: float
    critical: float
    mode: str
    target: str


def joint_test(
    release: Release,
    contrasts: FloatArray,
    null: FloatArray,
    *,
    mode: str | None = None,
    target: str | None = "penalised",
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

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import joint_test
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> found = joint_test(fit.release, fit.spec.user_rows()[1:2], [0.0])  # age alone
    >>> print(round(found.p_value, 2))
    0.85
    """
    return _tested(release, contrasts, null, Question(mode=mode, target=target), _wald)


def _tested(
    release: Release,
    contrasts: FloatArray,
    null: FloatArray | None,
    question: Question,
    by: Callable[[Release, Question, Inference, FloatArray], JointTest],
) -> JointTest:
    """Test the rows ``(q, d)``; numbers that the question withholds are NaN.

    Equations of which the data say nothing are left out, as in R; a test of them alone is NaN.
    """
    rows, values = independent(contrasts, null)
    asked = answerable(release, question)
    if asked.withheld:
        return JointTest(np.nan, len(rows), np.nan, np.nan, asked.mode, str(asked.target))
    seen = ~is_unseen(evidence_of(release), rows, asked.target)
    if seen.any():
        rows, values = rows[seen], values[seen]
    found = by(release, asked, infer(release, rows, replace(asked, untested=False), values), rows)
    return replace(found, p_value=np.nan, critical=np.nan) if asked.untested else found


def _wald(release: Release, asked: Question, single: Inference, rows: FloatArray) -> JointTest:
    """Wald's statistic, whose law is a chi-square or simulated."""
    off, q = single.estimate - single.null, len(rows)
    spread = rows @ covariance(release, asked) @ rows.T
    weight = np.asarray(np.linalg.pinv(spread, hermitian=True), dtype=np.float64)
    matrices, scales = (
        matrices_for(release, asked),
        release.calibration.noise.mixture(),
    )
    is_normal = len(matrices.curvature) == 1 and scales is not None and len(scales[0]) == 1
    if q > 1 and is_normal and asked.mode != "conservative":
        # the errors have a single normal law, so the statistic has a chi-square law
        statistic = float(off @ weight @ off)
        p_value = float(scipy.special.chdtrc(q, statistic))
        critical = float(scipy.special.chdtri(q, _USUAL))
        return JointTest(statistic, q, p_value, critical, asked.mode, asked.target)
    if q == 1:  # where errors have long tails, a standard error is less than the root of a mean
        weight = 1 / np.maximum(single.sd[:, None] ** 2, distribution.SMALLEST)
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
        # errors up and down may differ; the interval at the usual level ends where p is .05
        reach = single.estimate - single.lower if off[0] > 0 else single.upper - single.estimate
        critical = float(reach @ weight @ reach)
    elif asked.mode == "conservative":
        p_value, critical = min(1.0, q * float(single.p_value.min())), np.nan
    else:
        evidence, matrices = evidence_of(release), matrices_for(release, asked)
        solved, carried, biases = factors_of(evidence, matrices, rows, asked.target)
        point = mean_of(matrices_without_step(release, asked))
        left = biases - bias_at(evidence, point, rows, asked.target)
        errors = distribution.errors_of(evidence, solved, carried, matrices, rows, left)
        drawn = np.einsum("ca,ab,cb->c", errors, weight, errors)
        p_value = (1 + int((drawn >= statistic).sum())) / (1 + len(drawn))
        critical = float(np.quantile(drawn, 1 - _USUAL))
    return JointTest(statistic, q, p_value, critical, asked.mode, asked.target)


def deviance_test(
    release: Release,
    contrasts: FloatArray,
    null: FloatArray | None = None,
    *,
    mode: str | None = None,
    target: str | None = "penalised",
) -> JointTest:
    """Test `contrasts` ``(q, d)`` together by the deviance that they cost, to second order.

    A single equation has the p-value of `infer`. For several, the law of the statistic is
    simulated, or in the conservative mode bounded by the smallest of their p-values times q.

    Parameters
    ----------
    null : ndarray of shape (q,), optional
        Values to test; by default 0.

    Raises
    ------
    ArgumentError
        If the equations are not independent of each other.
    GuaranteeError
        As `infer`.

    Notes
    -----
    **Privacy.** *Covered*: a function of the release, free to repeat. *Neighbours*, *Assumed
    public*: those of the release. *Not covered*: nothing.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import deviance_test
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> found = deviance_test(fit.release, fit.spec.user_rows()[1:])  # what age and selfLR explain
    >>> print(found.df, round(found.statistic, 1))
    2 237.5
    """
    return _tested(release, contrasts, null, Question(mode=mode, target=target), _deviance)


def _deviance(release: Release, asked: Question, single: Inference, rows: FloatArray) -> JointTest:
    return form_test(release, asked, single, rows, deviance_form(release, asked, rows))


def deviance_form(release: Release, asked: Question, rows: FloatArray) -> FloatArray:
    """``n (A H^-1 A')^-1`` ``(q, q)``, a mean over the curvatures that the noise allows."""
    evidence, matrices = evidence_of(release), matrices_for(release, asked)
    inner = rows @ factors_of(evidence, matrices, rows, asked.target)[0]
    return np.asarray(evidence.problem.n * np.linalg.inv(inner).mean(axis=0))
