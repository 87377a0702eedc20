"""The object that `dpmultinom` returns: a record of a release, and its methods."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from privatelr.arguments import refuses, suggests_arguments
from privatelr.errors import GuaranteeError
from privatelr.numerics.rows import linear_predictor
from privatelr.numerics.softmax_objective import softmax
from privatelr.results import predict, views
from privatelr.results.augment import Augments, ModelMatrix
from privatelr.results.fit_record import NoisyRecord, row_lengths_of
from privatelr.sources import as_batch
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.results.fit_kind import FitKind
    from privatelr.results.pages.summary import FitSummary

ClassPrediction = Literal["probabilities", "classes", "link", "probs", "class", "response", "prob"]
"""Types of prediction; the last four are R's names."""
NO_ERRORS = (
    "standard errors of several classes are not built; dplr of one class against the others takes "
    "spend='inference'"
)
_TYPES = ("probabilities", "classes", "link")
_ALIASES = {
    **{"probs": "probabilities", "prob": "probabilities", "response": "probabilities"},
    "class": "classes",
}


@refuses(
    "a ROC curve, its area and a threshold are about two classes; dplr compares one with others.",
    methods="private_roc",
    properties="roc",
)
@refuses(
    f"{NO_ERRORS}.",
    methods="conf_int confint vcov cov_params contrasts t_test wald_test deviance_test anova",
    properties="bse tvalues pvalues",
    error=GuaranteeError,
)
@refuses("several classes have no intervals to draw; plot_term draws a variable.", methods="plot")
@refuses(
    "for several classes, privatelr.plan(..., loss='softmax') forecasts it.",
    properties="privacy_sd_expected",
)
@suggests_arguments
class MultinomialFit(Augments, ModelMatrix, NoisyRecord):
    """A fitted model of several classes, whose coefficients are against the reference class.

    What is released is a vector of coefficients for each class, ``release.coef`` of shape
    ``(K d,)``. Only their differences have a meaning, and those from the first class are `coef`, as
    in R's ``nnet::multinom``.

    Examples
    --------
    >>> from privatelr import dpmultinom, load_dataset, load_schema
    >>> iris, public = load_dataset("iris"), load_schema("iris")
    >>> fit = dpmultinom("Species ~ Petal.Width", iris, eps=4.0, **public)
    >>> fit.classes, fit.coef.shape  # two terms, and two classes against the first
    (('setosa', 'versicolor', 'virginica'), (2, 2))
    >>> fit.predict(iris.head(2)).sum(axis=1).round(6).tolist()  # of three classes
    [1.0, 1.0]
    """

    __slots__ = ()

    @property
    def kind(self) -> FitKind[Any]:
        """How fits of several classes are described, shown and applied."""
        return views.fit_kind.CLASSES

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared levels of the response, the reference first."""
        return self.spec.response.classes

    @property
    def coef(self) -> pd.DataFrame:
        """Coefficients in the units of the columns: terms by classes, without the reference.

        They are log odds of a class against the reference. ``coef["b"] - coef["a"]`` are those of
        b against a, with less noise than either where one record is of neither.
        """
        each = by_class(self) @ self.spec.user_rows().T
        return self._table(each[1:] - each[0])

    @property
    def params(self) -> pd.DataFrame:
        """The same as `coef`, by statsmodels' name."""
        return self.coef

    @property
    def odds_ratios(self) -> pd.DataFrame:
        """Exponentials of `coef`: factors of the odds of a class against the reference."""
        with np.errstate(over="ignore"):
            return np.exp(self.coef)

    @property
    def privacy_sd_limit(self) -> pd.DataFrame:
        """An upper bound on the standard deviation that the noise adds to `coef`; public.

        See `Calibration.coefficient_sd`; a difference of two classes has at most ``sqrt(2)`` times
        that.
        """
        lengths = row_lengths_of(self.spec.user_rows())
        reach = np.sqrt(2.0) * self.calibration.coefficient_sd * lengths
        return self._table(np.tile(reach, (len(self.classes) - 1, 1)))

    def predict(self, data: Any, type: ClassPrediction | None = None) -> Any:
        """Predict each row of `data`, independently of the other rows.

        Parameters
        ----------
        data
            A frame with the columns of the right-hand side.
        type
            ``"probabilities"``, the default, a column for each class, which add up to 1;
            ``"classes"``, the most probable one; or ``"link"``, log odds against the reference.
            R's names are accepted, too.

        Returns
        -------
        DataFrame or Series of length ``len(data)``
            NaN if a value is missing or a level is not declared.

        Notes
        -----
        **Privacy.** *Covered*: predictions are functions of the release. *Neighbours*: replace one
        record of the training data. *Assumed public*: nothing new. *Not covered*: the privacy of
        `data` itself.
        """
        known = predict.read_type(type, _TYPES, _ALIASES)
        return predict.over_parts(partial(_predicted, self, known), self, data)

    def tidy(self) -> pd.DataFrame:
        """One row per class and term: class, term, estimate, and the limit of the noise's sd."""
        estimates, limits = self.coef, self.privacy_sd_limit
        found = estimates.T.stack().rename("estimate").reset_index()
        found.columns = pd.Index(["class", "term", "estimate"])
        if self.calibration.target.is_private:
            found["privacy_sd_limit"] = limits.T.to_numpy().ravel()
        return found

    def glance(self) -> pd.DataFrame:
        """One row about the fit; every entry is public or covered by the guarantee."""
        return views.fit_tables.glance(self).assign(classes=len(self.classes))

    def summary(self) -> FitSummary:
        """The page that `print` shows, with ``as_text()`` and ``as_html()``."""
        return views.summary.summarise(self, exponentiate=False, diagnostics=False)

    @property
    def privacy_sd(self) -> pd.DataFrame:
        """The same as `privacy_sd_limit`, as for every fit without standard errors."""
        return self.privacy_sd_limit

    def _table(self, values: FloatArray) -> pd.DataFrame:
        classes = pd.Index(self.classes[1:], name=self.spec.response.expression.label)
        names = pd.Index(list(self.spec.columns.names), name="term")
        return pd.DataFrame(values.T, index=names, columns=classes)


def by_class(fit: NoisyRecord) -> FloatArray:
    """The released vectors ``(K, d)`` of the classes, in scaled units."""
    return fit.release.coef.reshape(len(fit.spec.response.classes), -1)


def names_of_classes(fit: MultinomialFit) -> list[str]:
    """Names of the coefficients, which begin with the class."""
    return [f"{level}: {name}" for level in fit.classes[1:] for name in fit.spec.columns.names]


def estimates_of_classes(fit: MultinomialFit) -> FloatArray:
    """The coefficients in the units of the columns, one class after the other."""
    return np.asarray(fit.coef.T.to_numpy().ravel())


def noise_of_classes(fit: MultinomialFit, places: list[int]) -> tuple[FloatArray, FloatArray]:
    """`privacy_sd_limit` of the coefficients at these positions, of which there is no forecast."""
    return np.full(len(places), np.nan), fit.privacy_sd_limit.T.to_numpy().ravel()[places]


def _predicted(fit: MultinomialFit, kind: str, data: Any) -> Any:
    vectors, classes, batch = by_class(fit), fit.classes, as_batch(data)

    def of_rows(rows: FloatArray, offset: FloatArray) -> tuple[FloatArray, ...]:
        return tuple(linear_predictor(rows, vector) for vector in vectors)

    with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
        found, usable = predict.of_pieces(fit, batch, of_rows)
        links = np.column_stack(found)
        if kind == "classes":
            best = np.argmax(np.where(usable[:, None], links, 0.0), axis=1)
            chosen = pd.Series([classes[k] for k in best], index=batch.index, name="class")
            return chosen.astype(object).where(usable, np.nan)
        values = softmax(links) if kind == "probabilities" else links - links[:, :1]
    names = pd.Index(classes, name=fit.spec.response.expression.label)
    return pd.DataFrame(values, index=batch.index, columns=names)
