"""The table of coefficients on the printed page: its rows, its numbers, and its bars."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from privatelr.inference import Inference
from privatelr.page_model import Table
from privatelr.privacy import NonPrivate
from privatelr.results import fit_record, odds_ratios
from privatelr.results.fit_record import FitRecord, ModelRecord, SelectedRecord
from privatelr.types import FloatArray

_USUAL = 13
"""A column has this width in characters if inference was not requested."""
_LARGEST = 1e5
_LEAST_PLACES, _MOST_PLACES, _MOST_DIGITS = 3, 6, 8
"""A column has at least and at most these numbers of decimals, and a number at most this number of
digits."""
_SPAN = 4
"""Numbers down to this many powers of ten below the largest give their column more decimals."""
_MOST_SHOWN, FEW = 1000, 40
"""A page has at most the first number of coefficients; of more, the second number is shown."""
_SMALLEST_P = 0.001
UNITS = "per"
"""The column with the number of units of an odds ratio has this header."""
_IN_UNITS = ("estimate", "null", "sampling_sd", "privacy_sd", "lower", "upper")
"""These fields of an inference are in the units of the coefficients."""

# -- which coefficients ------------------------------------------------------------------------


def estimates_table(fit: ModelRecord) -> Table:
    """The table of estimates without standard errors.

    Further columns are an upper bound on the noise, or counts of choices, and odds ratios. If the
    odds ratio for one unit would be too near to 1 or too far from it to be read, a column has the
    number of units for which it is shown.
    """
    estimates = fit_record.in_user_units(fit)
    shown = rows_of_page(fit, estimates)
    columns, sd = {"Estimate": figures(estimates[shown])}, np.zeros(len(shown))
    if isinstance(fit, SelectedRecord) and fit.release.exact is None:
        halves = np.split(fit.release.counts, 2)
        for header, counts in zip(("times +", "times -"), halves, strict=True):
            columns[header] = [str(times) for times in counts[shown]]
    elif isinstance(fit, FitRecord) and not isinstance(fit.guarantee, NonPrivate):
        sd = fit_record.limits_at(fit, shown)
        columns["privacy sd"] = figures(sd)
    if fit.loss.probability is not None:
        logs = estimates[shown]
        units = odds_ratios.odds_units(logs, sd, odds_ratios.spans_of(fit)[shown])
        logs, sd = logs / units, sd / units
        with np.errstate(all="ignore"):
            odds = np.exp(logs)
        # enough decimals that an odds ratio beyond the noise differs from 1
        sizes = np.fmax(np.abs(logs), sd)
        sizes = sizes[sizes >= 10.0 ** (1 - _MOST_PLACES)]
        least = 1 - math.floor(math.log10(sizes.min())) if sizes.size else _LEAST_PLACES
        cells = zip(odds.tolist(), figures(odds, max(least, _LEAST_PLACES)), strict=True)
        columns["odds ratio"] = [odds_ratios.beyond(value) or cell for value, cell in cells]
        if (units != 1).any():
            columns[UNITS] = ["" if unit == 1 else odds_ratios.units_of(unit) for unit in units]
    names = tuple(fit.spec.columns.names[row] for row in shown)
    rows = tuple(zip(*columns.values(), strict=True))
    return Table(names, tuple(columns), rows, None if UNITS in columns else _USUAL)


def rows_of_page(fit: ModelRecord, estimates: FloatArray) -> list[int]:
    """Positions of the coefficients on the page of a fit; of many choices only those made."""
    if isinstance(fit, SelectedRecord) and len(estimates) > FEW:
        coef = fit.release.coef
        return [row for row in shown_rows(coef, FEW) if coef[row] != 0] or [0]
    return shown_rows(estimates)


def shown_rows(estimates: FloatArray, most: int = _MOST_SHOWN) -> list[int]:
    """Positions of the coefficients on the page: all, or the largest if there are too many."""
    if len(estimates) <= most:
        return list(range(len(estimates)))
    sizes = np.nan_to_num(np.abs(estimates), nan=-1.0)
    least = np.partition(sizes, -FEW)[-FEW]
    larger = np.flatnonzero(sizes > least).tolist()
    # of equal coefficients the first are taken, so that the page is the same on every machine
    return sorted(larger + np.flatnonzero(sizes == least)[: FEW - len(larger)].tolist())


def inference_table(fit: FitRecord, found: Inference, *, as_odds: bool = False) -> Table:
    """The table of coefficients or odds ratios with errors, tests, intervals, and their bars."""
    names, half = tuple(fit.spec.columns.names), (1 - found.level) / 2
    line = " The dashed line is zero."
    if as_odds:
        units = odds_ratios.odds_units(found.estimate, found.sd, odds_ratios.spans_of(fit))
        names = tuple(map(odds_ratios.with_unit, names, units.tolist()))
        found = replace(found, **{part: getattr(found, part) / units for part in _IN_UNITS})
        line = " Lengths are those of the logarithms, and the dashed line is an odds ratio of 1."
        with np.errstate(all="ignore"):
            odds, low, high = (np.exp(v) for v in (found.estimate, found.lower, found.upper))
            error = odds * found.sd
        first, *ends = (odds_ratios.odds_figures(values, error) for values in (odds, low, high))
        columns = {"Odds Ratio": first, "SE(log)": figures(found.sd)}
    else:
        first, *ends = map(figures, (found.estimate, found.lower, found.upper))
        columns = {"Estimate": first, "Std. Error": figures(found.sd)}
    if fit.calibration.noise.scale > 0:
        columns["privacy part"] = figures(found.privacy_sd)
    columns |= {
        "z": [f"{value:.2f}" if abs(value) < 1e3 else f"{value:.3g}" for value in found.z],
        "Pr(>|z|)": [
            f"<{_SMALLEST_P:g}" if value < _SMALLEST_P else f"{value:.3f}"
            for value in found.p_value
        ],
        f"[{half:.6g}": ends[0],
        f"{1 - half:.6g}]": ends[1],
    }
    drawn, counted = drawings(found)
    noise = ", light: what the noise adds" if found.privacy_sd.any() else ""
    unit = " In units of each standard error." if counted else ""
    legend = f"Bars are the intervals, dark: sampling error{noise}.{line}{unit}"
    cells = tuple(zip(*columns.values(), strict=True))
    return Table(names, tuple(columns), cells, None, tuple(drawn), legend)


# -- numbers -----------------------------------------------------------------------------------


def figures(values: Iterable[float], least: int = _LEAST_PLACES) -> list[str]:
    """A column of numbers as text, with the same number of decimals and three digits or more each.

    Numbers that would need very many decimals, or none, are written with a power of ten.
    """
    column = [float(value) for value in values]
    powers = [_power(value) for value in column if _is_plain(value)]
    places = _LEAST_PLACES
    if powers:
        # one very small number must not add decimals to all others
        needed = 2 - min(power for power in powers if power > max(powers) - _SPAN)
        room = _MOST_DIGITS - 1 - max(*powers, 0)
        places = min(max(needed, least), _MOST_PLACES, room)

    def figure(value: float) -> str:
        if value == 0 or not math.isfinite(value):
            return f"{value:.{places}f}"
        is_short = _is_plain(value) and _power(value) >= 2 - places
        return f"{value:.{places}f}" if is_short else f"{value:.2e}"

    return [figure(value) for value in column]


def _is_plain(value: float) -> bool:
    return math.isfinite(value) and 10.0 ** (2 - _MOST_PLACES) <= abs(value) < _LARGEST


def _power(value: float) -> int:
    """The power of ten of the number's first digit, after rounding to three digits."""
    return int(f"{value:.2e}".partition("e")[2])


# -- bars --------------------------------------------------------------------------------------

_UNEVEN = 30.0
"""Beyond this ratio of lengths of intervals, the shorter ones cannot be seen on a common axis."""
_WIDTH, _HEIGHT, _MARGIN, _THICKNESS = 220, 16, 6, 8
"""A drawing has this width and height, this margin, and bars of this thickness, in pixels."""
_FURTHEST_BAR = 30.0
"""An axis in standard errors ends at this number of them on either side of zero."""
_DARK, _LIGHT = "#2f6fab", "#9cc3e6"


def bars_of(found: Inference) -> pd.DataFrame:
    """One row per interval, with its ends and those of its inner part, which sampling error fills.

    An interval reaches from ``lower`` to ``upper``. On either side of the estimate, its inner part
    is shorter by the ratio of the sampling error to the whole standard error: it is the interval
    that there would be without noise.
    """
    with np.errstate(all="ignore"):
        share = np.nan_to_num(found.sampling_sd / found.sd)
        return pd.DataFrame(
            {
                "estimate": found.estimate,
                "lower": found.lower,
                "upper": found.upper,
                "inner_lower": found.estimate - share * (found.estimate - found.lower),
                "inner_upper": found.estimate + share * (found.upper - found.estimate),
            }
        )


def is_uneven(bars: pd.DataFrame) -> bool:
    """Whether the lengths of the bars differ too much for a common axis."""
    with np.errstate(all="ignore"):
        lengths = (bars.upper - bars.lower).to_numpy()
    lengths = lengths[np.isfinite(lengths) & (lengths > 0)]
    return len(lengths) > 0 and bool(lengths.max() / _UNEVEN > lengths.min())


def drawings(found: Inference) -> tuple[list[str], bool]:
    """One small SVG per row on a common axis, and whether that axis is in standard errors.

    The drawings contain no text. Everything but the bars has the colour of the surrounding text.
    """
    bars, counted = bars_of(found), False
    if is_uneven(bars):
        bars, counted = bars.div(np.where(found.sd > 0, found.sd, np.nan), axis=0), True
    ends = bars[["lower", "upper"]].to_numpy()
    ends = np.append(ends[np.isfinite(ends)], 0.0)
    low, high = float(ends.min()), float(ends.max())
    if counted:
        low, high = max(low, -_FURTHEST_BAR), min(high, _FURTHEST_BAR)
    return [_drawing(row, low, high) for row in bars.to_numpy().tolist()], counted


def _drawing(bar: Iterable[float], low: float, high: float) -> str:
    """The bar of one row on an axis from `low` to `high`, with an arrow if it leaves the axis."""
    estimate, lower, upper, inner_lower, inner_upper = bar

    def place(value: float) -> float:
        held = min(max(value, low), high)
        return _MARGIN + (held - low) / ((high - low) or 1.0) * (_WIDTH - 2 * _MARGIN)

    middle, zero = _HEIGHT / 2, place(0.0)
    parts = [
        f"<line x1='{zero:.1f}' y1='0' x2='{zero:.1f}' y2='{_HEIGHT}' stroke='currentColor' "
        "stroke-opacity='0.5' stroke-dasharray='2 2'/>"
    ]
    for start, stop, colour in ((lower, upper, _LIGHT), (inner_lower, inner_upper, _DARK)):
        if math.isfinite(start) and math.isfinite(stop) and start <= high and stop >= low:
            left, right = place(start), place(stop)
            parts.append(
                f"<rect x='{left:.1f}' y='{middle - _THICKNESS / 2:g}' "
                f"width='{right - left:.1f}' height='{_THICKNESS}' fill='{colour}'/>"
            )
    tips = [(_MARGIN, 0)] * (lower < low) + [(_WIDTH - _MARGIN, _WIDTH)] * (upper > high)
    parts += [
        f"<path d='M{base} {middle - 5:g} L{tip} {middle:g} L{base} {middle + 5:g} Z' "
        "fill='currentColor'/>"
        for base, tip in tips
    ]
    if low <= estimate <= high:
        parts.append(
            f"<line x1='{place(estimate):.1f}' y1='1' x2='{place(estimate):.1f}' "
            f"y2='{_HEIGHT - 1}' stroke='currentColor' stroke-width='2'/>"
        )
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}' "
        f"role='img' aria-label='interval'>{''.join(parts)}</svg>"
    )
