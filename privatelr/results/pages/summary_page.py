"""The printed page as an object: text of 79 columns, HTML, LaTeX and CSV.

A page has public facts and what was paid for. Only if it is asked for, a rule follows, and below
it, labelled, what was computed from the data without being paid for. Nothing is computed here.
"""

from __future__ import annotations

import html
import textwrap
from typing import TYPE_CHECKING

from statsmodels.iolib.summary import Summary

from privatelr.results.pages.summary_table import WIDTH

if TYPE_CHECKING:
    from privatelr.results.pages.summary_table import CoefficientTable

_LABEL = 12
_RULE = " not private -----".rjust(WIDTH, "-")
STYLE = (
    "<style>.privatelr-fit .simpletable th {text-align: left}"
    ".privatelr-fit .simpletable tr:first-child th {text-align: right; padding-left: 1em}"
    ".privatelr-fit .simpletable td {text-align: right; padding-left: 1em}"
    ".privatelr-fit svg {vertical-align: middle}</style>"
)


class FitSummary(Summary):  # type: ignore[misc]  # statsmodels has no types
    """statsmodels' `Summary` with this package's page: title, facts, table, notes.

    Attributes
    ----------
    title, facts, notes, below
        The parts around the table of coefficients; `below` is empty unless it was asked for.
    counts : CoefficientTable or None
        Of the training data, after `below`.
    coefficients : CoefficientTable
        It is ``tables[0]`` too, in statsmodels' own kind.
    legend : str
        What the bars of the HTML page are; empty if it has none.
    """

    def __init__(
        self,
        title: list[str],
        facts: list[tuple[str, str]],
        coefficients: CoefficientTable,
        notes: list[str],
        below: list[str],
        legend: str,
        counts: CoefficientTable | None = None,
    ) -> None:
        super().__init__()
        self.title, self.facts, self.notes, self.below = title, facts, notes, below
        self.coefficients, self.legend, self.counts = coefficients, legend, counts
        self.tables = [coefficients.as_simple_table()]

    def as_text(self) -> str:
        """The page in at most 79 columns."""
        lines = [self.title[0], *wrapped(self.title[1]), ""]
        for label, text in self.facts:
            lines += wrapped(text, label.ljust(_LABEL), " " * _LABEL)
        lines += ["", *self.coefficients.as_lines()]
        for note in self.notes:
            lines += wrapped(note)
        if self.below:
            lines.append(_RULE)
        for note in self.below:
            lines += wrapped(note)
        if self.counts is not None:
            lines += ["", *self.counts.as_lines()]
        return "\n".join(lines)

    def as_html(self) -> str:
        """The page as HTML, with the same words in the same order."""
        title, formula = (html.escape(part) for part in self.title)
        facts = "".join(
            f"<tr><th style='text-align:left;vertical-align:top'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for label, text in self.facts
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        legend = f"<figcaption>{html.escape(self.legend)}</figcaption>" if self.legend else ""
        return (
            f"<div class='privatelr-fit'>{STYLE}"
            f"<p><strong>{title}</strong><br><code>{formula}</code></p>"
            f"<table>{facts}</table>{self.coefficients.as_html()}{legend}{notes}"
            f"{self._below_as_html()}</div>"
        )

    def _below_as_html(self) -> str:
        if not self.below:
            return ""
        below = "".join(f"<p>{html.escape(note)}</p>" for note in self.below)
        return (
            "<div style='border-top:2px solid #d32f2f;color:#d32f2f'>"
            f"<p><strong>not private</strong></p>{below}"
            f"{self.counts.as_html() if self.counts is not None else ''}</div>"
        )

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


def wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Break into lines of at most 79 columns, but not around an equals sign."""
    lines = textwrap.wrap(
        text.replace(" = ", "\0=\0"),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]
