"""Standard errors, intervals and tests of the coefficients of a fit, in the user's units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.design import DesignSpec
from privatelr.errors import ArgumentError, require_choice, require_number, show
from privatelr.inference import (
    METHODS,
    STANDARD_LEVEL,
    Inference,
    InferenceChoices,
    bootstrap_intervals,
    covariance,
    infer,
    read_choices,
    read_level,
    read_target,
)
from privatelr.mechanisms import Release
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.results.fit_record import FitRecord


BOOTSTRAP = "bootstrap"


@dataclass(frozen=True, slots=True)
class Question:
    """How to infer, as it was asked, and only the target checked yet; see `InferredFit`."""

    level: Any = STANDARD_LEVEL
    mode: Any = None
    target: Any = "penalised"
    method: Any = "sandwich"
    simultaneous: Any = False
    covariates: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", read_target(self.target))


_USUAL = Question()


def infer_coefficients(fit: FitRecord, question: Question = _USUAL) -> Inference:
    """What inference says of every coefficient in the user's units; it is remembered."""
    if question.method == BOOTSTRAP:
        return infer_rows(fit, fit.spec.user_rows(), question)
    return _inferred(fit.release, fit.spec, *_checked(fit, question))


def infer_rows(
    fit: FitRecord, rows: FloatArray, question: Question, null: FloatArray | None = None
) -> Inference:
    """What inference says of combinations ``(m, d)`` of the design coefficients."""
    if question.method == BOOTSTRAP:
        _require_plain(question)
        return bootstrap_intervals(
            fit.release,
            fit.spec,
            rows,
            question.covariates,
            null=null,
            level=question.level,
            target=question.target,
        )
    choices, level, together = _checked(fit, question)
    return _infer(fit.release, rows, choices, level, together, null)


def _checked(fit: FitRecord, question: Question) -> tuple[InferenceChoices, float, bool]:
    if question.method not in METHODS:
        require_choice(ArgumentError, "method", question.method, (*METHODS, BOOTSTRAP))
    if question.covariates is not None:
        raise ArgumentError(
            f"covariates: method={show(question.method)} looks at no covariates; they are what "
            f"method={BOOTSTRAP!r} simulates records from."
        )
    choices = read_choices(fit.release, question.mode, question.target, question.method)
    return choices, read_level(question.level), read_simultaneous(question.simultaneous)


def _require_plain(question: Question) -> None:
    """Refuse what simulation has no answer to."""
    if question.mode is not None:
        raise ArgumentError(
            f"mode={show(question.mode)}: method={BOOTSTRAP!r} takes mode=None, since it reads no "
            "information matrix that a mode would be about."
        )
    if read_simultaneous(question.simultaneous):
        raise ArgumentError(
            f"simultaneous=True: method={BOOTSTRAP!r} gives each interval by itself; take "
            "method='sandwich'."
        )


@lru_cache(maxsize=32)
def _inferred(
    release: Release, spec: DesignSpec, choices: InferenceChoices, level: float, simultaneous: bool
) -> Inference:
    return _infer(release, spec.user_rows(), choices, level, simultaneous, None)


def _infer(
    release: Release,
    rows: FloatArray,
    choices: InferenceChoices,
    level: float,
    simultaneous: bool,
    null: FloatArray | None,
) -> Inference:
    return infer(
        release,
        rows,
        null=null,
        level=level,
        mode=choices.mode,
        target=choices.target,
        method=choices.method,
        simultaneous=simultaneous,
    )


def read_simultaneous(simultaneous: Any) -> bool:
    """Whether intervals are to hold together; raises `ArgumentError`."""
    if not isinstance(simultaneous, bool | np.bool_):
        raise ArgumentError(
            f"simultaneous={show(simultaneous)}: simultaneous takes True (the intervals hold "
            "together) or False (each holds by itself)."
        )
    return bool(simultaneous)


def level_of(alpha: Any) -> float:
    """The level of confidence that leaves out `alpha`; raises `ArgumentError`."""
    takes = "a number from 0.0001 to 0.5, such as 0.05 for intervals at 95%"
    share = require_number(ArgumentError, "alpha", alpha, takes, at_least=1e-4, at_most=0.5)
    return read_level(min(1 - share, 0.9999))


def interval_frame(fit: FitRecord, found: Inference, columns: tuple[Any, Any]) -> pd.DataFrame:
    """Lower and upper limits, one row per coefficient."""
    limits = np.column_stack([found.lower, found.upper])
    return pd.DataFrame(limits, index=list(fit.spec.columns.names), columns=list(columns))


def rows_of(table: pd.DataFrame, argument: str, asked: Any) -> pd.DataFrame:
    """Rows by name or position, one of them or several; all for None."""
    if asked is None:
        return table
    several = list(asked) if isinstance(asked, list | tuple | np.ndarray | pd.Index) else [asked]
    known = list(table.index)
    places = []
    for item in several:
        if isinstance(item, str) and item in known:
            places.append(known.index(item))
        elif type(item) is int and -len(known) <= item < len(known):
            places.append(item)
        else:
            raise ArgumentError(
                f"{argument}: {show(item)} is no coefficient; {argument} takes names or positions "
                f"of {', '.join(map(repr, known))}."
            )
    return table.iloc[places]


def percentages(level: float) -> tuple[str, str]:
    """The ends of an interval, as R calls them: ``2.5 %`` and ``97.5 %``."""
    miss = 50 * (1 - level)
    return f"{miss:.6g} %", f"{100 - miss:.6g} %"


def covariance_frame(fit: FitRecord, *, mode: Any, target: Any) -> pd.DataFrame:
    """Covariance of the coefficients in the user's units; see `Fit.vcov`."""
    units = fit.spec.user_rows()
    choices = read_choices(fit.release, mode, target, "sandwich")
    averaged = "posterior" if choices.mode == "conservative" else choices.mode
    found = units @ covariance(fit.release, mode=averaged, target=target) @ units.T
    if choices.mode == "conservative":
        found = _with_deviations(found, infer_coefficients(fit, Question(mode=choices.mode)).sd)
    names = list(fit.spec.columns.names)
    return pd.DataFrame(found, index=names, columns=names)


def _with_deviations(matrix: FloatArray, sd: FloatArray) -> FloatArray:
    """The same correlations under other standard deviations."""
    with np.errstate(all="ignore"):
        ratio = sd / np.sqrt(np.diag(matrix))
    return np.asarray(matrix * np.outer(ratio, ratio))
