"""The object that `plan` returns: a forecast, and the questions that one asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.mechanisms import StagedCalibration
from privatelr.page_model import as_html, as_text
from privatelr.planning import needed_records, plan_page, plan_plot
from privatelr.planning.alternatives import alternatives
from privatelr.planning.plan_page import to_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.planning.forecast import Errors, Intervals
    from privatelr.planning.make_plan import Study


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StudyPlan:
    """What a private fit will find out, forecast before any data is touched.

    Attributes
    ----------
    study : Study
        Design, request, and the made-up records that stand for the data.
    calibration : Plan
        The numbers that a fit will have: noise, lambda, and the parts of the guarantee.
    errors : Errors
        Of the coefficients, in the user's units.
    intervals : Intervals or None
        None if inference is not requested.
    assumptions : tuple of str
        What the forecast rests on, in words.
    """

    study: Study
    calibration: StagedCalibration
    errors: Errors
    intervals: Intervals | None
    assumptions: tuple[str, ...]

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the coefficients, the intercept first."""
        return self.study.terms

    def to_frame(self) -> pd.DataFrame:
        """One row per coefficient, in the user's units.

        Its columns are term, privacy_sd, sampling_sd, std_error (both together), width (of the
        95% interval; NaN if inference is not requested), and kept (the share of a small effect
        that the penalty leaves).
        """
        return pd.DataFrame(
            {
                "term": list(self.terms),
                "privacy_sd": self.errors.privacy_sd,
                "sampling_sd": self.errors.sampling_sd,
                "std_error": self.errors.sd,
                "width": np.nan if self.intervals is None else self.intervals.width,
                "kept": self.errors.kept,
            }
        )

    def table(self) -> pd.DataFrame:
        """The plan beside other promises, mechanisms, shares and penalties, one row each.

        Deviations and widths are multiples of the plan's: geometric means over the covariates.
        The first call takes some seconds.
        """
        return pd.DataFrame([asdict(row) for row in alternatives(self.study)])

    def needed_n(self, width: float, term: str | None = None) -> int:
        """Smallest number of records for which an interval is expected to be so short.

        Where more than one in ten simulated fits would have conservative intervals, it is these
        that count.

        Parameters
        ----------
        width : float
            Length of the 95% interval, in the units of the coefficient.
        term : str, optional
            The coefficient; by default all but the intercept.

        Raises
        ------
        ArgumentError
            If the term is unknown, or the width is not a number above 0.
        GuaranteeError
            If inference is not requested, or no number of records up to 1e8 is enough.
        """
        return needed_records.needed_n(self.study, width, term)

    def needed_eps(self, width: float, term: str | None = None) -> float:
        """Smallest epsilon (rho, for a plan under zCDP) for an interval so short.

        Conservative intervals count as in `needed_n`.

        Parameters
        ----------
        width, term
            As in `needed_n`.

        Raises
        ------
        ArgumentError
            As `needed_n`.
        GuaranteeError
            If inference is not requested, or not even 1000 is enough.
        """
        return needed_records.needed_eps(self.study, width, term)

    def plot(
        self,
        term: str | None = None,
        *,
        n: Sequence[int] | None = None,
        eps: Sequence[float] | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Length of an interval against epsilon, with a line for each number of records.

        Hollow points are conservative intervals. Nothing is drawn where the penalty leaves less
        than half of an effect, since intervals are short there without telling much.

        Parameters
        ----------
        term : str, optional
            The coefficient; by default the first that is not the intercept.
        n : sequence of int, optional
            Numbers of records; by default a third, one, three and ten times the plan's.
        eps : sequence of float, optional
            Epsilons (rhos, for a plan under zCDP); by default from a tenth to ten times the
            plan's.
        ax : Axes, optional
            Where to draw; by default a new figure of pyplot.

        Raises
        ------
        ArgumentError, GuaranteeError
            As `needed_n`.
        MissingDependencyError
            If matplotlib is not installed.
        """
        return plan_plot.plot_widths(self.study, term, n, eps, ax)

    def to_json(self) -> str:
        """Everything that is on the page, as JSON; null for what is not defined."""
        return to_json(self)

    def __str__(self) -> str:
        return as_text(plan_page.page(self))

    def __repr__(self) -> str:
        return f"<Plan of {self.study.spec.formula.text!r} for n = {self.study.n} records>"

    def _repr_html_(self) -> str:
        return as_html(plan_page.page(self))
