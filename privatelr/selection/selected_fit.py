"""The object that `dplpsvm` and `dpsimplex` return: a record of a release, and its methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.design import DesignSpec, EntryBoundedMatrix
from privatelr.errors import ArgumentError
from privatelr.lazy_import import lazy_import
from privatelr.numerics.rows import bounded_entries
from privatelr.results import predict, views
from privatelr.results.augment import Augments
from privatelr.results.fit_record import ModelRecord
from privatelr.results.predict import PredictionType
from privatelr.selection.choices import SelectionCalibration, Selections
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.results.fit_kind import FitKind
    from privatelr.results.pages.summary import FitSummary
    from privatelr.selection import pages
else:
    pages = lazy_import("privatelr.selection.pages")


@suggests_arguments
class SelectedFit(Augments, ModelRecord):
    """A fitted model whose coefficients count how often each signed column was chosen.

    The columns were chosen in rounds or by independent draws; `release` has the counts. A pickle
    or a release file of it has no diagnostics.

    Examples
    --------
    >>> from privatelr import dpsimplex, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dpsimplex("vote ~ age + selfLR", votes, eps=1.0, **public)
    >>> type(fit).__name__, list(fit.tidy().columns)
    ('SelectedFit', ['term', 'estimate', 'times_plus', 'times_minus'])
    """

    __slots__ = ()

    spec: DesignSpec | EntryBoundedMatrix
    release: Selections

    @property
    def calibration(self) -> SelectionCalibration:
        """The number of choices, their law, and the facts from which these were computed."""
        return self.release.calibration

    @property
    def kind(self) -> FitKind[SelectedFit]:
        """How fits that choose columns are described, shown and applied."""
        return pages.CHOICES

    def bounded(self, covariates: FloatArray) -> FloatArray:
        """Design rows ``(n, d)`` of covariates, with each entry clipped as in the fit."""
        return bounded_entries(covariates, self.calibration.problem.x_bound, self.spec.intercept)

    @property
    def selected(self) -> pd.DataFrame:
        """The chosen columns with their sign and number of choices, the most frequent first.

        The guarantee covers the whole table.
        """
        counts, names = self.release.counts, np.array(self.spec.columns.names, dtype=object)
        order = np.argsort(-counts, kind="stable")
        chosen = order[counts[order] > 0]
        signs = np.where(chosen < len(names), "+", "-").astype(object)
        columns = {"term": names[chosen % len(names)], "sign": signs, "times": counts[chosen]}
        return pd.DataFrame(columns)

    def predict(
        self,
        data: Any,
        type: PredictionType | None = None,
        *,
        threshold: float | str | None = None,
    ) -> pd.Series[Any]:
        """Predict each row of `data`, independently of the other rows.

        A value beyond its declared bounds is replaced by the bound, as in the fit.

        Parameters
        ----------
        data
            A frame with the columns of the right-hand side.
        type
            For a support vector machine ``"classes"``, the default, or ``"margins"``; for a
            logistic loss ``"probabilities"``, the default, ``"classes"`` or ``"link"``. R's names
            are accepted, too: ``"class"``, ``"prob"``, and ``"response"`` for the default.
        threshold
            A probability or a margin above which the positive class is predicted, or ``"youden"``
            or ``"topleft"`` where the fit bought a ROC curve. The default is the threshold of the
            fit.

        Returns
        -------
        Series of length ``len(data)``
            The predictions; NaN if a value is missing or a level is not declared.

        Notes
        -----
        **Privacy.** *Covered*: predictions are functions of the release, with one exception.
        *Neighbours*: replace one record of the training data. *Assumed public*: nothing new.
        *Not covered*: classes split by a threshold that was learned from the training data,
        and the privacy of `data` itself.
        """
        return predict.predict(self, data, type, threshold)

    def tidy(self) -> pd.DataFrame:
        """One row per coefficient: term, estimate, and the number of choices with either sign."""
        plus, minus = np.split(self.release.counts, 2)
        names, estimate = list(self.spec.columns.names), self.coef.to_numpy()
        columns = {"term": names, "estimate": estimate, "times_plus": plus, "times_minus": minus}
        return pd.DataFrame(columns)

    def glance(self) -> pd.DataFrame:
        """One row about the fit; every entry is public or covered by the guarantee."""
        return views.fit_tables.glance(self)

    def summary(self, *, exponentiate: bool = False, diagnostics: bool = False) -> FitSummary:
        """The page that `print` shows, with ``as_text()`` and ``as_html()``.

        Parameters
        ----------
        exponentiate : bool
            Whether the page says why odds ratios have no intervals. The page of a logistic loss
            has odds ratios in any case.
        diagnostics : bool
            Whether to add a part below a rule that is not private: the C-index and the counts of
            the training data, and a learned threshold.

        Notes
        -----
        **Privacy.** *Covered*: the page as it is printed. *Neighbours*: those of the guarantee.
        *Assumed public*: as for the fit. *Not covered*: what ``diagnostics=True`` adds.
        """
        return views.summary.summarise(self, exponentiate=exponentiate, diagnostics=diagnostics)

    def plot(self, **options: Any) -> Never:
        """Raise an error, because these coefficients have no intervals; see `selected`."""
        raise ArgumentError(
            "plot: coefficients that count choices have no standard errors, so that there are no "
            "intervals to draw; fit.selected lists what was chosen."
        )
