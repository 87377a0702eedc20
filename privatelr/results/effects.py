"""Average marginal effects on the probability: over public rows, or over the training data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from privatelr import inference
from privatelr.arguments import suggests_arguments
from privatelr.design import Variable, read_variable, require_readable
from privatelr.errors import ArgumentError, FormulaError, or_meant, show
from privatelr.inference import Inference, Question
from privatelr.page_model import Table, as_html
from privatelr.results.fit_record import FitRecord
from privatelr.results.predict import design_rows
from privatelr.sources import Batch, as_batch, constant_column
from privatelr.types import FloatArray

_STEP = 1e-4
"""Half of the step of a numerical derivative is this share of the declared range."""
_LARGEST = 0.25
"""The largest value of ``p (1 - p)`` is this."""
_AVERAGED = {
    "reference": "Averaged over the rows of the reference frame, which are taken to be public.",
    "training data": (
        "Averaged over the training records: the mean of p (1 - p) was paid for together with the "
        "standard errors. A record that could not be used counts as zero."
    ),
}


def _four_digits(value: float) -> str:
    return "" if math.isnan(value) else f"{value:#.4g}".removesuffix(".")


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MarginalEffects:
    """Average marginal effects, with the rows over which they are averages.

    Attributes
    ----------
    table : DataFrame
        One row per effect: estimate, std_error, statistic, p_value, conf_low, conf_high.
    over : {"reference", "training data"}
    level : float
        Level of confidence.
    mode, target : str
        The mode and the target of estimates and intervals, as in `Fit`.

    Examples
    --------
    >>> from privatelr import average_marginal_effects, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> effects = average_marginal_effects(fit, votes)  # as if these were public
    >>> effects.table["estimate"].round(3).to_dict(), effects.over
    ({'selfLR': 0.185}, 'reference')
    """

    table: pd.DataFrame
    over: Literal["reference", "training data"]
    level: float
    mode: str
    target: str

    def __repr__(self) -> str:
        return f"{self.table.to_string(float_format=_four_digits, na_rep='')}\n{self._sentence}"

    def _repr_html_(self) -> str:
        cells = [tuple(map(_four_digits, row)) for row in self.table.to_numpy()]
        table = Table(tuple(map(str, self.table.index)), tuple(self.table.columns), tuple(cells))
        return as_html([table, self._sentence])

    @property
    def _sentence(self) -> str:
        how = f"{100 * self.level:g}%, {self.mode} mode, {self.target} coefficients"
        if self.table["conf_low"].isna().all():
            how = "none, because estimates are shrunk; target='penalised' asks for them"
        return f"{_AVERAGED[self.over]} Intervals: {how}."


@suggests_arguments
def average_marginal_effects(
    fit: Any,
    reference: Any = None,
    *,
    variables: Any = None,
    level: float = 0.95,
    mode: str | None = None,
    target: str | None = None,
) -> MarginalEffects:
    """Average effect of each variable on the probability of the positive class.

    Over a public reference frame, the effect of a numeric variable is the mean derivative of the
    predicted probability, and that of a factor is the mean change from its first level to another.
    Errors are those of the delta method, with the released covariance. Probabilities are those of
    the coefficients of `target`, as in `Fit.predict` with an interval.

    Without a reference, the effect is the mean of ``p (1 - p)`` over the training records, times
    the coefficient. That mean is an entry of the released information matrix. The standard error
    includes its noise, and an upper bound on its change with the coefficients: with their errors,
    and with the bias of the penalty. This works for numeric variables that enter the formula as
    they are, in one column.

    Parameters
    ----------
    fit : Fit
        A fit of `dplr` with inference.
    reference : DataFrame or mapping of columns, optional
        Public rows with the columns of the right-hand side.
    variables : str or list of str, optional
        By default all variables, or without a reference all that enter linearly.
    level : float
        Level of confidence.
    mode, target
        As in `Fit`; by default effects are of the coefficients that the tables of the fit show.

    Returns
    -------
    MarginalEffects
        It prints as a table and a sentence, and has ``table`` and ``over``.

    Raises
    ------
    GuaranteeError
        If inference was not requested, or the release cannot carry the target.
    ArgumentError
        If the fit has no probabilities, or if the requested effects need a reference.

    Notes
    -----
    **Privacy.** *Covered*: the effects, which are functions of the release and of `reference`.
    *Neighbours*: those of the release. *Assumed public*: `reference`. *Not covered*: a reference
    with private rows, such as the training data.

    Examples
    --------
    >>> from privatelr import average_marginal_effects, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=4.0, spend="inference", **public)
    >>> list(average_marginal_effects(fit, votes.head(50)).table.index)  # as if these were public
    ['age', 'selfLR']
    """
    if not isinstance(fit, FitRecord):
        raise ArgumentError(f"fit={show(fit)}: it takes a fit of dplr.")
    if fit.loss.probability is None:
        raise ArgumentError(
            f"average_marginal_effects: a {fit.loss.title} has no probabilities to have an effect "
            "on; dplr fits a model that has."
        )
    if not fit.spec.p:
        raise ArgumentError("average_marginal_effects: the formula has no term to have an effect.")
    inference.require_moments(fit.release)
    asked = inference.answerable(fit.release, Question(level, mode, target))
    if reference is None:
        return _over_training_data(fit, variables, asked)
    if isinstance(reference, str | int | float):
        raise ArgumentError(
            f"reference={show(reference)}: reference takes a public frame with the columns of the "
            "model, or None for the mean that was paid for."
        )
    return _over_reference(fit, as_batch(reference), variables, asked)


def _chosen(variables: Any, known: list[str]) -> list[str]:
    asked = [variables] if isinstance(variables, str) else list(variables)
    for name in asked:
        if name not in known:
            raise ArgumentError(
                f"variables: {show(name)} is not one of {', '.join(map(repr, known))}"
                f"{or_meant(name, known)}"
            )
    return asked


def _effects(
    names: list[str],
    effect: FloatArray,
    sd: FloatArray,
    found: Inference,
    over: Any,
    most: FloatArray | float = math.inf,
) -> MarginalEffects:
    """Effects of size `most` or less, with the law of those found but for errors `sd`."""
    with np.errstate(all="ignore"):
        below, above = (found.estimate - found.lower) / found.sd, found.upper - found.estimate
        columns = {
            "estimate": np.where(np.isnan(found.estimate), np.nan, effect),
            "std_error": found.if_normal(sd),
            "statistic": found.z,
            "p_value": found.p_value,
            "conf_low": np.maximum(effect - sd * np.nan_to_num(below), -most),
            "conf_high": np.minimum(effect + sd * np.nan_to_num(above / found.sd), most),
        }
    table = pd.DataFrame(columns, index=names)
    return MarginalEffects(table, over, found.level, found.mode, found.target)


# -- over a reference frame ------------------------------------------------------------------


def _over_reference(
    fit: FitRecord, batch: Batch, variables: Any, asked: Question
) -> MarginalEffects:
    require_readable(fit.spec, batch, fit.spec.formula.covariates)
    known, coef = list(fit.spec.formula.regressors), inference.estimates(fit.release, asked)
    changes = [
        (name, most, *_mean_change(fit, coef, above, below, step))
        for variable in (known if variables is None else _chosen(variables, known))
        for name, most, above, below, step in _changes(fit.spec.variables[variable], batch)
    ]
    names, most, effects, gradients = (list(part) for part in zip(*changes, strict=True))
    effect, rows = np.array(effects), np.array(gradients)
    found = inference.infer(fit.release, rows, asked, rows @ coef - effect)
    return _effects(names, effect, found.sd, found, "reference", np.array(most))


def _changes(
    variable: Variable, batch: Batch
) -> Iterator[tuple[str, float, Batch, Batch, FloatArray | float]]:
    """Yield the comparisons whose mean is an effect.

    Each is a name, the largest effect, two batches, and their distance.
    """
    name = variable.name
    if name not in batch.names:
        raise FormulaError(f"reference: the column {name!r} is missing.")
    if variable.kind == "numeric":
        values, valid = read_variable(variable, batch[name])
        number = np.where(valid, values.astype(np.float64), np.nan)
        low, high = variable.bounds
        step = _STEP * ((high - low) if variable.is_bounded else np.maximum(np.abs(number), 1.0))
        if variable.is_bounded:  # values beyond a bound would be clipped
            number = np.clip(number, low + step, high - step)
        above, below = (batch.assign({name: pd.Series(number + way * step)}) for way in (1, -1))
        yield name, math.inf, above, below, 2 * step
        return
    if not variable.levels:
        raise ArgumentError(
            f"variables: {name!r} has no declared levels to compare; fit with "
            f"levels={{{name!r}: [...]}}, or leave it out of variables."
        )

    def constant(level: Any) -> Batch:
        return batch.assign({name: constant_column(level, len(batch))})

    base, *others = variable.levels
    for other in others:
        yield f"{name}: {other} against {base}", 1.0, constant(other), constant(base), 1.0


def _mean_change(
    fit: FitRecord, coef: FloatArray, above: Batch, below: Batch, step: FloatArray | float
) -> tuple[float, FloatArray]:
    """Mean change of the probability per unit over usable rows, and its gradient ``(d,)``."""
    probability = fit.loss.probability
    assert probability is not None
    (high, usable, more), (low, _, less) = (design_rows(fit, batch) for batch in (above, below))
    p, q = (probability(rows @ coef + offset) for rows, offset in ((high, more), (low, less)))
    if not usable.any():
        raise ArgumentError("reference: it has no row that can be predicted.")
    per = usable / np.where(usable, step, 1.0) / usable.sum()
    gradient = (per * p * (1 - p)) @ high - (per * q * (1 - q)) @ low
    return float(per @ (p - q)), gradient


# -- over the training data ------------------------------------------------------------------


def _over_training_data(fit: FitRecord, variables: Any, asked: Question) -> MarginalEffects:
    spec = fit.spec
    linear = {name: _linear_column(fit, name) for name in spec.formula.regressors}
    names = [name for name, column in linear.items() if column is not None]
    changed = spec.bound_source != "declared bounds" or spec.projection is not None
    if spec.intercept is None or changed or not names:
        raise ArgumentError(
            "reference=None: the mean that was paid for gives effects of numeric variables with "
            "declared bounds that enter as they are, in a model with an intercept, without "
            "row_norm, projection and private scale, with which long records count less; pass a "
            "public frame as reference, or fit with do_scale=False."
        )
    person = spec.formula.person
    if spec.weight is not None or (person is not None and person.most > 1):
        raise ArgumentError(
            "reference=None: in the mean that was paid for records have weights, whose sum is not "
            "public; pass a public frame as reference."
        )
    if variables is not None:
        names = _chosen(variables, list(linear))
    for name in names:
        if linear[name] is None:
            raise ArgumentError(
                f"variables: the mean that the effect of {name!r} takes was not paid for, since it "
                "is a factor or enters through a function or several columns; pass a public frame "
                "as reference."
            )
    columns = [column for name in names if (column := linear[name]) is not None]
    found = inference.infer(fit.release, spec.user_rows()[columns], asked)
    mean, (sampled, noise) = mean_curvature(fit, asked)
    sd = np.hypot(mean * found.sd + np.abs(found.estimate) * sampled, found.estimate * noise)
    # the null is as many standard errors away as 0 is from the effect, so that p and interval agree
    with np.errstate(all="ignore"):
        null = found.estimate * (1 - mean * found.sd / sd)
    found = inference.infer(fit.release, spec.user_rows()[columns], asked, null)
    return _effects(names, mean * found.estimate, sd, found, "training data")


def _linear_column(fit: FitRecord, variable: str) -> int | None:
    """The column of a numeric variable that enters linearly in one column, or None."""
    parts = (*fit.spec.factors, *fit.spec.offsets)
    used = [factor for factor in parts if variable in factor.expression.names]
    if len(used) != 1 or used[0].is_categorical or used[0].expression.bare() != variable:
        return None
    if fit.spec.variables[variable].kind != "numeric":
        return None
    title = used[0].expression.title
    terms = [term for term in fit.spec.columns.terms if title in term.label.split(":")]
    return terms[0].columns[0] if len(terms) == 1 and terms[0].label == title else None


def mean_curvature(fit: FitRecord, asked: Question) -> tuple[float, tuple[float, float]]:
    """The mean m of ``q = p (1 - p)`` over the training records, and two parts of its error.

    The first part is due to the errors of the coefficients and to sampling. If v is the error of
    the released coefficients, m changes by the mean of ``q (1 - 2 p) x.v``. The square of that is
    at most ``m (1 - 4 m) v' H v``, where H is the mean of ``q x x'`` (by the inequalities of
    Cauchy-Schwarz and Jensen). Without the penalty, its bias is a part of v. The second part is due
    to the noise.
    """
    evidence, moments = inference.evidence_of(fit.release), inference.require_moments(fit.release)
    assert fit.spec.intercept is not None
    square, n = fit.spec.intercept**2, evidence.problem.n
    mean = min(max(float(moments.curvature[0, 0]) / square, 0.0), _LARGEST)
    if asked.withheld:
        return mean, (math.nan, math.nan)
    errors = inference.row_errors(fit.release, asked)
    h = inference.floored(moments.curvature, 0.0)
    if asked.mode == "conservative":
        # an upper bound on the eigenvalues of the noise, which fails with probability 3e-4
        h += evidence.curvature_sd * (math.sqrt(2 * len(h)) + 4) * np.eye(len(h))
    moved = min(float(np.linalg.eigvalsh(root.T @ h @ root)[-1]) for root in errors.roots)
    bias = errors.estimate - fit.release.coef
    spread = math.sqrt(max(moved, 0.0)) + math.sqrt(max(float(bias @ h @ bias), 0.0))
    spread *= math.sqrt(mean * (1 - 4 * mean))
    sampled = math.sqrt(mean * (_LARGEST - mean) / n)
    return mean, (spread + sampled, moments.calibration.entry_sd / square)
