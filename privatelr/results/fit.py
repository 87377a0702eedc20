"""The object that `dplr` returns: a record, and its views.

Its methods on errors are functions of the release: they need no data and cost nothing. They
need a fit that requested inference (``spend="inference"``), and refuse others in one sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError
from privatelr.lazy_import import lazy_import
from privatelr.results import predict
from privatelr.results.fit_record import FitRecord, ModelRecord
from privatelr.results.predict import PredictionType

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.inference import question
    from privatelr.results import fit_tables
    from privatelr.results.fit_tables import WaldTest
    from privatelr.results.pages import forest, summary
    from privatelr.results.pages.summary import FitSummary
else:
    question = lazy_import("privatelr.inference.question")
    fit_tables = lazy_import("privatelr.results.fit_tables")
    forest = lazy_import("privatelr.results.pages.forest")
    summary = lazy_import("privatelr.results.pages.summary")


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fit(FitRecord):
    """A fitted model.

    See `FitRecord` for what it carries. Copied to a file, it leaves its diagnostics behind. All
    methods that take them share these arguments.

    Parameters
    ----------
    mode : {None, "posterior", "conservative", "plug-in"}
        How the noise in the released information matrix is taken into account. ``"posterior"``
        averages over what the known noise leaves possible; ``"conservative"`` takes the worst of
        it, which holds for every dataset, and whose standard errors grow a little with the level;
        ``"plug-in"`` ignores that noise. By default the first, or the second where the release
        itself warns that the first may fail.
    target : {"penalised", "unpenalised"}
        What estimates are of: the minimiser of the expected loss with its penalty, or without,
        after one free step that takes the penalty's bias off.
    method : {"sandwich", "wkl", "bootstrap"}
        ``"wkl"`` is the method as Wang, Kifer and Lee (2019) have it, for comparison.
        ``"bootstrap"`` simulates records from the released model, which has to be right, and
        needs no inference to have been requested.
    simultaneous : bool
        Whether all intervals are to hold together; p-values are then adjusted alike.
    covariates
        For the bootstrap: a public frame to draw records from, or ``"uniform"`` for the
        declared bounds and levels.
    """

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors of `coef`: sampling error and noise together."""
        return self._named(fit_tables.infer_coefficients(self).sd, "bse")

    @property
    def zvalues(self) -> pd.Series[float]:
        """`coef` over `bse`."""
        return self._named(fit_tables.infer_coefficients(self).z, "zvalues")

    @property
    def tvalues(self) -> pd.Series[float]:
        """The same as `zvalues`, by statsmodels' name."""
        return self.zvalues.rename("tvalues")

    @property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided p-values of each coefficient being 0, from the law of its error."""
        return self._named(fit_tables.infer_coefficients(self).p_value, "pvalues")

    def conf_int(
        self,
        alpha: float = 0.05,
        *,
        mode: str | None = None,
        target: str = "penalised",
        method: str = "sandwich",
        simultaneous: bool = False,
        covariates: Any = None,
        cols: Any = None,
    ) -> pd.DataFrame:
        """Intervals of the coefficients, in statsmodels' layout: columns 0 and 1.

        Parameters
        ----------
        alpha : float
            Share that the intervals may miss.
        mode, target, method, simultaneous, covariates
            See the class.
        cols
            Names or positions of the coefficients to show, by statsmodels' name; by default all.
        """
        level = question.level_of(alpha)
        asked = question.Question(level, mode, target, method, simultaneous, covariates)
        return fit_tables.intervals(self, asked, "cols", cols)

    def confint(
        self,
        level: float = 0.95,
        *,
        mode: str | None = None,
        target: str = "penalised",
        method: str = "sandwich",
        simultaneous: bool = False,
        covariates: Any = None,
        parm: Any = None,
    ) -> pd.DataFrame:
        """Intervals of the coefficients, in R's layout: columns ``2.5 %`` and ``97.5 %``.

        Parameters
        ----------
        level : float
            Of confidence.
        mode, target, method, simultaneous, covariates
            See the class.
        parm
            Names or positions of the coefficients to show, by R's name; by default all.
        """
        asked = question.Question(level, mode, target, method, simultaneous, covariates)
        return fit_tables.intervals(self, asked, "parm", parm)

    def vcov(self, *, mode: str | None = None, target: str = "penalised") -> pd.DataFrame:
        """Covariance of the coefficients, whose diagonal holds the squares of `bse`.

        In the conservative mode the correlations are those of the posterior one, so that a
        combination is better asked of `contrasts`.
        """
        return fit_tables.covariances(self, question.Question(mode=mode, target=target))

    def cov_params(self, *, mode: str | None = None, target: str = "penalised") -> pd.DataFrame:
        """The same as `vcov`, by statsmodels' name."""
        return self.vcov(mode=mode, target=target)

    def wald_test(
        self, hypotheses: Any, *, mode: str | None = None, target: str = "penalised"
    ) -> WaldTest:
        """Test equations about the coefficients together.

        Parameters
        ----------
        hypotheses
            ``"race"``, a term of the formula, for all its coefficients together; or ``"age = 0,
            dose = 0"``: linear equations between commas, with ``= 0`` where nothing is said;
            names with spaces or operators in backticks. Or a mapping from left sides to values,
            or a matrix ``(q, p + 1)`` of combinations that are to be 0, or such a matrix with
            ``(q,)`` values.
        mode, target
            See the class.

        Returns
        -------
        WaldTest
            Prints as a sentence; it has ``statistic``, ``df`` and ``p_value``.
        """
        return fit_tables.wald_test(self, hypotheses, mode=mode, target=target)

    def contrasts(
        self,
        hypotheses: Any,
        *,
        level: float = 0.95,
        mode: str | None = None,
        target: str = "penalised",
        method: str = "sandwich",
        simultaneous: bool = False,
        covariates: Any = None,
    ) -> pd.DataFrame:
        """Estimates, standard errors, tests and intervals of combinations of coefficients.

        Parameters
        ----------
        hypotheses
            ``"age - 2 * dose"``, or several between commas, and ``= value`` for what to test; or
            anything that `wald_test` takes; or a mapping from a label to a combination.
        level : float
            Of confidence.
        mode, target, method, simultaneous, covariates
            See the class.

        Returns
        -------
        DataFrame
            One row per combination: estimate, null_value, std_error with its parts sampling_sd
            and privacy_sd, statistic, p_value, conf_low, conf_high.
        """
        asked = question.Question(level, mode, target, method, simultaneous, covariates)
        return fit_tables.contrasts(self, hypotheses, asked)

    def t_test(
        self, hypotheses: Any, *, alpha: float | None = None, **options: Any
    ) -> pd.DataFrame:
        """The same as `contrasts`, by statsmodels' name, and with its ``alpha`` for the level."""
        if alpha is not None:
            options["level"] = question.level_of(alpha)
        return self.contrasts(hypotheses, **options)

    def tidy(
        self,
        conf_int: bool = False,
        conf_level: float = 0.95,
        exponentiate: bool = False,
        *,
        mode: str | None = None,
        target: str = "penalised",
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """One row per coefficient, in broom's layout.

        Parameters
        ----------
        conf_int : bool
            Whether to add conf_low and conf_high.
        conf_level : float
            Of confidence.
        exponentiate : bool
            Odds ratios with their intervals instead of coefficients. Standard errors stay those
            of the coefficient, as in broom; it is the logarithm of the odds ratio, so that they
            are called std_error_log, sampling_sd_log and privacy_sd_log then.
        mode, target, simultaneous
            See the class.

        Returns
        -------
        DataFrame
            term, estimate, std_error, its two parts sampling_sd and privacy_sd, statistic,
            p_value. Without inference only term, estimate, and a limit to privacy_sd.
        """
        level = question.read_level(conf_level, "conf_level")
        asked = question.Question(level, mode, target, simultaneous=simultaneous)
        return fit_tables.tidy(self, asked, conf_int=conf_int, exponentiate=exponentiate)

    def plot(self, **options: Any) -> Axes:
        """Draw the coefficients with their intervals, or without inference the estimates.

        See `privatelr.plot_coefficients`.
        """
        return forest.plot_coefficients(self, **options)

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
        asked = question.Question(question.level_of(alpha), mode, target)
        return summary.summarise(self, asked, exponentiate=exponentiate, diagnostics=diagnostics)

    # a frozen class with slots would be given others, which keep the diagnostics
    __getstate__ = ModelRecord.__getstate__
    __setstate__ = ModelRecord.__setstate__
