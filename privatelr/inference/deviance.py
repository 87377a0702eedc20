"""Tests of nested models from one release, by the curvature that it holds.

To second order, a model with the equations ``A beta = c`` has a deviance that is larger by
``n (A w - c)' (A H0^-1 A')^-1 (A w - c)``, with w the minimiser without a penalty and H0 the
curvature of the mean loss. For the penalised target both have the penalty, and the sum of losses
and penalty takes the place of the deviance. The likelihoods themselves are not released. With
noise in w, and the sandwich, the form has no chi-square law.
"""

from __future__ import annotations

import numpy as np

from privatelr.inference.error_distribution import solved_for
from privatelr.inference.intervals import JointTest, bare_curvature, form_test, independent, infer
from privatelr.inference.noisy_moments import evidence_of
from privatelr.inference.question import Question, answerable, matrices_for
from privatelr.mechanisms import Release
from privatelr.types import FloatArray


def deviance_test(
    release: Release,
    contrasts: FloatArray,
    null: FloatArray | None = None,
    *,
    mode: str | None = None,
    target: str = "penalised",
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
    """
    rows, values = independent(contrasts, null)
    asked = answerable(release, Question(mode=mode, target=target))
    single = infer(release, rows, asked, values)
    return form_test(release, asked, single, rows, deviance_form(release, asked, rows))


def deviance_form(release: Release, asked: Question, rows: FloatArray) -> FloatArray:
    """``n (A H^-1 A')^-1`` ``(q, q)``, a mean over the curvatures that the noise allows."""
    evidence, matrices = evidence_of(release), matrices_for(release, asked)
    is_bare = asked.target == "unpenalised"
    curvature = bare_curvature(evidence, matrices) if is_bare else matrices.curvature
    inner = rows @ solved_for(curvature, rows)
    return np.asarray(evidence.problem.n * np.linalg.inv(inner).mean(axis=0))
