"""Made-up records of several classes: their probabilities, and the softmax objective on them.

Coefficients are vectors of the classes, one after the other, ``(K d,)``, as in a release.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from privatelr.errors import NotConvergedError
from privatelr.inference import Guesses
from privatelr.inference.guessed_columns import level_shares, positive_shares
from privatelr.mechanisms import Problem
from privatelr.numerics.softmax_objective import softmax
from privatelr.types import FloatArray

_ENOUGH = 1e-10
"""Newton's method ends after a step of at most this length, relative to the minimiser."""
_LONGEST, _HALVINGS = 200, 50
_ROUNDS = 200
"""The intercepts are fitted to the shares in this number of rounds."""
_SMALLEST = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class ClassRows:
    """A dataset as rows, each with expected numbers of its records in every class.

    Attributes
    ----------
    rows : ndarray of shape (m, d)
    counts : ndarray of shape (m, K)
        Not negative.
    sizes : ndarray of shape (m,)
        Sizes of the labels; larger ones than 1 are those of rows with weights
        (`privatelr.numerics.rows.row_bounds`).
    """

    rows: FloatArray
    counts: FloatArray
    sizes: FloatArray

    def probabilities(self, w: FloatArray) -> FloatArray:
        """The probabilities ``(m, K)`` of a model with coefficients ``(K d,)``."""
        vectors = w.reshape(self.counts.shape[1], -1)
        return softmax(self.sizes[:, None] * (self.rows @ vectors.T))


def class_shares(x: FloatArray, guesses: Guesses, classes: int) -> FloatArray:
    """Probabilities ``(m, K)`` of the classes at rows ``(m, d)``, by a multinomial model.

    Their shares fall by one factor from each class to the next, as those of the levels of a factor
    do. Each class is told from the first with about the guessed C-index: by the sum of all columns,
    and every other one by its negative, so that the first class lies between the others.
    """
    shares = level_shares(classes)[:: -1 if guesses.rare_first else 1]
    links = np.zeros((len(x), classes))
    for k in range(1, classes):
        pair = replace(guesses, balance=shares[k] / (shares[0] + shares[k]))
        positive = positive_shares(x if k % 2 else -x, pair)
        tiny = np.finfo(float).tiny
        links[:, k] = np.log(np.maximum(positive, tiny) / np.maximum(1 - positive, tiny))
    for _ in range(_ROUNDS):
        links += np.log(shares / np.maximum(softmax(links).mean(axis=0), _SMALLEST))
    return softmax(links)


def gradient(data: ClassRows, problem: Problem, w: FloatArray) -> FloatArray:
    """Gradient ``(K d,)`` of the sum form without a tilt."""
    expected = data.counts.sum(axis=1, keepdims=True) * data.probabilities(w)
    slopes = (expected - data.counts) / data.sizes[:, None]
    return np.asarray((slopes.T @ data.rows).ravel() + problem.penalty * w)


def hessian(data: ClassRows, problem: Problem, w: FloatArray) -> FloatArray:
    """Second derivative ``(K d, K d)`` of the sum form."""
    p, counts = data.probabilities(w), data.counts.sum(axis=1)
    weights = {(i, i): counts * p[:, i] * (1 - p[:, i]) for i in range(p.shape[1])}
    for i, j in itertools.combinations(range(p.shape[1]), 2):
        weights[i, j] = -counts * p[:, i] * p[:, j]
    return _blocks(data, weights) + problem.penalty * np.eye(len(w))


def scores(data: ClassRows, w: FloatArray) -> FloatArray:
    """The sum ``(K d, K d)`` of the squares of the gradients of records."""
    p, counts = data.probabilities(w), data.counts
    each, scaled = counts.sum(axis=1), data.sizes**-2.0
    weights = {}
    for i, j in itertools.combinations_with_replacement(range(p.shape[1]), 2):
        # sum over classes k of their counts times (p_i - [i = k]) (p_j - [j = k])
        square = each * p[:, i] * p[:, j] - counts[:, i] * p[:, j] - counts[:, j] * p[:, i]
        weights[i, j] = scaled * (square + (counts[:, i] if i == j else 0.0))
    return _blocks(data, weights)


def _blocks(data: ClassRows, weights: dict[tuple[int, int], FloatArray]) -> FloatArray:
    """The symmetric matrix whose blocks ``(d, d)`` are ``X' diag(weight) X``."""
    k, d = data.counts.shape[1], data.rows.shape[1]
    found = np.empty((k, d, k, d))
    for (i, j), weight in weights.items():
        found[i, :, j] = (data.rows * weight[:, None]).T @ data.rows
        found[j, :, i] = found[i, :, j].T
    return found.reshape(k * d, k * d)


def minimisers(data: ClassRows, problem: Problem, tilts: FloatArray) -> FloatArray:
    """Minimisers ``(m, K d)`` of the sum form under the tilts ``(m, K d)``."""
    start = _minimum(data, problem, np.zeros(problem.size), np.zeros(problem.size))
    found = [_minimum(data, problem, tilt, start) for tilt in tilts]
    return np.array(found).reshape(len(tilts), problem.size)


def _minimum(data: ClassRows, problem: Problem, tilt: FloatArray, w: FloatArray) -> FloatArray:
    """One minimiser, by Newton steps that are halved until the slope along them has fallen."""
    g, least = gradient(data, problem, w) + tilt, 1e-3 / problem.radius
    for _ in range(_LONGEST):
        step = -np.linalg.solve(hessian(data, problem, w), g)
        turned = abs(float(g @ step)) / 2
        for _ in range(_HALVINGS):
            ahead = gradient(data, problem, w + step) + tilt
            if float(ahead @ step) <= turned:
                break
            step, turned = step / 2, turned / 2
        w, g = w + step, ahead
        if np.linalg.norm(step) <= _ENOUGH * (np.linalg.norm(w) + least):
            return w
    raise NotConvergedError(f"plan: a minimiser was not found in {_LONGEST} Newton steps.")


def contrasts(units: FloatArray, classes: int) -> FloatArray:
    """The rows ``((K - 1) m, K d)`` that take coefficients of the first class off those of others.

    `units` ``(m, d)`` leads from the coefficients of a class to the user's units.
    """
    m, d = units.shape
    found = np.zeros((classes - 1, m, classes, d))
    for k in range(1, classes):
        found[k - 1, :, k], found[k - 1, :, 0] = units, -units
    return found.reshape((classes - 1) * m, classes * d)
