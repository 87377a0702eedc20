"""A private ROC curve: what `fit.private_roc` releases, and everything that is read from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from scipy import special

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, GuaranteeError, require_whole
from privatelr.inference import released_roc as roc
from privatelr.mechanisms.stages.histogram import (
    HistogramRelease,
    calibrate_histogram,
    release_histogram,
)
from privatelr.numerics import Loss, RocCurve, ThresholdRule, best_threshold
from privatelr.page_model import Piece
from privatelr.privacy import Guarantee
from privatelr.privacy import to_json as guarantee_to_json
from privatelr.privacy.accounting import Entry
from privatelr.results import views
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.answers.scored_records import (
    Evaluation,
    read_price,
    score_scale,
)
from privatelr.results.fit_record import ModelRecord
from privatelr.results.predict import read_number, scale_of, score
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


RATES = ("sensitivity", "specificity", "positive_predictive_value", "negative_predictive_value")
_SLOPE_REPLICATES = 40
"""Number of simulations for the error of a calibration line, each of which takes a fit."""
_BEYOND = 1e-12
"""How far probabilities are kept from 0 and 1, where they have no linear predictor."""


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrivateRoc(PaidAnswer):
    """A ROC curve with what follows from it: a function of noisy counts, which were paid for.

    It contains no record, and it can be pickled, printed and published under its guarantee. The
    counts are of the records that were scored, in bins of public scores. Standard errors have
    three parts: ``sampling_sd``, for other records of the same population, ``privacy_sd``, for the
    noise on the counts, and ``binning_sd``, for the places of scores within a bin, which no count
    tells. If the records are those of the training, the model fits them better than
    new records, and no standard error knows of that.

    Attributes
    ----------
    release : HistogramRelease
        The noisy counts, their calibration and their guarantee.
    loss : Loss
        The loss of the fit, which says whether scores are probabilities or margins.
    formula : str
        The formula of the fit.
    positive : str
        The positive class.
    fit_guarantee : Guarantee or None
        The guarantee of the fit itself, which is paid apart; None if the fit bought this curve.
    """

    release: HistogramRelease
    loss: Loss
    formula: str
    positive: str
    fit_guarantee: Guarantee | None

    # -- the price ------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all numbers here, for the records that were scored.

        Of a curve that was bought with a fit, it is that of the fit, of which it is a part.
        """
        return self.release.guarantee

    @property
    def entry(self) -> Entry | None:
        """The entry that a ledger was charged with."""
        return self.release.entry

    @property
    def nobs(self) -> int:
        """Number of records that were scored, or of their persons; it is public."""
        return self.release.calibration.n

    # -- the curve ------------------------------------------------------------------------------

    @property
    def _counts(self) -> FloatArray:
        return roc.counts_of(self.release)

    @property
    def _bins(self) -> int:
        """Number of fine bins."""
        return len(self._counts) // 2

    def _curve(self) -> RocCurve:
        edges = self.release.scale.edges(self._bins)[::-1]
        first = 1.0 if self.loss.probability is not None else np.inf
        limits = np.concatenate([[first], score(self.loss, edges), [-np.inf]])
        return roc.roc_of(self._counts, limits)

    @property
    def curve(self) -> pd.DataFrame:
        """The ROC curve, with the columns threshold, false_positive and true_positive."""
        return pd.DataFrame(asdict(self._curve()))

    @property
    def auc(self) -> float:
        """Area under `curve`; NaN if the noisy counts leave one class empty."""
        return float(roc.areas(self._counts))

    @property
    def auc_std_error(self) -> float:
        """Standard error of `auc`, of sampling, noise and bins together."""
        return float(np.linalg.norm([*self._auc_errors]))

    @property
    def _auc_errors(self) -> tuple[float, float, float]:
        """The standard deviations of the area by sampling, noise and bins."""
        noise = float(roc.parts_of(self.release, roc.areas).privacy)
        sampling = roc.sampling_sd_of_area(self._counts)
        return sampling, noise, roc.binning_sd_of_area(self.release)

    # -- thresholds -----------------------------------------------------------------------------

    @property
    def youden(self) -> float:
        """The threshold of scores that is best by Youden's J; NaN if a class is empty."""
        return self.threshold("youden")

    @property
    def topleft(self) -> float:
        """The threshold whose point is nearest to the corner (0, 1); NaN if a class is empty."""
        return self.threshold("topleft")

    def threshold(self, rule: ThresholdRule) -> float:
        """The best threshold by a rule, ``"youden"`` or ``"topleft"``, for `predict`."""
        if rule not in ("youden", "topleft"):
            raise ArgumentError(f"rule={rule!r}: rule takes 'youden' or 'topleft'.")
        found = best_threshold(self._curve(), rule)
        # the best may be to call nothing positive, which an infinite margin would say
        return found if np.isnan(found) else min(found, scale_of(self.loss).highest)

    def at(self, threshold: Any) -> pd.DataFrame:
        """Sensitivity, specificity and predictive values at one threshold or several.

        Parameters
        ----------
        threshold : float or str, or sequence of them
            Probabilities, or margins: records with a larger score count as positive. ``"youden"``
            and ``"topleft"`` are those of this curve; they give NaN if a class is empty.

        Returns
        -------
        DataFrame
            One row per threshold: sensitivity, specificity, positive_predictive_value and
            negative_predictive_value, and the standard error of each, of sampling and noise
            together, under the same name with ``_se``. NaN where nothing is above or below.
        """
        given = np.atleast_1d(np.asarray(threshold, dtype=object)).tolist()
        cuts = np.array(
            [
                self.threshold(cast("ThresholdRule", t))
                if isinstance(t, str) and t in ("youden", "topleft")
                else read_number(t, self.loss, ", 'youden' or 'topleft'")
                for t in given
            ]
        )
        is_known = ~np.isnan(cuts)
        position = np.where(is_known, self._positions(cuts), 0.0)
        found = np.where(is_known[:, None], roc.rates(self._counts, position), np.nan)
        errors = np.hypot(*roc.parts_of(self.release, lambda c: roc.rates(c, position)))
        table = pd.DataFrame({"threshold": cuts})
        for place, name in enumerate(RATES):
            table[name], table[f"{name}_se"] = found[:, place], errors[:, place]
        return table

    def _positions(self, scores: FloatArray) -> FloatArray:
        """Places between 0 and 1 of scores; all records lie above the least, and none the largest.

        The ends themselves, and not a rounding error beside them, of which rates would be made.
        """
        scale = scale_of(self.loss)
        inside = self.release.scale.position(self._links(scores))
        ends = [scores <= scale.lowest, scores >= scale.highest]
        return np.asarray(np.select(ends, [0.0, 1.0], inside))

    def _links(self, scores: FloatArray) -> FloatArray:
        """Linear predictors of scores."""
        if self.loss.probability is None:
            return scores
        inside = np.clip(scores, _BEYOND, 1 - _BEYOND)
        return np.asarray(np.log(inside) - np.log1p(-inside))

    # -- calibration ----------------------------------------------------------------------------

    @property
    def prevalence(self) -> float:
        """Share of the positive class among the records that could be used."""
        return float(roc.prevalences(self._counts))

    @property
    def brier(self) -> float:
        """Mean squared error of the probabilities (Brier 1950)."""
        return float(roc.brier_scores(self._counts, self._probabilities("brier")))

    @property
    def calibration_slope(self) -> float:
        """Slope of the outcome on the linear predictor, in a logistic regression; 1 is ideal.

        A slope below 1 says that probabilities are too extreme. Margins have none.
        """
        self._probabilities("calibration_slope")
        return float(roc.calibration_lines(self._counts, self._middles())[1])

    def calibration(self, groups: int = 10) -> pd.DataFrame:
        """Predicted and observed shares in groups of records of similar probability.

        The groups are those of Hosmer and Lemeshow: neighbouring probabilities, with about as
        many records each. Their chi-square is left out, since it does not know of the noise.

        Parameters
        ----------
        groups : int
            Number of groups; there may be fewer, as a group has whole bins.

        Returns
        -------
        DataFrame
            One row per group: the limits ``low`` and ``high`` of its probabilities, ``records``,
            the mean ``predicted`` probability, the ``observed`` share of positive records, and its
            sampling_sd and privacy_sd.
        """
        takes = "a whole number from 2 to 100"
        many = require_whole(ArgumentError, "groups", groups, takes, at_least=2, at_most=100)
        probability = self._probabilities("calibration")
        group = roc.groups_of(self._counts, many)
        both = np.add(*roc.by_class(self._counts))
        records = np.bincount(group, both)
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        edges = score(self.loss, self.release.scale.edges(self._bins))
        limits = np.concatenate([[0.0], edges[starts[1:] - 1], [1.0]])
        parts = roc.parts_of(self.release, lambda counts: roc.observed_shares(counts, group))
        with np.errstate(invalid="ignore"):
            predicted = np.bincount(group, both * probability) / records
        return pd.DataFrame(
            {
                "low": limits[:-1],
                "high": limits[1:],
                "records": records,
                "predicted": predicted,
                "observed": roc.observed_shares(self._counts, group),
                "sampling_sd": parts.sampling,
                "privacy_sd": parts.privacy,
            }
        )

    def _middles(self) -> FloatArray:
        return self.release.scale.middles(self._bins)

    def _probabilities(self, name: str) -> FloatArray:
        if self.loss.probability is None:
            raise ArgumentError(
                f"{name}: a {self.loss.title} has margins and no probabilities, whose calibration "
                "could be looked at; dplr fits a model that has."
            )
        return score(self.loss, self._middles())

    # -- views ----------------------------------------------------------------------------------

    def tidy(self) -> pd.DataFrame:
        """One row per number: auc, prevalence and, of probabilities, brier and calibration_slope.

        Columns term, estimate, std_error, and its parts sampling_sd, privacy_sd and binning_sd.
        """
        rows = {
            "auc": (self.auc, self._auc_errors),
            "prevalence": (self.prevalence, (*roc.parts_of(self.release, roc.prevalences), 0.0)),
        }
        if self.loss.probability is not None:

            def brier(counts: FloatArray, links: FloatArray) -> FloatArray:
                return roc.brier_scores(counts, special.expit(links))

            def slope(counts: FloatArray, links: FloatArray) -> FloatArray:
                return roc.calibration_lines(counts, links)[..., 1]

            middles = self._middles()
            briers = roc.parts_of(self.release, lambda counts: brier(counts, middles))
            slopes = roc.parts_of(
                self.release, lambda counts: slope(counts, middles), _SLOPE_REPLICATES
            )
            in_bins = [roc.binning_sd(self.release, statistic) for statistic in (brier, slope)]
            rows |= {"brier": (self.brier, (*briers, in_bins[0]))}
            rows |= {"calibration_slope": (self.calibration_slope, (*slopes, in_bins[1]))}
        errors = np.array([parts for _, parts in rows.values()], dtype=np.float64)
        table = pd.DataFrame({"term": list(rows)})
        table["estimate"] = [estimate for estimate, _ in rows.values()]
        table["std_error"] = np.linalg.norm(errors, axis=1)
        table[["sampling_sd", "privacy_sd", "binning_sd"]] = errors
        return table

    def plot(self, *, level: float = 0.95, ax: Any = None) -> Axes:
        """Draw the curve with bands of sampling, and of sampling and noise together.

        See `privatelr.results.pages.roc_page.plot_roc`.
        """
        return views.roc_page.plot_roc(self, level=level, ax=ax)

    def plot_calibration(self, groups: int = 10, *, level: float = 0.95, ax: Any = None) -> Axes:
        """Draw observed shares against predicted probabilities, in as many groups.

        See `privatelr.results.pages.roc_page.plot_calibration`.
        """
        return views.roc_page.plot_calibration(self, groups, level=level, ax=ax)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the noisy counts with all that is needed to read them, and the price."""
        release, calibration = self.release, self.release.calibration
        return {
            "n": calibration.n,
            "bins": calibration.bins,
            "scale": {"middle": release.scale.middle, "spread": release.scale.spread},
            "counts": [int(count) for count in release.counts],
            "count_sd": calibration.count_sd,
            "guarantee": guarantee_to_json(release.guarantee),
            "fit_guarantee": self.fit_guarantee and guarantee_to_json(self.fit_guarantee),
            "score": scale_of(self.loss).name,
            "formula": self.formula,
            "positive": self.positive,
        }

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        return views.roc_page.page_of(self)

    def __repr__(self) -> str:
        return f"<PrivateRoc of {self.formula!r}, {self.guarantee}>"


def private_roc(
    fit: ModelRecord, opened: Evaluation, eps: Any, delta: Any, ledger: Any, seed: Any
) -> PrivateRoc:
    """Release the scores of records by class; see `privatelr.results.fit_record`."""
    price = read_price(eps, delta, ledger, seed, "private_roc", opened)
    calibration, scale = calibrate_histogram(opened.n, price.target), score_scale(fit)
    edges = scale.edges(calibration.bins)
    entry = price.pay(calibration.events, f"{fit.formula}, score histogram")
    noise = price.randomness.draw(calibration.noise)
    counts = release_histogram(opened.counts(edges), calibration, noise)
    release = HistogramRelease(counts, scale, calibration, price.guarantee, entry)
    return _curve_of(fit, release, fit.guarantee)


def bought_roc(fit: ModelRecord) -> PrivateRoc:
    """Read the curve that a fit bought; see `privatelr.results.fit_record`."""
    if not fit.has_roc:
        raise GuaranteeError(
            "roc: this fit bought no ROC curve; fit.private_roc(data, eps=...) releases one, and "
            "spend={'coefficients': 0.75, 'roc': 0.25} buys one with a fit."
        )
    return _curve_of(fit, fit.release.histogram, None)


def _curve_of(
    fit: ModelRecord, release: HistogramRelease, fit_guarantee: Guarantee | None
) -> PrivateRoc:
    positive = str(fit.spec.response.classes[1])
    return PrivateRoc(release, fit.loss, fit.formula, positive, fit_guarantee)
