"""Planted bugs in private answers around a fit: counts of scores, thresholds, choices, areas."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from privatelr.mechanisms import (
    candidate_choice,
    registry,
    score_histogram,
    smooth_area,
    threshold_choice,
)
from privatelr.privacy.noise import FloatDraw
from privatelr.privacy.noise.exponential_mechanism import NoisyMaximum
from privatelr.privacy.noise.student_noise import SHIFT_LOSS
from privatelr.types import FloatArray
from tests.audit.mutations.planted import ANSWERS, SCORED_FITS, Mutation, list_bug

OF_ANSWERS: list[Mutation] = []
bug = partial(list_bug, OF_ANSWERS)

bug("one of two counts moves, for Laplace noise", (score_histogram, "_laplace"), ANSWERS)(
    lambda honest, cells, epsilon: honest(cells, 2 * epsilon)
)
bug("one of two counts moves, for Gaussian noise", (score_histogram, "laws_hiding"), ANSWERS)(
    lambda honest, reach, *rest: honest(1.0, *rest)
)


@bug(
    "scores of thresholds move by half of n",
    (threshold_choice.ThresholdCalibration, "mechanism"),
    ANSWERS,
)
def _(honest: Any, made: Any, positive: int) -> NoisyMaximum:
    half: NoisyMaximum = replace(honest(made, positive), width=made.n / 2)
    return half


@bug(
    "distances of thresholds move by the length of both steps",
    (threshold_choice.ThresholdCalibration, "mechanism"),
    ANSWERS,
)
def _(honest: Any, made: Any, positive: int) -> NoisyMaximum:
    found: NoisyMaximum = honest(made, positive)
    both = math.hypot(1 / positive, 1 / (made.n - positive))
    return found if made.rule == "youden" else replace(found, width=both)


@bug(
    "a threshold's count is worth its whole price",
    (threshold_choice.ThresholdCalibration, "noise"),
    ANSWERS,
)
def _(honest: Any, made: Any) -> Any:
    return honest(replace(made, count=made.target))


@bug(
    "scores of fits are taken to move one way",
    (candidate_choice.ChoiceCalibration, "mechanism"),
    ANSWERS,
)
def _(honest: Any, made: Any) -> NoisyMaximum:
    narrow: NoisyMaximum = replace(honest(made), width=honest(made).width / 2)
    return narrow


@bug("a ranking is divided by its larger class alone", candidate_choice.total_score, ANSWERS)
def _(honest: Any, score: str, label: FloatArray, prediction: FloatArray) -> float:
    found: float = honest(score, label, prediction)
    larger = max(np.count_nonzero(label > 0), np.count_nonzero(label < 0))
    return found if score != "auc" else found * max(1.0, len(label) / max(1.5 * larger, 1))


@bug(
    "noise on an area by the sensitivity of these data alone",
    smooth_area.smooth_sensitivity,
    ANSWERS,
)
def _(honest: Any, smaller: int, beta: float) -> float:
    return 1 / max(smaller, 1)


@bug("an area pays nothing for its changing scale", smooth_area.calibrate_area, ANSWERS)
def _(honest: Any, *args: Any) -> Any:
    made = honest(*args)
    return replace(made, shift=made.area.epsilon / SHIFT_LOSS)


@bug(
    "the sizes of classes are worth the whole price of an area",
    (smooth_area.AreaCalibration, "size_noise"),
    ANSWERS,
)
def _(honest: Any, made: Any) -> Any:
    return honest(replace(made, sizes=made.target))


# -- counts of scores that a fit buys -------------------------------------------------------------


@bug("counts of scores are free beside the coefficients", registry.divide, SCORED_FITS)
def _(honest: Any, target: Any, *given: Any, **named: Any) -> Any:
    ways = honest(target, *given, **named)
    return [({**parts, "coefficients": target}, kinds) for parts, kinds in ways]


@bug("counts of scores hide half of a record", registry.calibrate_histogram, SCORED_FITS)
def _(honest: Any, *given: Any) -> Any:
    made = honest(*given)
    loud = made.noise
    half = {"rate": 2 * loud.rate} if hasattr(loud, "rate") else {"sd": loud.sd / 2}
    return replace(made, noise=replace(loud, **half))


@bug("bins begin where the labels say", score_histogram.score_counts, SCORED_FITS)
def _(honest: Any, *given: Any) -> FloatArray:
    bins = len(given[-1]) + 1
    negative, positive, unusable = np.split(honest(*given), [bins, 2 * bins])
    start = int(positive.sum())
    return np.concatenate([np.roll(negative, start), np.roll(positive, start), unusable])


@bug("a fit's counts are released without noise", score_histogram.release_scores, SCORED_FITS)
def _(honest: Any, rows: Any, coef: Any, scale: Any, calibration: Any, noise: Any) -> FloatArray:
    silent = FloatDraw(np.zeros(calibration.noise.dimension))
    found: FloatArray = honest(rows, coef, scale, calibration, silent)
    return found
