"""A plot of what a variable adds to the linear predictor, such as a spline, with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr import inference
from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, or_meant, require_number, show
from privatelr.formula import parse_expression, tokenize
from privatelr.inference import Question
from privatelr.lazy_import import axes_for
from privatelr.results.predict import design_rows
from privatelr.sources import as_batch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.results.fit_record import FitRecord
    from privatelr.types import FloatArray

_POINTS = 201
_COLOUR = "#2f6fab"


@suggests_arguments
def plot_term(fit: FitRecord, term: str, *, level: float = 0.95, ax: Any = None) -> Axes:
    """Draw what a variable adds to the linear predictor, beside what the middle of its bounds adds.

    Parameters
    ----------
    fit : FitRecord
    term : str
        A numeric variable, or a term that reads it, such as ``"bs(age)"``. Everything that it
        enters is added up, with other variables at the middle of their bounds or at their first
        level.
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
        If the term reads no numeric variable of the model with declared bounds.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    **Privacy.** *Covered*: the plot, which is a function of the release and of declarations.
    *Neighbours*, *Assumed public*: those of the release. *Not covered*: nothing.
    """
    takes = "a level of confidence from 0.5 to 0.9999"
    level = require_number(ArgumentError, "level", level, takes, at_least=0.5, at_most=0.9999)
    name = _variable_of(fit, term)
    low, high = fit.spec.variables[name].bounds
    values = np.linspace(low, high, _POINTS)
    contrasts = _contrasts(fit, name, values)
    axes = axes_for("plot_term", (6.4, 4.2), ax)
    unit = "log odds" if fit.loss.probability is not None else "margin"
    if fit.release.moments is None:
        axes.plot(values, contrasts @ fit.release.coef, color=_COLOUR)
        axes.set_title("estimates alone; spend='inference' adds a band", fontsize=9)
    else:
        found = inference.infer(fit.release, contrasts, Question(level=level))
        axes.plot(values, found.estimate, color=_COLOUR)
        axes.fill_between(values, found.lower, found.upper, color=_COLOUR, alpha=0.25, lw=0)
        axes.set_title(f"{level:.3g} band for each value by itself", fontsize=9)
    axes.axhline(0.0, color="0.6", lw=0.8)
    axes.set_xlabel(name)
    axes.set_ylabel(f"{unit}, beside {name} = {(low + high) / 2:g}")
    return axes


def _variable_of(fit: FitRecord, term: str) -> str:
    known = [
        variable.name
        for name in fit.spec.formula.regressors
        if (variable := fit.spec.variables[name]).kind == "numeric" and variable.is_bounded
    ]
    if not isinstance(term, str) or not term.strip():
        raise ArgumentError(f"term={show(term)}: term takes the name of a variable or of a term.")
    read = (term,) if term in known else parse_expression(tokenize(term)).names
    if len(read) != 1 or read[0] not in known:
        listed = ", ".join(map(repr, known)) or "none here"
        raise ArgumentError(
            f"term={show(term)}: term takes one numeric variable with declared bounds, which are "
            f"{listed}{or_meant(term, known)}"
        )
    return str(read[0])


def _contrasts(fit: FitRecord, name: str, values: FloatArray) -> FloatArray:
    """Design rows ``(m, d)`` at values of a variable, less the row at the middle of its bounds."""
    columns: dict[str, Any] = {}
    for other in fit.spec.formula.covariates:
        variable, count = fit.spec.variables[other], len(values) + 1
        if other == name:
            columns[other] = np.append(values, sum(variable.bounds) / 2)
        elif variable.levels:
            columns[other] = pd.Series([variable.levels[0]] * count, dtype=object)
        else:
            middle = sum(variable.bounds) / 2 if variable.is_bounded else 0.0
            columns[other] = np.full(count, middle)
    rows = design_rows(fit, as_batch(pd.DataFrame(columns)))[0]
    return np.asarray(rows[:-1] - rows[-1])
