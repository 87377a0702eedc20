"""Standard errors, intervals and tests of combinations of coefficients (inference.md 5).

``H0^-1 H w`` with ``H0 = H - lambda`` solves the unpenalised score equation to first order; its
private value is known because w is the minimiser, so the step costs nothing (inference.md 3.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privatelr.inference.conservative import SHARE, worst_errors, worst_p_values
from privatelr.inference.error_distribution import (
    PUBLIC_SEED,
    SMALLEST,
    Matrices,
    carriers,
    error_law,
    law_of,
    mixture_of,
    solved_for,
)
from privatelr.inference.inference_choices import matrices_for, read_choices, read_level
from privatelr.inference.noisy_moments import evidence_of, floored
from privatelr.mechanisms import Release
from privatelr.privacy.noise import draw_many
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.inference.error_distribution import ErrorLaw
    from privatelr.inference.inference_choices import InferenceChoices
    from privatelr.inference.noisy_moments import NoisyMoments


_LEAST = 1e-12
"""The part of the largest curvature below which a direction is as good as flat."""


def debiased_law(evidence: NoisyMoments, matrices: Matrices, contrasts: FloatArray) -> ErrorLaw:
    """The law of ``a.(w - w0)`` for combinations ``(m, d)``; its centre is what the penalty took.

    Under objective perturbation the step is ``H0^-1 (H w - g - b / n)``; output noise is added
    to w, so that H carries it too.
    """
    least = _LEAST * evidence.largest_trace
    bare = floored(matrices.curvature - evidence.floor * np.eye(len(evidence.w)), least)
    solved = solved_for(bare, contrasts)
    if evidence.calibration.placement == "output":
        carried = np.einsum("kde,kem->kdm", matrices.curvature, solved)
    else:
        carried = carriers(evidence, solved, contrasts)
    taken = -evidence.floor * np.einsum("d,kdm->km", evidence.w, solved)
    return law_of(evidence, solved, carried, matrices, contrasts, centre=taken)


_DRAWS = 20_000


def joint_errors(evidence: NoisyMoments, matrices: Matrices, contrasts: FloatArray) -> FloatArray:
    """Draws ``(c, m)`` of the errors of combinations ``(m, d)``; the same at every call."""
    rng = np.random.default_rng(PUBLIC_SEED)
    count, d, m = len(matrices.curvature), len(evidence.w), len(contrasts)
    each = max(1, _DRAWS // count)
    solved = solved_for(matrices.curvature, contrasts)
    carried = carriers(evidence, solved, contrasts)
    values, vectors = np.linalg.eigh(matrices.scores)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    gradients = rng.standard_normal((count, each, d)) @ np.swapaxes(root, 1, 2)
    noise = _noise(evidence, count, each, rng)
    shield = rng.standard_normal((count, each, d)) * np.sqrt(evidence.calibration.shield.variances)
    errors = gradients @ solved / np.sqrt(evidence.problem.n) + noise @ carried
    return np.asarray((errors + shield @ contrasts.T).reshape(-1, m))


def _noise(evidence: NoisyMoments, count: int, each: int, rng: np.random.Generator) -> FloatArray:
    law = evidence.calibration.noise
    scales = mixture_of(law)
    if scales is None:
        return draw_many(law, count * each, rng).reshape(count, each, -1)
    variances = rng.choice(scales[0], (count, each, 1), p=scales[1])
    return np.asarray(np.sqrt(variances) * rng.standard_normal((count, each, law.dimension)))


STANDARD_LEVEL = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """What is known of m combinations of the coefficients.

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


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """Combinations ``(m, d)``, values to test ``(m,)``, and how sure to be of them."""

    contrasts: FloatArray
    null: FloatArray
    level: float
    simultaneous: bool


def infer(
    release: Release,
    contrasts: FloatArray,
    *,
    null: FloatArray | None = None,
    level: float = STANDARD_LEVEL,
    mode: str | None = None,
    target: str = "penalised",
    method: str = "sandwich",
    simultaneous: bool = False,
) -> Inference:
    """Intervals and tests of combinations of the design coefficients.

    Parameters
    ----------
    release : Release
        With moments.
    contrasts : ndarray of shape (m, d)
    null : ndarray of shape (m,), optional
        Values to test; by default 0.
    level : float
        Of confidence.
    mode : {None, "posterior", "conservative", "plug-in"}
        How the noise in the matrices is taken into account; by default as `quality` says.
    target : {"penalised", "unpenalised"}
        The minimiser of the expected objective, or of the expected loss without its penalty.
    method : {"sandwich", "wkl"}
        ``"wkl"`` is the method as Wang, Kifer and Lee (2019) have it: the released matrices,
        with eigenvalues below lambda raised to it in both.
    simultaneous : bool
        Whether all intervals are to hold together; p-values are then adjusted alike.

    Raises
    ------
    GuaranteeError
        If inference was not requested, or what was released cannot carry the target.
    ArgumentError
        If a choice is unknown.

    Notes
    -----
    **Privacy.** *Covered*: a function of the release, free to repeat. *Neighbours*, *Assumed
    public*: those of the release. *Not covered*: nothing.
    """
    evidence, choices = evidence_of(release), read_choices(release, mode, target, method)
    combined = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
    values = np.zeros(len(combined)) if null is None else np.asarray(null, dtype=np.float64)
    question = _Question(combined, values, read_level(level), simultaneous)
    if choices.target == "unpenalised":
        return _unpenalised(release, evidence, choices, question)
    if choices.mode == "conservative":
        return _conservative(evidence, choices, question)
    return _penalised(release, evidence, choices, question)


def _penalised(
    release: Release, evidence: NoisyMoments, choices: InferenceChoices, question: _Question
) -> Inference:
    matrices = matrices_for(release, choices)
    law = error_law(evidence, matrices, question.contrasts)
    estimate = question.contrasts @ evidence.w
    off = np.abs(estimate - question.null)
    half, p_value = law.half_width(question.level), law.beyond(off)
    if _count(question) > 1:
        sd = np.sqrt(np.maximum(law.sampling + law.privacy, SMALLEST))
        drawn = joint_errors(evidence, matrices, question.contrasts)
        together = _together(drawn, sd, off, question.level)
        half, p_value = np.maximum(half, together[0]), np.maximum(p_value, together[1])
    return _answer(choices, question, estimate, (law.sampling, law.privacy), (half, half), p_value)


def _together(
    errors: FloatArray, sd: FloatArray, off: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Half widths and p-values ``(m,)`` by the largest of all errors, in their own sds."""
    largest = np.abs(errors / sd).max(axis=1)
    p_value = (1 + (largest[:, None] >= off / sd).sum(axis=0)) / (1 + len(largest))
    return np.quantile(largest, level) * sd, p_value


def _unpenalised(
    release: Release, evidence: NoisyMoments, choices: InferenceChoices, question: _Question
) -> Inference:
    law = debiased_law(evidence, matrices_for(release, choices), question.contrasts)
    level = _each(question)
    shares = ((1 - level) / 2, (1 + level) / 2)
    low, high = (law.quantile(share) for share in shares)
    shrunk = question.contrasts @ evidence.w
    taken = law.weight @ law.centre  # what the penalty took, with its sign
    estimate = shrunk - taken
    off = shrunk - question.null
    smaller = np.minimum(law.below(off), law.above(off))
    p_value = np.minimum(1.0, 2 * smaller * _count(question))
    widths = (high - taken, taken - low)
    return _answer(choices, question, estimate, (law.sampling, law.privacy), widths, p_value)


def _conservative(
    evidence: NoisyMoments, choices: InferenceChoices, question: _Question
) -> Inference:
    estimate = question.contrasts @ evidence.w
    alpha = 1 - _each(question)
    errors = worst_errors(evidence, question.contrasts, SHARE * alpha)
    half = errors.half_width((1 - SHARE) * alpha)
    off = np.abs(estimate - question.null)
    p_value = worst_p_values(evidence, question.contrasts, off, alpha) * _count(question)
    parts = (errors.sampling, errors.privacy)
    return _answer(choices, question, estimate, parts, (half, half), np.minimum(p_value, 1.0))


def _count(question: _Question) -> int:
    """By how much p-values grow when all are to hold together (Bonferroni)."""
    return len(question.contrasts) if question.simultaneous else 1


def _each(question: _Question) -> float:
    """Level of each interval."""
    return 1 - (1 - question.level) / _count(question)


def _answer(
    choices: InferenceChoices,
    question: _Question,
    estimate: FloatArray,
    variances: tuple[FloatArray, FloatArray],
    widths: tuple[FloatArray, FloatArray],
    p_value: FloatArray,
) -> Inference:
    """Parts put together; `widths` are how far the interval reaches below and above."""
    return Inference(
        estimate=estimate,
        null=question.null,
        sampling_sd=np.sqrt(variances[0]),
        privacy_sd=np.sqrt(variances[1]),
        lower=estimate - widths[0],
        upper=estimate + widths[1],
        p_value=p_value,
        level=question.level,
        mode=choices.mode,
        target=choices.target,
        method=choices.method,
    )
