"""The object that `dplr` returns: a record of a release, with methods that show it.

The methods about errors are functions of the release, so they need no data and cost no privacy.
They need a fit that requested inference (``spend="inference"``), and raise an error for others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError
from privatelr.results import predict, views
from privatelr.results.augment import Augments, ModelMatrix
from privatelr.results.fit_record import FitRecord
from privatelr.results.predict import PredictionType

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.results.fit_tables import EquationTest
    from privatelr.results.pages.summary import FitSummary


@suggests_arguments
class Fit(Augments, ModelMatrix, FitRecord):
    """A fitted model.

    See `FitRecord` for its attributes. A pickle or a release file of it has no diagnostics.

    Notes
    -----
    These arguments have the same meaning in all methods that take them:

    - ``mode`` ({None, "posterior", "conservative", "plug-in"}): How the noise in the released
      information matrix is taken into account. ``"posterior"`` averages over the matrices that
      the known noise leaves possible. ``"conservative"`` takes the worst of these matrices; it
      holds for every dataset, and its standard errors grow a little with the level.
      ``"plug-in"`` ignores the noise in the matrix. The default is ``"posterior"``, or
      ``"conservative"`` if the release itself shows that an average may fail.
    - ``target`` ({None, "penalised", "unpenalised"}): What is estimated: the minimiser of the
      expected loss with its penalty, or without. The latter estimates take one step that
      removes the bias of the penalty and costs no privacy. By default these, the coefficients
      of logistic regression. Where the release cannot carry them, there are penalised estimates
      alone, and errors, intervals and tests are NaN: ``"penalised"`` by name has them. `dpsvm`
      has penalised coefficients only, and tests of them by that name. ``"conservative"`` and
      ``"wkl"`` need that name for `dplr`.
    - ``method`` ({"sandwich", "wkl", "bootstrap"}): ``"wkl"`` is the method of Wang, Kifer and
      Lee (2019), for comparison. ``"bootstrap"`` simulates records from the released model,
      which must be right for that, and works without requested inference.
    - ``simultaneous`` (bool): Whether the level holds for all intervals together; p-values are
      adjusted accordingly.
    - ``covariates``: For the bootstrap, a public frame from which records are drawn, or
      ``"uniform"`` for records within the declared bounds and levels.
    """

    __slots__ = ()

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors of `tidy`, NaN where the error is far from normal."""
        return self._named(views.fit_tables.infer_coefficients(self).std_error, "bse")

    @property
    def tvalues(self) -> pd.Series[float]:
        """The ratios of the estimates of `tidy` to `bse`, by statsmodels' name."""
        return self._named(views.fit_tables.infer_coefficients(self).z, "tvalues")

    @property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided p-values of the hypotheses that a coefficient is 0, by the law of its error."""
        return self._named(views.fit_tables.infer_coefficients(self).p_value, "pvalues")

    def conf_int(
        self,
        alpha: float = 0.05,
        *,
        mode: str | None = None,
        target: str | None = None,
        method: str = "sandwich",
        simultaneous: bool = False,
        covariates: Any = None,
    ) -> pd.DataFrame:
        """Intervals of the coefficients, in statsmodels' layout: columns 0 and 1.

        Parameters
        ----------
        alpha : float
            Probability with which an interval may fail; the level is ``1 - alpha``.
        mode, target, method, simultaneous, covariates
            See the class.
        """
        level = views.question.level_of(alpha)
        asked = views.question.Question(level, mode, target, method, simultaneous, covariates)
        return views.fit_tables.intervals(self, asked)

    def confint(
        self,
        level: float = 0.95,
        *,
        mode: str | None = None,
        target: str | None = None,
        method: str = "sandwich",
        simultaneous: bool = False,
        covariates: Any = None,
    ) -> pd.DataFrame:
        """Intervals of the coefficients, in R's layout: columns ``2.5 %`` and ``97.5 %``.

        Parameters
        ----------
        level : float
            Level of confidence.
        mode, target, method, simultaneous, covariates
            See the class.
        """
        asked = views.question.Question(level, mode, target, method, simultaneous, covariates)
        return views.fit_tables.intervals(self, asked, in_percent=True)

    def vcov(self, *, mode: str | None = None, target: str | None = None) -> pd.DataFrame:
        """Covariance of the coefficients, whose diagonal holds the squares of `bse`.

        In the conservative mode correlations are those of the posterior mode; see `contrasts`.
        """
        return views.fit_tables.covariances(self, views.question.Question(mode=mode, target=target))

    def cov_params(self, *, mode: str | None = None, target: str | None = None) -> pd.DataFrame:
        """The same as `vcov`, by statsmodels' name."""
        return self.vcov(mode=mode, target=target)

    def wald_test(
        self, hypotheses: Any, *, mode: str | None = None, target: str | None = None
    ) -> EquationTest:
        """Test several equations about the coefficients together.

        Parameters
        ----------
        hypotheses
            One of the following. A term of the formula, such as ``"race"``, tests that all its
            coefficients are 0. A text such as ``"age = 0, dose = 0"`` has linear equations between
            commas; an equation without ``=`` means ``= 0``, and names with spaces or operators take
            backticks. A matrix ``(q, p + 1)`` holds combinations that are tested to be 0.
        mode, target
            See the class.

        Returns
        -------
        EquationTest
            It prints as a sentence, and has ``statistic``, ``df`` and ``p_value``.
        """
        test = views.inference.joint_test
        return views.fit_tables.tested(
            self, hypotheses, test, "Wald test", mode=mode, target=target
        )

    def deviance_test(
        self, hypotheses: Any, *, mode: str | None = None, target: str | None = None
    ) -> EquationTest:
        """Test the model against a smaller one, in which all equations hold; as in `wald_test`.

        The statistic is a quadratic approximation of the deviance difference at the released
        curvature, no likelihood ratio: the likelihood is not released. Its p-value is by its law
        under noise and sampling error, not by a chi-square. It weighs coefficients by curvature
        alone, so that the noise of a rare level drowns the others; `wald_test` finds more there.
        """
        test, title = views.inference.deviance_test, "Approximate deviance test"
        return views.fit_tables.tested(self, hypotheses, test, title, mode=mode, target=target)

    def anova(
        self, *, test: str = "deviance", mode: str | None = None, target: str | None = None
    ) -> pd.DataFrame:
        """One row for each term, of its `deviance_test` or, with ``test="wald"``, `wald_test`.

        A statistic beyond ``critical_5%``, which noise can make many times that of a chi-square,
        has a p-value below .05. Each term is given all others, as in a table of type III, so that
        rows depend on the coding of factors, and do not add up. In the conservative mode p_value is
        df times the smallest of the single coefficients. ``attrs`` has the mode and the target.
        """
        return views.fit_tables.anova(self, test=test, mode=mode, target=target)

    def contrasts(
        self,
        hypotheses: Any,
        *,
        level: float = 0.95,
        mode: str | None = None,
        target: str | None = None,
        method: str = "sandwich",
        simultaneous: bool = False,
        covariates: Any = None,
    ) -> pd.DataFrame:
        """Estimates, standard errors, tests and intervals of combinations of coefficients.

        Parameters
        ----------
        hypotheses
            A combination such as ``"age - 2 * dose"``, or several between commas, each with
            ``= value`` if another value than 0 is tested. Or anything that `wald_test` takes.
        level : float
            Level of confidence.
        mode, target, method, simultaneous, covariates
            See the class.

        Returns
        -------
        DataFrame
            One row per combination: estimate, null_value, std_error with its three parts,
            statistic, p_value, conf_low, conf_high.
        """
        asked = views.question.Question(level, mode, target, method, simultaneous, covariates)
        return views.fit_tables.contrasts(self, hypotheses, asked)

    def t_test(
        self, hypotheses: Any, *, alpha: float | None = None, **options: Any
    ) -> pd.DataFrame:
        """The same as `contrasts`, by statsmodels' name, with ``alpha`` instead of a level."""
        if alpha is not None:
            options["level"] = views.question.level_of(alpha)
        return self.contrasts(hypotheses, **options)

    def tidy(
        self,
        conf_int: bool = False,
        conf_level: float = 0.95,
        exponentiate: bool = False,
        *,
        mode: str | None = None,
        target: str | None = None,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """One row per coefficient, in broom's layout.

        Parameters
        ----------
        conf_int : bool
            Whether to add conf_low and conf_high.
        conf_level : float
            Level of confidence.
        exponentiate : bool
            Whether to return odds ratios with their intervals instead of coefficients. Standard
            errors remain those of the coefficient, as in broom. The coefficient is the logarithm of
            the odds ratio, so they are then called std_error_log, sampling_sd_log, privacy_sd_log
            and unknown_sd_log.
        mode, target, simultaneous
            See the class.

        Returns
        -------
        DataFrame
            Columns term, estimate, std_error, its three parts, statistic, and p_value. The squares
            of the parts add up to that of std_error: sampling_sd is the sampling error and
            privacy_sd what the noise adds, both as medians over the information matrices that the
            release leaves possible. unknown_sd is added because there are many of these: by their
            average, or in the conservative mode by the worst. std_error, unknown_sd and statistic
            are NaN where a normal law with them has another interval or p-value. Without inference,
            they are term, estimate, `privacy_sd_expected` and `privacy_sd_limit`, with ``_log`` for
            odds ratios.
        """
        level = views.question.read_level(conf_level, "conf_level")
        asked = views.question.Question(level, mode, target, simultaneous=simultaneous)
        return views.fit_tables.tidy(self, asked, conf_int=conf_int, exponentiate=exponentiate)

    def plot(self, **options: Any) -> Axes:
        """Draw the coefficients with their intervals, or the estimates if there are no intervals.

        See `privatelr.plot_coefficients` for the options.
        """
        return views.forest.plot_coefficients(self, **options)

    def predict(
        self,
        data: Any,
        type: PredictionType | None = None,
        *,
        threshold: Any = None,
        interval: float | None = None,
        mode: str | None = None,
        target: str | None = None,
    ) -> pd.Series[Any] | pd.DataFrame:
        """Predict each row of `data`, independently of the other rows.

        A value beyond its declared bounds is replaced by the bound, as in the fit. Predictions are
        by the released `coef`, but with `interval` by the estimates that intervals are about.

        Parameters
        ----------
        data
            A frame with the columns of the right-hand side. For a Dask frame, the predictions of a
            partition are computed when they are needed, and classes have the type object.
        type
            ``"probabilities"`` of the positive class, the default of `dplr`; ``"classes"``, the
            default of `dpsvm`; ``"link"``, the linear predictor of `dplr`; or ``"margins"``, the
            linear predictor of `dpsvm`, which is positive for the positive class. R's names are
            accepted, too: ``"class"``, ``"prob"``, and ``"response"`` for the default.
        threshold
            A probability or a margin above which the class is positive, or "youden" or "topleft"
            if the fit bought a ROC curve.
        interval : float, optional
            Level of confidence, such as 0.95, of an interval for each row by itself. It is about
            the linear predictor, and so the probability, of the model of `target`, not about the
            outcome of a record. It needs a fit that requested inference.
        mode, target
            Of the interval; see the class.

        Returns
        -------
        Series of length ``len(data)``
            The predictions; NaN if a value is missing or a level is not declared.
        DataFrame of the same length
            The predictions with an interval. For `dplr` the columns are probability,
            probability_lower, probability_upper, link, link_lower, link_upper, and the std_error of
            the link; for `dpsvm` they are margin, margin_lower, margin_upper and std_error. A link
            is the middle of its interval. For the unpenalised target it has the bias of the penalty
            taken off, as in `contrasts`, so it is not the prediction without an interval. All rows
            use the same bound of their half widths, so the intervals are a little longer than those
            of `contrasts`: by a few percent up to a fifth if the noise is moderate. ``attrs`` of a
            frame in memory has the mode and the target.

        Notes
        -----
        **Privacy.** *Covered*: predictions are functions of the release, with one exception.
        *Neighbours*: replace one record of the training data. *Assumed public*: nothing new.
        *Not covered*: classes split by a threshold that was learned and not paid for,
        and the privacy of `data` itself.
        """
        if interval is not None:
            return predict.predict_interval(self, data, type, threshold, interval, mode, target)
        for name, value in (("mode", mode), ("target", target)):
            if value is not None:
                raise ArgumentError(f"{name}: predict takes it with interval, such as 0.95.")
        return predict.predict(self, data, type, threshold)

    def glance(self) -> pd.DataFrame:
        """One row about the fit; every entry is public or covered by the guarantee.

        ``inference`` is the mode of the intervals. It is empty if inference was not requested, and
        so are noise_to_signal and relative_bias.
        """
        return views.fit_tables.glance(self)

    def summary(
        self,
        alpha: float = 0.05,
        *,
        mode: str | None = None,
        target: str | None = None,
        exponentiate: bool = False,
        diagnostics: bool = False,
    ) -> FitSummary:
        """The page that `print` shows, with ``as_text()`` and ``as_html()``.

        Parameters
        ----------
        alpha : float
            Probability with which an interval may fail; the level is ``1 - alpha``.
        mode, target
            The mode and the target of standard errors, intervals and tests, as in `conf_int`.
        exponentiate : bool
            Whether to show odds ratios with their intervals instead of coefficients. Standard
            errors and tests remain those of the coefficient. If the odds ratio of one unit is too
            near to 1 to be read, a row is for ten units or more, as its name says. Without
            inference, odds ratios stand beside the coefficients, and have no intervals.
        diagnostics : bool
            Whether to add a part below a rule that is not private: the C-index and the counts of
            the training data, and a learned threshold.

        Raises
        ------
        GuaranteeError
            If diagnostics are requested and the fit has none, as after `privatelr.load`.

        Notes
        -----
        **Privacy.** *Covered*: the page as it is printed. *Neighbours*: those of the guarantee.
        *Assumed public*: as for the fit. *Not covered*: what ``diagnostics=True`` adds.
        """
        asked = views.question.Question(views.question.level_of(alpha), mode, target)
        return views.summary.summarise(
            self, asked, exponentiate=exponentiate, diagnostics=diagnostics
        )
