"""The object that `dplr` returns: a release, the public plan it came from, and views of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from privatelr.errors import ArgumentError, GuaranteeError, require_choice, require_number
from privatelr.frames.design import DesignSpec, read_covariates
from privatelr.frames.source import as_frame
from privatelr.numerics.rows import bounded_rows, linear_predictor
from privatelr.results import tables
from privatelr.results.summary import FitSummary, summarise

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration import Calibration
    from privatelr.mechanisms.release import Release
    from privatelr.numerics.roc import ThresholdRule
    from privatelr.privacy.guarantees import Guarantee
    from privatelr.results.diagnostics import Diagnostics
    from privatelr.types import FloatArray

PREDICTIONS = ("probabilities", "classes", "link")
_THRESHOLD_TAKES = "a number from 0 to 1, 'fixed' (0.5), 'youden' or 'topleft'"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where predicted classes are split: a public `value`, or a `rule` that reads the data."""

    value: float | None = 0.5
    rule: ThresholdRule | None = None


def read_threshold(threshold: Any) -> Threshold:
    """Check the argument ``threshold`` of the front door."""
    if isinstance(threshold, str):
        if threshold == "fixed":
            return Threshold()
        if threshold in ("youden", "topleft"):
            return Threshold(None, "youden" if threshold == "youden" else "topleft")
        raise ArgumentError(f"threshold={threshold!r}: threshold takes {_THRESHOLD_TAKES}.")
    return Threshold(
        require_number(
            ArgumentError, "threshold", threshold, _THRESHOLD_TAKES, at_least=0, at_most=1
        )
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fit:
    """A fitted model: what was released, and the public plan that says how to read it.

    It holds no row of the data. Diagnostics, which are computed from the data, are kept apart
    and are left behind when the fit is copied to a file.

    Attributes
    ----------
    spec : DesignSpec
        The plan: formula, bounds, levels, coding.
    release : Release
        Coefficients in design units, guarantee, calibration.
    threshold : Threshold
        What splits ``predict(type="classes")``.
    """

    spec: DesignSpec
    release: Release
    threshold: Threshold
    _diagnostics: Diagnostics | None = None

    @property
    def coef(self) -> pd.Series[float]:
        """Coefficients in the units of the columns, named; the intercept first."""
        return self._named(self.spec.user_map() @ self.release.coef, "estimate")

    @property
    def params(self) -> pd.Series[float]:
        """The same as `coef`, by statsmodels' name."""
        return self.coef

    @property
    def odds_ratios(self) -> pd.Series[float]:
        """Exponentials of `coef`."""
        with np.errstate(over="ignore"):
            return self._named(np.exp(self.coef.to_numpy()), "odds_ratio")

    @property
    def privacy_sd(self) -> pd.Series[float]:
        """Standard deviation that the noise adds to `coef`, at most; free of the data.

        See `Calibration.coefficient_sd`; design noise is carried over by the public map.
        """
        reach = np.linalg.norm(self.spec.user_map(), axis=1)
        return self._named(self.calibration.coefficient_sd * reach, "privacy_sd")

    @property
    def nobs(self) -> int:
        """Number of records, public because neighbours replace a record."""
        return self.calibration.problem.n

    @property
    def formula(self) -> str:
        """The formula with ``.`` expanded."""
        return self.spec.formula.text

    @property
    def guarantee(self) -> Guarantee:
        """What holds for the coefficients and for all that is computed from them."""
        return self.release.guarantee

    @property
    def calibration(self) -> Calibration:
        """How noise and lambda were chosen."""
        return self.release.calibration

    @property
    def diagnostics(self) -> Diagnostics:
        """Not private: C-index, ROC points and thresholds of the training data."""
        if self._diagnostics is None:
            raise GuaranteeError(
                "diagnostics are computed from the training data and are not kept in a saved fit; "
                "fit again to see them."
            )
        return self._diagnostics

    def predict(
        self,
        data: Any,
        type: Literal["probabilities", "classes", "link"] = "probabilities",
        *,
        threshold: float | None = None,
    ) -> pd.Series[Any]:
        """Predict for each row of `data`, whatever the other rows are.

        Values beyond the declared bounds are predicted at the bound, as they were fitted.

        Parameters
        ----------
        data
            A frame with the columns of the right-hand side.
        type
            ``"probabilities"`` of the positive class, ``"classes"``, or ``"link"``, the linear
            predictor.
        threshold
            Splits classes in place of the fit's own threshold.

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
        require_choice(ArgumentError, "type", type, PREDICTIONS)
        cut = self._cut(threshold) if type == "classes" else np.nan
        frame = as_frame(data)
        link, usable = self._link(frame)
        if type == "link":
            return pd.Series(link, index=frame.index, name="link")
        probability = self._probability(link)
        if type == "probabilities":
            return pd.Series(probability, index=frame.index, name="probability")
        negative, positive = self.spec.response.classes
        with np.errstate(invalid="ignore"):
            chosen = [positive if above else negative for above in probability > cut]
        classes = pd.Series(chosen, index=frame.index, name="class")
        return classes if usable.all() else classes.astype(object).where(usable, np.nan)

    def _link(self, frame: pd.DataFrame) -> tuple[FloatArray, np.ndarray[Any, Any]]:
        spec = self.spec
        covariates, usable, _ = read_covariates(spec, frame, spec.formula.covariates)
        rows = bounded_rows(covariates, spec.bound, spec.intercept, spec.projection)
        return np.where(usable, linear_predictor(rows, self.release.coef), np.nan), usable

    def _probability(self, link: FloatArray) -> FloatArray:
        loss = self.calibration.problem.loss
        if loss.probability is None:
            raise ArgumentError(f"type: the {loss.name} loss defines no probabilities.")
        return loss.probability(link)

    def _cut(self, threshold: float | None) -> float:
        if threshold is not None:
            return require_number(
                ArgumentError, "threshold", threshold, "a number from 0 to 1", at_least=0, at_most=1
            )
        if self.threshold.rule is None:
            return float(self.threshold.value or 0.0)
        if self._diagnostics is None:
            raise GuaranteeError(
                f"threshold={self.threshold.rule!r} was learned from the training data and is not "
                "kept in a saved fit; pass predict(..., threshold=0.5) or another public number."
            )
        return self._diagnostics.threshold(self.threshold.rule)

    def tidy(self, exponentiate: bool = False) -> pd.DataFrame:
        """One row per coefficient: term, estimate (or odds ratio), privacy_sd."""
        return tables.tidy(self, exponentiate=exponentiate)

    def glance(self) -> pd.DataFrame:
        """One row about the fit; every entry is public or paid for."""
        return tables.glance(self)

    def summary(self) -> FitSummary:
        """The page that `print` shows, with ``as_text()`` and ``as_html()``."""
        return summarise(self)

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<Fit of {self.formula!r}, {self.guarantee}>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def _named(self, values: FloatArray, name: str) -> pd.Series[float]:
        return pd.Series(values, index=list(self.spec.columns.names), name=name)

    def __getstate__(self) -> dict[str, Any]:
        """What is written to a file: everything but the diagnostics."""
        return {"spec": self.spec, "release": self.release, "threshold": self.threshold}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in ("spec", "release", "threshold"):
            object.__setattr__(self, name, state[name])
        object.__setattr__(self, "_diagnostics", None)

    def __copy__(self) -> Fit:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Fit:
        return self
