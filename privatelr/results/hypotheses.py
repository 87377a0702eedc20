"""Combinations of coefficients that a user writes down: read, and put to the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from privatelr.errors import ArgumentError, show
from privatelr.inference import Question, joint_test
from privatelr.results.equations import (
    ARGUMENT,
    Equation,
    Vocabulary,
    listed,
    read_equations,
    vocabulary_of,
)
from privatelr.results.fit_record import FitRecord
from privatelr.results.fit_tables import infer_rows
from privatelr.types import FloatArray

_LONGEST = 60


@dataclass(frozen=True, slots=True, eq=False)
class Hypotheses:
    """Combinations of the coefficients and the values that they are tested for.

    Attributes
    ----------
    labels : tuple of str
        As they were written.
    contrasts : ndarray of shape (q, p + 1)
        In the user's units, over the coefficients in order.
    values : ndarray of shape (q,)
    """

    labels: tuple[str, ...]
    contrasts: FloatArray
    values: FloatArray


def read_hypotheses(asked: Any, known: Vocabulary) -> Hypotheses:
    """Read equations, or a matrix, about the coefficients of a design.

    Parameters
    ----------
    asked
        Text, with commas between equations, or a list of texts; in it a term by itself stands
        for all its coefficients; a mapping from an equation's left
        side to its value, or from a label to a combination; a matrix ``(q, p + 1)``, or one with
        its values ``(q,)``.

    Raises
    ------
    ArgumentError
        One sentence that says how the names are written.
    """
    names = known.names
    if isinstance(asked, str):
        return _joined(asked, read_equations(asked, known))
    if isinstance(asked, Mapping):
        return _joined(asked, [found for item in asked.items() for found in _item(item, known)])
    if isinstance(asked, Sequence) and all(isinstance(text, str) for text in asked):
        return _joined(asked, [found for text in asked for found in read_equations(text, known)])
    if asked is None:
        return _joined(asked, [])
    if isinstance(asked, tuple) and len(asked) == 2 and _depth(asked[0]) > _depth(asked[1]):
        return _matrix(asked[0], asked[1], names)
    return _matrix(asked, 0.0, names)


def _depth(value: Any) -> int:
    """How many axes an array of it would have; 3 for what is none."""
    try:
        return np.ndim(value)
    except ValueError:
        return 3


def _joined(asked: Any, equations: list[Equation]) -> Hypotheses:
    if not equations:
        raise ArgumentError(
            f"{ARGUMENT}={show(asked)}: {ARGUMENT} takes equations such as 'age = 0, dose = 0', "
            "or a matrix with a column for each coefficient."
        )
    for label, contrast, _ in equations:
        if not contrast.any():
            raise ArgumentError(f"{ARGUMENT}: {show(label)} is about no coefficient.")
    labels, contrasts, values = zip(*equations, strict=True)
    return Hypotheses(labels, np.array(contrasts), np.array(values))


def _item(item: tuple[Any, Any], known: Vocabulary) -> list[Equation]:
    """One item of a mapping: an equation's left side and its value, or a label and its meaning."""
    key, value = item
    if not isinstance(key, str):
        raise ArgumentError(f"{ARGUMENT}: the key {show(key)} takes a text.")
    if isinstance(value, str):
        equations = read_equations(value, known)
        if len(equations) != 1:
            raise ArgumentError(f"{ARGUMENT}: {show(key)} takes one equation, not {show(value)}.")
        return [(key, *equations[0][1:])]
    if np.ndim(value) == 0:
        number = _numbers(value, (), f"the value of {show(key)}")
        equations = read_equations(key, known)
        labels = [key] if len(equations) == 1 else [label for label, _, _ in equations]
        return [
            (f"{label} = {value}", a, v + float(number))
            for label, (_, a, v) in zip(labels, equations, strict=True)
        ]
    row = _numbers(value, (len(known.names),), show(key))
    return [(key, row, 0.0)]


def _matrix(matrix: Any, values: Any, names: Sequence[str]) -> Hypotheses:
    size = len(names)
    if isinstance(matrix, int | float):
        raise ArgumentError(
            f"{ARGUMENT}={show(matrix)}: {ARGUMENT} takes a text such as 'age = 0, dose = 0', a "
            "mapping, or a matrix with a column for each coefficient."
        )
    rows = np.atleast_2d(_numbers(matrix, None, "the matrix"))
    if rows.ndim != 2 or rows.shape[1] != size:
        raise ArgumentError(
            f"{ARGUMENT}: a matrix of shape {np.shape(matrix)} takes {size} columns, one for each "
            f"of {listed(names)}."
        )
    given = _numbers(values, None, "the values")
    if given.shape not in ((), (len(rows),)):
        raise ArgumentError(
            f"{ARGUMENT}: values of shape {given.shape} take one number for each of the "
            f"{len(rows)} rows of the matrix."
        )
    numbers = np.broadcast_to(given, len(rows))
    labels = [_spelled(row, index, names) for index, row in enumerate(rows)]
    return _joined(matrix, list(zip(labels, rows, map(float, numbers), strict=True)))


def _numbers(value: Any, shape: tuple[int, ...] | None, what: str) -> FloatArray:
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if not np.isfinite(found).all() or (shape is not None and found.shape != shape):
        wanted = "finite numbers" if shape is None or shape == () else f"{shape[0]} finite numbers"
        raise ArgumentError(f"{ARGUMENT}: {what} takes {wanted}, not {show(value)}.")
    return found


def _spelled(row: FloatArray, index: int, names: Sequence[str]) -> str:
    """A row of a matrix in words, or by its number where the words are many."""
    terms = [
        name if weight == 1 else f"{weight:g}*{name}"
        for name, weight in zip(names, row, strict=True)
        if weight != 0
    ]
    text = " + ".join(terms).replace("+ -", "- ")
    return text if len(text) <= _LONGEST else f"row {index + 1}"


_SHOWN = 10


@dataclass(frozen=True, slots=True, repr=False)
class WaldTest:
    """A test of one equation about the coefficients, or of several together.

    Attributes
    ----------
    equations : tuple of str
    statistic : float
        Wald's quadratic form in the released estimates.
    df : int
        How many equations.
    p_value : float
        From the law of the statistic under sampling error and noise, not from a chi-square.
    mode, target : str
        How it was made, and what it is about.
    """

    equations: tuple[str, ...]
    statistic: float
    df: int
    p_value: float
    mode: str
    target: str

    @property
    def pvalue(self) -> float:
        """The same as `p_value`, by statsmodels' name."""
        return self.p_value

    def __str__(self) -> str:
        degrees = "1 degree" if self.df == 1 else f"{self.df} degrees"
        chance = f"p-value {self.p_value:.4g}" if self.p_value >= 1e-4 else "p-value below 0.0001"
        return (
            f"Wald test of {self._asked}: statistic {self.statistic:.4g} on "
            f"{degrees} of freedom, {chance}{self._how} ({self.mode} mode, "
            f"{self.target} coefficients)"
        )

    @property
    def _asked(self) -> str:
        """The equations, or the first of them where they are many."""
        more = len(self.equations) - _SHOWN
        ending = f" and {more} more" if more > 0 else ""
        return ", ".join(self.equations[:_SHOWN]) + ending

    @property
    def _how(self) -> str:
        """Where the p-value is not that of the statistic."""
        bounded = self.mode == "conservative" or self.target == "unpenalised"
        if self.df == 1 or not bounded:
            return ""
        return f", {self.df} times the smallest of the single equations"

    def __repr__(self) -> str:
        return str(self)


def wald_test(fit: FitRecord, hypotheses: Any, *, mode: Any, target: Any) -> WaldTest:
    """Test equations together; see `Fit.wald_test`."""
    asked = read_hypotheses(hypotheses, vocabulary_of(fit.spec.columns))
    rows = asked.contrasts @ fit.spec.user_rows()
    found = joint_test(fit.release, rows, asked.values, mode=mode, target=target)
    equations = tuple(
        label if "=" in label else f"{label} = {value:g}"
        for label, value in zip(asked.labels, asked.values, strict=True)
    )
    return WaldTest(equations, found.statistic, found.df, found.p_value, found.mode, found.target)


def contrasts(fit: FitRecord, hypotheses: Any, question: Question) -> pd.DataFrame:
    """Estimates, errors, tests and intervals of combinations; see `Fit.contrasts`."""
    asked = read_hypotheses(hypotheses, vocabulary_of(fit.spec.columns))
    found = infer_rows(fit, asked.contrasts @ fit.spec.user_rows(), question, asked.values)
    return pd.DataFrame(
        {
            "estimate": found.estimate,
            "null_value": found.null,
            "std_error": found.sd,
            "sampling_sd": found.sampling_sd,
            "privacy_sd": found.privacy_sd,
            "statistic": found.z,
            "p_value": found.p_value,
            "conf_low": found.lower,
            "conf_high": found.upper,
        },
        index=list(asked.labels),
    )
