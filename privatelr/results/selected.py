"""The object that `dplpsvm` and `dpsimplex` return: a record, and the views of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Never

import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError
from privatelr.lazy_import import lazy_import
from privatelr.results import predict
from privatelr.results.fit_record import ModelRecord, SelectedRecord
from privatelr.results.predict import PredictionType

if TYPE_CHECKING:
    from privatelr.results import fit_tables
    from privatelr.results.pages import summary
    from privatelr.results.pages.summary import FitSummary
else:
    fit_tables = lazy_import("privatelr.results.fit_tables")
    summary = lazy_import("privatelr.results.pages.summary")


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SelectedFit(SelectedRecord):
    """A fitted model whose coefficients count how often each signed column was chosen.

    See `SelectedRecord` for what it carries. Copied to a file, it leaves its diagnostics behind.
    """

    @property
    def selected(self) -> pd.DataFrame:
        """Columns that were chosen, the most often chosen first: term, sign and times.

        All of it is covered by the guarantee.
        """
        return fit_tables.selected(self)

    def predict(
        self, data: Any, type: PredictionType | None = None, *, threshold: float | None = None
    ) -> pd.Series[Any]:
        """Predict for each row of `data`, whatever the other rows are.

        Values beyond the declared bounds are predicted at the bound, as they were fitted.

        Parameters
        ----------
        data
            A frame with the columns of the right-hand side.
        type
            ``"classes"``, the default of a support vector machine, or its ``"margins"``;
            of a logistic loss ``"probabilities"``, its default, ``"classes"`` or ``"link"``.
            R's names are taken too: ``"class"``, ``"prob"``, and ``"response"`` for the default.
        threshold
            Splits classes in place of the fit's own threshold: a probability, or a margin.

        Returns
        -------
        Series of length ``len(data)``
            NaN where a value is missing or a level is not one of the declared ones.

        Notes
        -----
        **Privacy.** *Covered*: predictions are functions of the release, with one exception.
        *Neighbours*: replace one record of the training data. *Assumed public*: nothing new.
        *Not covered*: classes split by a threshold that was learned from the training data,
        and the privacy of `data` itself.
        """
        return predict.predict(self, data, type, threshold)

    def tidy(self) -> pd.DataFrame:
        """One row per coefficient: term, estimate, and how often it was chosen by either sign."""
        return fit_tables.tidy_selected(self)

    def glance(self) -> pd.DataFrame:
        """One row about the fit; every entry is public or paid for."""
        return fit_tables.glance(self)

    def summary(self, *, exponentiate: bool = False, diagnostics: bool = False) -> FitSummary:
        """The page that `print` shows, with ``as_text()`` and ``as_html()``.

        Parameters
        ----------
        exponentiate : bool
            Asks for odds ratios. The page of a logistic loss has them anyway; it then says why
            they have no intervals.
        diagnostics : bool
            Whether a part follows, below a rule, that is not private: the C-index and the counts
            of the training data, and a learned threshold.

        Notes
        -----
        **Privacy.** *Covered*: the page as it is printed. *Neighbours*: those of the guarantee.
        *Assumed public*: as for the fit. *Not covered*: what ``diagnostics=True`` adds.
        """
        return summary.summarise(self, exponentiate=exponentiate, diagnostics=diagnostics)

    def plot(self, **options: Any) -> Never:
        """Refuse to draw intervals, which these coefficients do not have; see `selected`."""
        raise ArgumentError(
            "plot: coefficients that count choices have no standard errors, so that there are no "
            "intervals to draw; fit.selected lists what was chosen."
        )

    # a frozen class with slots would be given others, which keep the diagnostics
    __getstate__ = ModelRecord.__getstate__
    __setstate__ = ModelRecord.__setstate__
