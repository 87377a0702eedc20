"""A private AUC alone: what `fit.private_auc` releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privatelr import page_model
from privatelr.errors import ArgumentError, require_number
from privatelr.inference import released_roc as roc
from privatelr.mechanisms.score_histogram import (
    HistogramCalibration,
    HistogramRelease,
    calibrate_histogram,
    release_histogram,
)
from privatelr.mechanisms.smooth_area import (
    LEAST_EPSILON,
    AreaCalibration,
    AreaRelease,
    calibrate_area,
    is_better_than_counts,
    release_area,
)
from privatelr.page_model import Piece
from privatelr.privacy import REPLACE_PERSON, Guarantee
from privatelr.privacy import to_json as guarantee_to_json
from privatelr.privacy.accounting import Entry
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.answers.scored_records import (
    Evaluation,
    Price,
    fit_price,
    promise_of,
    read_price,
    require_pure,
    score_scale,
)

_SMOOTH = "Student noise by the smooth sensitivity of the area, Laplace noise on class sizes"
_LAST = "Std. Error is of sampling, noise and bins, and takes the model as given."


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrivateAuc(PaidAnswer):
    """An area under the ROC curve that was released alone; ``float()`` gives the number.

    Attributes
    ----------
    release : AreaRelease or HistogramRelease
        The released numbers: the area with the sizes of the classes, or counts of scores.
    formula, positive : str
        The formula of the fit, and the positive class.
    guarantee : Guarantee
        The guarantee of all of this, for the records that were scored.
    fit_guarantee : Guarantee
        The guarantee of the fit itself, which is paid apart.
    entry : Entry or None
        The entry that a ledger was charged with.
    """

    release: AreaRelease | HistogramRelease
    formula: str
    positive: str
    guarantee: Guarantee
    fit_guarantee: Guarantee
    entry: Entry | None = None

    @property
    def value(self) -> float:
        """The area, from 0 to 1; NaN if the noise left a class empty."""
        if isinstance(self.release, AreaRelease):
            return self.release.area
        return float(roc.areas(roc.counts_of(self.release)))

    @property
    def sampling_sd(self) -> float:
        """Standard error for other records of the same population."""
        if isinstance(self.release, AreaRelease):
            return self.release.sampling_sd
        return roc.sampling_sd_of_area(roc.counts_of(self.release))

    @property
    def privacy_sd(self) -> float:
        """Standard error for the noise."""
        if isinstance(self.release, AreaRelease):
            return self.release.privacy_sd
        return float(roc.parts_of(self.release, roc.areas).privacy)

    @property
    def binning_sd(self) -> float:
        """Standard error for the places of scores within bins, if the area is one of counts."""
        return (
            0.0 if isinstance(self.release, AreaRelease) else roc.binning_sd_of_area(self.release)
        )

    @property
    def std_error(self) -> float:
        """Standard error of the area, of all parts together."""
        return float(np.linalg.norm([self.sampling_sd, self.privacy_sd, self.binning_sd]))

    @property
    def mechanism(self) -> str:
        """How it was released, in words."""
        if isinstance(self.release, AreaRelease):
            return _SMOOTH
        made = self.release.calibration
        return f"{made.noise_name} on the counts of scores in {made.bins} bins of either class"

    @property
    def nobs(self) -> int:
        """Number of records that were scored, or of their persons; it is public."""
        return self.release.calibration.n

    @property
    def persons(self) -> bool:
        """Whether `nobs` is the number of persons, of whom all records count as one together."""
        return self.release.calibration.target.neighbours is REPLACE_PERSON

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the area with its errors, what it is, and the price."""
        return {
            "auc": self.value,
            "std_error": self.std_error,
            "sampling_sd": self.sampling_sd,
            "privacy_sd": self.privacy_sd,
            "binning_sd": self.binning_sd,
            "mechanism": self.mechanism,
            "n": self.nobs,
            "formula": self.formula,
            "positive": self.positive,
            "guarantee": guarantee_to_json(self.guarantee),
            "fit_guarantee": guarantee_to_json(self.fit_guarantee),
        }

    def __float__(self) -> float:
        return self.value

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        return _page(self)

    def __repr__(self) -> str:
        return f"<PrivateAuc {self.value:.6g}, {self.guarantee}>"


def _page(found: PrivateAuc) -> list[Piece]:
    price = promise_of(found.guarantee, found.nobs, persons=found.persons)
    facts = [("Promise", price), ("Fit", fit_price(found.fit_guarantee))]
    numbers = (found.value, found.std_error, found.sampling_sd, found.privacy_sd, found.binning_sd)
    is_private = found.guarantee.is_private
    return [
        page_model.Heading("Private AUC" if is_private else "AUC, not private"),
        page_model.Code(found.formula),
        "",
        page_model.FactList([*facts, ("Mechanism", found.mechanism)]),
        "",
        page_model.Table(
            ["AUC"],
            ["Estimate", "Std. Error", "sampling sd", "privacy sd", "bins sd"],
            [[f"{number:.5f}" for number in numbers]],
        ),
        *(["", roc.LOST] if roc.hides_class(found.release) else []),
        "",
        f"Positive is {found.positive}. {_LAST}",
    ]


def private_auc(
    opened: Evaluation, eps: Any, smaller_class: Any, ledger: Any, seed: Any
) -> PrivateAuc:
    """Release an area alone; see `privatelr.results.answers.evaluated`."""
    takes = "a share of records above 0 and at most 0.5"
    share = require_number(
        ArgumentError, "smaller_class", smaller_class, takes, above=0, at_most=0.5
    )
    price = read_price(eps, 0.0, ledger, seed, "private_auc", opened)
    target = require_pure(price.target, "private_auc")
    counts = calibrate_histogram(opened.n, target)
    # partitions send counts and nothing else, and the sensitivity is proven for records alone
    by_counts = opened.in_parts or opened.persons
    if by_counts or target.epsilon < LEAST_EPSILON:
        return _by_counts(opened, price, counts)
    made = calibrate_area(opened.n, target, share)
    if not is_better_than_counts(made, counts, share):
        return _by_counts(opened, price, counts)
    return _by_sensitivity(opened, price, made)


def _by_sensitivity(opened: Evaluation, price: Price, made: AreaCalibration) -> PrivateAuc:
    entry = price.pay(made.events, f"{opened.fit.formula}, area")
    found = release_area(*opened.scores(), made, price.randomness)
    return _answer(opened, price, found, entry)


def _by_counts(opened: Evaluation, price: Price, made: HistogramCalibration) -> PrivateAuc:
    scale = score_scale(opened.fit)
    entry = price.pay(made.events, f"{opened.fit.formula}, area")
    noise = price.randomness.draw(made.noise)
    noisy = release_histogram(opened.counts(scale.edges(made.bins)), made, noise)
    return _answer(
        opened, price, HistogramRelease(noisy, scale, made, price.guarantee, entry), entry
    )


def _answer(
    opened: Evaluation, price: Price, found: AreaRelease | HistogramRelease, entry: Entry | None
) -> PrivateAuc:
    fit = opened.fit
    about = fit.formula, str(fit.spec.response.classes[1])
    return PrivateAuc(found, *about, price.guarantee, fit.guarantee, entry)
