"""The printed page, as text of 79 columns and as HTML.

Above the rule stand public facts and what was paid for; below it, labelled, what was computed
from the data without being paid for. Nothing is computed here.
"""

from __future__ import annotations

import html
import textwrap
from typing import TYPE_CHECKING

import pandas as pd
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable

from privatelr.numerics.losses import describe
from privatelr.privacy.guarantees import NonPrivate

if TYPE_CHECKING:
    from privatelr.results.record import FitRecord
    from privatelr.types import Placement

WIDTH = 79
_LABEL = 12
_LONGEST_NAME = 38
_PLAIN_TABLE = {
    "table_dec_above": None,
    "header_dec_below": None,
    "table_dec_below": None,
    "colsep": "",
    "title_align": "l",
}
_RULE = " not private -----".rjust(WIDTH, "-")
_STYLE = (
    "<style>.privatelr-fit .simpletable th {text-align: left}"
    ".privatelr-fit .simpletable td {text-align: right; padding-left: 1em}</style>"
)
_NOUNS: dict[Placement, str] = {
    "objective": "objective perturbation",
    "output": "output perturbation",
}


class FitSummary(Summary):  # type: ignore[misc]  # statsmodels has no types
    """statsmodels' `Summary` with this package's page: title, facts, table, notes.

    Attributes
    ----------
    title, facts, notes, below
        The parts around the coefficient table, which is ``tables[0]``.
    html_table
        The same table with its names escaped and in full.
    """

    def __init__(
        self,
        title: list[str],
        facts: list[tuple[str, str]],
        table: SimpleTable,
        html_table: SimpleTable,
        notes: list[str],
        below: list[str],
    ) -> None:
        super().__init__()
        self.title, self.facts, self.notes, self.below = title, facts, notes, below
        self.tables, self.html_table = [table], html_table

    def as_text(self) -> str:
        """The page in at most 79 columns."""
        lines = [self.title[0], *_wrap(self.title[1]), ""]
        for label, text in self.facts:
            lines += _wrap(text, label.ljust(_LABEL), " " * _LABEL)
        lines += ["", *(line.rstrip() for line in self.tables[0].as_text().splitlines())]
        for note in self.notes:
            lines += _wrap(note)
        lines.append(_RULE)
        for note in self.below:
            lines += _wrap(note)
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
        below = "".join(f"<p>{html.escape(note)}</p>" for note in self.below)
        return (
            f"<div class='privatelr-fit'>{_STYLE}"
            f"<p><strong>{title}</strong><br><code>{formula}</code></p>"
            f"<table>{facts}</table>{self.html_table.as_html()}{notes}"
            "<div style='border-top:2px solid #b30000;color:#b30000'>"
            f"<p><strong>not private</strong></p>{below}</div></div>"
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


def _wrap(text: str, first: str = "", rest: str = "") -> list[str]:
    """Break into lines, but not around an equals sign."""
    lines = textwrap.wrap(
        text.replace(" = ", "\0=\0"),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def summarise(fit: FitRecord) -> FitSummary:
    """Lay out a fit."""
    adverb = (
        "Differentially private " if not isinstance(fit.guarantee, NonPrivate) else "Non-private "
    )
    return FitSummary(
        [adverb + fit.calibration.problem.loss.title, fit.formula],
        [
            ("Promise", _promise(fit)),
            ("Mechanism", _mechanism(fit)),
            ("Rows", _rows(fit)),
            ("Response", fit.spec.response.describe()),
            *_loss(fit),
            ("Lambda", f"{fit.calibration.lambda_:.3g}, {fit.calibration.lambda_origin}"),
            *_projection(fit),
        ],
        _coefficients(fit, [_shorten(name) for name in fit.coef.index]),
        _coefficients(fit, [html.escape(name) for name in fit.coef.index]),
        _notes(fit),
        _below(fit),
    )


def _promise(fit: FitRecord) -> str:
    if isinstance(fit.guarantee, NonPrivate):
        return f"{fit.guarantee}; nothing on this page is private"
    return f"{fit.guarantee}, coefficients only; neighbours replace one of n = {fit.nobs} records"


def _mechanism(fit: FitRecord) -> str:
    calibration = fit.calibration
    if calibration.noise.scale == 0:
        return "none: the regularised minimiser itself"
    return (
        f"{_NOUNS[calibration.placement]}, {calibration.noise.title} noise, "
        f"scale {calibration.noise.scale:.3g} ({calibration.analysis} bound)"
    )


def _rows(fit: FitRecord) -> str:
    spec = fit.spec
    radius = f"radius R = {spec.radius:.3g}"
    if spec.scaled_by_data:
        return f"{radius}; columns were scaled by the data's own means, deviations and longest row"
    if spec.bound_source == "declared bounds":
        return f"{radius} from declared bounds; nothing was estimated from the data"
    shortened = f"{radius}, covariates shortened to length {spec.bound:.3g} (row_norm)"
    if not spec.unbounded:
        return f"{shortened}, below what the declared bounds give"
    return (
        f"{shortened}: no bounds for {', '.join(spec.unbounded)}; "
        "declaring bounds={name: (lo, hi)} maps each variable onto [-1, 1], and usually loses "
        "less than shortening whole rows"
    )


def _loss(fit: FitRecord) -> list[tuple[str, str]]:
    """Which of its family a loss is, where it is one of several."""
    loss = fit.calibration.problem.loss
    return [("Loss", describe(loss))] if loss.parameters else []


def _projection(fit: FitRecord) -> list[tuple[str, str]]:
    projection = fit.spec.projection
    if projection is None:
        return []
    p, q = projection.shape
    return [("Projection", f"{p} covariates onto {q} random directions, drawn without the data")]


def _coefficients(fit: FitRecord, names: list[str]) -> SimpleTable:
    columns: dict[str, pd.Series[float]] = {"Estimate": fit.coef}
    if not isinstance(fit.guarantee, NonPrivate):
        columns["privacy sd"] = fit.privacy_sd
    if fit.calibration.problem.loss.probability is not None:
        columns["odds ratio"] = fit.odds_ratios
    cells = [
        [_number(column.iloc[row]) for column in columns.values()] for row in range(len(fit.coef))
    ]
    table = SimpleTable(cells, headers=list(columns), stubs=names, txt_fmt=dict(_PLAIN_TABLE))
    table.output_formats["txt"].update(
        data_aligns="r", stub_align="l", header_align="r", data_fmts=["%s"], colwidths=13
    )
    return table


def _number(value: float) -> str:
    plain = 1e-3 <= abs(value) < 1e5 or value == 0
    return f"{value:.3f}" if plain else f"{value:.2e}"


def _shorten(name: str) -> str:
    if len(name) <= _LONGEST_NAME:
        return name
    half = (_LONGEST_NAME - 3) // 2
    return f"{name[: _LONGEST_NAME - 3 - half]}...{name[-half:]}"


def _notes(fit: FitRecord) -> list[str]:
    if isinstance(fit.guarantee, NonPrivate):
        return []
    limit = "privacy sd: the standard deviation of what the noise adds; computed without the data."
    if fit.calibration.placement == "objective":
        limit = (
            "privacy sd: the noise adds at most this, whatever the data, and usually much less, "
            "because the curvature of the data damps it; computed without the data."
        )
    return [
        limit,
        "Standard errors were not bought: they need a share of epsilon of their own, which this "
        "version does not sell yet.",
    ]


def _below(fit: FitRecord) -> list[str]:
    return [_diagnosed(fit), *_learned_threshold(fit), _closing(fit)]


def _diagnosed(fit: FitRecord) -> str:
    if not fit.has_diagnostics:
        return "Diagnostics of the training data are not kept in a saved fit."
    value = fit.diagnostics.c_index
    c_index = "not defined" if pd.isna(value) else f"{value:.3f}"
    if isinstance(fit.guarantee, NonPrivate):
        return f"C-index {c_index}, computed from the training data."
    return (
        f"C-index {c_index} and anything else below this line was computed from the training "
        "data and is not covered by the promise. Do not publish it."
    )


def _learned_threshold(fit: FitRecord) -> list[str]:
    rule = fit.threshold.rule
    if rule is None:
        return []
    value = f" {fit.diagnostics.threshold(rule):.3f}" if fit.has_diagnostics else ""
    return [
        f"The threshold{value} ({rule}) of predict(type='classes') was learned from the training "
        "data, so the classes it gives are not private either."
    ]


def _closing(fit: FitRecord) -> str:
    if fit.spec.scaled_by_data:
        return "Every number in the table above was computed from the data."
    ratios = ", their odds ratios" if fit.calibration.problem.loss.probability else ""
    return (
        f"Apart from the estimates{ratios} and what stands below the line, no number on this page "
        "was computed from the data."
    )
