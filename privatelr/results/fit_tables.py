"""broom's verbs: coefficients and facts as frames, every entry public or paid for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from privatelr.errors import ArgumentError, show
from privatelr.inference import quality
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, NonPrivate, PureDP
from privatelr.results.fit_record import FitRecord, SelectedRecord, require_odds
from privatelr.results.pages.inference_table import Question, infer_coefficients
from privatelr.types import FloatArray


def tidy(fit: FitRecord, question: Question, *, conf_int: Any, exponentiate: Any) -> pd.DataFrame:
    """One row per coefficient; errors are of the coefficient, beside odds ratios named ``_log``."""
    for name, value in (("conf_int", conf_int), ("exponentiate", exponentiate)):
        if not isinstance(value, bool):
            raise ArgumentError(f"{name}={show(value)}: {name} takes True or False.")
    if exponentiate:
        require_odds(fit, "exponentiate=True")
    asked = conf_int or question != Question(level=question.level)
    of_log = "_log" if exponentiate else ""
    if fit.release.moments is None and not asked:
        estimate = fit.odds_ratios if exponentiate else fit.coef
        limit = {f"privacy_sd{of_log}": fit.privacy_sd.to_numpy()}
        return pd.DataFrame(
            {"term": list(estimate.index), "estimate": estimate.to_numpy(), **limit}
        )
    found = infer_coefficients(fit, question)
    scaled = _exponential if exponentiate else np.asarray
    columns = {
        "estimate": scaled(found.estimate),
        f"std_error{of_log}": found.sd,
        f"sampling_sd{of_log}": found.sampling_sd,
        f"privacy_sd{of_log}": found.privacy_sd,
        "statistic": found.z,
        "p_value": found.p_value,
    }
    if conf_int:
        columns |= {"conf_low": scaled(found.lower), "conf_high": scaled(found.upper)}
    return pd.DataFrame({"term": list(fit.spec.columns.names), **columns})


def _exponential(values: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(values))


def glance(fit: FitRecord) -> pd.DataFrame:
    """One row about the fit."""
    calibration = fit.calibration
    problem = calibration.problem
    known = None if fit.release.moments is None else quality(fit.release)
    row = {
        **promise_of(fit),
        "mechanism": f"{calibration.placement} perturbation" if calibration.noise.scale else "none",
        "analysis": calibration.analysis,
        "noise": calibration.noise.title,
        "noise_scale": calibration.noise.scale,
        "lambda": calibration.lambda_,
        "radius": problem.radius,
        "loss": problem.loss.name,
        **problem.loss.parameters,
        "inference": None if known is None else known.mode,
        "noise_to_signal": np.nan if known is None else known.noise_to_signal,
        "relative_bias": np.nan if known is None else known.relative_bias,
    }
    return pd.DataFrame([row])


def promise_of(fit: FitRecord | SelectedRecord) -> dict[str, Any]:
    """What `glance` says first of a model: its sizes, its guarantee, and that in numbers."""
    problem = fit.calibration.problem
    epsilon, delta, rho = _numbers_of(fit.guarantee)
    return {
        "nobs": problem.n,
        "d": problem.d,
        "guarantee": str(fit.guarantee),
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
    }


def _numbers_of(guarantee: Guarantee) -> tuple[float, float, float]:
    """Epsilon, delta and rho; NaN where the guarantee does not speak of one."""
    match guarantee:
        case PureDP():
            return guarantee.epsilon, 0.0, np.nan
        case ApproxDP():
            return guarantee.epsilon, guarantee.delta, np.nan
        case ZCDP():
            return np.nan, np.nan, guarantee.rho
        case NonPrivate():
            return np.inf, np.nan, np.nan
