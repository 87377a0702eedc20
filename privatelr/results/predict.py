"""Predictions: functions of a release and of one new row each; scores, classes, thresholds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from privatelr.design import (
    DesignSpec,
    NumberedSpec,
    as_matrix,
    read_covariates,
    read_sparse_covariates,
    worth_sparse,
)
from privatelr.errors import ArgumentError, GuaranteeError, require_choice, require_number, show
from privatelr.lazy_import import lazy_import
from privatelr.numerics import in_order
from privatelr.numerics.rows import EntryRows, SparseRows, linear_predictor, piece_rows
from privatelr.results.fit_record import SelectedRecord
from privatelr.sources import as_frame, as_piece, is_dask, over_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from privatelr.inference import prediction_errors
    from privatelr.numerics import Loss, ThresholdRule
    from privatelr.results.fit_record import FitRecord, ModelRecord
    from privatelr.sources import RowSlice
    from privatelr.types import BoolArray, FloatArray
else:
    prediction_errors = lazy_import("privatelr.inference.prediction_errors")


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale of scores.

    Attributes
    ----------
    name : str
        Of one score.
    linear : str
        Of one linear predictor.
    predictions : tuple of str
        What can be predicted, the default first.
    aliases : mapping of str to str
        What R calls them.
    fixed : float
        Where classes are split unless another threshold is asked for.
    lowest, highest : float
        Limits to thresholds.
    takes : str
        The same in words.
    """

    name: str
    linear: str
    predictions: tuple[str, ...]
    aliases: Mapping[str, str]
    fixed: float
    lowest: float
    highest: float
    takes: str


PredictionType: TypeAlias = Literal[
    "probabilities", "classes", "link", "margins", "response", "class", "prob"
]
"""What `predict` takes, R's names last."""
PROBABILITY = Scale(
    name="probability",
    linear="link",
    predictions=("probabilities", "classes", "link"),
    aliases={"response": "probabilities", "prob": "probabilities", "class": "classes"},
    fixed=0.5,
    lowest=0.0,
    highest=1.0,
    takes="a number from 0 to 1",
)
MARGIN = Scale(
    name="margin",
    linear="margin",
    predictions=("classes", "margins"),
    aliases={"response": "classes", "class": "classes"},  # as predict of kernlab and e1071
    fixed=0.0,
    lowest=-1e100,
    highest=1e100,
    takes="a margin, which is a number from -1e+100 to 1e+100",
)


def scale_of(loss: Loss) -> Scale:
    """The scale on which a loss scores records."""
    return MARGIN if loss.probability is None else PROBABILITY


def score(loss: Loss, link: FloatArray) -> FloatArray:
    """Scores ``(n,)`` from linear predictors ``(n,)``."""
    return link if loss.probability is None else loss.probability(link)


_RULES = ", 'fixed' ({:g}), 'youden' or 'topleft'"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A public `value`, or a `rule` whose value is among the diagnostics instead."""

    value: float
    rule: ThresholdRule | None = None


def read_threshold(threshold: Any, loss: Loss) -> Threshold:
    """Check the argument ``threshold`` of `dplr`."""
    scale = scale_of(loss)
    rule = threshold if isinstance(threshold, str) else None
    if rule == "fixed":
        return Threshold(scale.fixed)
    if rule in ("youden", "topleft"):
        return Threshold(scale.fixed, rule="youden" if rule == "youden" else "topleft")
    return Threshold(require_threshold(threshold, scale, _RULES))


def require_threshold(threshold: Any, scale: Scale, rules: str = "") -> float:
    """A threshold that is a number; raises `ArgumentError`."""
    limits = {"at_least": scale.lowest, "at_most": scale.highest}
    takes = f"{scale.takes}{rules.format(scale.fixed)}"
    return require_number(ArgumentError, "threshold", threshold, takes, **limits)


_FOR_ERRORS, _ENTRIES = 2**14, 2**22
"""Rows whose errors are worked out at once, if they have no more entries than so many: for each
pair of columns, functions are called on all of them."""


def predict(
    fit: ModelRecord, data: Any, type: str | None, threshold: float | None
) -> pd.Series[Any]:
    """Predict each row of `data`; see `Fit.predict`."""
    kind = scale_of(fit.loss).predictions[0] if type is None else _require_kind(type, fit)
    cut = _cut(fit, threshold) if kind == "classes" else np.nan
    if is_dask(data):
        of_part: Any = _classes_of_part if kind == "classes" else _predicted
        found: pd.Series[Any] = over_partitions(partial(of_part, fit, kind, cut), data, _read(fit))
        return found
    return _predicted(fit, kind, cut, data)


def _classes_of_part(fit: ModelRecord, kind: str, cut: float, part: Any) -> pd.Series[Any]:
    """Classes of a partition, of one type: an unusable row elsewhere has none."""
    return _predicted(fit, kind, cut, part).astype(object)


def _predicted(fit: ModelRecord, kind: str, cut: float, data: Any) -> pd.Series[Any]:
    link, usable, index = _link(fit, data)
    if kind == "link":
        return pd.Series(link, index=index, name="link")
    scores = score(fit.loss, link)
    if kind != "classes":
        return pd.Series(scores, index=index, name=scale_of(fit.loss).name)
    negative, positive = fit.spec.response.classes
    with np.errstate(invalid="ignore"):
        chosen = [positive if above else negative for above in scores > cut]
    classes = pd.Series(chosen, index=index, name="class")
    return classes if usable.all() else classes.astype(object).where(usable, np.nan)


def predict_interval(
    fit: FitRecord, data: Any, type: Any, threshold: Any, interval: Any, mode: Any
) -> pd.DataFrame:
    """An interval for each row of `data`; see `Fit.predict`."""
    scale = scale_of(fit.loss)
    if (type is not None and _require_kind(type, fit) == "classes") or threshold is not None:
        raise ArgumentError(
            f"interval={show(interval)}: a class has no interval; leave out type and threshold to "
            f"see one of each {scale.name}."
        )
    takes = "None, or a level of confidence from 0.5 to 0.9999, such as 0.95"
    level = require_number(ArgumentError, "interval", interval, takes, at_least=0.5, at_most=0.9999)
    errors = prediction_errors.row_errors(fit.release, level=level, mode=mode)
    if is_dask(data):
        found: pd.DataFrame = over_partitions(partial(_intervals, fit, errors), data, _read(fit))
        return found
    return _intervals(fit, errors, data)


def _intervals(fit: FitRecord, errors: prediction_errors.RowErrors, data: Any) -> pd.DataFrame:
    frame, scale, coef = as_frame(data), scale_of(fit.loss), fit.release.coef

    def of_rows(rows: FloatArray) -> tuple[FloatArray, ...]:
        return linear_predictor(rows, coef), errors.sd(rows)

    with np.errstate(all="ignore"):  # an underflow is a fact about the data
        (link, sd), _ = _of_pieces(fit, frame, of_rows, min(_FOR_ERRORS, _ENTRIES // len(coef)))
        half = errors.factor * sd
        ends = {"": link, "_lower": link - half, "_upper": link + half}
        columns = {f"{scale.name}{end}": score(fit.loss, values) for end, values in ends.items()}
    columns |= {f"{scale.linear}{end}": values for end, values in ends.items()}
    return pd.DataFrame(columns | {"std_error": sd}, index=frame.index)


def _read(fit: ModelRecord) -> tuple[str, ...] | None:
    """The columns that a prediction reads; all of a matrix whose columns have numbers."""
    return None if isinstance(fit.spec, NumberedSpec) else fit.spec.formula.covariates


def _link(fit: ModelRecord, data: Any) -> tuple[FloatArray, BoolArray, pd.Index[Any]]:
    """Linear predictor of each row, NaN where it is not usable, and the names of the rows."""
    with np.errstate(all="ignore"):  # an underflow is a fact about the data
        if isinstance(fit.spec, NumberedSpec):
            matrix = as_matrix(fit.spec, data)
            link, known = _of_matrix(fit, matrix, np.ones(matrix.shape[0]))
            return link, known, pd.RangeIndex(len(link))
        frame = as_frame(data)
        if fit.spec.projection is None and worth_sparse(fit.spec):
            names = fit.spec.formula.covariates
            covariates, usable, _ = read_sparse_covariates(fit.spec, frame, names)
            return *_of_matrix(fit, covariates, usable.astype(np.float64)), frame.index
        coef = fit.release.coef
        (link,), usable = _of_pieces(fit, frame, lambda rows: (linear_predictor(rows, coef),))
        return link, usable, frame.index


def _of_pieces(
    fit: ModelRecord,
    frame: pd.DataFrame,
    of_rows: Callable[[FloatArray], tuple[FloatArray, ...]],
    least: int = 1,
) -> tuple[list[FloatArray], BoolArray]:
    """Numbers of each row, NaN where it is not usable, from pieces of `least` rows or more.

    A design of all rows would be larger than the frame. `of_rows` treats each row by itself.
    """
    n, spec = len(frame), fit.spec
    assert isinstance(spec, DesignSpec)
    whole = as_piece(frame, spec.formula.covariates)
    size = max(piece_rows(n, max(spec.p, spec.d)), least)

    def piece(start: int) -> tuple[tuple[FloatArray, ...], BoolArray]:
        rows, usable = design_rows(fit, replace(whole, start=start, stop=min(start + size, n)))
        return tuple(np.where(usable, found, np.nan) for found in of_rows(rows)), usable

    found, usable = zip(*in_order(piece, range(0, max(n, 1), size)), strict=True)
    return [np.concatenate(parts) for parts in zip(*found, strict=True)], np.concatenate(usable)


def _of_matrix(fit: ModelRecord, matrix: Any, labels: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Linear predictor of sparse rows that are bounded as those of the fit were.

    A row whose label is 0 is not usable.
    """
    coef, intercept = fit.release.coef, fit.spec.intercept
    if isinstance(fit, SelectedRecord):
        largest = fit.calibration.problem.x_bound
        held = EntryRows(matrix, labels, x_bound=largest, intercept=intercept)
        link, known = held.margins(coef), held.y != 0
    else:
        long = SparseRows(matrix, labels, bound=fit.spec.bound, intercept=intercept)
        link, known = np.asarray(long.x @ coef), long.y != 0
    return np.where(known, link, np.nan), known


def design_rows(fit: ModelRecord, frame: pd.DataFrame | RowSlice) -> tuple[FloatArray, BoolArray]:
    """Design rows ``(n, d)`` of a frame, and which of them are usable."""
    spec = fit.spec
    covariates, usable, _ = read_covariates(spec, frame, spec.formula.covariates)
    return fit.bounded(covariates), usable


def _require_kind(type: Any, fit: ModelRecord) -> str:
    loss = fit.loss
    scale = scale_of(loss)
    known = scale.aliases.get(type, type) if isinstance(type, str) else type
    why = f"; R's names of them are {', '.join(map(repr, scale.aliases))}"
    if loss.probability is None and type in ("probabilities", "prob"):
        why = f"; a {loss.title} has no probabilities, and dplr fits a model that has"
    elif loss.probability is None and type == "link":
        why = "; margins are the linear predictor"
    if known not in scale.predictions:
        require_choice(ArgumentError, "type", type, scale.predictions, why, scale.aliases)
    return str(known)


def _cut(fit: ModelRecord, threshold: float | None) -> float:
    if threshold is not None:
        return require_threshold(threshold, scale_of(fit.loss))
    rule = fit.threshold.rule
    if rule is None:
        return fit.threshold.value
    if not fit.has_diagnostics:
        raise GuaranteeError(
            f"threshold={rule!r} was learned from the training data and is not kept in a saved "
            f"fit; pass predict(..., threshold={fit.threshold.value:g}) or another public number."
        )
    return fit.diagnostics.threshold(rule)
