"""Sentences and pages on what is not private: counts, checks, and what was only asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from privatelr.errors import ArgumentError, show
from privatelr.page_model import Alarm, Code, Piece, Table, as_html, as_text
from privatelr.privacy import NonPrivate
from privatelr.results.diagnostics import HEADERS, DataCounts, NeverSaved
from privatelr.results.fit_record import ModelRecord


def read_diagnostics(fit: ModelRecord, diagnostics: Any) -> bool:
    """Whether the page shows numbers of the training data; refuses where there are none."""
    if not isinstance(diagnostics, bool):
        raise ArgumentError(f"diagnostics={show(diagnostics)}: diagnostics takes True or False.")
    if diagnostics and not fit.has_diagnostics:
        raise ArgumentError(
            "diagnostics=True: this fit has none, since they are computed from the training data "
            "and are neither kept in a saved fit nor made of a Dask collection of many records; "
            "fit again to see them, or take diagnostics=False."
        )
    return diagnostics


def above(fit: ModelRecord, computed: Sequence[str], *, has_below: bool) -> list[str]:
    """Last sentences above the rule, or of a page without one.

    `computed` names what on the page was made from the data.
    """
    return [*_hints(fit, has_below=has_below), _closing(fit, computed, has_below=has_below)]


def below(fit: ModelRecord) -> list[Piece]:
    """What stands below the rule, all of it about the training data."""
    found = [_warning(fit), _diagnosed(fit), *_threshold(fit)]
    return [*found, *_counted(fit.diagnostics.counts)]


def _hints(fit: ModelRecord, *, has_below: bool) -> list[str]:
    """What the page leaves out, and where it is; words, and no number."""
    hints = []
    rule = fit.threshold.rule
    if rule is not None:
        hints.append(
            f"The threshold of predict(type='classes') was learned from the training data ({rule}),"
            " so neither it nor the classes that it gives are private"
            f"{'.' if fit.has_diagnostics else '; a saved fit does not have it.'}"
        )
    if fit.has_diagnostics and not has_below:
        hints.append(
            "The C-index and the counts of the training data are not private and not shown: "
            "fit.diagnostics has them, and so has summary(diagnostics=True)."
        )
    return hints


def _closing(fit: ModelRecord, computed: Sequence[str], *, has_below: bool) -> str:
    if fit.spec.scaled_by_data:
        return "Every number in the table above was computed from the data."
    *first, last = computed
    named = f"{', '.join(first)} and {last}" if first else last
    place = "above the line" if has_below else "on this page"
    return f"No number {place} but {named} was computed from the data."


def _warning(fit: ModelRecord) -> str:
    if isinstance(fit.guarantee, NonPrivate):
        return "What stands below this line was computed from the training data."
    return (
        "What stands below this line was computed from the training data and is not covered by "
        "the promise. Do not publish it."
    )


def _diagnosed(fit: ModelRecord) -> str:
    value = fit.diagnostics.c_index
    return f"C-index {'not defined' if pd.isna(value) else f'{value:.3f}'}."


def _threshold(fit: ModelRecord) -> list[str]:
    rule = fit.threshold.rule
    if rule is None:
        return []
    return [f"The threshold {fit.diagnostics.threshold(rule):.3f} ({rule}) splits the classes."]


_MOST_SHOWN = 100
"""Variables on a page; those with the most to tell where there are more."""


def _counted(counts: DataCounts, doubts: Sequence[str] = ()) -> list[Piece]:
    """Records by class, and the table of variables with what it leaves out."""
    words = [counts.sentence()]
    empty = [name for name in counts.variables if counts.row(name)[0] == 0]
    if empty:
        words.append(f"No usable value has: {', '.join(empty[:_MOST_SHOWN])}.")
    if counts.unread is None:
        words.append("Missing and clipped values of a Dask collection are not counted.")
    elif len(counts.variables) > _MOST_SHOWN:
        words.append(
            f"{_MOST_SHOWN} of {len(counts.variables)} variables are shown, those with the fewest "
            "usable and then the most clipped values first."
        )
    return [*words, *doubts, *_variables(counts)]


def _variables(counts: DataCounts) -> list[Piece]:
    """Their table, with a dash where a count does not apply; nothing where nobody counted."""
    if counts.unread is None or not counts.variables:
        return []
    rows = {name: counts.row(name) for name in counts.variables}
    shown = list(rows)
    if len(shown) > _MOST_SHOWN:
        shown = sorted(shown, key=lambda name: (rows[name][0], -(rows[name][2] or 0)))[:_MOST_SHOWN]
    cells = tuple(tuple("-" if n is None else str(n) for n in rows[name]) for name in shown)
    return ["", Table(tuple(shown), HEADERS, cells)]


_TITLE = "NOT PRIVATE: local check of the data against their declarations"
_WARNING = (
    "For the eyes of those who hold the data. Its numbers are exact, nothing was charged for them "
    "and nothing was saved; do not publish them, and declare bounds and levels from public "
    "knowledge and not from this page."
)


class DataCheck(NeverSaved):
    """Not private: what a fit would read of the data, counted; see `privatelr.check`.

    Attributes
    ----------
    formula : str
        The formula with ``.`` expanded.
    counts : DataCounts
        Numbers of the data.
    doubts : tuple of str
        What is declared and probably not meant, which is public.
    """

    # not a dataclass: asdict() and replace() would take the label off
    __slots__ = ("counts", "doubts", "formula")

    def __init__(self, formula: str, counts: DataCounts, doubts: tuple[str, ...]) -> None:
        self.formula, self.counts, self.doubts = formula, counts, doubts

    @property
    def table(self) -> pd.DataFrame:
        """Not private; one row per variable: usable, missing, outside_bounds, undeclared."""
        return self.counts.table

    @property
    def classes(self) -> pd.Series[int]:
        """Not private: usable records of the negative and of the positive class."""
        return self.counts.classes

    def as_text(self) -> str:
        """The page in at most 79 columns."""
        return as_text(self._page())

    def as_html(self) -> str:
        """The same words as HTML."""
        return as_html(self._page())

    def _page(self) -> list[Piece]:
        response = f"Response {self.counts.response.describe()}."
        doubts = [f"Doubtful: {doubt}." for doubt in self.doubts]
        top: list[Piece] = [Alarm(_TITLE), Code(self.formula), "", _WARNING, ""]
        return [*top, response, *_counted(self.counts, doubts)]

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return f"<DataCheck of {self.formula!r}, NOT PRIVATE: print it to see its numbers>"

    def _repr_html_(self) -> str:
        return self.as_html()
