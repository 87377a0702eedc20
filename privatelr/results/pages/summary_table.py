"""The table of coefficients on the printed page: which ones, and how their numbers read."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from privatelr.inference import Inference
from privatelr.page_model import Table
from privatelr.privacy import NonPrivate
from privatelr.results.fit_record import FitRecord, ModelRecord, in_user_units, limits_at
from privatelr.results.plots.forest_axis import drawings, odds_units, spans_of, units_of
from privatelr.types import FloatArray

_USUAL = 13
"""Width of a column where inference was not requested."""
_LARGEST = 1e5
_LEAST_PLACES, _MOST_PLACES, _MOST_DIGITS = 3, 6, 8
"""Decimals in a column, and digits of a number in all."""
_SPAN = 4
"""Powers of ten below the largest number for which a column gets more decimals."""
_MOST_SHOWN, _FEW = 1000, 40
"""Coefficients that a page may have, and those that it has where there are more."""
_SMALLEST_P = 0.001
_MOST_ODDS = 1e308
UNITS = "per"
"""Header of the column that says of how many units an odds ratio is."""
UNITS_NOTE = (
    "per: how many units of its column an odds ratio is of, where that of one unit is too near to "
    "1, or too far from it, to be read."
)


def plain_table(fit: FitRecord) -> Table:
    """Estimates, and a limit to what the noise adds, where inference was not requested."""
    estimates = in_user_units(fit)
    shown = shown_rows(estimates)
    columns, sd = {"Estimate": estimates[shown]}, np.zeros(len(shown))
    if not isinstance(fit.guarantee, NonPrivate):
        columns["privacy sd"] = sd = limits_at(fit, shown)
    printed = {header: figures(values) for header, values in columns.items()}
    return table_of_shown(fit, shown, printed | odds_columns(fit, shown, sd))


def table_of_shown(fit: ModelRecord, shown: list[int], columns: dict[str, list[str]]) -> Table:
    """Columns of cells beside the names of the coefficients in these places."""
    names, cells = fit.spec.columns.names, tuple(zip(*columns.values(), strict=True))
    width = None if UNITS in columns else _USUAL
    return Table(tuple(names[row] for row in shown), tuple(columns), cells, width)


def odds_columns(fit: ModelRecord, shown: list[int], sd: FloatArray) -> dict[str, list[str]]:
    """Odds ratios of the coefficients in these places, of which `sd` is the noise.

    Where some would be of too small or too large a step to be read, another column says of how
    many units those are.
    """
    if fit.loss.probability is None:
        return {}
    logs = in_user_units(fit)[shown]
    units = odds_units(logs, sd, spans_of(fit.spec.columns)[shown])
    columns = {"odds ratio": _odds_figures(logs / units, sd / units)}
    if (units != 1).any():
        columns[UNITS] = ["" if unit == 1 else units_of(unit) for unit in units]
    return columns


def odds_computed(fit: ModelRecord, table: Table) -> list[str]:
    """What a page with these odds ratios says was computed from the data, beside the estimates."""
    if fit.loss.probability is None:
        return []
    return ["their odds ratios", *(["the units of those"] if UNITS in table.headers else [])]


def _odds_figures(logs: FloatArray, sd: FloatArray) -> list[str]:
    """A column of odds ratios, with decimals that tell from 1 what is no noise."""
    with np.errstate(all="ignore"):
        odds = np.exp(logs)
    sizes = [
        size for size in np.fmax(np.abs(logs), sd).tolist() if size >= 10.0 ** (1 - _MOST_PLACES)
    ]
    least = max(1 - math.floor(math.log10(min(sizes))), _LEAST_PLACES) if sizes else _LEAST_PLACES
    cells = zip(odds.tolist(), figures(odds, least), strict=True)
    return [beyond(value) or cell for value, cell in cells]


def beyond(odds: float) -> str:
    """What is printed for an odds ratio that floating point does not hold; empty for others."""
    if odds > _MOST_ODDS:
        return f"> {_MOST_ODDS:g}"
    return f"< {1 / _MOST_ODDS:g}" if odds < 1 / _MOST_ODDS else ""


def shown_of(known: int) -> int:
    """How many of so many coefficients are on the page."""
    return known if known <= _MOST_SHOWN else _FEW


def shown_rows(estimates: FloatArray) -> list[int]:
    """Positions of the coefficients on the page: all, or the largest where they are very many."""
    if shown_of(len(estimates)) == len(estimates):
        return list(range(len(estimates)))
    sizes = np.nan_to_num(np.abs(estimates), nan=-1.0)
    least = np.partition(sizes, -_FEW)[-_FEW]
    larger = np.flatnonzero(sizes > least).tolist()
    # of those that are equal the first, on every machine
    return sorted(larger + np.flatnonzero(sizes == least)[: _FEW - len(larger)].tolist())


def inference_table(fit: FitRecord, found: Inference) -> tuple[Table, bool]:
    """Estimates with errors, tests and intervals, and whether bars count in standard errors."""
    half = (1 - found.level) / 2
    columns = {"Estimate": figures(found.estimate), "Std. Error": figures(found.sd)}
    if fit.calibration.noise.scale > 0:
        columns["privacy part"] = figures(found.privacy_sd)
    columns |= {
        "z": [f"{value:.2f}" if abs(value) < 1e3 else f"{value:.3g}" for value in found.z],
        "Pr(>|z|)": [_chance(value) for value in found.p_value],
        f"[{half:.6g}": figures(found.lower),
        f"{1 - half:.6g}]": figures(found.upper),
    }
    drawn, counted = drawings(found)
    names = tuple(fit.spec.columns.names)
    cells = tuple(zip(*columns.values(), strict=True))
    return Table(names, tuple(columns), cells, drawings=tuple(drawn)), counted


def figures(values: Iterable[float], least: int = _LEAST_PLACES) -> list[str]:
    """A column of numbers: as many decimals in each, and three digits or more of each.

    Numbers that would need very many decimals, or none, are written by powers of ten.
    """
    column = [float(value) for value in values]
    powers = [_power(value) for value in column if _is_plain(value)]
    places = _LEAST_PLACES
    if powers:
        # one very small number should not give all others a tail of digits
        needed = 2 - min(power for power in powers if power > max(powers) - _SPAN)
        room = _MOST_DIGITS - 1 - max(*powers, 0)
        places = min(max(needed, least), _MOST_PLACES, room)
    return [_figure(value, places) for value in column]


def _is_plain(value: float) -> bool:
    return math.isfinite(value) and 10.0 ** (2 - _MOST_PLACES) <= abs(value) < _LARGEST


def _power(value: float) -> int:
    """The power of ten of the first digit, rounded to three digits."""
    return int(f"{value:.2e}".partition("e")[2])


def _figure(value: float, places: int) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:.{places}f}"
    if not _is_plain(value) or _power(value) < 2 - places:
        return f"{value:.2e}"
    return f"{value:.{places}f}"


def _chance(value: float) -> str:
    return f"<{_SMALLEST_P:g}" if value < _SMALLEST_P else f"{value:.3f}"
