"""Tests of several equations together: Wald's, and that of the deviance of nested models.

To second order, a model with the equations ``A beta = c`` has a deviance that is larger by
``n (A w - c)' (A H0^-1 A')^-1 (A w - c)``, with w the minimiser without a penalty and H0 the
curvature of the mean loss. For the penalised target both have the penalty, and the sum of losses
and penalty takes the place of the deviance. The likelihoods themselves are not released. With
noise in w, and the sandwich, neither form has a chi-square law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

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
from privatelr.types import FloatArray, IntArray

Test = Literal["wald", "deviance"]

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
    null: FloatArray | None = None,
    *,
    mode: str | None = None,
    target: str | None = "penalised",
    test: Test = "wald",
) -> JointTest:
    """Test that combinations ``(q, d)`` of the design coefficients have the values `null` ``(q,)``.

    The values are 0 by default. A single equation is tested as in `infer`. Several equations are
    tested by Wald's statistic, or another, whose law under the noise is simulated. In the
    conservative mode the test uses the smallest of their p-values times their number.

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
    question = Question(mode=mode, target=target)
    equations = Equations(release, *combinations(contrasts, null), question)
    return equations.tested(range(len(equations.rows)), test)


class Equations:
    """Equations about a release, whose tests share what is inferred of each of them.

    Parameters
    ----------
    release : Release
    rows : ndarray of shape (m, d)
    null : ndarray of shape (m,)
        What the equations say of the combinations `rows`.
    question : Question

    Raises
    ------
    GuaranteeError
        As `infer`.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import Equations, Question
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=8.0, spend="inference", **public)
    >>> equations = Equations(fit.release, np.eye(3), np.zeros(3), Question())
    >>> equations.tested([1, 2], "wald").df  # both slopes are 0
    2
    """

    def __init__(
        self, release: Release, rows: FloatArray, null: FloatArray, question: Question
    ) -> None:
        self.release, self.rows, self.null = release, rows, null
        self.asked = answerable(release, question)

    @cached_property
    def single(self) -> Inference:
        """What `infer` says of each equation."""
        return infer(self.release, self.rows, replace(self.asked, untested=False), self.null)

    @cached_property
    def matrices(self) -> distribution.Matrices:
        """The curvatures and scores to average over."""
        return matrices_for(self.release, self.asked)

    @cached_property
    def factors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """`factors_of` the matrices and all rows."""
        evidence = evidence_of(self.release)
        return factors_of(evidence, self.matrices, self.rows, self.asked.target)

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance ``(d, d)`` of the estimates."""
        return covariance(self.release, self.asked)

    def tested(self, places: Sequence[int], test: Test) -> JointTest:
        """Test the equations at these places together; numbers that are withheld are NaN.

        Equations of which the data say nothing are left out, as in R; a test of them alone is NaN.

        Raises
        ------
        ArgumentError
            If the equations are not independent of each other.
        """
        here, asked = np.array(places), self.asked
        lengths = np.linalg.svd(self.rows[here], compute_uv=False)
        if len(lengths) < len(here) or lengths[-1] <= _ALIKE * lengths[0]:
            raise ArgumentError("hypotheses: an equation follows from the others, or says nothing.")
        if asked.withheld:
            return JointTest(np.nan, len(here), np.nan, np.nan, asked.mode, str(asked.target))
        seen = ~is_unseen(evidence_of(self.release), self.rows[here], asked.target)
        here = here[seen] if seen.any() else here
        weight = self._wald(here) if test == "wald" else self._deviance(here)
        off = (self.single.estimate - self.single.null)[here]
        statistic = float(off @ weight @ off)
        p_value, critical = self._judged(here, weight, statistic, test)
        if asked.untested:
            p_value = critical = np.nan
        return JointTest(statistic, len(here), p_value, critical, asked.mode, str(asked.target))

    def _wald(self, here: IntArray) -> FloatArray:
        """The inverse ``(q, q)`` of the covariance of the equations."""
        if len(here) == 1:  # where errors have long tails, an sd is less than the root of a mean
            return 1 / np.maximum(self.single.sd[here][:, None] ** 2, distribution.SMALLEST)
        rows = self.rows[here]
        return np.asarray(np.linalg.pinv(rows @ self.covariance @ rows.T, hermitian=True))

    def _deviance(self, here: IntArray) -> FloatArray:
        """``n (A H^-1 A')^-1`` ``(q, q)``, a mean over the curvatures that the noise allows."""
        inner = self.rows[here] @ self.factors[0][:, :, here]
        n = evidence_of(self.release).problem.n
        return np.asarray(n * np.linalg.inv(inner).mean(axis=0))

    def _judged(
        self, here: IntArray, weight: FloatArray, statistic: float, test: Test
    ) -> tuple[float, float]:
        """The p-value of a statistic, and the statistic beyond which it is below .05."""
        single, q, law = self.single, len(here), self.release.calibration.noise
        if q == 1:
            low, middle = single.lower[here], single.estimate[here]
            # errors up and down may differ; the interval at the usual level ends where p is .05
            is_above = (middle - single.null[here])[0] > 0
            reach = middle - low if is_above else single.upper[here] - middle
            return float(single.p_value[here][0]), float(reach @ weight @ reach)
        if self.asked.mode == "conservative":
            return min(1.0, q * float(single.p_value[here].min())), np.nan
        scales = law.mixture()
        is_normal = len(self.matrices.curvature) == 1 and scales is not None and len(scales[0]) == 1
        if test == "wald" and is_normal:
            # the errors have a single normal law, so the statistic has a chi-square law
            return float(scipy.special.chdtrc(q, statistic)), float(scipy.special.chdtri(q, _USUAL))
        evidence, rows = evidence_of(self.release), self.rows[here]
        solved, carried, biases = (part[..., here] for part in self.factors)
        point = mean_of(matrices_without_step(self.release, self.asked))
        left = biases - bias_at(evidence, point, rows, self.asked.target)
        errors = distribution.errors_of(evidence, solved, carried, self.matrices, rows, left)
        drawn = np.einsum("ca,ab,cb->c", errors, weight, errors)
        p_value = (1 + int((drawn >= statistic).sum())) / (1 + len(drawn))
        return p_value, float(np.quantile(drawn, 1 - _USUAL))


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
    return joint_test(release, contrasts, null, mode=mode, target=target, test="deviance")
