"""Logistic regression without privacy or penalty, which shares no code with the package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from privatelr.types import FloatArray

_STEPS, _CONVERGED, _SEPARABLE = 50, 1e-10, 1e6
"""Of Newton's method: steps, the last of them, and standard errors of a standardised column."""


class SeparableError(Exception):
    """Without a penalty there is no minimum, or no single one."""


@dataclass(frozen=True, slots=True, eq=False)
class PlainFit:
    """Coefficients and standard errors; arrays of shape ``(d,)``."""

    coef: FloatArray
    sd: FloatArray


def plain_fit(x: FloatArray, positive: FloatArray) -> PlainFit:
    """Newton's method on rows ``(n, d)``, the first column constant; `SeparableError` if none."""
    centre, unit = x.mean(axis=0), x.std(axis=0)
    centre[0], unit[0] = 0.0, 1.0
    if not unit.all():
        raise SeparableError("a column is constant")
    rows, w = (x - centre) / unit, np.zeros(x.shape[1])
    for _ in range(_STEPS):
        probability = special.expit(rows @ w)
        curvature = (rows * (probability * (1 - probability))[:, None]).T @ rows
        try:
            covariance = np.linalg.inv(curvature)
        except np.linalg.LinAlgError as error:
            raise SeparableError("the curvature is singular") from error
        step = covariance @ (rows.T @ (positive - probability))
        # a longer step can overshoot where the classes are far from balanced
        w += step / max(1.0, np.abs(step).max() / 4)
        largest = np.abs(np.diag(covariance)).max()
        if not np.isfinite(w).all() or largest > _SEPARABLE**2:
            raise SeparableError("the classes are separable, or the columns collinear")
        if np.abs(step).max() < _CONVERGED:
            back = np.diag(1 / unit)
            back[0, 1:] = -centre[1:] / unit[1:]
            return PlainFit(back @ w, np.sqrt(np.diag(back @ covariance @ back.T)))
    raise SeparableError(f"no minimum in {_STEPS} steps")
