"""Odds ratios: which models have them, for how many units they are shown, how they are printed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privatelr.design import range_of
from privatelr.errors import ArgumentError, require_flag
from privatelr.results.fit_record import ModelRecord
from privatelr.types import FloatArray

_LONGEST_SPAN = 200
"""Up to this range, such as of ages, an odds ratio is of one unit."""
_ROUNDING = 1e-9
_MOST_ODDS = 1e308


def require_odds(fit: ModelRecord, asked: str = "odds_ratios") -> None:
    """Raise `ArgumentError` if the model has no odds ratios."""
    if fit.loss.probability is None:
        raise ArgumentError(
            f"{asked}: the coefficients of a {fit.loss.title} are not logarithms of odds; "
            "dplr fits a model where they are."
        )


def read_exponentiate(fit: ModelRecord, exponentiate: Any) -> bool:
    """Read the argument ``exponentiate``; raises `ArgumentError` if there are no odds ratios."""
    as_odds = require_flag(
        "exponentiate", exponentiate, "True (odds ratios) or False (coefficients)"
    )
    if as_odds:
        require_odds(fit, "exponentiate=True")
    return as_odds


# -- units -------------------------------------------------------------------------------------


def spans_of(fit: ModelRecord) -> FloatArray:
    """The declared range ``(d,)`` of the variable in whose unit each column is.

    It is infinite if no bounds are declared, and NaN for the intercept and for levels of factors.
    The map of the columns does not have it, since released moments may be part of that. Of several
    classes each has these columns.
    """
    columns = fit.spec.columns
    spans = np.full(len(columns.names), np.nan)
    if not fit.spec.has_names:
        spans[1:] = np.inf
    for term in columns.terms:
        if term.numeric:
            low, high = range_of(term.numeric, fit.spec.factors)
            is_known = math.isfinite(low) and math.isfinite(high)
            spans[term.start : term.stop] = (high - low or 1.0) if is_known else np.inf
    return np.tile(spans, len(fit.kind.names(fit)) // len(spans))


def units_of_bounds(spans: FloatArray) -> FloatArray:
    """Divisors ``(m,)`` for powers of ten of units, of which a declared range has from 3 to 31.

    A column stays as it is if its span (see `spans_of`) is infinite or NaN.
    """
    known = np.isfinite(spans) & (spans > 0)
    logs = np.log10(spans, where=known, out=np.full(len(spans), 0.5))
    powers = np.floor(logs - 0.5 + _ROUNDING)
    return np.asarray(10.0**-powers)


def readable_units(spans: FloatArray) -> FloatArray:
    """Divisors ``(m,)`` for odds ratios: of one unit where a range has from 1 to 200 of them.

    Elsewhere they are those of `units_of_bounds`. They are public, and the same for all fits.
    """
    is_moderate = (spans >= 1 - _ROUNDING) & (spans <= _LONGEST_SPAN + _ROUNDING)
    return np.where(is_moderate, 1.0, units_of_bounds(spans))


def units_of(divisor: float) -> str:
    """The number of units of a coefficient that was divided by this power of ten, as text."""
    return f"{float(f'{1 / divisor:.6g}'):g}"


def with_unit(name: str, divisor: float) -> str:
    """The name of a row, with the number of its units if that is not one."""
    return name if divisor == 1 else f"{name} (per {units_of(divisor)})"


def beyond(odds: float) -> str:
    """The text for an odds ratio that doubles cannot represent; empty for all others."""
    if odds > _MOST_ODDS:
        return f"> {_MOST_ODDS:g}"
    return f"< {1 / _MOST_ODDS:g}" if odds < 1 / _MOST_ODDS else ""
