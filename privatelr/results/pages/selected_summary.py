"""The printed page of a model of chosen columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.design import EntryBoundedMatrix
from privatelr.privacy import NonPrivate
from privatelr.results.pages.not_private_notes import above, below, read_diagnostics, table_of
from privatelr.results.pages.summary_page import FitSummary
from privatelr.results.pages.summary_table import (
    UNITS,
    UNITS_NOTE,
    figures,
    odds_columns,
    odds_computed,
    table_of_shown,
)
from privatelr.results.release_files.origin import source_fact

if TYPE_CHECKING:
    from privatelr.results.fit_record import SelectedRecord
    from privatelr.results.pages.summary_table import CoefficientTable

_MOST_SHOWN = 40
"""Coefficients on the page; `coef` has them all."""


def summarise(fit: SelectedRecord, *, diagnostics: Any = False) -> FitSummary:
    """Lay out a fit."""
    shown = read_diagnostics(fit, diagnostics)
    private = not isinstance(fit.guarantee, NonPrivate)
    adverb = "Differentially private " if private else "Non-private "
    table = _table(fit)
    computed = ["the estimates", *odds_computed(fit, table), "the counts of choices"]
    return FitSummary(
        [adverb + fit.calibration.title, fit.formula],
        [
            ("Promise", _promise(fit)),
            *source_fact(fit),
            *fit.calibration.facts,
            ("Rows", _rows(fit)),
            ("Response", fit.spec.response.describe()),
        ],
        table,
        [
            *([UNITS_NOTE] if UNITS in table.headers else []),
            *_notes(fit),
            *above(fit, computed, has_below=shown),
        ],
        below(fit) if shown else [],
        legend="",
        counts=table_of(fit.diagnostics.counts) if shown else None,
    )


def _promise(fit: SelectedRecord) -> str:
    if isinstance(fit.guarantee, NonPrivate):
        return f"{fit.guarantee}; nothing on this page is private"
    what = "the choices" if fit.release.path is None else "the choices and their order"
    return f"{fit.guarantee}: {what}; neighbours replace one of n = {fit.nobs} records"


def _rows(fit: SelectedRecord) -> str:
    spec = fit.spec
    size = f"entries of size {spec.x_bound:.3g} at most"
    if isinstance(spec, EntryBoundedMatrix):
        return f"{size}, others are cut off there; nothing was estimated from the data"
    if not spec.unbounded:
        return f"{size} from declared bounds; nothing was estimated from the data"
    return (
        f"{size}: no bounds for {', '.join(spec.unbounded)}, whose values are cut off there; "
        "declaring bounds={name: (lo, hi)} maps each variable onto [-1, 1]"
    )


def _table(fit: SelectedRecord) -> CoefficientTable:
    shown = _shown(fit)
    counts, d = fit.release.counts, fit.spec.d
    columns = {"Estimate": figures(fit.coef.to_numpy()[shown])}
    if fit.release.exact is None:
        columns["times +"] = [str(count) for count in counts[:d][shown]]
        columns["times -"] = [str(count) for count in counts[d:][shown]]
    return table_of_shown(fit, shown, columns | odds_columns(fit, shown, np.zeros(len(shown))))


def _shown(fit: SelectedRecord) -> list[int]:
    """Positions of the coefficients on the page: all, or the largest where they are many."""
    coef = fit.release.coef
    if len(coef) <= _MOST_SHOWN:
        return list(range(len(coef)))
    largest = np.argsort(-np.abs(coef), kind="stable")[:_MOST_SHOWN]
    return sorted(int(index) for index in largest if coef[index] != 0) or [0]


def _notes(fit: SelectedRecord) -> list[str]:
    notes = []
    coef = fit.release.coef
    if len(coef) > _MOST_SHOWN:
        notes.append(
            f"{np.count_nonzero(coef)} of {len(coef)} coefficients are not zero; "
            f"{len(_shown(fit))} of them are shown."
        )
    if fit.release.exact is None:
        notes.append(
            "A column was chosen as it is (times +) or with its sign turned (times -). The "
            "difference over all choices"
            + (f", {fit.calibration.unit:.3g} times," if fit.calibration.unit != 1 else "")
            + " is its coefficient where declared bounds are mapped to -1 and 1; the table has it "
            "in the units of the column, and the intercept takes up the centres of the bounds."
        )
    return notes
