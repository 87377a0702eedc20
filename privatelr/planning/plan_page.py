"""The printed page of a plan, with what it rests on; text of 79 columns, HTML and JSON."""

from __future__ import annotations

import html
import json
import math
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from privatelr.numerics import describe
from privatelr.planning.alternatives import alternatives
from privatelr.planning.forecast import LEVEL
from privatelr.planning.plan_plot import SMALLEST_KEPT
from privatelr.privacy import NonPrivate
from privatelr.privacy import to_json as guarantee_json
from privatelr.results.pages import WIDTH, CoefficientTable

if TYPE_CHECKING:
    import pandas as pd

    from privatelr.design import DesignSpec
    from privatelr.planning.alternatives import StudyAlternative
    from privatelr.planning.made_up_records import Guesses
    from privatelr.planning.study_plan import StudyPlan


def assumptions_of(
    spec: DesignSpec, guesses: Guesses, pilot: pd.DataFrame | None
) -> tuple[str, ...]:
    """One clause for each assumption."""
    if pilot is None:
        return (*_covariates(spec, guesses), *_labels(guesses), _usable())
    has_labels = all(name in pilot.columns for name in spec.formula.response.names)
    if has_labels:
        return (f"records are like the {len(pilot):,} of the public pilot",)
    like = f"covariates are like those of the {len(pilot):,} records of the public pilot"
    return (like, *_labels(guesses))


def _covariates(spec: DesignSpec, guesses: Guesses) -> list[str]:
    variables = [spec.variables[name] for name in spec.formula.covariates]
    found = []
    if any(not v.levels and v.is_bounded for v in variables):
        found.append(
            "numeric columns lie around the middle of their bounds, with a standard deviation of "
            f"{guesses.spread:g} of half their width (spread)"
        )
    if any(not v.is_bounded for v in variables):
        limit = spec.bound if spec.unbounded_norm is None else spec.unbounded_norm
        found.append(
            "columns without bounds are normal, and rows of them have a root mean square length "
            f"of {guesses.spread:g} (spread) of the limit {limit:g}"
        )
    if any(v.levels for v in variables):
        found.append("the levels of a factor are equally common")
    if len(variables) > 1:
        found.append("columns do not depend on each other")
    return found


def _labels(guesses: Guesses) -> list[str]:
    return [
        f"{guesses.balance:.3g} of the records are positive (balance)",
        f"the true probabilities are logistic with a C-index of {guesses.c_index:g} (c_index), to "
        "which all columns contribute alike",
    ]


def _usable() -> str:
    return "no value is missing"


def to_json(plan: StudyPlan) -> str:
    """Everything on the page; null for what is not defined or not finite."""
    return json.dumps(_finite(document(plan)), indent=1, allow_nan=False)


def document(plan: StudyPlan) -> dict[str, Any]:
    """What is on the page, by names."""
    study, calibration = plan.study, plan.calibration.coefficients
    intervals, moments = plan.intervals, plan.calibration.moments
    return {
        "formula": study.spec.formula.text,
        "loss": describe(study.loss),
        "n": study.n,
        "d": study.spec.d,
        "radius": study.spec.radius,
        "guarantee": guarantee_json(study.request.target),
        "parts": {
            "coefficients": guarantee_json(calibration.target),
            "inference": guarantee_json(moments.target) if moments else None,
        },
        "placement": calibration.placement,
        "analysis": calibration.analysis,
        "noise": calibration.noise.title,
        "noise_scale": calibration.noise.scale,
        "lambda": calibration.lambda_,
        "lambda_origin": calibration.lambda_origin,
        "moments_noise_sd": moments.entry_sd if moments else None,
        "mode": intervals.mode if intervals else None,
        "noise_to_signal": intervals.noise_to_signal if intervals else None,
        "assumptions": list(plan.assumptions),
        "terms": plan.to_frame().to_dict(orient="records"),
        "alternatives": [asdict(row) for row in alternatives(study)],
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_LABEL = 12
_STYLE = (
    "<style>.privatelr-plan .simpletable th {text-align: left}"
    ".privatelr-plan .simpletable td {text-align: right; padding-left: 1em}</style>"
)
_BESIDE = (
    "Alternatives: privacy sd and width are multiples of the plan's, over the covariates. Promises "
    "with another epsilon, delta or rho are not equally strong."
)


def as_text(plan: StudyPlan) -> str:
    """The page in at most 79 columns."""
    lines = [_title(plan), *_wrap(plan.study.spec.formula.text), ""]
    for label, text in _facts(plan):
        lines += _wrap(text, label.ljust(_LABEL), " " * _LABEL)
    lines += ["", *_coefficients(plan).as_lines()]
    for note in _notes(plan):
        lines += _wrap(note)
    lines += [
        "",
        *_wrap(_BESIDE),
        *_alternatives(alternatives(plan.study)).as_lines(),
        "",
        "Assumed:",
    ]
    for assumption in plan.assumptions:
        lines += _wrap(assumption, "- ", "  ")
    return "\n".join([*lines, *_wrap(_closing(plan))])


def as_html(plan: StudyPlan) -> str:
    """The page as HTML, with the same words in the same order."""
    facts = "".join(
        f"<tr><th style='text-align:left;vertical-align:top'>{html.escape(label)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for label, text in _facts(plan)
    )
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in _notes(plan))
    assumed = "".join(f"<li>{html.escape(clause)}</li>" for clause in plan.assumptions)
    return (
        f"<div class='privatelr-plan'>{_STYLE}<p><strong>{html.escape(_title(plan))}</strong><br>"
        f"<code>{html.escape(plan.study.spec.formula.text)}</code></p><table>{facts}</table>"
        f"{_coefficients(plan).as_html()}{notes}<p>{html.escape(_BESIDE)}</p>"
        f"{_alternatives(alternatives(plan.study)).as_html()}<p>Assumed:</p><ul>{assumed}</ul>"
        f"<p>{html.escape(_closing(plan))}</p></div>"
    )


def _title(plan: StudyPlan) -> str:
    return f"Plan of a {plan.study.loss.title}, before any data"


def _facts(plan: StudyPlan) -> list[tuple[str, str]]:
    study, calibration = plan.study, plan.calibration.coefficients
    spec, noise = study.spec, calibration.noise
    mechanism = "none: the minimiser of loss and penalty itself"
    if noise.scale > 0:
        mechanism = (
            f"{calibration.placement} perturbation, {noise.title} noise, scale {noise.scale:.3g} "
            f"({calibration.bound})"
        )
    loss = [("Loss", describe(study.loss))] if study.loss.parameters else []
    return [
        ("Promise", f"{study.request.target}; neighbours replace one of n = {study.n} records"),
        *_spending(plan),
        ("Mechanism", mechanism),
        ("Rows", f"d = {spec.d} columns, radius R = {spec.radius:.3g} from {spec.bound_source}"),
        *loss,
        ("Lambda", f"{calibration.lambda_:.3g}, {calibration.lambda_origin}"),
        *_inference(plan),
    ]


def _spending(plan: StudyPlan) -> list[tuple[str, str]]:
    moments = plan.calibration.moments
    if isinstance(plan.study.request.target, NonPrivate):
        return []
    if moments is None:
        return [("Spent on", "the coefficients alone: spend='inference' adds intervals")]
    parts = f"coefficients {plan.calibration.coefficients.target}; inference {moments.target}"
    return [("Spent on", parts)]


def _inference(plan: StudyPlan) -> list[tuple[str, str]]:
    intervals = plan.intervals
    if intervals is None or plan.calibration.coefficients.noise.scale == 0:
        return []
    share = max(intervals.sturdy, 1 - intervals.sturdy)
    is_short = intervals.mode != "conservative"
    other = "conservative and longer" if is_short else "posterior and shorter"
    sure = "" if share == 1 else f" in {share:.0%} of simulated fits, else {other}"
    return [
        (
            "Intervals",
            f"{intervals.mode}{sure}; the noise in the information matrix is about "
            f"{intervals.noise_to_signal:.2g} times its smallest eigenvalue",
        )
    ]


def _coefficients(plan: StudyPlan) -> CoefficientTable:
    frame = plan.to_frame()
    columns = {"privacy sd": "privacy_sd", "sampling sd": "sampling_sd", "Std. Error": "std_error"}
    if plan.intervals is not None:
        columns[f"{LEVEL:.0%} width"] = "width"
    shown = [[_number(value) for value in frame[name]] for name in columns.values()]
    shown.append([_share(value) for value in frame["kept"]])
    cells = tuple(zip(*shown, strict=True))
    return CoefficientTable(plan.terms, (*columns, "kept"), cells)


def _alternatives(rows: tuple[StudyAlternative, ...]) -> CoefficientTable:
    cells = tuple(
        (
            f"{row.lambda_:.3g}",
            _multiple(row.privacy_sd),
            _multiple(row.width),
            _share(row.kept),
            row.mode or "-",
        )
        for row in rows
    )
    names = tuple(f"{'*' if row.is_chosen else ' '} {row.title}" for row in rows)
    headers = ("lambda", "privacy sd", "width", "kept", "intervals")
    return CoefficientTable(names, headers, cells)


def _notes(plan: StudyPlan) -> list[str]:
    both = "privacy sd: what the noise adds to a coefficient; Std. Error: noise and sample together"
    width = "" if plan.intervals is None else "; width: typical length of the reported interval"
    notes = [
        f"{both}{width}; kept: the share of a small effect that the penalty leaves, since all of "
        "this is about the penalised coefficients."
    ]
    if plan.intervals is not None and plan.intervals.mode == "conservative":
        notes.append(
            "Conservative intervals allow for the worst data that the noise does not rule out, and "
            "are far longer than the standard errors here. More records, a larger eps, fewer "
            "columns or a larger share for inference lead to the shorter kind."
        )
    if plan.errors.kept.min() < SMALLEST_KEPT:
        notes.append(
            "Where little is kept, an interval is short because the penalty holds the coefficient "
            "near 0, and not because much is known."
        )
    return notes


def _closing(plan: StudyPlan) -> str:
    return "No data were read: all numbers follow from the arguments and these assumptions."


def _number(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "-"
    return f"{value:.3g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.2e}"


def _multiple(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:.3g}"


def _share(value: float) -> str:
    return f"{value:.2f}"


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
