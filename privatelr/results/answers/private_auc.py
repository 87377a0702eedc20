"""A private AUC alone: what `fit.private_auc` releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privatelr import page_model
from privatelr.design import DaskTable
from privatelr.errors import ArgumentError, GuaranteeError, require_number
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
    calibrate_area,
    is_better_than_counts,
    release_area,
)
from privatelr.page_model import Piece
from privatelr.privacy import Guarantee, PureDP
from privatelr.privacy.accounting import Entry
from privatelr.results.answers.scored_records import (
    Evaluation,
    Price,
    fit_price,
    promise_of,
    read_price,
    score_scale,
)

_SMOOTH = "Student noise by the smooth sensitivity of the area, Laplace noise on class sizes"
_LAST = "Std. Error is of sampling, noise and bins, and takes the model as given."


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrivateAuc:
    """An area under the ROC curve that was released alone; ``float()`` gives the number.

    Attributes
    ----------
    value : float
        The area, from 0 to 1; NaN if the noise left a class empty.
    sampling_sd, privacy_sd, binning_sd : float
        Parts of the standard error: for other records of the same population, for the noise, and,
        if the area is one of counts, for the places of scores within bins.
    mechanism : str
        How it was released, in words.
    nobs : int
        The number of records that were scored; it is public.
    formula, positive : str
        The formula of the fit, and the positive class.
    guarantee : Guarantee
        The guarantee of all of this, for the records that were scored.
    fit_guarantee : Guarantee
        The guarantee of the fit itself, which is paid apart.
    entry : Entry or None
        The entry that a ledger was charged with.
    persons : bool
        Whether `nobs` is the number of persons, of whom all records count as one together.
    """

    value: float
    sampling_sd: float
    privacy_sd: float
    binning_sd: float
    mechanism: str
    nobs: int
    formula: str
    positive: str
    guarantee: Guarantee
    fit_guarantee: Guarantee
    entry: Entry | None = None
    persons: bool = False

    @property
    def std_error(self) -> float:
        """Standard error of the area, of all parts together."""
        return float(np.linalg.norm([self.sampling_sd, self.privacy_sd, self.binning_sd]))

    def __float__(self) -> float:
        return self.value

    def as_text(self) -> str:
        """The page as text of at most 79 columns."""
        return page_model.as_text(_page(self))

    def as_html(self) -> str:
        """The page as HTML, with the same words."""
        return page_model.as_html(_page(self))

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return f"<PrivateAuc {self.value:.6g}, {self.guarantee}>"

    def _repr_html_(self) -> str:
        return self.as_html()


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
    price = read_price(eps, 0.0, ledger, seed, opened.n, "private_auc", opened.neighbours)
    if not isinstance(price.target, PureDP):
        raise GuaranteeError(
            f"{price.target}: private_auc takes a pure epsilon, such as eps=1; private_roc takes "
            "other guarantees."
        )
    counts = calibrate_histogram(opened.n, price.target)
    # partitions send counts and nothing else, and the sensitivity is proven for records alone
    by_counts = isinstance(opened.data, DaskTable) or opened.persons
    if by_counts or price.target.epsilon < LEAST_EPSILON:
        return _by_counts(opened, price, counts)
    made = calibrate_area(opened.n, price.target, share)
    if not is_better_than_counts(made, counts, share):
        return _by_counts(opened, price, counts)
    return _by_sensitivity(opened, price, made)


def _by_sensitivity(opened: Evaluation, price: Price, made: AreaCalibration) -> PrivateAuc:
    entry = price.pay(made.events, f"{opened.fit.formula}, area")
    found = release_area(*opened.scores(), made, price.randomness)
    errors = found.sampling_sd, found.privacy_sd, 0.0
    return _answer(opened, price, found.area, errors, _SMOOTH, entry)


def _by_counts(opened: Evaluation, price: Price, made: HistogramCalibration) -> PrivateAuc:
    scale = score_scale(opened.fit)
    entry = price.pay(made.events, f"{opened.fit.formula}, area")
    noise = price.randomness.draw(made.noise)
    noisy = release_histogram(opened.counts(scale.edges(made.bins)), made, noise)
    release = HistogramRelease(noisy, scale, made, price.guarantee, entry)
    counts = roc.counts_of(release)
    errors = (
        roc.sampling_sd_of_area(counts),
        float(roc.parts_of(release, roc.areas).privacy),
        roc.binning_sd_of_area(release),
    )
    words = f"{made.noise_name} on the counts of scores in {made.bins} bins of either class"
    return _answer(opened, price, float(roc.areas(counts)), errors, words, entry)


def _answer(
    opened: Evaluation,
    price: Price,
    area: float,
    errors: tuple[float, float, float],
    words: str,
    entry: Entry | None,
) -> PrivateAuc:
    fit, about = opened.fit, (words, opened.n, opened.fit.formula)
    positive = str(fit.spec.response.classes[1])
    paid = price.guarantee, fit.guarantee, entry
    return PrivateAuc(area, *errors, *about, positive, *paid, opened.persons)
