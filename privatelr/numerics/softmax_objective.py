"""The penalised, tilted objective of several classes, and its derivatives.

    J(w) = (1/n) sum_i [log sum_k exp(x_i.w_k) - x_i.w_{c_i}] + (lambda/2) |w|^2 + tilt.w

with a vector w_k for each of K classes; w and tilt have the shape ``(K d,)``, class by class. The
class c_i of a row is in the place of its offset, as a number from 0 to K - 1 over the size of its
label (`privatelr.numerics.rows.held_offset`), so that rows of every kind carry it. Labels are 1, or
0 for rows that are not usable, or larger for a record with a weight, as in
`privatelr.numerics.objective`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from privatelr.numerics.losses import Logistic, Loss
from privatelr.numerics.rows.products import rough_gram, short_margins, short_slopes
from privatelr.numerics.rows.row_bounds import bends_of, linear_predictor, weights_of
from privatelr.types import FloatArray, IntArray, Rows


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxObjective:
    """The parts of J: rows, the number of classes, ``lambda_ >= 0`` and tilt ``(K d,)``."""

    rows: Rows = field(repr=False)
    classes: int
    lambda_: float
    tilt: FloatArray = field(repr=False)
    loss: Loss = field(default_factory=Logistic)

    def by_class(self, w: FloatArray) -> FloatArray:
        """The vectors of the classes as a matrix ``(K, d)``."""
        return w.reshape(self.classes, self.rows.d)


def softmax(links: FloatArray) -> FloatArray:
    """Probabilities ``(m, K)`` of the classes, of links ``(m, K)``; each row by itself."""
    shares = np.exp(links - links.max(axis=1, keepdims=True))
    # column by column, so that a row is the same in every batch
    total = linear_predictor(shares, np.ones(shares.shape[1]))
    return np.asarray(shares / total[:, None])


def classes_of(y: FloatArray, z: Any) -> IntArray:
    """The classes ``(m,)`` that rows carry in the place of offsets."""
    return np.asarray(np.rint(z * np.maximum(np.abs(y), 1.0)), dtype=np.intp)


def slopes_of(links: FloatArray, y: FloatArray, z: Any) -> FloatArray:
    """Derivatives ``(m, K)`` of the terms of rows by the products ``x.w_k``."""
    slopes = softmax(links)
    slopes[np.arange(len(y)), classes_of(y, z)] -= 1.0
    slopes *= (np.abs(y) * weights_of(y))[:, None]
    return slopes


def _links(x: Any, vectors: FloatArray, y: FloatArray) -> FloatArray:
    return np.asarray(x @ vectors.T) * np.abs(y)[:, None]


def value_and_gradient(objective: SoftmaxObjective, w: FloatArray) -> tuple[float, FloatArray]:
    """J(w) and its gradient ``(K d,)``, in one pass over the rows."""
    vectors = objective.by_class(w)

    def kernel(x: Any, y: FloatArray, z: Any = 0.0) -> tuple[float, FloatArray]:
        links = _links(x, vectors, y)
        highest = links.max(axis=1)
        lost = np.log(np.exp(links - highest[:, None]).sum(axis=1)) + highest
        lost -= links[np.arange(len(y)), classes_of(y, z)]
        slopes = slopes_of(links, y, z)
        pulled = (x.T @ slopes).T if sparse.issparse(x) else slopes.T @ x
        return float((lost * weights_of(y)).sum()), np.asarray(pulled)

    total, slopes = objective.rows.fold(kernel)
    n, lambda_, tilt = objective.rows.n, objective.lambda_, objective.tilt
    value = total / n + lambda_ / 2 * float(w @ w) + float(tilt @ w)
    return value, np.asarray(slopes.ravel() / n + lambda_ * w + tilt)


def hessian(objective: SoftmaxObjective, w: FloatArray) -> FloatArray:
    """Second derivative ``(K d, K d)``, in one pass over the rows."""
    vectors, k, d = objective.by_class(w), objective.classes, objective.rows.d

    def kernel(x: Any, y: FloatArray, z: Any = 0.0) -> tuple[FloatArray]:
        shares, bend = softmax(_links(x, vectors, y)), bends_of(y)
        blocks = np.empty((k, d, k, d))
        for i in range(k):
            blocks[i, :, i] = rough_gram(x, shares[:, i] * (1.0 - shares[:, i]) * bend)
            for j in range(i):
                blocks[i, :, j] = -rough_gram(x, shares[:, i] * shares[:, j] * bend)
                blocks[j, :, i] = blocks[i, :, j].T
        return (blocks.reshape(k * d, k * d),)

    (total,) = objective.rows.fold(kernel)
    matrix = np.asarray(total / objective.rows.n)
    matrix.flat[:: k * d + 1] += objective.lambda_
    return matrix


def short_gradient(objective: SoftmaxObjective, w: FloatArray) -> FloatArray:
    """The gradient ``(K d,)`` of the sum form, in short sums, for certificates."""
    vectors, n = objective.by_class(w), objective.rows.n

    def kernel(x: Any, y: FloatArray, z: Any = 0.0) -> tuple[tuple[FloatArray, FloatArray]]:
        links = np.column_stack([short_margins(x, vector) for vector in vectors])
        slopes = slopes_of(links * np.abs(y)[:, None], y, z)
        total = np.stack([short_slopes(x, np.ascontiguousarray(slope)) for slope in slopes.T])
        return ((total, np.zeros_like(total)),)  # a sum, and the digits that rounding takes from it

    ((high, lost),) = objective.rows.fold(kernel)
    gradient: FloatArray = (high + lost).ravel()
    gradient += n * objective.lambda_ * w
    gradient += n * objective.tilt
    return gradient
