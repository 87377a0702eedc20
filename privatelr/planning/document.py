"""A plan as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from privatelr.numerics.losses import describe
from privatelr.planning.alternatives import alternatives
from privatelr.privacy.conversions import to_json as guarantee_json

if TYPE_CHECKING:
    from privatelr.planning.record import StudyPlan


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
