"""Combinations of coefficients, put to the test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from privatelr.inference import Question, joint_test
from privatelr.results.equations import read_hypotheses, vocabulary_of
from privatelr.results.fit_record import FitRecord
from privatelr.results.fit_tables import infer_rows

_SHOWN = 10
"""How many equations a sentence lists."""


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
        more = len(self.equations) - _SHOWN
        asked = ", ".join(self.equations[:_SHOWN])
        asked += f" and {more} more" if more > 0 else ""
        degrees = "1 degree" if self.df == 1 else f"{self.df} degrees"
        chance = f"p-value {self.p_value:.4g}" if self.p_value >= 1e-4 else "p-value below 0.0001"
        bounded = self.mode == "conservative" or self.target == "unpenalised"
        how = f", {self.df} times the smallest of the single equations"  # not of the statistic
        return (
            f"Wald test of {asked}: statistic {self.statistic:.4g} on "
            f"{degrees} of freedom, {chance}{how if bounded and self.df > 1 else ''} ({self.mode} "
            f"mode, {self.target} coefficients)"
        )

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
