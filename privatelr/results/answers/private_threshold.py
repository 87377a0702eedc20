"""A private threshold alone: what `fit.private_threshold` releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from privatelr import page_model
from privatelr.errors import ArgumentError, GuaranteeError, require_choice
from privatelr.mechanisms.threshold_choice import (
    THRESHOLDS,
    calibrate_threshold,
    choose_threshold,
)
from privatelr.numerics import ThresholdRule
from privatelr.privacy import Guarantee, PureDP
from privatelr.privacy.accounting import Entry
from privatelr.results.answers.scored_records import (
    Evaluation,
    fit_price,
    promise_of,
    read_price,
    score_scale,
)
from privatelr.results.fit_record import ModelRecord
from privatelr.results.predict import scale_of, score

_RULES = {"youden": "largest sensitivity + specificity", "topleft": "nearest to the corner (0, 1)"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrivateThreshold:
    """A threshold between the classes that was chosen privately; ``float()`` gives the number.

    Attributes
    ----------
    value : float
        A probability or a margin, for ``predict(threshold=...)``.
    rule : {"youden", "topleft"}
        What it is about the best by.
    score : str
        ``"probability"`` or ``"margin"``.
    nobs : int
        The number of records that were scored; it is public.
    formula : str
        The formula of the fit.
    guarantee : Guarantee
        The guarantee of the threshold, for the records that were scored.
    fit_guarantee : Guarantee
        The guarantee of the fit itself, which is paid apart.
    entry : Entry or None
        The entry that a ledger was charged with.
    persons : bool
        Whether `nobs` is the number of persons, of whom all records count as one together.
    """

    value: float
    rule: ThresholdRule
    score: str
    nobs: int
    formula: str
    guarantee: Guarantee
    fit_guarantee: Guarantee
    entry: Entry | None = None
    persons: bool = False

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        promise = promise_of(self.guarantee, self.nobs, persons=self.persons)
        how = f"permute-and-flip among {THRESHOLDS} public thresholds, by {_RULES[self.rule]}"
        facts = [("Promise", promise), ("Fit", fit_price(self.fit_guarantee)), ("Mechanism", how)]
        return page_model.as_text(
            [
                page_model.Heading("Private threshold"),
                page_model.Code(self.formula),
                "",
                page_model.FactList(facts),
                "",
                f"{self.score.capitalize()} {self.value:.4g}",
            ]
        )

    def __repr__(self) -> str:
        return f"<PrivateThreshold {self.value:.6g} by {self.rule}, {self.guarantee}>"


def private_threshold(
    fit: ModelRecord, opened: Evaluation, eps: Any, rule: Any, ledger: Any, seed: Any
) -> PrivateThreshold:
    """Choose a threshold; see `privatelr.results.answers.evaluated`."""
    require_choice(ArgumentError, "rule", rule, tuple(_RULES))
    price = read_price(eps, 0.0, ledger, seed, opened.n, "private_threshold", opened.neighbours)
    if not isinstance(price.target, PureDP):
        raise GuaranteeError(
            f"{price.target}: private_threshold takes a pure epsilon, such as eps=1; private_roc "
            "takes other guarantees."
        )
    chosen = cast("ThresholdRule", rule)
    calibration = calibrate_threshold(opened.n, price.target, chosen)
    edges = score_scale(fit).edges(THRESHOLDS + 1)
    entry = price.pay(calibration.events, f"{fit.formula}, threshold")
    place = choose_threshold(opened.counts(edges), calibration, price.randomness)
    value = float(np.asarray(score(fit.loss, edges[place : place + 1]))[0])
    name, guarantee = scale_of(fit.loss).name, price.guarantee
    made = (chosen, name, opened.n, fit.formula, guarantee, fit.guarantee)
    return PrivateThreshold(value, *made, entry, opened.persons)
