"""The object that `dplr` returns: a record, and the views that its user asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError
from privatelr.lazy_import import lazy_import
from privatelr.results import predict
from privatelr.results.fit_record import ModelRecord
from privatelr.results.inferred import InferredFit

if TYPE_CHECKING:
    import pandas as pd

    from privatelr.results import fit_tables
    from privatelr.results.pages import odds_ratios, summary
    from privatelr.results.pages.summary import FitSummary
    from privatelr.results.predict import PredictionType
else:
    summary = lazy_import("privatelr.results.pages.summary")
    odds_ratios = lazy_import("privatelr.results.pages.odds_ratios")
    fit_tables = lazy_import("privatelr.results.fit_tables")


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fit(InferredFit):
    """A fitted model.

    See `FitRecord` for what it carries, and `InferredFit` for standard errors, intervals and
    tests. Copied to a file, it leaves its diagnostics behind.
    """

    def predict(
        self,
        data: Any,
        type: PredictionType | None = None,
        *,
        threshold: float | None = None,
        interval: float | None = None,
        mode: str | None = None,
    ) -> pd.Series[Any] | pd.DataFrame:
        """Predict for each row of `data`, whatever the other rows are.

        Values beyond the declared bounds are predicted at the bound, as they were fitted.

        Parameters
        ----------
        data
            A frame with the columns of the right-hand side; of Dask, each partition is predicted
            when it is asked for, and classes are of type object.
        type
            ``"probabilities"`` of the positive class, the default of `dplr`; ``"classes"``, the
            default of `dpsvm`; ``"link"``, the linear predictor of `dplr`; or ``"margins"``,
            that of `dpsvm`, which is positive for the positive class and has no probabilities.
            R's names are taken too: ``"class"``, ``"prob"``, and ``"response"`` for the default.
        threshold
            Splits classes in place of the fit's own threshold: a probability, or a margin.
        interval : float, optional
            Level of confidence, such as 0.95, of an interval for each row by itself. It holds
            the linear predictor of the penalised model, not the outcome of a record. Takes a
            fit that requested inference.
        mode : {None, "posterior", "conservative", "plug-in"}
            Of the interval, as in `conf_int`.

        Returns
        -------
        Series of length ``len(data)``
            NaN where a value is missing or a level is not one of the declared ones.
        DataFrame of the same length
            With an interval: probability, probability_lower, probability_upper, link,
            link_lower, link_upper and the link's std_error; for `dpsvm` margin, margin_lower,
            margin_upper and std_error. One covariance and one factor serve all rows, so the
            intervals are a little longer than those of `contrasts`: by a few percent to a fifth
            where the noise is moderate.

        Notes
        -----
        **Privacy.** *Covered*: predictions are functions of the release, with one exception.
        *Neighbours*: replace one record of the training data. *Assumed public*: nothing new.
        *Not covered*: classes split by a threshold that was learned from the training data,
        and the privacy of `data` itself.
        """
        if interval is not None:
            return predict.predict_interval(self, data, type, threshold, interval, mode)
        if mode is not None:
            raise ArgumentError("mode: predict takes it together with interval, such as 0.95.")
        return predict.predict(self, data, type, threshold)

    def glance(self) -> pd.DataFrame:
        """One row about the fit; every entry is public or paid for.

        ``inference`` is the mode of its intervals, and it, noise_to_signal and relative_bias are
        empty where inference was not requested.
        """
        return fit_tables.glance(self)

    def summary(
        self,
        alpha: float = 0.05,
        *,
        mode: str | None = None,
        target: Literal["penalised", "unpenalised"] = "penalised",
        exponentiate: bool = False,
        diagnostics: bool = False,
    ) -> FitSummary:
        """The page that `print` shows, with ``as_text()`` and ``as_html()``.

        Parameters
        ----------
        alpha : float
            Share that the intervals may miss.
        mode, target
            Of standard errors, intervals and tests, as in `conf_int`.
        exponentiate : bool
            Odds ratios with their intervals instead of coefficients. Standard errors and tests
            stay those of the coefficient, and the page says so. Where one unit of a column
            hardly matters a row is of ten, a hundred or more, as its name says. Without
            inference odds ratios stand beside the coefficients anyway, and have no intervals.
        diagnostics : bool
            Whether a part follows, below a rule, that is not private: the C-index and the counts
            of the training data, and a learned threshold.

        Raises
        ------
        ArgumentError
            If diagnostics are asked for and the fit has none, as after `privatelr.load`.

        Notes
        -----
        **Privacy.** *Covered*: the page as it is printed. *Neighbours*: those of the guarantee.
        *Assumed public*: as for the fit. *Not covered*: what ``diagnostics=True`` adds.
        """
        as_odds = odds_ratios.read_exponentiate(self, exponentiate)
        page = summary.summarise(
            self, alpha=alpha, mode=mode, target=target, diagnostics=diagnostics
        )
        if as_odds:
            odds_ratios.show_odds(page, self, alpha=alpha, mode=mode, target=target)
        return page

    # a frozen class with slots would be given others, which keep the diagnostics
    __getstate__ = ModelRecord.__getstate__
    __setstate__ = ModelRecord.__setstate__
