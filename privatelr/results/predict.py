"""Predictions: functions of a release and of one new row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.errors import ArgumentError, GuaranteeError, require_choice
from privatelr.frames.design import read_covariates
from privatelr.frames.source import as_frame
from privatelr.numerics.rows import bounded_rows, linear_predictor
from privatelr.results.threshold import require_probability

if TYPE_CHECKING:
    from privatelr.results.record import FitRecord
    from privatelr.types import BoolArray, FloatArray

PREDICTIONS = ("probabilities", "classes", "link")


def predict(fit: FitRecord, data: Any, type: str, threshold: float | None) -> pd.Series[Any]:
    """Predict each row of `data`; see `Fit.predict`."""
    require_choice(ArgumentError, "type", type, PREDICTIONS)
    cut = _cut(fit, threshold) if type == "classes" else np.nan
    frame = as_frame(data)
    link, usable = _link(fit, frame)
    if type == "link":
        return pd.Series(link, index=frame.index, name="link")
    probability = _probability(fit, link)
    if type == "probabilities":
        return pd.Series(probability, index=frame.index, name="probability")
    negative, positive = fit.spec.response.classes
    with np.errstate(invalid="ignore"):
        chosen = [positive if above else negative for above in probability > cut]
    classes = pd.Series(chosen, index=frame.index, name="class")
    return classes if usable.all() else classes.astype(object).where(usable, np.nan)


def _link(fit: FitRecord, frame: pd.DataFrame) -> tuple[FloatArray, BoolArray]:
    spec = fit.spec
    covariates, usable, _ = read_covariates(spec, frame, spec.formula.covariates)
    rows = bounded_rows(covariates, spec.bound, spec.intercept, spec.projection)
    return np.where(usable, linear_predictor(rows, fit.release.coef), np.nan), usable


def _probability(fit: FitRecord, link: FloatArray) -> FloatArray:
    loss = fit.calibration.problem.loss
    if loss.probability is None:
        raise ArgumentError(f"type: the {loss.name} loss defines no probabilities.")
    return loss.probability(link)


def _cut(fit: FitRecord, threshold: float | None) -> float:
    if threshold is not None:
        return require_probability(threshold)
    rule = fit.threshold.rule
    if rule is None:
        return fit.threshold.value
    if not fit.has_diagnostics:
        raise GuaranteeError(
            f"threshold={rule!r} was learned from the training data and is not kept in a saved "
            "fit; pass predict(..., threshold=0.5) or another public number."
        )
    return fit.diagnostics.threshold(rule)
