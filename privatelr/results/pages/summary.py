"""The printed page of a fit: title, facts, table of coefficients, notes.

A page contains public facts and numbers that the guarantee covers. Only if a user requests them,
numbers follow below a rule that were computed from the data without privacy, and are labelled so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privatelr import page_model
from privatelr.errors import require_flag
from privatelr.inference import Question
from privatelr.inference.question import USUAL
from privatelr.page_model import Piece, Table, in_words
from privatelr.results import fit_tables
from privatelr.results.fit_record import ModelRecord
from privatelr.results.odds_ratios import read_exponentiate
from privatelr.results.pages import coefficient_table, error_notes, sentences
from privatelr.results.pages.sentences import paid_before
from privatelr.results.predict import scale_of

_ODDS = (
    "Odds ratios and the ends of their intervals are exponentials of the coefficients and of the "
    "ends of theirs. SE(log) is the Std. Error of the coefficient, which is the logarithm of the "
    "odds ratio; its parts, z and the p-value are about the coefficient too."
)
_UNITS_IN_NAMES = "Names say of how many units a row is, by the declared bounds."
_UNITS_IN_COLUMN = "per: how many units of its column an odds ratio is of, by the declared bounds."
_ALONE = "Odds ratios have no intervals here, because there are no standard errors."


@dataclass(frozen=True, eq=False, repr=False)
class FitSummary(page_model.Paged):
    """The page of a fit.

    Attributes
    ----------
    head, tail : list
        The pieces of the page above and below its tables.
    coefficients : Table
        The table of coefficients.
    parts : list of Table
        The table of the parts of the errors, if there are errors and noise.
    """

    head: Sequence[Piece]
    coefficients: Table
    parts: Sequence[Table]
    tail: Sequence[Piece]

    def page(self) -> list[Piece]:
        """The pieces of the page."""
        parts = [piece for table in self.parts for piece in ("", table)]
        return [*self.head, self.coefficients, *parts, *self.tail]

    __repr__ = page_model.Paged.__str__


def summarise(
    fit: Any, asked: Question = USUAL, *, exponentiate: Any, diagnostics: Any
) -> FitSummary:
    """Make the page of a fit; `asked` is about the errors of a fit to which noise was added."""
    as_odds = read_exponentiate(fit, exponentiate)
    has_below = require_flag("diagnostics", diagnostics)
    if fit.has_inference or not asked.is_usual:
        found = fit_tables.infer_coefficients(fit, asked)
        tables = coefficient_table.inference_tables(fit, found, as_odds=as_odds)
        notes = error_notes.notes_on_errors(fit, found, is_asked_for=asked.mode is not None)
        if as_odds:
            is_renamed = tables[0].names != tuple(fit.spec.columns.names)
            odds = "Odds ratios are exponentials of coefficients." if found.is_withheld else _ODDS
            notes = [odds, *([_UNITS_IN_NAMES] if is_renamed else []), *notes]
        facts = fit.kind.facts(fit, found)
        errors = [] if found.is_withheld else ["their standard errors, tests and intervals"]
        computed = [*errors, "the ratios under Inference"]
    else:
        table, facts = coefficient_table.estimates_table(fit), fit.kind.facts(fit, None)
        tables = [table]
        computed = ["their odds ratios"] if "odds ratio" in table.headers else []
        notes = [_ALONE] if as_odds else []
        if coefficient_table.UNITS in table.headers:
            notes.append(_UNITS_IN_COLUMN)
        own_notes, own_computed = fit.kind.notes(fit, table)
        notes, computed = [*notes, *own_notes], [*computed, *own_computed]
    computed += ["the numbers under ROC curve"] if fit.has_roc else []
    facts = [
        ("Promise", sentences.promise(fit)),
        *([("Source", "read from a file; see fit.origin")] if fit.origin else []),
        *paid_before([fit.spec], fit.guarantee),
        *facts,
    ]
    title, formula = page_model.Heading(sentences.title(fit)), page_model.Code(fit.formula)
    head: list[Piece] = [title, formula, "", page_model.FactList(facts), ""]
    tail: list[Piece] = [*notes, *above(fit, ["the estimates", *computed], has_below=has_below)]
    if has_below:
        tail.append(page_model.NotPrivate(_below(fit)))
    return FitSummary(head, tables[0], tables[1:], tail)


# -- numbers that are not private --------------------------------------------------------------


def above(fit: ModelRecord, computed: Sequence[str], *, has_below: bool) -> list[str]:
    """The last sentences above the rule, or on a page without a rule; they contain no numbers.

    They say which numbers the page leaves out, where to find these, and which numbers on the page
    were computed from the data (`computed`).
    """
    words = []
    rule = fit.threshold
    if isinstance(rule, str) and fit.has_roc:
        paid = f"the paid one ({rule})"
        if math.isnan(fit.roc.auc):
            paid = f"{scale_of(fit.loss).fixed:g}, since the curve has none"
        words.append(f"The threshold of predict(type='classes') is {paid}.")
    elif isinstance(rule, str):
        words.append(
            f"The threshold of predict(type='classes') was learned from the training data ({rule}),"
            " so neither it nor the classes that it gives are private"
            f"{'.' if fit.has_diagnostics else '; a saved fit does not have it.'}"
        )
    if fit.has_diagnostics and not has_below:
        exact = "The exact" if fit.has_roc else "The"
        words.append(
            f"{exact} C-index and the counts of the training data are not private and not shown: "
            "fit.diagnostics has them, and so has summary(diagnostics=True)."
        )
    if fit.spec.scaled_by_data:
        return [*words, "Every number in the table above was computed from the data."]
    words += sentences.unseen_records(fit)
    standard = fit.spec.standard
    if standard is not None and standard.released is not None:
        computed = [*computed, "the released length of rows"]
    place = "above the line" if has_below else "on this page"
    return [*words, f"No number {place} but {in_words(computed)} was computed from the data."]


def _below(fit: ModelRecord) -> list[Piece]:
    """The pieces below the rule, which are about the training data and not private."""
    found, rule = fit.diagnostics, fit.threshold
    warning = "What stands below this line was computed from the training data."
    if fit.guarantee.is_private:
        warning = (
            "What stands below this line was computed from the training data and is not covered "
            "by the promise. Do not publish it."
        )
    c_index = "not defined" if np.isnan(found.c_index) else f"{found.c_index:.3f}"
    words: list[Piece] = [warning, f"C-index {c_index}."]
    if isinstance(rule, str) and not fit.has_roc:
        words.append(f"The threshold {found.threshold(rule):.3f} ({rule}) splits the classes.")
    return [*words, *found.counts.pieces()]
