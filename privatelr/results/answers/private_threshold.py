"""A private threshold alone: what `fit.private_threshold` releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from privatelr import page_model
from privatelr.errors import ArgumentError, require_choice
from privatelr.mechanisms.score_histogram import ScoreScale
from privatelr.mechanisms.threshold_choice import (
    THRESHOLDS,
    ThresholdCalibration,
    calibrate_threshold,
    choose_threshold,
)
from privatelr.numerics import Loss, ThresholdRule
from privatelr.page_model import Piece
from privatelr.privacy import REPLACE_PERSON, Guarantee
from privatelr.privacy import to_json as guarantee_to_json
from privatelr.privacy.accounting import Entry
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.answers.scored_records import (
    Evaluation,
    fit_price,
    promise_of,
    read_price,
    require_pure,
    score_scale,
)
from privatelr.results.fit_record import ModelRecord
from privatelr.results.predict import scale_of, score

_RULES = {"youden": "largest sensitivity + specificity", "topleft": "nearest to the corner (0, 1)"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrivateThreshold(PaidAnswer):
    """A threshold between the classes that was chosen privately; ``float()`` gives the number.

    Attributes
    ----------
    place : int
        Which of the public thresholds was chosen, counted from 0.
    scale : ScoreScale
        By which the thresholds were made.
    calibration : ThresholdCalibration
        The rule, the number of records that were scored, and the price.
    loss : Loss
        The loss of the fit, which says whether scores are probabilities or margins.
    formula : str
        The formula of the fit.
    guarantee : Guarantee
        The guarantee of the threshold, for the records that were scored.
    fit_guarantee : Guarantee
        The guarantee of the fit itself, which is paid apart.
    entry : Entry or None
        The entry that a ledger was charged with.
    """

    place: int
    scale: ScoreScale
    calibration: ThresholdCalibration
    loss: Loss
    formula: str
    guarantee: Guarantee
    fit_guarantee: Guarantee
    entry: Entry | None = None

    @property
    def value(self) -> float:
        """A probability or a margin, for ``predict(threshold=...)``."""
        link = self.scale.edges(THRESHOLDS + 1)[self.place : self.place + 1]
        return float(np.asarray(score(self.loss, link))[0])

    @property
    def rule(self) -> ThresholdRule:
        """What it is about the best by, ``"youden"`` or ``"topleft"``."""
        return self.calibration.rule

    @property
    def score(self) -> str:
        """``"probability"`` or ``"margin"``."""
        return scale_of(self.loss).name

    @property
    def nobs(self) -> int:
        """Number of records that were scored, or of their persons; it is public."""
        return self.calibration.n

    @property
    def persons(self) -> bool:
        """Whether `nobs` is the number of persons, of whom all records count as one together."""
        return self.calibration.target.neighbours is REPLACE_PERSON

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the threshold, what it is, and the price."""
        return {
            "threshold": self.value,
            "rule": self.rule,
            "score": self.score,
            "n": self.nobs,
            "formula": self.formula,
            "guarantee": guarantee_to_json(self.guarantee),
            "fit_guarantee": guarantee_to_json(self.fit_guarantee),
        }

    def __float__(self) -> float:
        return self.value

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        promise = promise_of(self.guarantee, self.nobs, persons=self.persons)
        how = f"permute-and-flip among {THRESHOLDS} public thresholds, by {_RULES[self.rule]}"
        facts = [("Promise", promise), ("Fit", fit_price(self.fit_guarantee)), ("Mechanism", how)]
        return [
            page_model.Heading("Private threshold"),
            page_model.Code(self.formula),
            "",
            page_model.FactList(facts),
            "",
            f"{self.score.capitalize()} {self.value:.4g}",
        ]

    def __repr__(self) -> str:
        return f"<PrivateThreshold {self.value:.6g} by {self.rule}, {self.guarantee}>"


def private_threshold(
    fit: ModelRecord, opened: Evaluation, eps: Any, rule: Any, ledger: Any, seed: Any
) -> PrivateThreshold:
    """Choose a threshold; see `privatelr.results.answers.evaluated`."""
    require_choice(ArgumentError, "rule", rule, tuple(_RULES))
    price = read_price(eps, 0.0, ledger, seed, "private_threshold", opened)
    target = require_pure(price.target, "private_threshold")
    calibration = calibrate_threshold(opened.n, target, cast("ThresholdRule", rule))
    scale = score_scale(fit)
    entry = price.pay(calibration.events, f"{fit.formula}, threshold")
    counts = opened.counts(scale.edges(THRESHOLDS + 1))
    place = choose_threshold(counts, calibration, price.randomness)
    paid = price.guarantee, fit.guarantee, entry
    return PrivateThreshold(place, scale, calibration, fit.loss, fit.formula, *paid)
