"""Planted bugs in private answers around a fit: counts of scores, and choices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from privatelr.mechanisms import candidate_choice, registry
from privatelr.mechanisms.stages import histogram as histogram_stage
from privatelr.privacy.noise import FloatDraw
from privatelr.privacy.noise.exponential_mechanism import NoisyMaximum
from privatelr.types import FloatArray
from tests.audit.mutations.planted import ANSWERS, STAGED_FITS, Mutation, list_bug, noise

OF_ANSWERS: list[Mutation] = []
bug = partial(list_bug, OF_ANSWERS)
_COUNTS = noise("counts*")

bug("one of two counts moves, for Laplace noise", (histogram_stage, "BlockLaplace"), _COUNTS)(
    lambda honest, blocks, rate: honest(blocks, 2 * rate)
)
bug("one of two counts moves, for Gaussian noise", (histogram_stage, "laws_hiding"), _COUNTS)(
    lambda honest, reach, *rest: honest(1.0, *rest)
)


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


# -- counts of scores that a fit buys -------------------------------------------------------------


@bug("counts of scores are free beside the coefficients", registry.divide, STAGED_FITS)
def _(honest: Any, target: Any, *given: Any, **named: Any) -> Any:
    ways = honest(target, *given, **named)
    return [({**parts, "coefficients": target}, kinds) for parts, kinds in ways]


@bug("counts of scores hide half of a record", histogram_stage.calibrate_histogram, STAGED_FITS)
def _(honest: Any, *given: Any) -> Any:
    made = honest(*given)
    loud = made.noise
    half = {"rate": 2 * loud.rate} if hasattr(loud, "rate") else {"sd": loud.sd / 2}
    return replace(made, noise=replace(loud, **half))


@bug("bins begin where the labels say", histogram_stage.score_counts, STAGED_FITS)
def _(honest: Any, *given: Any) -> FloatArray:
    bins = len(given[-1]) + 1
    negative, positive, unusable = np.split(honest(*given), [bins, 2 * bins])
    start = int(positive.sum())
    return np.concatenate([np.roll(negative, start), np.roll(positive, start), unusable])


@bug("a fit's counts are released without noise", histogram_stage.count_scores, STAGED_FITS)
def _(honest: Any, rows: Any, release: Any, scale: Any, calibration: Any, noise: Any) -> Any:
    silent = FloatDraw(np.zeros(calibration.noise.dimension))
    return honest(rows, release, scale, calibration, silent)
