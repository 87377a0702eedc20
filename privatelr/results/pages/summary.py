"""The printed page of a fit: title, facts, table of coefficients, notes.

A page has public facts and what was paid for. Only if it is asked for, a rule follows, and below
it, labelled, what was computed from the data without being paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable

from privatelr import page_model
from privatelr.page_model import Code, FactList, Heading, NotPrivate, Piece, Table
from privatelr.results.fit_record import FitRecord, ModelRecord, SelectedRecord
from privatelr.results.pages import sentences
from privatelr.results.pages.inference_table import Question, infer_coefficients, level_of
from privatelr.results.pages.not_private_notes import above, below, read_diagnostics
from privatelr.results.pages.summary_notes import legend, notes
from privatelr.results.pages.summary_table import (
    UNITS,
    UNITS_NOTE,
    figures,
    inference_table,
    odds_columns,
    odds_computed,
    plain_table,
    table_of_shown,
)
from privatelr.results.release_files.origin import source_fact

_MOST_SHOWN = 40
"""Chosen coefficients on the page; `coef` has them all."""
_INFERRED = ["their standard errors, tests and intervals", "the ratios under Inference"]


class FitSummary(Summary):  # type: ignore[misc]  # statsmodels has no types
    """statsmodels' `Summary` with this package's page: title, facts, table, notes.

    Attributes
    ----------
    title : list of str
        What the model is, and its formula.
    facts, notes
        The parts around the table of coefficients.
    below
        Pieces of the page that are not private; empty unless they were asked for.
    coefficients : Table
        It is ``tables[0]`` too, in statsmodels' own kind.
    """

    def __init__(
        self,
        title: list[str],
        facts: list[tuple[str, str]],
        coefficients: Table,
        notes: list[str],
        below: Sequence[Piece],
    ) -> None:
        super().__init__()
        self.title, self.facts, self.notes, self.below = title, facts, notes, below
        self.show_table(coefficients)

    def show_table(self, table: Table) -> None:
        """Put a table in the place of the coefficients."""
        self.coefficients = table
        self.tables = [SimpleTable(table.cells, table.headers, table.names)]

    def _page(self) -> list[Piece]:
        title, formula = self.title
        facts: list[Piece] = [Heading(title), Code(formula), "", FactList(self.facts), ""]
        unpaid = [NotPrivate(self.below)] if self.below else []
        return [*facts, self.coefficients, *self.notes, *unpaid]

    def as_text(self) -> str:
        """The page in at most 79 columns."""
        return page_model.as_text(self._page())

    def as_html(self) -> str:
        """The page as HTML, with the same words in the same order."""
        return page_model.as_html(self._page())

    def _repr_html_(self) -> str:
        return self.as_html()

    def as_latex(self, label: str = "") -> str:
        """The coefficient table in LaTeX, the rest of the page in comments above it."""
        return f"{self._commented('%')}\n{self.tables[0].as_latex_tabular()}"

    def as_csv(self) -> str:
        """The coefficient table as CSV, the rest of the page in comments above it."""
        return f"{self._commented('#')}\n{self.tables[0].as_csv()}"

    def _commented(self, mark: str) -> str:
        facts = [f"{label}: {text}" for label, text in self.facts]
        return "\n".join(f"{mark} {line}" for line in [*self.title, *facts, *self.notes])


def summarise(
    fit: FitRecord,
    *,
    alpha: Any = 0.05,
    mode: Any = None,
    target: Any = "penalised",
    diagnostics: Any = False,
) -> FitSummary:
    """Lay out a fit that noise was added to."""
    shown = read_diagnostics(fit, diagnostics)
    found, asked = None, Question(level_of(alpha), mode, target)
    if fit.release.moments is None and asked == Question(asked.level):
        table = plain_table(fit)
    else:
        found = infer_coefficients(fit, asked)
        table, counted = inference_table(fit, found)
        table = replace(table, legend=legend(found, counted))
    computed = _INFERRED if fit.release.moments is not None else odds_computed(fit, table)
    facts, said = sentences.perturbed(fit, found), notes(fit, found, is_asked_for=mode is not None)
    return _laid_out(fit, fit.loss.title, facts, table, said, computed, shown)


def summarise_selected(fit: SelectedRecord, *, diagnostics: Any = False) -> FitSummary:
    """Lay out a model of chosen columns."""
    shown = read_diagnostics(fit, diagnostics)
    table = _chosen_table(fit)
    computed = [*odds_computed(fit, table), "the counts of choices"]
    facts, said = sentences.selected(fit), _choices(fit)
    return _laid_out(fit, fit.calibration.title, facts, table, said, computed, shown)


def _laid_out(
    fit: ModelRecord,
    title: str,
    facts: list[tuple[str, str]],
    table: Table,
    said: list[str],
    computed: list[str],
    shown: bool,
) -> FitSummary:
    """What all pages have; `computed` names what was made from the data beside the estimates."""
    return FitSummary(
        [f"{sentences.adverb(fit)} {title}", fit.formula],
        [("Promise", sentences.promise(fit)), *source_fact(fit), *facts],
        table,
        [
            *([UNITS_NOTE] if UNITS in table.headers else []),
            *said,
            *above(fit, ["the estimates", *computed], has_below=shown),
        ],
        below(fit) if shown else [],
    )


def _chosen_table(fit: SelectedRecord) -> Table:
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


def _choices(fit: SelectedRecord) -> list[str]:
    said, coef, unit = [], fit.release.coef, fit.calibration.unit
    if len(coef) > _MOST_SHOWN:
        said.append(
            f"{np.count_nonzero(coef)} of {len(coef)} coefficients are not zero; "
            f"{len(_shown(fit))} of them are shown."
        )
    if fit.release.exact is None:
        said.append(
            "A column was chosen as it is (times +) or with its sign turned (times -). The "
            f"difference over all choices{f', {unit:.3g} times,' if unit != 1 else ''} is its "
            "coefficient where declared bounds are mapped to -1 and 1; the table has it in the "
            "units of the column, and the intercept takes up the centres of the bounds."
        )
    return said
