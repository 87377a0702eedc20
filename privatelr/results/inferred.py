"""What a fit says of its own errors, in the names of R and of statsmodels.

Everything here is a function of the release: no data, and free to repeat. It takes a fit that
requested inference (``spend="inference"``), and refuses any other in one sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privatelr.arguments import suggests_arguments
from privatelr.lazy_import import lazy_import
from privatelr.results.fit_record import FitRecord

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from privatelr.results import fit_tables
    from privatelr.results import hypotheses as contrasts
    from privatelr.results.hypotheses import WaldTest
    from privatelr.results.pages import inference_table
    from privatelr.results.plots import forest
else:
    contrasts = lazy_import("privatelr.results.hypotheses")
    forest = lazy_import("privatelr.results.plots.forest")
    inference_table = lazy_import("privatelr.results.pages.inference_table")
    fit_tables = lazy_import("privatelr.results.fit_tables")


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InferredFit(FitRecord):
    """Standard errors, intervals and tests of a record.

    All methods that take them share these arguments.

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
        return self._named(inference_table.infer_coefficients(self).sd, "bse")

    @property
    def zvalues(self) -> pd.Series[float]:
        """`coef` over `bse`."""
        return self._named(inference_table.infer_coefficients(self).z, "zvalues")

    @property
    def tvalues(self) -> pd.Series[float]:
        """The same as `zvalues`, by statsmodels' name."""
        return self.zvalues.rename("tvalues")

    @property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided p-values of each coefficient being 0, from the law of its error."""
        return self._named(inference_table.infer_coefficients(self).p_value, "pvalues")

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
        level = inference_table.level_of(alpha)
        asked = inference_table.Question(level, mode, target, method, simultaneous, covariates)
        found = inference_table.infer_coefficients(self, asked)
        limits = inference_table.interval_frame(self, found, (0, 1))
        return inference_table.rows_of(limits, "cols", cols)

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
        asked = inference_table.Question(level, mode, target, method, simultaneous, covariates)
        found = inference_table.infer_coefficients(self, asked)
        names = inference_table.percentages(found.level)
        limits = inference_table.interval_frame(self, found, names)
        return inference_table.rows_of(limits, "parm", parm)

    def vcov(self, *, mode: str | None = None, target: str = "penalised") -> pd.DataFrame:
        """Covariance of the coefficients, whose diagonal holds the squares of `bse`.

        In the conservative mode the correlations are those of the posterior one, so that a
        combination is better asked of `contrasts`.
        """
        return inference_table.covariance_frame(self, mode=mode, target=target)

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
        return contrasts.wald_test(self, hypotheses, mode=mode, target=target)

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
        asked = inference_table.Question(level, mode, target, method, simultaneous, covariates)
        return contrasts.contrasts(self, hypotheses, asked)

    def t_test(
        self, hypotheses: Any, *, alpha: float | None = None, **options: Any
    ) -> pd.DataFrame:
        """The same as `contrasts`, by statsmodels' name, and with its ``alpha`` for the level."""
        if alpha is not None:
            options["level"] = inference_table.level_of(alpha)
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
        asked = inference_table.Question(conf_level, mode, target, simultaneous=simultaneous)
        return fit_tables.tidy(self, asked, conf_int=conf_int, exponentiate=exponentiate)

    def plot(self, **options: Any) -> Axes:
        """Draw the coefficients with their intervals, or without inference the estimates.

        See `privatelr.plot_coefficients`.
        """
        return forest.plot_coefficients(self, **options)
