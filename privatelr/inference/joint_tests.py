"""Tests of several equations together, and the covariance behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from privatelr.errors import ArgumentError
from privatelr.inference.error_distribution import carriers, mixture_of, solved_for
from privatelr.inference.inference_choices import matrices_for, read_choices
from privatelr.inference.intervals import infer, joint_errors
from privatelr.inference.noisy_moments import evidence_of
from privatelr.mechanisms import Release
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.inference.error_distribution import Matrices

_ALIKE = 1e-10


@dataclass(frozen=True, slots=True)
class JointTest:
    """A test of ``df`` equations about the coefficients.

    Attributes
    ----------
    statistic : float
        Wald's quadratic form.
    df : int
    p_value : float
        Where it is simulated, not below 5e-5.
    mode, target : str
    """

    statistic: float
    df: int
    p_value: float
    mode: str
    target: str


def covariance(
    release: Release, *, mode: str | None = None, target: str = "penalised"
) -> FloatArray:
    """Covariance ``(d, d)`` of the design coefficients: sampling error and noise.

    In the conservative mode it is that of the posterior, enlarged so that no standard error
    is smaller than the conservative one.
    """
    choices = read_choices(release, mode, target, "sandwich")
    evidence = evidence_of(release)
    matrices = matrices_for(release, choices)
    d = len(evidence.w)
    identity = np.eye(d)
    curvature = matrices.curvature
    if choices.target == "unpenalised":
        curvature = curvature - evidence.floor * identity
    solved = solved_for(curvature, identity)
    carried = carriers(evidence, solved, identity)
    if choices.target == "unpenalised" and evidence.calibration.placement == "output":
        carried = matrices.curvature @ solved
    noise = np.einsum("kda,d,kdb->kab", carried, evidence.calibration.noise.variances, carried)
    sampling = np.einsum("kda,kde,keb->kab", solved, matrices.scores, solved) / evidence.problem.n
    found = (noise + sampling).mean(axis=0) + np.diag(evidence.calibration.shield.variances)
    if choices.mode != "conservative":
        return np.asarray(found)
    worst = infer(release, identity, mode=choices.mode).sd
    ratio = np.maximum(worst / np.sqrt(np.diag(found)), 1.0)
    return np.asarray(found * np.outer(ratio, ratio))


def joint_test(
    release: Release,
    contrasts: FloatArray,
    null: FloatArray,
    *,
    mode: str | None = None,
    target: str = "penalised",
) -> JointTest:
    """Test that combinations ``(q, d)`` of the design coefficients have the values `null` ``(q,)``.

    One equation is tested as `infer` tests it. Several are tested by Wald's statistic, whose law
    under the noise is simulated; in the conservative mode, and without the penalty, by the smallest
    of their p-values times their number.

    Raises
    ------
    ArgumentError
        If the equations are not independent of each other.
    GuaranteeError
        As `infer`.
    """
    combined = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
    values = np.asarray(null, dtype=np.float64)
    lengths = np.linalg.svd(combined, compute_uv=False)
    if len(lengths) < len(combined) or lengths[-1] <= _ALIKE * lengths[0]:
        raise ArgumentError("hypotheses: an equation follows from the others, or says nothing.")
    single = infer(release, combined, null=values, mode=mode, target=target)
    spread = combined @ covariance(release, mode=mode, target=target) @ combined.T
    off = single.estimate - values
    weight = np.linalg.pinv(spread, hermitian=True)
    statistic = float(off @ weight @ off)
    q = len(combined)
    if q == 1:
        p_value = float(single.p_value[0])
    elif single.mode == "conservative" or single.target == "unpenalised":
        p_value = min(1.0, q * float(single.p_value.min()))
    else:
        matrices = matrices_for(release, read_choices(release, mode, target, "sandwich"))
        if _is_normal(release, matrices):
            p_value = float(scipy.special.chdtrc(q, statistic))
            return JointTest(statistic, q, p_value, single.mode, single.target)
        errors = joint_errors(evidence_of(release), matrices, combined)
        drawn = np.einsum("ca,ab,cb->c", errors, weight, errors)
        p_value = (1 + int((drawn >= statistic).sum())) / (1 + len(drawn))
    return JointTest(statistic, q, p_value, single.mode, single.target)


def _is_normal(release: Release, matrices: Matrices) -> bool:
    """Whether errors have one normal law, so that the statistic is a chi-square number."""
    scales = mixture_of(release.calibration.noise)
    return len(matrices.curvature) == 1 and scales is not None and len(scales[0]) == 1
