"""A choice among fits that were made before, by a private score of records with outcomes.

The score of a fit is the sum of what its predictions are worth, as a number of records. For two
neighbours the scores of all fits change within one interval of length 2, so that permute-and-flip
with this width is epsilon-DP, whatever the fits and however many (theory.md#choice-among-fits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.range_selection import share_grid
from privatelr.numerics import twice_concordant, weighted_concordant
from privatelr.privacy import Event, PureDP
from privatelr.privacy.noise import DOWN, Randomness
from privatelr.privacy.noise.exponential_mechanism import PermuteAndFlip
from privatelr.types import FloatArray

ScoreName = Literal["auc", "accuracy", "brier"]
_WIDTH = 2
"""Length of an interval, in records, in which the scores of all fits change between neighbours."""
_ROUNDING = 2.0**-50
"""Relative rounding of a few operations in doubles, with a margin."""
_GRID = 2**24
"""Squared errors are rounded to multiples of one over this, so that their sum is exact."""
_LEAST_CLASS = 2 / 3
"""Of n: the larger class counts as at least this, because the classes themselves can change."""


@dataclass(frozen=True, slots=True)
class ChoiceCalibration:
    """The price of a choice among fits, computed before any data is touched.

    Attributes
    ----------
    n : int
        Number of records that are scored, or of their persons.
    candidates : int
        Number of fits to choose from, at least 2.
    score : {"auc", "accuracy", "brier"}
    target : PureDP
        The guarantee of the choice.
    """

    n: int
    candidates: int
    score: ScoreName
    target: PureDP

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for this release."""
        return (self.target,)

    @property
    def mechanism(self) -> PermuteAndFlip:
        """The choice by scores, each of which is at most n and rounded once."""
        return PermuteAndFlip(self.target.epsilon * DOWN, _WIDTH * (1 + self.n * _ROUNDING))

    def resolution(self, chance: float = 0.05, prevalence: float = 0.5) -> float:
        """Return how much worse a fit must be to be chosen with at most this chance.

        An option that lies t below the best one is looked at before it with probability one half,
        and is then accepted with probability ``exp(-epsilon t / 2)``; so all that lie at least t
        below are chosen with at most ``(candidates - 1) / 2`` times that.

        Parameters
        ----------
        chance : float
            At most this is the chance of a fit that is worse by more.
        prevalence : float
            A guess of the share of the positive class, for the AUC.

        Returns
        -------
        float
            A difference of AUCs, of shares of correct classes, or of Brier scores; a value of 1
            or more says that the choice tells nothing apart.
        """
        records = 2 * math.log((self.candidates - 1) / (2 * chance)) / self.target.epsilon
        return max(records, 0.0) / self.records_of(1.0, prevalence)

    def records_of(self, difference: float, prevalence: float = 0.5) -> float:
        """Return a difference of AUCs, of right shares or of Brier scores as a number of records.

        For the AUC it depends on a guess of the share of the positive class.
        """
        share = 1.0
        if self.score == "auc":
            larger = max(prevalence, 1 - prevalence, _LEAST_CLASS)
            share = prevalence * (1 - prevalence) / larger
        return difference * self.n * share


def calibrate_choice(
    n: int, candidates: int, score: ScoreName, target: PureDP
) -> ChoiceCalibration:
    """Fix the price of a choice, from public facts alone."""
    if n < 1 or candidates < 2:
        raise GuaranteeError(
            f"n={n}, candidates={candidates}: a choice takes one record and two fits or more."
        )
    return ChoiceCalibration(n, candidates, score, target)


def total_score(score: ScoreName, label: FloatArray, prediction: FloatArray) -> float:
    """Return the score of a fit, in records.

    Parameters
    ----------
    score : {"auc", "accuracy", "brier"}
    label
        Outcomes ``(n,)``: -1, 1, or 0 for an outcome that is not usable. They are the same for all
        fits.
    prediction
        Of each record ``(n,)``, and NaN if the fit cannot predict it, which counts as it would
        for a coin: for ``"auc"`` any score, larger for the positive class, for ``"accuracy"`` a
        class -1 or 1, and for ``"brier"`` the probability of the positive class.

    Notes
    -----
    Let one record be replaced. The claim is that the changes of the scores of all fits lie in one
    interval of length 2, whatever the fits predict. It is proven for exact sums
    (theory.md#choice-among-fits); these are rounded once, which the mechanism allows for.

    ``"accuracy"`` and ``"brier"`` are sums of what each record is worth, between 0 and 1.

    ``"auc"`` is ``W / g``. There are p positive and q negative records, p + q at most n; W is the
    number of pairs of these in which the positive one has the larger score, ties counting one
    half; g is the largest of p, q and 2 n / 3. For all fits of one data set g is the same, and W /
    (p q) is the AUC. Divided by the larger class alone W would move within up to 3, and W itself
    within 2 (n - 1).
    """
    if score == "auc":
        twice, positive, negative = twice_concordant(label, prediction)
        # whole numbers, whose quotient is rounded once
        return 3 * twice / (2 * max(3 * positive, 3 * negative, 2 * len(label)))
    if score == "accuracy":
        right = label * np.where(np.isnan(prediction), 0.0, prediction)
        return (len(label) + int(right.sum())) / 2
    probability = np.where(np.isnan(prediction), 0.5, prediction)
    squares = np.where(label == 0, 0.0, (probability - (label > 0)) ** 2)
    return len(label) - int(np.rint(squares * _GRID).astype(np.int64).sum()) / _GRID


def total_score_of_persons(
    score: ScoreName, label: FloatArray, prediction: FloatArray, shares: FloatArray, persons: int
) -> float:
    """Return the score of a fit, in persons, of whom each record counts its share ``(n,)``.

    Shares of a person add up to 1 at most. Other arguments as of `total_score`, for which a person
    with one record counts as that record does.

    Notes
    -----
    Let all records of one of m persons be replaced. The changes of the scores of all fits lie in
    one interval of length 2 again (theory.md#choice-among-fits).

    ``"accuracy"`` and ``"brier"`` are sums of shares times what a record is worth, from 0 to 1.
    ``"auc"`` is ``W / g`` with pairs that count the product of their shares: g is the largest of
    the shares in either class and 2 m / 3.
    """
    grid = share_grid(persons)
    units = np.floor(shares / grid)  # whole numbers, whose sum a double holds
    if score == "auc":
        pairs, positive, negative = weighted_concordant(label, prediction, units)
        return pairs / max(positive, negative, _LEAST_CLASS * persons / grid) * grid
    if score == "accuracy":
        right = 1.0 + label * np.where(np.isnan(prediction), 0.0, prediction)
        return float((units * right).sum()) * grid / 2
    probability = np.where(np.isnan(prediction), 0.5, prediction)
    worth = 1.0 - np.where(label == 0, 0.0, (probability - (label > 0)) ** 2)
    return float(np.floor(units * worth).sum()) * grid


def choose_candidate(
    scores: FloatArray, calibration: ChoiceCalibration, randomness: Randomness
) -> int:
    """Choose one of the fits by their scores ``(candidates,)`` and return its position.

    Notes
    -----
    **Privacy.** *Covered*: the position, by ``calibration.target``, for scores that are those of
    `total_score`, or of `total_score_of_persons`. *Neighbours*: replace one of the records that
    were scored, or all records of one of their persons. *Assumed public*: n (of persons then) and
    the fits. *Not covered*: the scores, time and memory.
    """
    if scores.shape != (calibration.candidates,):
        raise GuaranteeError(
            f"scores of shape {scores.shape} do not fit a choice among {calibration.candidates}."
        )
    return calibration.mechanism.choose(scores, randomness)
