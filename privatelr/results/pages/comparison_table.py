"""The numbers of several fits side by side: their cells, facts of each fit, and lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from privatelr import page_model
from privatelr.errors import MissingDependencyError
from privatelr.inference import Inference
from privatelr.numerics import describe
from privatelr.page_model import Table, shorten
from privatelr.privacy import ZCDP, ApproxDP, NonPrivate, PureDP, prices
from privatelr.results import fit_tables, odds_ratios
from privatelr.results.fit_record import FitRecord, ModelRecord, NoisyRecord, in_user_units
from privatelr.results.multinomial_fit import MultinomialFit
from privatelr.results.pages.coefficient_table import figures
from privatelr.types import FloatArray

Statistic = Literal["std_error", "conf_int"]
_KINDS = {PureDP: "pure", ZCDP: "zCDP", ApproxDP: "approximate", NonPrivate: "none"}
_PRICES = ("epsilon", "delta", "rho")
_NOISE = ("privacy_sd_expected", "privacy_sd_limit")
_NUMBERS = ("estimate", "std_error", "conf_low", "conf_high", *_NOISE)
_PARTS = ("sampling_sd", "privacy_sd", "unknown_sd")
_LONGEST_CELL = 22
"""Cells and labels of text are cut to this width in characters; other formats have all of them."""
_STUB = 30
"""Columns of text stand beside names of up to this width; longer names have a line of their own."""
_CLOSING = (")", "]", "}")
_LARGEST_FIXED = 1e7
"""Numbers with a fixed number of decimals are written with a power of ten from here on."""


# -- numbers -------------------------------------------------------------------------------------


def shared_names(fits: Sequence[ModelRecord]) -> list[list[str]]:
    """Names of the coefficients of each fit; ``b:a`` gets the name of an ``a:b`` before it."""
    first, named = dict[tuple[str, ...], str](), list[list[str]]()
    for fit in fits:
        names = [str(name) for name in names_of(fit)]
        known = {
            name: first.setdefault(tuple(sorted(name.split(":"))), name)
            for name in names
            if ":" in name
        }
        shared = [known.get(name, name) for name in names]
        named.append(shared if len({*shared}) == len(names) else names)
    return named


def names_of(fit: ModelRecord) -> list[str]:
    """Names of the coefficients; of several classes they begin with the class."""
    names = [*fit.spec.columns.names]
    if not isinstance(fit, MultinomialFit):
        return names
    return [f"{level}: {name}" for level in fit.classes[1:] for name in names]


def estimates_of(fit: ModelRecord) -> FloatArray:
    """The coefficients ``(m,)`` in the user's units, in the order of `names_of`."""
    if isinstance(fit, MultinomialFit):
        return np.asarray(fit.coef.T.to_numpy().ravel())
    return in_user_units(fit)


def numbers_of(fit: ModelRecord, names: Sequence[str], found: Inference | None) -> pd.DataFrame:
    """The numbers of all terms of a fit under these names; those that it does not have are NaN."""
    numbers: dict[str, Any] = dict.fromkeys((*_NUMBERS, *_PARTS), np.nan)
    if found is not None:
        own = (found.estimate, found.std_error, found.lower, found.upper)
        numbers |= dict(zip(_NUMBERS[:4], own, strict=True))
        columns = fit_tables.error_columns(found)
        numbers |= {part: columns[part] for part in _PARTS}
    else:
        numbers["estimate"] = estimates_of(fit)
        if isinstance(fit, FitRecord) and fit.guarantee.is_private:
            numbers |= {name: getattr(fit, name).to_numpy() for name in _NOISE}
        elif isinstance(fit, MultinomialFit) and fit.guarantee.is_private:
            numbers["privacy_sd_limit"] = fit.privacy_sd_limit.T.to_numpy().ravel()
    span = odds_ratios.spans_of(fit)
    numbers |= {"span": np.tile(span, len(names) // len(span)), "is_there": 1.0}
    return pd.DataFrame(numbers, index=list(names))


def shared_units(columns: Sequence[pd.DataFrame]) -> FloatArray:
    """Divisors ``(m,)`` of the terms, the same for all fits, by which odds ratios can be read."""

    def largest(*names: str) -> FloatArray:
        held = [column[name].abs().to_numpy() for column in columns for name in names]
        return np.asarray(np.fmax.reduce(held))

    sd = np.nan_to_num(largest("std_error", "privacy_sd_limit"))
    return odds_ratios.odds_units(np.nan_to_num(largest("estimate")), sd, largest("span"))


def as_frame(columns: Mapping[str, pd.DataFrame], *, as_odds: bool) -> pd.DataFrame:
    """One row for each fit and term that the fit has; see `Comparison.to_frame`."""
    there = [column[column["is_there"] == 1].assign(fit=label) for label, column in columns.items()]
    ordered = [*_NUMBERS[:2], *_PARTS, *_NUMBERS[2:]]
    frame = pd.concat(there).reset_index()[["fit", "term", *ordered]]
    if not as_odds:
        return frame
    ends = ["estimate", "conf_low", "conf_high"]
    with np.errstate(over="ignore"):
        frame[ends] = np.exp(frame[ends])
    errors = ("std_error", *_PARTS, *_NOISE)
    return frame.rename(columns={name: f"{name}_log" for name in errors})


# -- cells ---------------------------------------------------------------------------------------


def term_table(
    columns: Mapping[str, pd.DataFrame],
    divisors: FloatArray,
    statistic: Statistic,
    digits: int | None,
    *,
    as_odds: bool,
) -> Table:
    """Two rows for each term: estimates, and what stands below them if there is anything."""
    shown = next(iter(columns.values())).index
    table = np.array([column[list(_NUMBERS)].to_numpy() for column in columns.values()])
    names, cells = list[str](), list[tuple[str, ...]]()
    for place, (name, divisor) in enumerate(zip(shown, divisors.tolist(), strict=True)):
        here = table[:, place] / divisor
        first, below = _two_rows(here, statistic, digits, as_odds=as_odds)
        there = [bool(column["is_there"].iloc[place] == 1) for column in columns.values()]
        names.append(odds_ratios.with_unit(name, divisor))
        cells.append(tuple(cell if known else "" for cell, known in zip(first, there, strict=True)))
        if any(below):
            names.append("")
            cells.append(tuple(below))
    return Table(tuple(names), tuple(columns), tuple(cells))


def _label_of(expression: Any) -> str:
    return "" if expression is None else str(expression.label)


def _two_rows(
    numbers: FloatArray, statistic: Statistic, digits: int | None, *, as_odds: bool
) -> tuple[list[str], list[str]]:
    """Return the cells of one term: its estimates, and its errors in their brackets.

    Parameters
    ----------
    numbers : ndarray of shape (fits, 6)
        One row per fit; see `_NUMBERS`. NaN for what is not there.
    """
    estimate, sd, low, high, expected, limit = numbers.T
    error = np.fmax(sd, np.where(np.isnan(expected), limit, expected))
    if as_odds:
        with np.errstate(all="ignore"):
            odds = np.exp(np.column_stack([estimate, low, high]))
            around = odds[:, 0] * error
        shown = [_odds(odds[:, k], around, digits) for k in range(3)]
        errors, limits = _figures(error, digits), _figures(limit, digits)
    else:
        whole = np.concatenate([estimate, low, high] if statistic == "conf_int" else [estimate])
        # the same number of decimals in all numbers of a term
        cells = _figures(np.concatenate([whole, error, limit]), digits)
        parts = [cells[k : k + len(sd)] for k in range(0, len(cells), len(sd))]
        errors, limits, shown = *parts[-2:], [*parts[:-2], [], []]
    below = []
    for place in range(len(sd)):
        if not np.isnan(low[place]) and statistic == "conf_int":
            below.append(f"[{shown[1][place]}, {shown[2][place]}]")
        elif not np.isnan(sd[place]):
            below.append(f"({errors[place]})")
        elif np.isnan(limit[place]):
            below.append("")
        else:
            foreseen = "" if np.isnan(expected[place]) else f"{errors[place]}; "
            below.append(f"{{{foreseen}{limits[place]}}}")
    return shown[0], below


def _figures(values: FloatArray, digits: int | None) -> list[str]:
    """Numbers with this many decimals; what would round to zero has a power of ten."""
    if digits is None:
        return figures(values)
    return [_fixed(value, digits) for value in values.tolist()]


def _odds(odds: FloatArray, error: FloatArray, digits: int | None) -> list[str]:
    """Odds ratios, none of which is written as zero or as infinity."""
    if digits is None:
        return odds_ratios.odds_figures(odds, error)
    return [odds_ratios.beyond(value) or _fixed(value, digits) for value in odds.tolist()]


def _fixed(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    lost = value != 0 and float(text) == 0
    return f"{value:.{max(digits - 1, 0)}e}" if lost or abs(value) >= _LARGEST_FIXED else text


# -- facts ---------------------------------------------------------------------------------------


def fact_table(fits: Mapping[str, ModelRecord], found: Mapping[str, Inference]) -> Table:
    """One row for each fact that a fit has, and one column per fit."""
    columns = [_facts_of(fit, found.get(label)) for label, fit in fits.items()]
    names = [name for name in columns[0] if any(column[name] for column in columns)]
    cells = tuple(tuple(column[name] for column in columns) for name in names)
    return Table(tuple(names), tuple(fits), cells)


def _facts_of(fit: ModelRecord, found: Inference | None) -> dict[str, str]:
    price = prices(fit.guarantee)
    kind = next(word for kind, word in _KINDS.items() if isinstance(fit.guarantee, kind))
    return {
        "n": "" if fit.spec.formula.by else f"{fit.nobs}",
        "response": fit.spec.response.expression.label,
        "offset": " + ".join(part.label for part in fit.spec.formula.offsets),
        **{name: _label_of(getattr(fit.spec.formula, name)) for name in ("weights", "subset")},
        "prior": "" if fit.spec.prior is None else fit.spec.prior.source,
        "guarantee": kind,
        **{name: f"{price[name]:.6g}" if name in price else "" for name in _PRICES},
        **fit.kind.compared(fit, "" if found is None else found.mode),
    }


def compared_noise(fit: NoisyRecord, mode: str) -> dict[str, str]:
    """Facts about noise, loss, lambda, scale and inference in a comparison."""
    calibration, scale = fit.calibration, fit.release.scale
    plain, classes = calibration.noise.scale == 0, fit.spec.response.kind == "classes"
    learned = "not released" if scale is None else "released"
    return {
        "mechanism": "none" if plain else calibration.placement,
        "loss": "softmax" if classes else describe(fit.loss),
        "lambda": f"{calibration.lambda_:.3g}",
        "scale": "by the data" if fit.spec.scaled_by_data else learned,
        "inference": "without noise" if plain and mode else mode,
    }


# -- text ----------------------------------------------------------------------------------------


def as_great_table(terms: Table, facts: Table, notes: Sequence[str]) -> Any:
    """Both tables as one of great_tables, in two groups of rows, and the notes below it.

    Raises
    ------
    MissingDependencyError
        If great_tables is not installed.
    """
    try:
        from great_tables import GT
    except ImportError as missing:
        raise MissingDependencyError(
            "as_gt: takes great_tables; install it by `pip install great_tables`."
        ) from missing
    # names of our own, since labels of fits may be any text
    labels: dict[str, Any] = {f"fit {place}": label for place, label in enumerate(terms.headers, 1)}
    rows = [("Coefficients", *row) for row in terms.rows] + [("Fits", *row) for row in facts.rows]
    frame = pd.DataFrame(rows, columns=["part", "row", *labels])
    made = GT(frame, rowname_col="row", groupname_col="part").cols_label(cases=labels)
    for note in notes:
        made = made.tab_source_note(note)
    return made.cols_align("right", columns=list(labels))


def text_blocks(terms: Table, facts: Table) -> Iterator[Table]:
    """Divide the columns into tables that each fit the width of a page of text.

    Rows that are empty in all columns of a block are left out, but for one between the two parts.
    """
    names = [" ".join(name.split()) for name in (*terms.names, "", *facts.names)]
    gap = ("",) * len(terms.headers)
    rows = [tuple(map(_cut, row)) for row in (*terms.cells, gap, *facts.cells)]
    if any(cell.endswith(_CLOSING) for row in rows for cell in row):
        # numbers without a bracket end where those in brackets do
        rows = [tuple(c if c.endswith(_CLOSING) else f"{c} " for c in row) for row in rows]
    columns = list(zip(map(_cut, terms.headers), *rows, strict=True))
    stub = min(max(map(len, names)), _STUB)
    start, taken = 0, stub
    for place, column in enumerate([*columns, None]):
        width = page_model.WIDTH if column is None else max(map(len, column)) + 2
        if place > start and taken + width > page_model.WIDTH:
            headers, *cells = zip(*columns[start:place], strict=True)
            kept = [
                (name, row)
                for index, (name, row) in enumerate(zip(names, cells, strict=True))
                if index == len(terms.names) or "".join(row).strip()
            ]
            yield Table(tuple(name for name, _ in kept), headers, tuple(row for _, row in kept))
            start, taken = place, stub
        taken += width


def _cut(cell: str) -> str:
    return shorten(" ".join(cell.split()), _LONGEST_CELL)


def in_words(labels: Sequence[str]) -> str:
    """Labels of fits in a sentence, such as ``a, b and c``."""
    *first, last = labels
    return f"{', '.join(first)} and {last}" if first else last


def by_value(named: Mapping[str, str], between: str = ", ") -> str:
    """Say which labels have which value, in the order of the values."""
    groups = {value: [k for k, v in named.items() if v == value] for value in named.values()}
    return between.join(f"{value} in {in_words(labels)}" for value, labels in groups.items())
