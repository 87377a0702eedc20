"""The printed page with odds ratios and their intervals in the place of coefficients."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.errors import ArgumentError, show
from privatelr.inference import Inference
from privatelr.page_model import Table
from privatelr.results.fit_record import FitRecord, ModelRecord, require_odds
from privatelr.results.pages.inference_table import Question, infer_coefficients, level_of
from privatelr.results.pages.summary_notes import legend
from privatelr.results.pages.summary_table import beyond, inference_table
from privatelr.results.plots.forest_axis import odds_units, spans_of, with_unit
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.results.pages.summary import FitSummary

_NOTE = (
    "Odds ratios and the ends of their intervals are exponentials of the coefficients and of the "
    "ends of theirs. SE(log) is the Std. Error of the coefficient, which is the logarithm of the "
    "odds ratio; its privacy part, z and the p-value are about the coefficient too."
)
_UNITS = "Names say of how many units a row is; that was chosen by its estimate and its error."
ALONE = "Odds ratios have no intervals here, because there are no standard errors."
_LEGEND = " Lengths are those of the logarithms, and the dashed line is an odds ratio of 1."
_MOST_PLACES, _SMALL, _LARGE = 6, 1e-4, 1e5


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


def show_odds(page: FitSummary, fit: FitRecord, *, alpha: Any, mode: Any, target: Any) -> None:
    """Put odds ratios on a page that was laid out for the same arguments."""
    if "Std. Error" not in page.coefficients.headers:
        page.notes = [ALONE, *page.notes]
        return
    found = infer_coefficients(fit, Question(level_of(alpha), mode, target))
    units = odds_units(found.estimate, found.sd, spans_of(fit.spec.columns))
    found = _over(found, units)
    table, counted = inference_table(fit, found)
    drawn = legend(found, counted).replace(" The dashed line is zero.", _LEGEND)
    page.show_table(replace(_table(table, found, units), legend=drawn))
    page.notes = [_NOTE, *([_UNITS] if (units != 1).any() else []), *page.notes]


def _over(found: Inference, units: FloatArray) -> Inference:
    """The same of coefficients in other units ``(d,)``."""
    parts = ("estimate", "null", "sampling_sd", "privacy_sd", "lower", "upper")
    return replace(found, **{part: getattr(found, part) / units for part in parts})


def _table(table: Table, found: Inference, units: FloatArray) -> Table:
    """The table of coefficients with its estimates and intervals exponentiated."""
    with np.errstate(all="ignore"):
        odds, lower, upper = (np.exp(v) for v in (found.estimate, found.lower, found.upper))
        places = [_places(value) for value in odds * found.sd]
    columns = dict(zip(table.headers, zip(*table.cells, strict=True), strict=True))
    renamed = {"Estimate": "Odds Ratio", "Std. Error": "SE(log)"}
    shown = {"Estimate": odds, table.headers[-2]: lower, table.headers[-1]: upper}
    columns |= {header: _cells(values, places) for header, values in shown.items()}
    return replace(
        table,
        names=tuple(map(with_unit, table.names, units.tolist())),
        headers=tuple(renamed.get(header, header) for header in columns),
        cells=tuple(zip(*columns.values(), strict=True)),
    )


def _places(sd: float) -> int:
    """Decimals that show two digits of what the odds ratio is uncertain by."""
    if not (math.isfinite(sd) and sd > 0):
        return 3
    return min(max(1 - math.floor(math.log10(sd)), 0), _MOST_PLACES)


def _cells(values: FloatArray, places: list[int]) -> tuple[str, ...]:
    return tuple(_cell(value, n) for value, n in zip(values.tolist(), places, strict=True))


def _cell(value: float, places: int) -> str:
    """As many decimals as asked for, and two digits at least."""
    if text := beyond(value):
        return text
    if not _SMALL <= value < _LARGE:
        return f"{value:.2e}"
    return f"{value:.{max(places, 1 - math.floor(math.log10(value)))}f}"
