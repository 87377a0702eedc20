"""The printed page of a fit whose minimiser, or objective, noise was added to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from privatelr.design import NormBoundedMatrix
from privatelr.inference import quality
from privatelr.numerics import describe
from privatelr.privacy import NonPrivate
from privatelr.results.pages.inference_table import Question, infer_coefficients, level_of
from privatelr.results.pages.not_private_notes import above, below, read_diagnostics, table_of
from privatelr.results.pages.summary_notes import legend, notes
from privatelr.results.pages.summary_page import FitSummary
from privatelr.results.pages.summary_table import (
    UNITS,
    UNITS_NOTE,
    inference_table,
    odds_computed,
    plain_table,
    shortened_apart,
)
from privatelr.results.release_files.origin import source_fact

if TYPE_CHECKING:
    from privatelr.inference import Inference
    from privatelr.privacy import Guarantee
    from privatelr.results.fit_record import FitRecord
    from privatelr.results.pages.summary_table import CoefficientTable
    from privatelr.types import Placement

_REMEDY = (
    "declaring bounds={name: (lo, hi)} maps each variable onto [-1, 1], and usually loses less "
    "than shortening"
)
_NOUNS: dict[Placement, str] = {
    "objective": "objective perturbation",
    "output": "output perturbation",
}


def summarise(
    fit: FitRecord,
    *,
    alpha: Any = 0.05,
    mode: Any = None,
    target: Any = "penalised",
    diagnostics: Any = False,
) -> FitSummary:
    """Lay out a fit."""
    shown = read_diagnostics(fit, diagnostics)
    adverb = (
        "Differentially private " if not isinstance(fit.guarantee, NonPrivate) else "Non-private "
    )
    found, counted = None, False
    asked = Question(level_of(alpha), mode, target)
    if fit.release.moments is None and asked == Question(asked.level):
        table = plain_table(fit)
    else:
        found = infer_coefficients(fit, asked)
        table, counted = inference_table(fit, found)
    return FitSummary(
        [adverb + fit.calibration.problem.loss.title, fit.formula],
        [
            ("Promise", _promise(fit)),
            *source_fact(fit),
            ("Mechanism", _mechanism(fit)),
            ("Rows", _rows(fit)),
            ("Response", fit.spec.response.describe()),
            *_loss(fit),
            ("Lambda", _lambda(fit)),
            *_projection(fit),
            *_moments(fit, found),
        ],
        table,
        [
            *([UNITS_NOTE] if UNITS in table.headers else []),
            *notes(fit, found, is_asked_for=mode is not None),
            *above(fit, _computed(fit, table), has_below=shown),
        ],
        below(fit) if shown else [],
        legend(found, counted) if found is not None else "",
        table_of(fit.diagnostics.counts) if shown else None,
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
        return "none: the minimiser of loss and penalty itself"
    return (
        f"{_NOUNS[calibration.placement]}, {calibration.noise.title} noise, "
        f"scale {calibration.noise.scale:.3g} ({calibration.bound})"
    )


def _rows(fit: FitRecord) -> str:
    spec = fit.spec
    radius = f"radius R = {spec.radius:.3g}"
    if spec.scaled_by_data:
        return f"{radius}; columns were scaled by the data's own means, deviations and longest row"
    if spec.bound_source == "declared bounds":
        return f"{radius} from declared bounds; nothing was estimated from the data"
    if spec.bound_source == "declared bounds and row_norm":
        return f"{radius} from declared bounds; {shortened_apart(spec)}; {_REMEDY} them"
    shortened = f"{radius}, covariates shortened to length {spec.bound:.3g} (row_norm)"
    if isinstance(spec, NormBoundedMatrix):
        return f"{shortened}; nothing was estimated from the data"
    if not spec.unbounded:
        return f"{shortened}, below what the declared bounds give"
    return f"{shortened}: no bounds for {', '.join(spec.unbounded)}; {_REMEDY} whole rows"


def _loss(fit: FitRecord) -> list[tuple[str, str]]:
    """Which of its family a loss is, where it is one of several."""
    loss = fit.calibration.problem.loss
    return [("Loss", describe(loss))] if loss.parameters else []


def _lambda(fit: FitRecord) -> str:
    known = f"{fit.calibration.lambda_:.3g}, {fit.calibration.lambda_origin}"
    if fit.calibration.lambda_ == 0:
        return known
    return f"{known}; coefficients are penalised by it, that is, shrunk towards zero"


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
        return [("Inference", f"information matrix and scores of the data, without noise; {bias}")]
    return [
        (
            "Inference",
            f"information matrix and scores with {calibration.noise.title} noise, which is "
            f"{known.noise_to_signal:.3g} times the smallest eigenvalue of the matrix; {bias}; "
            f"{found.mode} mode, {found.target} coefficients",
        )
    ]


def _computed(fit: FitRecord, table: CoefficientTable) -> list[str]:
    """What on the page was computed from the data."""
    if fit.release.moments is not None:
        return [
            "the estimates",
            "their standard errors, tests and intervals",
            "the ratios under Inference",
        ]
    return ["the estimates", *odds_computed(fit, table)]
