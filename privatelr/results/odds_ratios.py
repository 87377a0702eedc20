"""Odds ratios: which models have them, of how many units they are, and how they are printed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privatelr.design import NumberedColumns
from privatelr.errors import ArgumentError, show
from privatelr.results.fit_record import ModelRecord
from privatelr.types import BoolArray, FloatArray

_FURTHEST = 30
"""Largest power of ten that a unit is multiplied by."""
_SMALLEST_LOG, _USUAL_LOG, _LARGEST_LOG = 1e-3, 0.3, math.log(1e5)
"""Logarithms of odds ratios: 1.001, 1.35 and 100,000."""
_MOST_ODDS = 1e308
_MOST_PLACES, _SMALL, _LARGE = 6, 1e-4, 1e5
"""Decimals of an odds ratio, and the sizes between which it is written without powers of ten."""


def require_odds(fit: ModelRecord, asked: str = "odds_ratios") -> None:
    """Refuse odds ratios of a model that has none; raises `ArgumentError`."""
    if fit.loss.probability is None:
        raise ArgumentError(
            f"{asked}: the coefficients of a {fit.loss.title} are not logarithms of odds; "
            "dplr fits a model where they are."
        )


def read_exponentiate(fit: ModelRecord, exponentiate: Any) -> bool:
    """Whether odds ratios are asked for; raises `ArgumentError`, also for a model without any."""
    if not isinstance(exponentiate, bool | np.bool_):
        raise ArgumentError(
            f"exponentiate={show(exponentiate)}: exponentiate takes True (odds ratios) or False "
            "(coefficients)."
        )
    if exponentiate:
        require_odds(fit, "exponentiate=True")
    return bool(exponentiate)


# -- units -------------------------------------------------------------------------------------


def spans_of(fit: ModelRecord) -> FloatArray:
    """Range of the variable whose unit each column ``(d,)`` is of.

    Infinite where it is not declared; NaN for the intercept and for levels of factors.
    """
    columns = fit.spec.columns
    spans = np.full(len(columns.names), np.nan)
    if isinstance(columns, NumberedColumns):
        spans[1:] = np.inf
        return spans
    for term in columns.terms:
        if term.numeric:
            here = slice(term.start, term.stop)
            spans[here] = 2 * columns.scale[here] if np.isfinite(term.radius) else np.inf
    return spans


def powers_of_ten(sizes: FloatArray, spans: FloatArray, typical: float) -> FloatArray:
    """Divisors ``(m,)`` that bring sizes near to a typical one.

    Parameters
    ----------
    sizes : ndarray of shape (m,)
        Of coefficients, or lengths of their bars, in the user's units.
    spans : ndarray of shape (m,)
        See `spans_of`. A coefficient may be of ten units instead of one, but not of more than
        there are; where the span is NaN it stays.
    typical : float
        Above 0.
    """
    free = np.isfinite(sizes) & (sizes > 0) & (spans > 0)
    logs = np.log10(sizes, where=free, out=np.zeros(len(sizes)))
    with np.errstate(all="ignore"):
        most = np.fmax(np.floor(np.log10(spans)), 0.0)
    powers = np.fmin(np.round(math.log10(typical) - logs), np.fmin(most, _FURTHEST))
    return np.asarray(10.0 ** -np.where(free, np.fmax(powers, -_FURTHEST), 0.0))


def typical_length(lengths: FloatArray, spans: FloatArray, levels: BoolArray) -> float:
    """Median length of the bars ``(m,)`` of levels; without any, of those whose unit may change."""
    known = np.isfinite(lengths) & (lengths > 0)
    like = known & levels if (known & levels).any() else known & (spans > 0)
    return float(10.0 ** np.median(np.log10(lengths[like]))) if like.any() else 1.0


def odds_units(logs: FloatArray, sd: FloatArray, spans: FloatArray) -> FloatArray:
    """Divisors ``(m,)`` of the logarithms of odds ratios that no reader could use as they are.

    One that is near to 0 for what it is uncertain by, `sd`, stays: units are not the reason.
    """
    sizes, around = np.abs(logs), np.fmax(np.abs(logs), sd)
    large = sizes > _LARGEST_LOG
    changed = powers_of_ten(np.where(large, sizes, around), spans, _USUAL_LOG)
    with np.errstate(all="ignore"):  # one unit may be more than there are, where it stays
        changed = np.fmax(changed, np.where(large, 10.0 ** -np.floor(np.log10(spans)), 0.0))
    return np.where(large | (around < _SMALLEST_LOG), changed, 1.0)


def units_of(divisor: float) -> str:
    """How many units a number is of that was divided by a power of ten."""
    return f"{float(f'{1 / divisor:.6g}'):g}"


def with_unit(name: str, divisor: float) -> str:
    """The name of a row, and how many units it is of unless that is one."""
    return name if divisor == 1 else f"{name} (per {units_of(divisor)})"


# -- numbers -----------------------------------------------------------------------------------


def odds_figures(odds: FloatArray, sd: FloatArray) -> list[str]:
    """Odds ratios ``(m,)``, each with two digits of what it is uncertain by, and of its own."""
    shown = []
    for value, error in zip(odds.tolist(), sd.tolist(), strict=True):
        places = 3
        if math.isfinite(error) and error > 0:
            places = min(max(1 - math.floor(math.log10(error)), 0), _MOST_PLACES)
        if text := beyond(value):
            shown.append(text)
        elif not _SMALL <= value < _LARGE:
            shown.append(f"{value:.2e}")
        else:
            shown.append(f"{value:.{max(places, 1 - math.floor(math.log10(value)))}f}")
    return shown


def beyond(odds: float) -> str:
    """What is printed for an odds ratio that floating point does not hold; empty for others."""
    if odds > _MOST_ODDS:
        return f"> {_MOST_ODDS:g}"
    return f"< {1 / _MOST_ODDS:g}" if odds < 1 / _MOST_ODDS else ""
