"""A plot of what a variable adds to the linear predictor, such as a spline, with its band."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from privatelr import inference
from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, listed, or_meant, require_number, show
from privatelr.formula import tokenize
from privatelr.inference.question import Question
from privatelr.plot_style import add_legend, axes_for, literal, series_of
from privatelr.results.fit_record import NoisyRecord
from privatelr.results.multinomial_fit import by_class
from privatelr.results.predict import design_rows
from privatelr.sources import as_batch
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.design.variables import Variable

_POINTS = 201
_MOST_LINES = 10
"""Most lines of one fit, which a legend can tell apart."""


@suggests_arguments
def plot_term(
    fits: Mapping[str, NoisyRecord],
    term: str,
    *,
    at: Mapping[str, Any] | None = None,
    level: float = 0.95,
    ax: Any = None,
) -> Axes:
    """Draw what a variable adds to the linear predictor, beside what the middle of its bounds adds.

    Parameters
    ----------
    fits : mapping from label to NoisyRecord
        There is a line for each stratum, or for each class beside the reference.
    term : str
        A numeric variable, or a term that reads it, such as ``"bs(age)"``. Everything that it
        enters is added up, with other variables at the middle of their bounds or at their first
        level. If it enters an interaction with levels, as in ``"bs(age):sex"``, there is a line for
        each of them.
    at : mapping, optional
        Other variables with the level or the number that they are held at.
    level : float
        Level of confidence of the band, which is for each value by itself.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        With a band if inference was bought, and otherwise with the line of the estimates alone.

    Raises
    ------
    ArgumentError
        If the term reads no numeric variable of the model with declared bounds, if `at` holds
        what the model does not have, or if there would be too many lines.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    **Privacy.** *Covered*: the plot, which is a function of the release and of declarations.
    *Neighbours*, *Assumed public*: those of the release. *Not covered*: nothing.
    """
    question = Question(level, target=None)
    first = next(iter(fits.values()))
    name = _variable_of(first, term, () if at is None else at)
    low, high = first.spec.variables[name].bounds
    values = np.linspace(low, high, _POINTS)
    places = _places(first, name, {} if at is None else at)
    curves = [
        curve
        for label, one in fits.items()
        for place, held in places.items()
        for curve in _curves(label, place, one, _contrasts(one, name, values, held), question)
    ]
    axes = axes_for("plot_term", (6.4, 4.2), ax)
    lines = list[Any]()
    for curve, colour in zip(curves, itertools.cycle(series_of(axes))):
        lines += axes.plot(values, curve.estimate, color=colour, label=literal(curve.label))
        if curve.band is not None:
            axes.fill_between(values, *curve.band, color=colour, alpha=0.25, lw=0)
    if len(curves) > 1:
        add_legend(axes, lines)
    classes, title = first.spec.response.classes, "estimates alone"
    against = f" against {literal(classes[0])}" if len(classes) > 2 else ""
    if first.has_inference:
        title = "shrunk estimates alone; the release has no band of others"
    elif len(classes) == 2 and first.loss.probability is not None:
        title += "; spend='inference' adds a band"
    if curves[0].band is not None:
        title = f"{100 * question.level:g}% band for each value by itself"
    axes.set_title(title, fontsize=9)
    axes.axhline(0.0, color="0.6", lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(literal(name))
    unit = "log odds" if first.loss.probability is not None else "margin"
    axes.set_ylabel(f"{unit}{against},\nbeside {literal(name)} = {(low + high) / 2:g}")
    return axes


class _Curve(NamedTuple):
    """A line with its label, and its band if there is one."""

    label: str
    estimate: FloatArray
    band: tuple[FloatArray, FloatArray] | None = None


def _curves(
    label: str, place: str, fit: NoisyRecord, contrasts: FloatArray, question: Question
) -> Iterator[_Curve]:
    classes = fit.spec.response.classes
    if len(classes) > 2:
        reference, *others = by_class(fit)
        for of, vector in zip(classes[1:], others, strict=True):
            yield _Curve(_joined(str(of), place), contrasts @ (vector - reference))
    elif not fit.has_inference:
        yield _Curve(_joined(label, place), contrasts @ fit.release.coef)
    else:
        asked = inference.answerable(fit.release, question)
        found = inference.infer(fit.release, contrasts, asked)
        band = None if asked.withheld else (found.lower, found.upper)
        yield _Curve(_joined(label, place), found.estimate, band)


def _joined(label: str, place: str) -> str:
    return ", ".join(filter(None, (label, place)))


def _variable_of(fit: NoisyRecord, term: Any, held: Collection[str]) -> str:
    """The one numeric variable that a term names and that is held at no value."""
    known = [
        variable.name
        for name in fit.spec.formula.regressors
        if (variable := fit.spec.variables[name]).kind == "numeric" and variable.is_bounded
    ]
    if term in known:
        return str(term)
    tokens = tokenize(term) if isinstance(term, str) else []
    free = {token.text for token in tokens if token.is_name} & {*known} - {*held}
    labels = [one.label for one in fit.spec.formula.factors if free <= {*one.names}]
    called = re.findall(r"(?:^|:)\s*([\w.]+)\s*\(", str(term))
    starts = ["I(" if name == "poly" else f"{name}(" for name in called]  # powers stand apart
    if len(free) != 1 or not all(any(x.startswith(y) for x in labels) for y in starts):
        there = ", ".join(map(repr, known)) or "none here"
        raise ArgumentError(
            f"term={show(term)}: term takes one numeric variable with declared bounds, or a term "
            "that reads it, with other variables held at a value by at; variables are "
            f"{there}{or_meant(term, known)}"
        )
    return free.pop()


def _places(fit: NoisyRecord, name: str, at: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Where other variables are held, by labels: where they are asked to be, and at each level.

    Levels are those of variables that stand in one term with this one, for which it adds another
    amount at each of them.
    """
    formula, variables = fit.spec.formula, fit.spec.variables
    if not isinstance(at, Mapping):
        raise ArgumentError(f"at={show(at)}: at takes a mapping, such as {{'sex': 'F'}}.")
    held = {key: _held(fit, key, value) for key, value in at.items() if key != name}
    if len(held) < len(at):
        raise ArgumentError(f"at: {name!r} is drawn, so it is held at no value.")
    together = [
        {other for index in term for other in formula.factors[index].names}
        for term in formula.terms
    ]
    joined = {other for names in together if name in names for other in names} - {name, *held}
    each = {
        other: _levels_of(variables[other])
        for other in formula.regressors
        if other in joined and _levels_of(variables[other])
    }
    if math.prod(map(len, each.values())) > _MOST_LINES:
        first = next(iter(each))
        raise ArgumentError(
            f"term: {name!r} has more than {_MOST_LINES} lines, one for each level of "
            f"{listed(each)}; hold some of them, as in at={{{first!r}: {each[first][0]!r}}}."
        )
    places = [dict(zip(each, levels, strict=True)) for levels in itertools.product(*each.values())]
    return {", ".join(f"{k} = {v}" for k, v in one.items()): {**held, **one} for one in places}


def _levels_of(variable: Variable) -> tuple[Any, ...]:
    return variable.levels or ((False, True) if variable.kind == "logical" else ())


def _held(fit: NoisyRecord, key: Any, value: Any) -> Any:
    """Check the value at which a variable is held: a level, or a number within its bounds."""
    known = fit.spec.formula.covariates
    if key not in known:
        raise ArgumentError(
            f"at: the model has no variable {show(key)}; it has {listed(known)}"
            f"{or_meant(key, known)}"
        )
    variable = fit.spec.variables[key]
    if levels := _levels_of(variable):
        if value not in levels:
            raise ArgumentError(f"at[{key!r}]={show(value)}: it takes one of {listed(levels)}.")
        return value
    low, high = variable.bounds if variable.is_bounded else (-math.inf, math.inf)
    takes = f"a number from {low:g} to {high:g}"
    return require_number(ArgumentError, f"at[{key!r}]", value, takes, at_least=low, at_most=high)


def _contrasts(
    fit: NoisyRecord, name: str, values: FloatArray, held: Mapping[str, Any]
) -> FloatArray:
    """Design rows ``(m, d)`` at values of a variable, less the row at the middle of its bounds."""
    columns: dict[str, Any] = {}
    for other in fit.spec.formula.covariates:
        variable, count = fit.spec.variables[other], len(values) + 1
        if other == name:
            columns[other] = np.append(values, sum(variable.bounds) / 2)
        elif levels := _levels_of(variable):
            columns[other] = pd.Series([held.get(other, levels[0])] * count, dtype=object)
        else:
            middle = sum(variable.bounds) / 2 if variable.is_bounded else 0.0
            columns[other] = np.full(count, held.get(other, middle))
    rows = design_rows(fit, as_batch(pd.DataFrame(columns)))[0]
    return np.asarray(rows[:-1] - rows[-1])
