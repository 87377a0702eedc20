"""The page of a plan, with what it rests on, and the same as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pandas as pd

from privatelr.design import DesignSpec
from privatelr.numerics import describe
from privatelr.page_model import Bullets, Code, FactList, Heading, Piece, Table
from privatelr.planning.alternatives import alternatives
from privatelr.planning.forecast import LEVEL
from privatelr.planning.plan_plot import SMALLEST_KEPT
from privatelr.privacy import to_json as guarantee_json
from privatelr.results.pages import sentences

if TYPE_CHECKING:
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


_CLOSING = "No data were read: all numbers follow from the arguments and these assumptions."
_BESIDE = (
    "Alternatives: privacy sd and width are multiples of the plan's, over the covariates. Promises "
    "with another epsilon, delta or rho are not equally strong."
)


def page(plan: StudyPlan) -> list[Piece]:
    """The plan, what else could be planned, and what both rest on."""
    return [
        Heading(f"Plan of a {plan.study.loss.title}, before any data"),
        Code(plan.study.spec.formula.text),
        "",
        FactList(_facts(plan)),
        "",
        _coefficients(plan),
        *_notes(plan),
        "",
        _BESIDE,
        _alternatives(alternatives(plan.study)),
        "",
        "Assumed:",
        Bullets(plan.assumptions),
        _CLOSING,
    ]


def _facts(plan: StudyPlan) -> list[tuple[str, str]]:
    study, calibration = plan.study, plan.calibration.coefficients
    spec = study.spec
    return [
        ("Promise", sentences.neighbours(str(study.request.target), study.n)),
        *_spending(plan),
        ("Mechanism", sentences.mechanism(calibration)),
        ("Rows", f"d = {spec.d} columns, radius R = {spec.radius:.3g} from {spec.bound_source}"),
        *sentences.loss(study.loss),
        ("Lambda", sentences.lambda_(calibration)),
        *_inference(plan),
    ]


def _spending(plan: StudyPlan) -> list[tuple[str, str]]:
    moments = plan.calibration.moments
    if not plan.study.request.target.is_private:
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


def _coefficients(plan: StudyPlan) -> Table:
    frame = plan.to_frame()
    columns = {"privacy sd": "privacy_sd", "sampling sd": "sampling_sd", "Std. Error": "std_error"}
    if plan.intervals is not None:
        columns[f"{LEVEL:.0%} width"] = "width"
    shown = [[_number(value) for value in frame[name]] for name in columns.values()]
    shown.append([_share(value) for value in frame["kept"]])
    cells = tuple(zip(*shown, strict=True))
    return Table(plan.terms, (*columns, "kept"), cells)


def _alternatives(rows: tuple[StudyAlternative, ...]) -> Table:
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
    return Table(names, headers, cells)


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
