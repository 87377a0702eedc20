"""The printed page of a private ROC curve: price, numbers with their errors, and rates."""

from __future__ import annotations

import numpy as np

from privatelr import page_model
from privatelr.inference import released_roc as roc
from privatelr.page_model import Piece
from privatelr.privacy import REPLACE_PERSON
from privatelr.results.answers.private_roc import RATES, PrivateRoc
from privatelr.results.answers.scored_records import fit_price
from privatelr.results.pages import sentences
from privatelr.results.predict import scale_of

_WORDS = {
    "auc": "AUC",
    "prevalence": "Prevalence",
    "brier": "Brier score",
    "calibration_slope": "Calibration slope",
}
_LAST = "Std. Error is of sampling, noise and bins, and takes the model as given."


def page_of(curve: PrivateRoc) -> list[Piece]:
    """The pieces of the page; the rates are those at both thresholds, if there are any."""
    is_private, cuts = curve.guarantee.is_private, None
    if not np.isnan(curve.youden):
        cuts = curve.at([curve.youden, curve.topleft])
    found = curve.tidy().set_index("term")
    page: list[Piece] = [
        page_model.Heading("Private ROC curve" if is_private else "ROC curve, not private"),
        page_model.Code(curve.formula),
        "",
        page_model.FactList(_facts(curve)),
        "",
        page_model.Table(
            [_WORDS[term] for term in found.index],
            ["Estimate", "Std. Error", "sampling sd", "privacy sd", "bins sd"],
            [[f"{number:.4f}" for number in row] for row in found.to_numpy()],
        ),
    ]
    if cuts is not None:
        headers = [scale_of(curve.loss).name, "sensitivity", "specificity", "PPV", "NPV"]
        numbers = cuts[["threshold", *RATES]].to_numpy()
        cells = [[f"{number:.3f}" for number in row] for row in numbers]
        page += ["", page_model.Table(["Youden", "nearest to (0, 1)"], headers, cells)]
    if roc.hides_class(curve.release):
        page += ["", roc.LOST]
    noisy = "Every number but n was computed from noisy counts. " if is_private else ""
    share = 100 * float(roc.counts_of(curve.release)[-1]) / curve.nobs
    unusable = f"{share:.1f} % of the records could not be used."
    return [*page, "", f"Positive is {curve.positive}. {noisy}{_LAST} {unusable}"]


def _facts(curve: PrivateRoc) -> list[tuple[str, str]]:
    made = curve.release.calibration
    price = f"{curve.guarantee}; neighbours replace one of n = {curve.nobs} scored records"
    unused = "records that cannot be used"
    if made.persons:
        price = sentences.neighbours(str(curve.guarantee), curve.nobs, REPLACE_PERSON)
        unused = "what records that cannot be used, and too few of them, leave of a person"
    noise = (
        f"{made.noise_name}, sd {made.count_sd:.3g}, on the counts of "
        f"{made.bins} bins of either class and of {unused}"
    )
    if curve.fit_guarantee is not None:
        fit = fit_price(curve.fit_guarantee)
    elif made.target.is_private:
        fit = f"made of the same records; of its price, {made.target} bought these counts"
    else:
        fit = "made of the same records"
    return [("Promise", price), ("Fit", fit), ("Mechanism", noise)]
