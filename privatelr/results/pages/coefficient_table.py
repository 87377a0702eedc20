"""The table of coefficients on the printed page: its rows, its numbers, and its bars."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from privatelr.inference import Inference
from privatelr.page_model import Table
from privatelr.plot_style import PARTS
from privatelr.results import odds_ratios
from privatelr.results.fit_record import FitRecord, ModelRecord
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
NOISE = EXACT, EXPECTED, LIMIT = "noise sd", "expected noise sd", "noise sd limit"
"""The columns with what the noise adds have these headers: its exact value, a forecast with a limit
beside it, or the limit alone."""
_MANY = 1e3
"""From this number of standard errors on, a number of them has three digits."""
PART_WORDS = {
    "sampling sd": "sampling error",
    "privacy sd": "added by the noise",
    "unknown sd": "not known",
}
_SHADES = ("dark", "middle", "light")
"""The parts of a bar, as legends say them, and their shades from the estimate outward."""
_IN_UNITS = ("estimate", "null", "sampling_sd", "privacy_sd", "unknown_sd", "lower", "upper")
"""These fields of an inference are in the units of the coefficients."""

# -- which coefficients ------------------------------------------------------------------------


def estimates_table(fit: ModelRecord) -> Table:
    """The table of estimates without standard errors.

    Further columns are those of the kind of the fit, such as a forecast of the noise, and odds
    ratios. Where these are not of one unit, a column has the number of their units.
    """
    estimates, known = fit.kind.estimates(fit), fit.kind.names(fit)
    shown = fit.kind.rows(fit, estimates)
    further, sd = fit.kind.columns(fit, shown)
    columns = {"Estimate": figures(estimates[shown]), **further}
    if fit.loss.probability is not None:
        logs = estimates[shown]
        units = odds_ratios.readable_units(odds_ratios.spans_of(fit)[shown])
        columns["odds ratio"] = odds_figures(logs / units, sd / units)
        if (units != 1).any():
            columns[UNITS] = ["" if unit == 1 else odds_ratios.units_of(unit) for unit in units]
    names = tuple(known[row] for row in shown)
    rows = tuple(zip(*columns.values(), strict=True))
    is_wide = UNITS in columns or max(map(len, columns)) >= _USUAL
    return Table(names, tuple(columns), rows, None if is_wide else _USUAL)


def noise_columns(fit: FitRecord, shown: list[int]) -> tuple[dict[str, list[str]], FloatArray]:
    """A forecast of the noise and an upper bound on it; none without a guarantee."""
    if not fit.guarantee.is_private:
        return {}, np.zeros(len(shown))
    expected, sd = fit.kind.noise(fit, shown)
    if fit.calibration.placement == "output":
        return {EXACT: figures(sd)}, sd
    if np.isnan(expected).any():
        return {LIMIT: figures(sd)}, sd
    return {EXPECTED: figures(expected), LIMIT: figures(sd)}, sd


def shown_rows(estimates: FloatArray, most: int = _MOST_SHOWN) -> list[int]:
    """Positions of the coefficients on the page: all, or the largest if there are too many."""
    if len(estimates) <= most:
        return list(range(len(estimates)))
    sizes = np.nan_to_num(np.abs(estimates), nan=-1.0)
    least = np.partition(sizes, -FEW)[-FEW]
    larger = np.flatnonzero(sizes > least).tolist()
    # of equal coefficients the first are taken, so that the page is the same on every machine
    return sorted(larger + np.flatnonzero(sizes == least)[: FEW - len(larger)].tolist())


def inference_tables(fit: FitRecord, found: Inference, *, as_odds: bool = False) -> list[Table]:
    """The table of coefficients or odds ratios with errors, tests, intervals, and their bars.

    If noise was added, a second table has the parts of the errors. Columns without any number are
    left out.
    """
    names, half = tuple(fit.spec.columns.names), (1 - found.level) / 2
    line = " The dashed line is zero."
    if as_odds:
        units = odds_ratios.readable_units(odds_ratios.spans_of(fit))
        names = tuple(map(odds_ratios.with_unit, names, units.tolist()))
        found = replace(found, **{part: getattr(found, part) / units for part in _IN_UNITS})
        line = " Lengths are those of the logarithms, and the dashed line is an odds ratio of 1."
        ends_of_logs = (found.estimate, found.lower, found.upper)
        first, *ends = (odds_figures(logs, found.sd) for logs in ends_of_logs)
        columns = {"Odds Ratio": first, "SE(log)": figures(found.std_error)}
    else:
        first, *ends = map(figures, (found.estimate, found.lower, found.upper))
        columns = {"Estimate": first, "Std. Error": figures(found.std_error)}
    if not np.isnan(found.null).all():
        columns["z"] = [_short(value) for value in found.z]
        columns["Pr(>|z|)" if any(columns["z"]) else "p-value"] = [
            f"<{_SMALLEST_P:g}" if value < _SMALLEST_P else f"{value:.3f}"
            for value in found.p_value
        ]
    columns |= {f"[{half:.6g}": ends[0], f"{1 - half:.6g}]": ends[1]}
    columns = {title: cells for title, cells in columns.items() if any(cells) or cells is first}
    if found.is_withheld:
        return [Table(names, tuple(columns), tuple(zip(*columns.values(), strict=True)))]
    drawn, counted = drawings(found)
    has_noise = fit.calibration.noise.scale > 0
    parts = parts_of(found) if has_noise else {}
    tones = [f"{tone}: {PART_WORDS[part]}" for part, tone in zip(parts, _SHADES, strict=False)]
    unit = " In units of each standard error." if counted else ""
    legend = f"Bars are the intervals, {', '.join(tones) or 'dark: sampling error'}.{line}{unit}"
    cells = tuple(zip(*columns.values(), strict=True))
    table = Table(names, tuple(columns), cells, None, tuple(drawn), legend)
    columns = {part: shown for part, sd in parts.items() if any(shown := figures(sd))}
    if not columns:
        return [table]
    return [table, Table(names, tuple(columns), tuple(zip(*columns.values(), strict=True)))]


def parts_of(found: Inference) -> dict[str, FloatArray]:
    """The parts of the standard errors by their names on a page.

    Where the noise in the matrices is not counted, nothing is said of what is not known.
    """
    parts = {"sampling sd": found.sampling_sd, "privacy sd": found.privacy_sd}
    if found.mode != "plug-in":
        parts["unknown sd"] = found.if_normal(found.unknown_sd)
    return parts


# -- numbers -----------------------------------------------------------------------------------


def _short(value: float) -> str:
    """A number of standard errors, with two decimals unless it is large; blank if it is NaN."""
    if math.isnan(value):
        return ""
    return f"{value:.2f}" if abs(value) < _MANY else f"{value:.3g}"


def figures(values: Iterable[float], least: int = _LEAST_PLACES) -> list[str]:
    """A column of numbers as text, with the same number of decimals and three digits or more each.

    Numbers that would need very many decimals, or none, are written with a power of ten. NaN is
    blank.
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
        if math.isnan(value):
            return ""
        if value == 0 or math.isinf(value):
            return f"{value:.{places}f}"
        is_short = _is_plain(value) and _power(value) >= 2 - places
        return f"{value:.{places}f}" if is_short else f"{value:.2e}"

    return [figure(value) for value in column]


def odds_figures(logs: FloatArray, sd: FloatArray) -> list[str]:
    """Odds ratios as text, none of which is written as zero or as infinity.

    There are enough decimals that an odds ratio beyond its error differs from 1.
    """
    with np.errstate(all="ignore"):
        odds = np.exp(logs)
    sizes = np.fmax(np.abs(logs), sd)
    sizes = sizes[sizes >= 10.0 ** (1 - _MOST_PLACES)]
    least = 1 - math.floor(math.log10(sizes.min())) if sizes.size else _LEAST_PLACES
    cells = zip(odds.tolist(), figures(odds, max(least, _LEAST_PLACES)), strict=True)
    return [odds_ratios.beyond(value) or cell for value, cell in cells]


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
ENDS = ("lower", "upper", "middle_lower", "middle_upper", "inner_lower", "inner_upper")
"""The ends of a bar, of what sampling error and noise fill of it, and of what the former fills."""


def bars_of(found: Inference) -> pd.DataFrame:
    """One row per interval, with the ends of the whole and of its parts; see `ENDS`.

    An interval reaches from ``lower`` to ``upper``. On either side of the estimate, its inner part
    is shorter by the ratio of the sampling error to the whole standard error: it is about the
    interval that there would be without noise. The middle part ends where the matrices would be
    known: it is shorter by the ratio of sampling error and noise together to the whole.
    """
    with np.errstate(all="ignore"):
        shares = [np.ones(len(found.sd)), np.hypot(found.sampling_sd, found.privacy_sd) / found.sd]
        shares.append(found.sampling_sd / found.sd)
        below, above = found.estimate - found.lower, found.upper - found.estimate
        ends = [
            end
            for share in map(np.nan_to_num, shares)
            for end in (found.estimate - share * below, found.estimate + share * above)
        ]
    return pd.DataFrame({"estimate": found.estimate, **dict(zip(ENDS, ends, strict=True))})


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
    estimate, *ends = bar
    lower, upper = ends[:2]

    def place(value: float) -> float:
        held = min(max(value, low), high)
        return _MARGIN + (held - low) / ((high - low) or 1.0) * (_WIDTH - 2 * _MARGIN)

    middle, zero = _HEIGHT / 2, place(0.0)
    parts = [
        f"<line x1='{zero:.1f}' y1='0' x2='{zero:.1f}' y2='{_HEIGHT}' stroke='currentColor' "
        "stroke-opacity='0.5' stroke-dasharray='2 2'/>"
    ]
    outline = " stroke='currentColor' stroke-opacity='0.6'"
    for start, stop, colour in zip(ends[::2], ends[1::2], reversed(PARTS), strict=True):
        if math.isfinite(start) and math.isfinite(stop) and start <= high and stop >= low:
            left, right = place(start), place(stop)
            parts.append(
                f"<rect x='{left:.1f}' y='{middle - _THICKNESS / 2:g}' "
                f"width='{right - left:.1f}' height='{_THICKNESS}' fill='{colour}'{outline}/>"
            )
        outline = ""  # of the whole: its tone is as pale as paper
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
