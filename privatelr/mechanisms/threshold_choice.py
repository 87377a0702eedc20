"""A threshold of scores, chosen privately among public ones, without a histogram.

The price has two parts: a noisy count of the positive class, by which both classes are weighted
alike, and a choice by how well each threshold separates the classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.proven_noise import DOWN, UP
from privatelr.mechanisms.perturbation import rounded_sum
from privatelr.numerics import ThresholdRule
from privatelr.privacy import Event, PureDP, split
from privatelr.privacy.noise import BlockLaplace, NoiseLaw, Randomness
from privatelr.privacy.noise.exponential_mechanism import PermuteAndFlip
from privatelr.types import Block, FloatArray

_SHARES = {"count": 0.2, "choice": 0.8}
"""Parts of a price. With a tenth for the count, J of 5,000 records at an epsilon of 0.1 loses a
sixth more; at larger prices the parts hardly matter (``python -m tests.studies.roc --shares``)."""
THRESHOLDS = 39
"""Number of thresholds to choose from; the error of the choice grows with its logarithm."""
_ROUNDING = 2.0**-50
"""Relative rounding of a few operations in doubles, with a margin."""


@dataclass(frozen=True, slots=True)
class ThresholdCalibration:
    """The price of a threshold, computed before any data is touched.

    Attributes
    ----------
    n : int
        Number of records that are scored, or of their persons, at least 2.
    rule : {"youden", "topleft"}
    target : PureDP
        The guarantee of the threshold and of the count.
    count, choice : PureDP
        Its parts, which add up to it.
    """

    n: int
    rule: ThresholdRule
    target: PureDP
    count: PureDP
    choice: PureDP

    @property
    def noise(self) -> NoiseLaw:
        """The noise on the number of positive records, which a record, or person, changes by 1."""
        return BlockLaplace((Block(1, 1.0),), self.count.epsilon * DOWN)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for this release."""
        return (self.count, self.choice)

    def mechanism(self, positive: int) -> PermuteAndFlip:
        """Return the choice by the scores of `rule`, given the noisy number of positive records.

        For Youden's J, scores are whole numbers: true positives times the negative class, less
        false positives times the positive class. All changes lie in an interval of length n.

        For the corner, a score is minus the length of ``(missed / positive, alarms / negative)``.
        All changes lie in an interval of length ``1 / positive + 1 / negative``, and none is
        shorter: with a perfect threshold and one that calls all negative records positive, both
        ends are reached. Both hold for records and for persons, whose records count 1 at most
        together (theory.md#choice-of-a-threshold has the proofs).
        """
        if self.rule == "youden":
            width = self.n * (1 + self.n * _ROUNDING)  # of scores up to n**2
        else:
            negative = self.n - positive
            most = math.hypot(self.n / positive, self.n / negative)
            width = (1 / positive + 1 / negative + most * _ROUNDING) * UP
        return PermuteAndFlip(self.choice.epsilon * DOWN, width)


def calibrate_threshold(n: int, target: PureDP, rule: ThresholdRule) -> ThresholdCalibration:
    """Divide the price of a threshold, from public facts alone."""
    if n < 2:
        raise GuaranteeError(f"n={n}: a threshold takes at least two records.")
    parts = split(target, _SHARES)
    count, choice = parts["count"], parts["choice"]
    assert isinstance(count, PureDP)
    assert isinstance(choice, PureDP)
    return ThresholdCalibration(n, rule, target, count, choice)


def threshold_scores(counts: FloatArray, positive: int, n: int, rule: ThresholdRule) -> FloatArray:
    """Return the score ``(K - 1,)`` of the threshold above each bin but the last.

    Parameters
    ----------
    counts
        Exact numbers of records ``(2 K + 1,)`` in bins of the negative class, of the positive
        class, and of those that cannot be used.
    positive
        The noisy number of positive records, from 1 to ``n - 1``.
    """
    bins = len(counts) // 2
    below, missed = np.cumsum(counts[:bins])[:-1], np.cumsum(counts[bins : 2 * bins])[:-1]
    alarms, hits = counts[:bins].sum() - below, counts[bins : 2 * bins].sum() - missed
    negative = n - positive
    if rule == "youden":
        return np.asarray(hits * negative - alarms * positive)
    return np.asarray(-np.hypot(missed / positive, alarms / negative))


def choose_threshold(
    counts: FloatArray, calibration: ThresholdCalibration, randomness: Randomness
) -> int:
    """Choose one of the ``K - 1`` thresholds between bins, and return its position.

    Parameters
    ----------
    counts
        The number of records in each cell ``(2 K + 1,)``, as by `score_histogram.counts_in`, or of
        persons, as by `score_histogram.counts_of_shares` and `score_histogram.filled_up`.

    Notes
    -----
    **Privacy.** *Covered*: the threshold, by ``calibration.target``. *Neighbours*: replace one
    record, or all records of a person. *Assumed public*: n (of persons then), the bins, and the
    function that gives a record its cell. *Not covered*: time and memory.
    """
    n, rule, bins = calibration.n, calibration.rule, len(counts) // 2
    if counts.sum() != n:
        raise GuaranteeError(f"counts of cells do not fit a threshold of n={n} records.")
    noise = randomness.draw(calibration.noise)
    (noisy,) = rounded_sum(counts[bins : 2 * bins].sum(keepdims=True), noise, 1.0)
    positive = int(min(max(noisy, 1), n - 1))
    scores = threshold_scores(counts, positive, n, rule)
    return calibration.mechanism(positive).choose(scores, randomness)
