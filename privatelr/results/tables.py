"""broom's verbs: coefficients and facts as frames, every entry public or paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privatelr.privacy.guarantees import ZCDP, ApproxDP, NonPrivate, PureDP

if TYPE_CHECKING:
    from privatelr.privacy.guarantees import Guarantee
    from privatelr.results.record import FitRecord


def tidy(fit: FitRecord, *, exponentiate: bool) -> pd.DataFrame:
    """One row per coefficient; `privacy_sd` is on the scale of the coefficient itself."""
    estimate = fit.odds_ratios if exponentiate else fit.coef
    return pd.DataFrame(
        {
            "term": list(estimate.index),
            "estimate": estimate.to_numpy(),
            "privacy_sd": fit.privacy_sd.to_numpy(),
        }
    )


def glance(fit: FitRecord) -> pd.DataFrame:
    """One row about the fit."""
    calibration = fit.calibration
    problem = calibration.problem
    epsilon, delta, rho = _numbers(fit.guarantee)
    row = {
        "nobs": problem.n,
        "d": problem.d,
        "guarantee": str(fit.guarantee),
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
        "mechanism": f"{calibration.placement} perturbation" if calibration.noise.scale else "none",
        "analysis": calibration.analysis,
        "noise": calibration.noise.title,
        "noise_scale": calibration.noise.scale,
        "lambda": calibration.lambda_,
        "radius": problem.radius,
        "loss": problem.loss.name,
        **problem.loss.parameters,
    }
    return pd.DataFrame([row])


def _numbers(guarantee: Guarantee) -> tuple[float, float, float]:
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
