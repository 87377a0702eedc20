"""A score that orders outputs by how much they speak for the one dataset over the other.

Any score gives valid bounds, because it is fixed before the outputs that are counted are
seen; a good one gives large bounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from privatelr.audit.outputs import VALUE, find_atoms, name_atoms

if TYPE_CHECKING:
    from privatelr.audit.outputs import Outputs
    from privatelr.types import FloatArray

Score = Callable[["FloatArray"], "FloatArray"]
"""Scores ``(m,)`` of output vectors ``(m, k)``: the log likelihood ratio where it is known."""

_TRAINING = 40_000
_FEWEST = 50
_RIDGE = 1e-3
_FAR = 6.0
_FEW, _MODERATE = 3, 10


@dataclass(frozen=True, slots=True, eq=False)
class LearnedScore:
    """Log odds of the symbol, plus within a symbol what its vector adds.

    Attributes
    ----------
    atoms : ndarray of shape (m, k)
    odds : dict
        Symbol to log odds.
    within : dict
        Symbol to a score of vectors.
    """

    atoms: FloatArray
    odds: dict[str, float]
    within: dict[str, Score]

    def __call__(self, outputs: Outputs) -> FloatArray:
        """Scores ``(trials,)``."""
        named = name_atoms(outputs, self.atoms)
        scores = np.zeros(len(named))
        for symbol, trials in named.by_symbol().items():
            scores[trials] = self.odds.get(symbol, 0.0)
            if symbol in self.within:
                scores[trials] += self.within[symbol](named.values[trials])
        return scores


def learn(first: Outputs, second: Outputs, known: Score | None) -> LearnedScore:
    """Learn from outputs of both datasets; `known` stands in for the classifier."""
    width = first.values.shape[1]
    atoms = np.zeros((0, width)) if known is not None else find_atoms(first, second)
    first, second = name_atoms(first, atoms), name_atoms(second, atoms)
    here, there = first.by_symbol(), second.by_symbol()
    odds, within = {}, {}
    for symbol in {**here, **there}:
        a, b = (
            side.values[trials.get(symbol, [])] for side, trials in ((first, here), (second, there))
        )
        odds[symbol] = float(np.log((len(a) + 0.5) / (len(b) + 0.5)))
        if known is not None and symbol == VALUE:
            odds[symbol], within[symbol] = 0.0, known
        elif min(len(a), len(b)) >= _FEWEST and np.ptp(np.vstack([a, b]), axis=0).any():
            within[symbol] = train_classifier(a[:_TRAINING], b[:_TRAINING])
    return LearnedScore(atoms, odds, within)


def train_classifier(first: FloatArray, second: FloatArray) -> Score:
    """Logistic regression of the dataset on polynomials of the whitened output."""
    whiten = _whitening(np.vstack([first, second]))
    features = np.vstack([_features(whiten(first)), _features(whiten(second))])
    labels = np.repeat([1.0, 0.0], [len(first), len(second)])
    weights = _logistic(features, labels)
    prior = float(np.log(len(first) / len(second)))
    return lambda values: _features(whiten(values)) @ weights - prior


def _whitening(values: FloatArray) -> Score:
    """A linear map to coordinates of one size without correlation, from the central outputs."""
    centre = np.median(values, axis=0)
    spread = np.median(np.abs(values - centre), axis=0)
    spread = np.where(spread > 0, spread, values.std(axis=0))
    kept = np.flatnonzero(spread > 0)
    scaled = (values[:, kept] - centre[kept]) / spread[kept]
    central = scaled[np.abs(scaled).max(axis=1) <= _FAR]
    central = central if len(central) > len(kept) else scaled
    sizes, axes = np.linalg.eigh(central.T @ central / len(central))
    usable = sizes > 1e-14 * sizes.max()
    turn = axes[:, usable] / np.sqrt(sizes[usable])

    def whiten(outputs: FloatArray) -> FloatArray:
        shifted = (outputs[:, kept] - centre[kept]) / spread[kept] @ turn
        return np.asarray(np.clip(shifted, -_FAR, _FAR))

    return whiten


def _features(z: FloatArray) -> FloatArray:
    """Polynomials of the coordinates and of their squashed values, fewer where there are many."""
    count, width = z.shape
    squashed = np.tanh(z)
    columns = [np.ones(count), *z.T, *squashed.T, *(z * z).T]
    if width <= _MODERATE:
        for i, j in itertools.combinations(range(width), 2):
            columns += [z[:, i] * z[:, j], squashed[:, i] * squashed[:, j]]
    if width <= _FEW:
        for triple in itertools.combinations_with_replacement(range(width), 3):
            columns.append(squashed[:, triple].prod(axis=1))
    return np.column_stack(columns)


def _logistic(features: FloatArray, labels: FloatArray) -> FloatArray:
    """Ridge logistic regression, by damped Newton steps."""
    weights = np.zeros(features.shape[1])
    ridge = _RIDGE * len(labels) * np.eye(len(weights)) * np.mean(features**2, axis=0)
    for _ in range(20):
        chance = special.expit(features @ weights)
        slope = features.T @ (labels - chance) - ridge @ weights
        curvature = (features * (chance * (1 - chance) + 1e-9)[:, None]).T @ features + ridge
        step = np.linalg.solve(curvature, slope)
        weights = weights + step
        if np.abs(features @ step).max() < 1e-4:
            break
    return weights
