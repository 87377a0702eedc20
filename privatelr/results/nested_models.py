"""Tests of nested models, and the table that has one for each term of the formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from privatelr import inference
from privatelr.design import INTERCEPT
from privatelr.errors import ArgumentError, require_choice
from privatelr.inference import Question
from privatelr.results.equations import read_hypotheses, vocabulary_of
from privatelr.results.fit_record import FitRecord
from privatelr.results.fit_tables import EquationTest, rows_of

_DEVIANCE = (
    "quadratic approximation of the deviance difference at the released curvature, not a "
    "likelihood ratio: the likelihood is not released"
)
_PENALISED = (
    "quadratic approximation, at the released curvature, of twice the rise of the summed loss with "
    "its penalty, not a likelihood ratio: the likelihood is not released"
)
_LOSS = (
    "quadratic approximation, at the released curvature, of twice the rise of the summed loss, "
    "which is no likelihood"
)
_ROWS = "each term given all others, with interactions that it is part of (type III)"
_LAW = "from the law of the statistic under sampling error and noise, which is no chi-square"
_CRITICAL = "the statistic beyond which p_value is below .05, by the same law"
_BOUNDED = "df times the smallest of the single coefficients, at most 1"
_POWER = (
    "where the noise is large beside the information on a level or a term, test='wald' finds more "
    "of what there is: it counts each coefficient by its whole error"
)
_WALD = "Wald's quadratic form, by the errors of sampling and noise"
_TESTS = ("deviance", "wald")


@dataclass(frozen=True, slots=True, repr=False)
class DevianceTest(EquationTest):
    """A test of a model against a smaller one, in which equations about the coefficients hold.

    Attributes
    ----------
    equations : tuple of str
    statistic : float
        A quadratic approximation of the deviance difference at the released curvature. It is not a
        likelihood ratio, since the likelihood is not released.
    df : int
        The number of equations.
    p_value : float
        It is computed from the law of the statistic under sampling error and noise, which is not a
        chi-square. If it is simulated it is at least 5e-5. NaN where the default target has no
        tests; see `Fit`.
    critical : float
        The statistic beyond which the p-value is below .05; NaN where there is none.
    mode, target : str
        The mode and the target of the test, as in `Fit`. For the penalised target the deviance
        counts the penalty.
    """

    title: ClassVar[str] = "Approximate deviance test"


def deviance_test(fit: FitRecord, hypotheses: Any, *, mode: Any, target: Any) -> DevianceTest:
    """Test equations together; see `Fit.deviance_test`."""
    asked = read_hypotheses(hypotheses, vocabulary_of(fit.spec.columns))
    rows = asked.contrasts @ rows_of(fit, Question(mode=mode, target=target))
    found = inference.deviance_test(fit.release, rows, asked.values, mode=mode, target=target)
    return DevianceTest.of(asked, found)


def anova(fit: FitRecord, *, test: Any, mode: Any, target: Any) -> pd.DataFrame:
    """Test each term given all others; see `Fit.anova`."""
    inference.require_moments(fit.release)
    require_choice(ArgumentError, "test", test, _TESTS)
    question = Question(mode=mode, target=target)
    rows = rows_of(fit, question)
    equations = inference.Equations(fit.release, rows, np.zeros(len(rows)), question)
    found = {label: equations.tested(at, test) for label, at in terms_of(fit).items()}
    numbers = {"df": int, "statistic": float, "critical_5%": float, "p_value": float}
    table = pd.DataFrame(
        [[one.df, one.statistic, one.critical, one.p_value] for one in found.values()],
        index=pd.Index(list(found), name="term"),
        columns=list(numbers),
    ).astype(numbers)
    known = next(iter(found.values()), None)
    if known is not None:
        likely = _DEVIANCE if known.target == "unpenalised" else _PENALISED
        likely = likely if fit.loss.probability is not None else _LOSS
        table.attrs |= {
            "title": "Approximate analysis of deviance" if test == "deviance" else "Wald tests",
            "statistic": likely if test == "deviance" else _WALD,
            "critical_5%": _CRITICAL,
            "p_value": _BOUNDED if known.mode == "conservative" else _LAW,
            "rows": _ROWS,
            **({"power": _POWER} if test == "deviance" else {}),
            "mode": known.mode,
            "target": known.target,
        }
    return table


def terms_of(fit: FitRecord) -> dict[str, list[int]]:
    """The positions of the coefficients of each term, without the intercept."""
    columns = fit.spec.columns
    if fit.spec.has_names:
        kept = (term for term in columns.terms if term.columns and term.label != INTERCEPT)
        return {term.label: list(term.columns) for term in kept}
    return {name: [place] for place, name in enumerate(columns.names) if place > 0}
