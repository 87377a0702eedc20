"""The printed page, as text of 79 columns and as HTML.

Above the rule stand public facts and what was paid for; below it, labelled, what was computed
from the data without being paid for. Nothing is computed here.
"""

from __future__ import annotations

import html
import math
import textwrap
from typing import TYPE_CHECKING, Any

import pandas as pd
from statsmodels.iolib.summary import Summary

from privatelr.inference.evidence import quality
from privatelr.numerics.losses import describe
from privatelr.privacy.guarantees import NonPrivate
from privatelr.results.inference_table import Question, infer_coefficients, level_of
from privatelr.results.summary_notes import legend, notes
from privatelr.results.summary_table import WIDTH, inference_table, plain_table

if TYPE_CHECKING:
    from privatelr.inference.intervals import Inference
    from privatelr.privacy.guarantees import Guarantee
    from privatelr.results.record import FitRecord
    from privatelr.results.summary_table import CoefficientTable
    from privatelr.types import Placement

_LABEL = 12
_RULE = " not private -----".rjust(WIDTH, "-")
_STYLE = (
    "<style>.privatelr-fit .simpletable th {text-align: left}"
    ".privatelr-fit .simpletable tr:first-child th {text-align: right; padding-left: 1em}"
    ".privatelr-fit .simpletable td {text-align: right; padding-left: 1em}"
    ".privatelr-fit svg {vertical-align: middle}</style>"
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
        The parts around the table of coefficients.
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
    ) -> None:
        super().__init__()
        self.title, self.facts, self.notes, self.below = title, facts, notes, below
        self.coefficients, self.legend = coefficients, legend
        self.tables = [coefficients.as_simple_table()]

    def as_text(self) -> str:
        """The page in at most 79 columns."""
        lines = [self.title[0], *_wrap(self.title[1]), ""]
        for label, text in self.facts:
            lines += _wrap(text, label.ljust(_LABEL), " " * _LABEL)
        lines += ["", *self.coefficients.as_lines()]
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
        legend = f"<figcaption>{html.escape(self.legend)}</figcaption>" if self.legend else ""
        return (
            f"<div class='privatelr-fit'>{_STYLE}"
            f"<p><strong>{title}</strong><br><code>{formula}</code></p>"
            f"<table>{facts}</table>{self.coefficients.as_html()}{legend}{notes}"
            "<div style='border-top:2px solid #d32f2f;color:#d32f2f'>"
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


def summarise(
    fit: FitRecord, *, alpha: Any = 0.05, mode: Any = None, target: Any = "regularised"
) -> FitSummary:
    """Lay out a fit."""
    adverb = (
        "Differentially private " if not isinstance(fit.guarantee, NonPrivate) else "Non-private "
    )
    found, counted = None, False
    if fit.release.moments is None and (mode, target) == (None, "regularised"):
        level_of(alpha)
        table = plain_table(fit)
    else:
        found = infer_coefficients(fit, Question(level_of(alpha), mode, target))
        table, counted = inference_table(fit, found)
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
            *_moments(fit, found),
        ],
        table,
        notes(fit, found, is_asked_for=mode is not None),
        _below(fit),
        legend(found, counted) if found is not None else "",
    )


def _promise(fit: FitRecord) -> str:
    if isinstance(fit.guarantee, NonPrivate):
        return f"{fit.guarantee}; nothing on this page is private"
    moments = fit.release.moments
    bought = ", coefficients only"
    if moments is not None:
        parts = (("coefficients", fit.calibration), ("inference", moments.calibration))
        bought = ": " + ", ".join(f"{name} {_price(part.target)}" for name, part in parts)
    return f"{fit.guarantee}{bought}; neighbours replace one of n = {fit.nobs} records"


def _price(guarantee: Guarantee) -> str:
    """The numbers of a guarantee, without its kind."""
    return str(guarantee).partition(" (")[0].replace(", ", " and ")


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


def _moments(fit: FitRecord, found: Inference | None) -> list[tuple[str, str]]:
    """What was released for inference, and how good it is."""
    if fit.release.moments is None or found is None:
        return []
    known, calibration = quality(fit.release), fit.release.moments.calibration
    size = f"{known.relative_bias:.3g}" if math.isfinite(known.relative_bias) else "not known"
    bias = f"relative bias of the penalty {size}"
    if calibration.noise.scale == 0:
        return [("Inference", f"curvature and scores of the data without noise; {bias}")]
    return [
        (
            "Inference",
            f"curvature and scores with {calibration.noise.title} noise, noise-to-signal ratio "
            f"{known.noise_to_signal:.3g}; {bias}; {found.mode} mode, {found.target} coefficients",
        )
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
    made = ", their odds ratios" if fit.calibration.problem.loss.probability else ""
    if fit.release.moments is not None:
        made = ", their standard errors, tests and intervals, the ratios under Inference"
    return (
        f"Apart from the estimates{made} and what stands below the line, no number on this page "
        "was computed from the data."
    )
