"""Predictions, each of which is a function of a release and of one new row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pandas as pd

from privatelr import design
from privatelr.errors import ArgumentError, GuaranteeError, require_choice, require_number, show
from privatelr.numerics import Loss, ThresholdRule, in_order
from privatelr.numerics.rows import SparseRows, linear_predictor, piece_rows
from privatelr.results import views
from privatelr.results.fit_record import FitRecord, ModelRecord, NoisyRecord
from privatelr.sources import (
    Batch,
    as_batch,
    as_stream,
    is_dask,
    is_stream,
    over_partitions,
    over_pieces,
    typed_batch,
)
from privatelr.types import BoolArray, FloatArray

_FOR_ERRORS, _ENTRIES = 2**14, 2**22
"""Errors are computed for at most this number of rows and this number of their entries at once;
many rows at once are faster, because functions are called once for each pair of columns."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale of scores: probabilities or margins.

    Attributes
    ----------
    name : str
        The name of a score.
    linear : str
        The name of a linear predictor.
    predictions : tuple of str
        The types of predictions, the default first.
    aliases : mapping of str to str
        R's names of these types.
    fixed : float
        The default threshold between the classes.
    lowest, highest : float
        The limits of thresholds.
    takes : str
        The limits of thresholds in words.
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
"""`predict` accepts these types of prediction; the last three are R's names."""
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
    aliases={"response": "classes", "class": "classes"},  # the names in kernlab and e1071
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


Threshold: TypeAlias = float | ThresholdRule
"""A public number, or a rule by which the diagnostics learn a number."""


_RULES: tuple[ThresholdRule, ...] = ("youden", "topleft")


def read_threshold(threshold: Any, loss: Loss) -> Threshold:
    """Check the argument ``threshold`` of `dplr`."""
    fixed = scale_of(loss).fixed
    if isinstance(threshold, str) and threshold in ("fixed", *_RULES):
        return fixed if threshold == "fixed" else cast("ThresholdRule", threshold)
    return read_number(threshold, loss, f", 'fixed' ({fixed:g}), 'youden' or 'topleft'")


def read_number(threshold: Any, loss: Loss, others: str = "") -> float:
    """Read a threshold that is a number; raises `ArgumentError`."""
    scale = scale_of(loss)
    limits = {"at_least": scale.lowest, "at_most": scale.highest}
    return require_number(ArgumentError, "threshold", threshold, scale.takes + others, **limits)


def predict(fit: ModelRecord, data: Any, type: str | None, threshold: Any) -> pd.Series[Any]:
    """Predict each row of `data`; see `Fit.predict`."""
    kind = _kind(type, fit)
    above = cut(fit, threshold) if kind == "classes" else np.nan
    return over_parts(
        partial(_predicted, fit, kind, above, is_dask(data) or is_stream(data)), fit, data
    )


def cut(fit: ModelRecord, threshold: Any) -> float:
    """The threshold between the classes: a number or a paid rule, or that of the fit."""
    is_rule = isinstance(threshold, str) and threshold in _RULES
    if threshold is not None and not (is_rule and fit.has_roc):
        hint = ", or a rule where the fit bought a ROC curve" if is_rule else ""
        return read_number(threshold, fit.loss, hint)
    rule = cast("Threshold", fit.threshold if threshold is None else threshold)
    if not isinstance(rule, str):
        return rule
    if fit.has_roc:
        paid = fit.roc.threshold(rule)
        return scale_of(fit.loss).fixed if np.isnan(paid) else paid
    if not fit.has_diagnostics:
        raise GuaranteeError(
            f"threshold={rule!r} was learned from the training data and is not kept in a saved "
            f"fit; pass predict(..., threshold={scale_of(fit.loss).fixed:g}) or another public "
            "number."
        )
    return fit.diagnostics.threshold(rule)


def over_parts(of_part: Callable[[Any], Any], fit: ModelRecord, data: Any) -> Any:
    """The predictions of a frame, or lazy ones of each partition of a Dask frame."""
    # of a frame with named columns only those of the formula are read
    names = fit.spec.formula.covariates if fit.spec.has_names else None
    return by_parts(of_part, fit.spec, data, names)


def by_parts(of_part: Callable[[Any], Any], spec: Any, data: Any, names: Any) -> Any:
    """What a function says of each row of data: at once, lazily of Dask, piece by piece.

    Columns that are named are refused first if `spec` could not have been fitted to their types.
    """
    source = as_stream(data) if is_stream(data) else data
    if names is not None:
        design.require_readable(spec, typed := typed_batch(source), names)
        source = source if is_stream(data) or is_dask(data) else typed.frame
    if is_stream(data):
        return over_pieces(of_part, source, names)
    return over_partitions(of_part, source, names) if is_dask(data) else of_part(source)


def _predicted(
    fit: ModelRecord, kind: str, cut: float, in_parts: bool, data: Any
) -> pd.Series[Any]:
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
    if not usable.all():
        return classes.astype(object).where(usable, np.nan)
    # all partitions have the same type: another one may have an unusable row, which has no class
    return classes.astype(object) if in_parts else classes


def predict_interval(
    fit: FitRecord, data: Any, type: Any, threshold: Any, interval: Any, mode: Any, target: Any
) -> pd.DataFrame:
    """An interval for each row of `data`; see `Fit.predict`."""
    if (type is not None and _kind(type, fit) == "classes") or threshold is not None:
        raise ArgumentError(
            f"interval={show(interval)}: a class has no interval; leave out type and threshold to "
            f"see one of each {scale_of(fit.loss).name}."
        )
    takes = "None, or a level of confidence from 0.5 to 0.9999, such as 0.95"
    level = require_number(ArgumentError, "interval", interval, takes, at_least=0.5, at_most=0.9999)
    asked = views.question.Question(level, mode, target)
    errors = views.prediction_errors.row_errors(fit.release, asked)
    return over_parts(partial(_intervals, fit, errors), fit, data)


def _intervals(fit: FitRecord, errors: Any, data: Any) -> pd.DataFrame:
    batch, scale, estimate = as_batch(data), scale_of(fit.loss), errors.estimate

    def of_rows(rows: FloatArray, offset: FloatArray) -> tuple[FloatArray, ...]:
        link = linear_predictor(rows, estimate) + offset
        return link, errors.sd(rows), errors.half_width(rows)

    with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
        at_once = min(_FOR_ERRORS, _ENTRIES // len(estimate))
        (link, sd, half), _ = of_pieces(fit, batch, of_rows, at_once)
        ends = {"": link, "_lower": link - half, "_upper": link + half}
        columns = {f"{scale.name}{end}": score(fit.loss, values) for end, values in ends.items()}
    columns |= {f"{scale.linear}{end}": values for end, values in ends.items()}
    table = pd.DataFrame(columns | {"std_error": sd}, index=batch.index)
    table.attrs |= {"mode": errors.mode, "target": errors.target}
    return table


def linear_predictors(fit: ModelRecord, data: Any) -> FloatArray:
    """Linear predictors ``(n,)`` of records in memory, NaN if a row is not usable."""
    return _link(fit, data)[0]


def _link(fit: ModelRecord, data: Any) -> tuple[FloatArray, BoolArray, pd.Index[Any]]:
    """Linear predictors ``(n,)``, NaN if a row is not usable; the usable rows; the row names."""
    with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
        if not fit.spec.has_names:
            matrix = design.as_matrix(fit.spec, data)
            link, known = fit.kind.link_of_matrix(fit, matrix, np.ones(matrix.shape[0]))
            return np.where(known, link, np.nan), known, pd.RangeIndex(len(link))
        batch = as_batch(data)
        if fit.spec.projection is None and design.worth_sparse(fit.spec):
            names = fit.spec.formula.covariates
            covariates, usable, values = design.read_sparse_covariates(fit.spec, batch, names)
            offset, defined = design.read_offset(fit.spec.offsets, values, len(batch))
            labels = (usable & defined).astype(np.float64)
            link, known = fit.kind.link_of_matrix(fit, covariates, labels)
            return np.where(known, link + offset, np.nan), known, batch.index
        coef = fit.release.coef

        def of_rows(rows: FloatArray, offset: FloatArray) -> tuple[FloatArray]:
            return (linear_predictor(rows, coef) + offset,)

        (link,), usable = of_pieces(fit, batch, of_rows)
        return link, usable, batch.index


def of_pieces(
    fit: ModelRecord,
    batch: Batch,
    of_rows: Callable[[FloatArray, FloatArray], tuple[FloatArray, ...]],
    least: int = 1,
) -> tuple[list[FloatArray], BoolArray]:
    """The numbers that `of_rows` computes of each row, NaN if it is not usable; and usable rows.

    Rows are read in pieces of `least` rows or more, because a design of all rows may be larger
    than the frame. `of_rows` treats each row independently of the others.
    """
    n, spec = len(batch), fit.spec
    size = max(piece_rows(n, max(spec.p, spec.d)), least)

    def piece(start: int) -> tuple[tuple[FloatArray, ...], BoolArray]:
        rows, usable, offset = design_rows(fit, batch.cut(slice(start, start + size)))
        return tuple(np.where(usable, found, np.nan) for found in of_rows(rows, offset)), usable

    found, usable = zip(*in_order(piece, range(0, max(n, 1), size)), strict=True)
    return [np.concatenate(parts) for parts in zip(*found, strict=True)], np.concatenate(usable)


def link_of_bounded_rows(
    fit: NoisyRecord, matrix: Any, labels: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Linear predictors of sparse rows, whose length is bounded as in the fit; the usable rows."""
    rows = SparseRows(matrix, labels, **fit.spec.limits)
    return np.asarray(rows.x @ fit.release.coef) * np.abs(rows.y), rows.y != 0


def design_rows(fit: ModelRecord, batch: Batch) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Design rows ``(n, d)`` of a batch, whether each of them is usable, and offsets ``(n,)``."""
    spec = fit.spec
    covariates, usable, values = design.read_covariates(spec, batch, spec.formula.covariates)
    offset, defined = design.read_offset(spec.offsets, values, len(batch))
    return fit.bounded(covariates), usable & defined, offset


def _kind(type: Any, fit: ModelRecord) -> str:
    """Read the argument ``type`` as one of this package's names; raises `ArgumentError`."""
    loss, scale = fit.loss, scale_of(fit.loss)
    why = f"; R's names of them are {', '.join(map(repr, scale.aliases))}"
    if loss.probability is None and type in ("probabilities", "prob"):
        why = f"; a {loss.title} has no probabilities, and dplr fits a model that has"
    elif loss.probability is None and type == "link":
        why = "; margins are the linear predictor"
    return read_type(type, scale.predictions, scale.aliases, why)


def read_type(
    type: Any, predictions: Sequence[str], aliases: Mapping[str, str], why: str = ""
) -> str:
    """Read a type of prediction, the first by default; raises `ArgumentError`."""
    known = aliases.get(type, type) if isinstance(type, str) else type
    if known is not None and known not in predictions:
        require_choice(ArgumentError, "type", type, tuple(predictions), why, aliases)
    return predictions[0] if known is None else str(known)
