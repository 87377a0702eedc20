"""The objective in plain NumPy, written down once more: it measures everybody's gradient.

Nothing here is shared with the package, so that neither side is judged by its own arithmetic.
SciPy's minimisers are handed the same two functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privatelr.numerics import Huber, Logistic

if TYPE_CHECKING:
    from privatelr.types import FloatArray

    from .problems import Problem


def value_and_gradient(problem: Problem, w: FloatArray) -> tuple[float, FloatArray]:
    """J(w) and its gradient ``(d,)``."""
    margin = problem.y * (problem.x @ w)
    match problem.loss:
        case Logistic():
            tail = np.exp(-np.abs(margin))
            value = np.log1p(tail) + np.maximum(-margin, 0)
            slope = -np.where(margin > 0, tail, 1.0) / (1 + tail)
        case Huber(h):
            bend = np.clip(1 + h - margin, 0, 2 * h)
            value = bend * bend / (4 * h) + np.maximum(1 - h - margin, 0)
            slope = -bend / (2 * h)
        case _:
            raise NotImplementedError(str(problem.loss))
    slope *= problem.y
    total = problem.x.T @ slope
    lambda_ = problem.lambda_
    return float(value.mean() + lambda_ / 2 * (w @ w)), total / problem.n + lambda_ * w


def gradient_norm(problem: Problem, w: FloatArray) -> float:
    """Euclidean length of the gradient at w, infinite where w is no vector of numbers."""
    norm = float(np.linalg.norm(value_and_gradient(problem, np.ravel(w))[1]))
    return norm if np.isfinite(norm) else float("inf")
