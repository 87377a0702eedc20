"""The table of coefficients on the printed page: its cells, and its lines of text."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from statsmodels.iolib.table import SimpleTable

from privatelr.privacy.guarantees import NonPrivate
from privatelr.results.bars import drawings
from privatelr.results.record import in_user_units, limits_at

if TYPE_CHECKING:
    from privatelr.inference.intervals import Inference
    from privatelr.results.record import FitRecord
    from privatelr.types import FloatArray

WIDTH = 79
_LONGEST_NAME = 38
_USUAL = 13
"""Width of a column where inference was not bought."""
_LARGE = 100.0
_MOST_SHOWN, _FEW = 1000, 40
"""Coefficients that a page may have, and those that it has where there are more."""
_SMALLEST_P = 0.001


@dataclass(frozen=True, slots=True)
class CoefficientTable:
    """Cells as they are printed.

    Attributes
    ----------
    names, headers : tuple of str
    cells : tuple of tuple of str
        One tuple per name, with a cell for each header.
    width : int or None
        Of every column; None for columns as narrow as their cells allow.
    drawings : tuple of str
        SVG of each row for HTML, if there are any.
    """

    names: tuple[str, ...]
    headers: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    width: int | None = None
    drawings: tuple[str, ...] = ()

    def as_lines(self) -> list[str]:
        """Lines of at most 79 columns; a name without room for its cells has its own line."""
        longest = max(map(len, self.names))
        if self.width is not None:
            stub, widths = min(longest, _LONGEST_NAME), [self.width] * len(self.headers)
        else:
            columns = [self.headers, *self.cells]
            needed = [max(len(row[i]) for row in columns) for i in range(len(self.headers))]
            gap = 2 if longest + sum(needed) + 2 * len(needed) <= WIDTH else 1
            widths = [size + gap for size in needed]
            stub = min(longest, WIDTH - sum(widths))
        lines = [" " * stub + _aligned(self.headers, widths)]
        for name, cells in zip(self.names, self.cells, strict=True):
            label = _shorten(name, _LONGEST_NAME) if self.width is not None else name
            if len(label) > stub:
                lines.append(_shorten(label, WIDTH))
                label = ""
            lines.append(label.ljust(stub) + _aligned(cells, widths))
        return [line.rstrip() for line in lines]

    def as_simple_table(self) -> SimpleTable:
        """The same with its names in full, for CSV and LaTeX."""
        return SimpleTable([list(row) for row in self.cells], list(self.headers), list(self.names))

    def as_html(self) -> str:
        """The same as HTML, with the drawings after the cells."""
        rows = [[html.escape(cell) for cell in row] for row in self.cells]
        headers = [html.escape(header) for header in self.headers]
        if self.drawings:
            rows = [[*row, drawn] for row, drawn in zip(rows, self.drawings, strict=True)]
            headers.append("")
        found: str = SimpleTable(rows, headers, [html.escape(n) for n in self.names]).as_html()
        return found


def plain_table(fit: FitRecord) -> CoefficientTable:
    """Estimates, and a limit to what the noise adds, where inference was not bought."""
    estimates = in_user_units(fit)
    shown = shown_rows(estimates)
    columns = {"Estimate": estimates[shown]}
    if not isinstance(fit.guarantee, NonPrivate):
        columns["privacy sd"] = limits_at(fit, shown)
    if fit.calibration.problem.loss.probability is not None:
        with np.errstate(over="ignore"):
            columns["odds ratio"] = np.exp(estimates[shown])
    cells = tuple(zip(*(map(cell, column) for column in columns.values()), strict=True))
    names = fit.spec.columns.names
    chosen = tuple(names[row] for row in shown)
    return CoefficientTable(chosen, tuple(columns), cells, width=_USUAL)


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


def inference_table(fit: FitRecord, found: Inference) -> tuple[CoefficientTable, bool]:
    """Estimates with errors, tests and intervals, and whether bars count in standard errors."""
    half = (1 - found.level) / 2
    places = [_places(float(sd)) for sd in found.sd]

    def shown(values: FloatArray) -> list[str]:
        return [_short(float(value), n) for value, n in zip(values, places, strict=True)]

    columns = {"Estimate": shown(found.estimate), "Std. Error": shown(found.sd)}
    if fit.calibration.noise.scale > 0:
        columns["privacy part"] = shown(found.privacy_sd)
    columns |= {
        "z": [f"{value:.2f}" if abs(value) < 1e3 else f"{value:.3g}" for value in found.z],
        "Pr(>|z|)": [_chance(value) for value in found.p_value],
        f"[{half:.6g}": shown(found.lower),
        f"{1 - half:.6g}]": shown(found.upper),
    }
    drawn, counted = drawings(found)
    names = tuple(fit.spec.columns.names)
    cells = tuple(zip(*columns.values(), strict=True))
    return CoefficientTable(names, tuple(columns), cells, drawings=tuple(drawn)), counted


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    return "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def cell(value: float) -> str:
    """A number as the table shows it."""
    plain = 1e-3 <= abs(value) < 1e5 or value == 0
    return f"{value:.3f}" if plain else f"{value:.2e}"


def _places(sd: float) -> int:
    """Decimals that show two digits of a standard error: 3 to 6, and 1 where it is large."""
    if not (math.isfinite(sd) and sd > 0):
        return 3
    return min(max(1 - math.floor(math.log10(sd)), 3), 6) if sd < _LARGE else 1


def _short(value: float, places: int) -> str:
    """As many decimals as asked for and as nine places hold."""
    size = abs(value)
    if not math.isfinite(size) or size == 0 or not 10.0**-places / 2 <= size < 1e5:
        return f"{value:.2e}" if math.isfinite(size) and size > 0 else f"{value:.3f}"
    whole = max(math.floor(math.log10(round(size, places))), 0)
    return f"{value:.{min(places, 6 - whole)}f}"


def _chance(value: float) -> str:
    return f"<{_SMALLEST_P:g}" if value < _SMALLEST_P else f"{value:.3f}"


def _shorten(name: str, longest: int) -> str:
    if len(name) <= longest:
        return name
    half = (longest - 3) // 2
    return f"{name[: longest - 3 - half]}...{name[-half:]}"
