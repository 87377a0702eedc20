"""The privacy loss of choices, exactly: of what a fit released, and of every path.

All paths at once are enumerated from the definition, with nothing of the release but its public
numbers. The log chance of a single path, of a fit of any size, goes by the functions of the
release, which the comparison with all paths of tiny cases vouches for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privatelr.audit.enumeration.tiny_simplex import histogram_loss
from privatelr.design import DesignSpec
from privatelr.errors import ArgumentError
from privatelr.mechanisms.linear_programs import ProgramCalibration, lower, require_match, scorer
from privatelr.mechanisms.selection_release import Selections
from privatelr.mechanisms.simplex import SimplexCalibration
from privatelr.model_data import FrameData
from privatelr.numerics.rows import EntryRows
from privatelr.numerics.solve.dense_weights import dense_projection
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP, to_approximate
from privatelr.results import SelectedRecord
from privatelr.sources import as_frame
from privatelr.types import FloatArray, IntArray

SLACK = 1e-6
_DELTA = 1e-6
"""Chance at which a zCDP claim is read as an epsilon."""


@dataclass(frozen=True, slots=True)
class ChoiceLoss:
    """What the released choices say about which of two datasets they were made from.

    Attributes
    ----------
    claim : Guarantee
    found : float
        Size of the logarithm of the ratio of their chances, exactly.
    epsilon : float
        What the claim lets it be: never more for a pure claim, and for the others more only
        with about the chance delta.
    delta : float
        That chance; 0 for a pure claim.
    """

    claim: Guarantee
    found: float
    epsilon: float
    delta: float

    @property
    def ratio(self) -> float:
        """``found / epsilon``."""
        return self.found / self.epsilon

    @property
    def holds(self) -> bool:
        """Whether the loss is within epsilon, up to rounding."""
        return self.ratio <= 1 + SLACK

    def __str__(self) -> str:
        chance = f", exceeded with a chance of about {self.delta:g}" if self.delta else ""
        verdict = "ok" if self.holds else "VIOLATION" if not self.delta else "above it"
        return (
            f"privacy loss {self.found:.6g} of the released choices on this pair, claim epsilon "
            f"{self.epsilon:.6g}{chance}, ratio {self.ratio:.4f}: {verdict}"
        )


def choice_loss(fit: SelectedRecord, data: Any, neighbour: Any) -> ChoiceLoss:
    """The loss of the choices of a fit between two frames; see `privatelr.audit.privacy_loss`."""
    first, second = (_rows(fit, *side) for side in (("data", data), ("neighbour", neighbour)))
    differ = np.any(first.signed() != second.signed(), axis=1)
    if differ.sum() > 1:
        raise ArgumentError(
            f"data and neighbour differ in {int(differ.sum())} rows: they take one, as neighbours."
        )
    epsilon, delta = _read_as(fit.guarantee)
    return ChoiceLoss(fit.guarantee, abs(_loss(first, second, fit.release)), epsilon, delta)


def _loss(first: EntryRows, second: EntryRows, release: Selections) -> float:
    match release.calibration:
        case ProgramCalibration() as calibration if release.path is not None:
            return path_loss(first, second, calibration, release.path)
        case SimplexCalibration() as calibration:
            return histogram_loss(first, second, calibration, release.counts)
    raise ArgumentError("subject: takes a fit of a registered mechanism.")


def _rows(fit: SelectedRecord, name: str, data: Any) -> EntryRows:
    spec = fit.spec
    if not isinstance(spec, DesignSpec):
        raise ArgumentError("subject: takes a fit of a formula, and not of a sparse matrix.")
    frame = as_frame(data)
    if len(frame) != fit.nobs:
        raise ArgumentError(f"{name} of {len(frame)} rows: takes n={fit.nobs}.")
    return FrameData(spec.formula.text, frame).entries(spec)[0]


def _read_as(claim: Guarantee) -> tuple[float, float]:
    match claim:
        case PureDP(epsilon=epsilon):
            return epsilon, 0.0
        case ApproxDP(epsilon=epsilon, delta=delta):
            return epsilon, delta
        case ZCDP():
            return to_approximate(claim, _DELTA).epsilon, _DELTA
    raise ArgumentError(f"subject: {claim} claims nothing.")


_MOST_NUMBERS = 5e7
"""Log weights that an enumeration may hold at once."""


def path_log_probabilities(rows: EntryRows, calibration: ProgramCalibration) -> FloatArray:
    """Log chance of every path, of shape ``(2 d,) * rounds``: one axis for each round.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up rows. *Neighbours*, *Assumed public*: none.
    *Not covered*: the result.
    """
    require_match(rows, calibration)
    options, rounds = 2 * rows.d, calibration.rounds
    if rounds * math.log(options) > math.log(_MOST_NUMBERS / rows.n):
        raise ArgumentError(
            f"calibration: {options} options in {rounds} rounds are too many paths to enumerate; "
            "take fewer rounds or columns."
        )
    signed = rows.signed()
    both = np.concatenate([signed, -signed], axis=1)
    judged = both if calibration.score == "margin" else (both >= calibration.threshold) * 1.0
    log_weights, log_chances = np.zeros((1, rows.n)), np.zeros(1)
    for _ in range(rounds):
        scores = nearest_dense(log_weights, calibration.problem.s) @ judged
        log_chances = (log_chances[:, None] + log_chances_of(scores, calibration)).reshape(-1)
        log_weights = log_weights[:, None, :] - calibration.step * both.T
        log_weights = log_weights.reshape(-1, rows.n)
    return log_chances.reshape((options,) * rounds)


def path_log_probability(
    rows: EntryRows, calibration: ProgramCalibration, path: Sequence[int] | IntArray
) -> float:
    """Log chance of one path; minus infinity where there is no noise and it is not the one.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*, *Assumed public*: none. *Not covered*: the
    result, which is a function of the rows.
    """
    require_match(rows, calibration)
    if len(path) != calibration.rounds:
        raise ArgumentError(
            f"path: takes one option for each of {calibration.rounds} rounds, not {len(path)}."
        )
    score, log_weights, total = scorer(rows, calibration), np.zeros(rows.n), 0.0
    for option in path:
        scores = score(dense_projection(log_weights, calibration.problem.s))
        total += float(log_chances_of(scores[None], calibration)[0, option])
        lower(log_weights, rows, int(option), calibration.step)
    return total


def path_loss(
    first: EntryRows,
    second: EntryRows,
    calibration: ProgramCalibration,
    path: Sequence[int] | IntArray,
) -> float:
    """Exact log ratio of the chances of one path, first dataset over second.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*: whatever pair is given. *Assumed public*: both
    datasets. *Not covered*: the result.
    """
    return path_log_probability(first, calibration, path) - path_log_probability(
        second, calibration, path
    )


def log_chances_of(scores: FloatArray, calibration: ProgramCalibration) -> FloatArray:
    """Log chances of the options ``(m, k)`` by their scores."""
    if math.isinf(calibration.eta):
        chosen = np.argmax(scores, axis=1)[:, None] == np.arange(scores.shape[1])
        return np.where(chosen, 0.0, -math.inf)
    exponents = calibration.eta * scores / (2 * calibration.sensitivity)
    return np.asarray(exponents - np.logaddexp.reduce(exponents, axis=1, keepdims=True))


def nearest_dense(log_weights: FloatArray, s: float) -> FloatArray:
    """The nearest dense laws ``(m, n)``, by trying how many weights are cut off."""
    ranked = -np.sort(-log_weights, axis=1)
    log_zeta = np.full(len(ranked), np.nan)
    for cut in range(math.ceil(s)):
        level = ranked[:, cut : cut + 1]
        rest = np.log(s - cut) - np.logaddexp.reduce(ranked[:, cut:] - level, axis=1)
        fits = np.isnan(log_zeta) & (rest <= 1e-12)
        log_zeta = np.where(fits, rest - level[:, 0], log_zeta)
    # where s is whole and as many weights tower over the others, only rounding is in the way
    last = -ranked[:, math.ceil(s) - 1]
    log_zeta = np.where(np.isnan(log_zeta), last, log_zeta)
    return np.asarray(np.exp(np.minimum(log_weights + log_zeta[:, None], 0.0)) / s)
