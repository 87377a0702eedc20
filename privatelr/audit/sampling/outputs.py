"""What a mechanism put out, trial by trial, and scores that order its outputs.

Any score gives valid bounds, because it is fixed before the outputs that are counted are
seen; a good one gives large bounds.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, show
from privatelr.results import FitRecord
from privatelr.types import FloatArray, IntArray

Mechanism = Callable[[Any, np.random.Generator], Any]
"""``mechanism(data, rng)`` returns a number, a vector or a fit, or raises: all are outputs."""

Observation = tuple[str, FloatArray | None]
"""A symbol, and the vector that came with it."""

VALUE = "value"
_ATOM = 0.01
"""A vector with this share of the outputs is a symbol of its own."""
_REFUSED, _SAID = "refused: ", "said: "
_NEARLY_ALL = 0.9
"""The share of runs that counts as nearly every run."""
_ADDRESS = " at 0x"
"""What the text of an object holds that has not defined one."""


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """Outputs of repeated runs.

    Attributes
    ----------
    codes : ndarray of shape (trials,)
        Positions in `names`.
    names : tuple of str
        Symbols: ``"value"``, or in words what came in its place or with it, such as an
        exception, a warning, or what is not a number.
    values : ndarray of shape (trials, k)
        The vectors, zeros where there was none.
    """

    codes: IntArray
    names: tuple[str, ...]
    values: FloatArray

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: slice) -> Outputs:
        """Some of the trials."""
        return Outputs(self.codes[index], self.names, self.values[index])

    def by_symbol(self) -> dict[str, IntArray]:
        """Trials of each symbol that occurs."""
        found = {name: np.flatnonzero(self.codes == at) for at, name in enumerate(self.names)}
        return {name: trials for name, trials in found.items() if trials.size}


def observe(
    mechanism: Mechanism, data: Any, trials: int, rng: np.random.Generator
) -> list[Observation]:
    """Run the mechanism again and again; nothing that it does stops the audit."""
    observed = []
    for _ in range(trials):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                symbol, vector = _read(mechanism(data, rng))
            except Exception as refusal:  # whatever it is, the caller of the mechanism sees it
                symbol, vector = f"{_REFUSED}{type(refusal).__name__}: {refusal}", None
        warned = {f"warned: {type(w.message).__name__}: {w.message}" for w in caught}
        observed.append(("; ".join([symbol, *sorted(warned)]), vector))
    return observed


def _read(found: Any) -> Observation:
    if isinstance(found, FitRecord):
        moments = found.release.moments
        found = [*found.release.coef, *([] if moments is None else moments.values)]
    try:
        vector = np.atleast_1d(np.asarray(found, dtype=np.float64)).reshape(-1)
    except (TypeError, ValueError):
        return f"{_SAID}{found!r}", None
    finite = np.isfinite(vector)
    if finite.all():
        return VALUE, vector
    entries = ", ".join(f"{at}: {vector[at]}" for at in np.flatnonzero(~finite))
    return f"{VALUE} with {{{entries}}}", np.where(finite, vector, 0.0)


def require_outputs(first: Sequence[Observation], second: Sequence[Observation]) -> None:
    """Refuse runs from which no attacker learns anything, whatever the mechanism is.

    Raises
    ------
    ArgumentError
        If the mechanism never returned, on either dataset and in one way, or if what it
        returned is nearly always new and neither a number nor a vector.
    """
    symbols = {symbol for symbol, _ in [*first, *second]}
    refused = all(symbol.startswith(_REFUSED) for symbol in symbols)
    about_arguments = all(
        symbol.startswith(f"{_REFUSED}TypeError: ") and "argument" in symbol for symbol in symbols
    )
    if refused and (len(symbols) == 1 or about_arguments):
        raise ArgumentError(
            "mechanism never returned on either dataset, and always raised "
            f"{min(symbols).removeprefix(_REFUSED)!r}: mechanism takes (data, rng)."
        )
    for side in (first, second):
        words = [symbol for symbol, vector in side if vector is None]
        shown = [symbol for symbol in words if _ADDRESS not in symbol]
        if len(set(shown)) + len(words) - len(shown) >= _NEARLY_ALL * len(side):
            raise ArgumentError(
                "mechanism gave an output of its own in nearly every run: an output is a number, "
                "a vector, a fit, or one of few words or exceptions."
            )


def gather(first: Sequence[Observation], second: Sequence[Observation]) -> tuple[Outputs, Outputs]:
    """Two lists of observations as outputs of one width, that of most vectors."""
    widths = Counter(len(vector) for _, vector in [*first, *second] if vector is not None)
    width = widths.most_common(1)[0][0] if widths else 0
    return _collect(first, width), _collect(second, width)


def _collect(observed: Sequence[Observation], width: int) -> Outputs:
    names: dict[str, int] = {}
    codes = np.zeros(len(observed), dtype=np.intp)
    values = np.zeros((len(observed), width))
    for at, (symbol, vector) in enumerate(observed):
        if vector is not None and len(vector) == width:
            values[at] = vector
        elif vector is not None:
            symbol = f"{symbol} of {len(vector)} numbers"
        codes[at] = names.setdefault(symbol, len(names))
    return Outputs(codes, tuple(names), values)


@suggests_arguments
def outputs_of(vectors: FloatArray) -> Outputs:
    """Outputs that are already there: numbers ``(trials,)`` or vectors ``(trials, k)``."""
    try:
        values = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if values.ndim not in (1, 2) or not values.size:
        raise ArgumentError(
            f"vectors={show(vectors)}: vectors takes numbers (trials,) or vectors (trials, k)."
        )
    values = values.reshape(len(values), -1)
    if not np.isfinite(values).all():
        return _collect([_read(value) for value in values], values.shape[1])
    return Outputs(np.zeros(len(values), dtype=np.intp), (VALUE,), values)


Score = Callable[[FloatArray], FloatArray]
"""Scores ``(m,)`` of output vectors ``(m, k)``: the log likelihood ratio where it is known."""

_TRAINING = 40_000
"""Largest number of outputs on each side from which a classifier is learned."""
_FEWEST = 50
"""Smallest number of outputs on each side from which a classifier is learned."""
_RIDGE = 1e-3
"""Penalty of the classifier, for each output, over the mean square of a feature."""
_FAR = 6.0
"""Deviations beyond which an output is not central, and is clipped."""
_FEW, _MODERATE = 3, 10
"""Numbers of coordinates up to which there are features of three and of two of them."""


def learn(first: Outputs, second: Outputs, known: Score | None) -> Callable[[Outputs], FloatArray]:
    """Learn scores ``(trials,)`` from outputs of both datasets.

    They are the log odds of the symbol, plus within a symbol what a classifier says of the vector,
    or `known` in its place.
    """
    atoms = np.zeros((0, first.values.shape[1])) if known is not None else _atoms(first, second)
    first, second = _name_atoms(first, atoms), _name_atoms(second, atoms)
    here, there = first.by_symbol(), second.by_symbol()
    odds: dict[str, float] = {}
    within: dict[str, Score] = {}
    for symbol in {**here, **there}:
        a, b = first.values[here.get(symbol, [])], second.values[there.get(symbol, [])]
        odds[symbol] = float(np.log((len(a) + 0.5) / (len(b) + 0.5)))
        if known is not None and symbol == VALUE:
            odds[symbol], within[symbol] = 0.0, known
        elif min(len(a), len(b)) >= _FEWEST and np.ptp(np.vstack([a, b]), axis=0).any():
            within[symbol] = _train_classifier(a[:_TRAINING], b[:_TRAINING])

    def score(outputs: Outputs) -> FloatArray:
        named = _name_atoms(outputs, atoms)
        scores = np.zeros(len(named))
        for symbol, trials in named.by_symbol().items():
            scores[trials] = odds.get(symbol, 0.0)
            if symbol in within:
                scores[trials] += within[symbol](named.values[trials])
        return scores

    return score


def _atoms(first: Outputs, second: Outputs) -> FloatArray:
    """Vectors ``(m, k)`` that occur again and again on either side."""
    found = [np.zeros((0, first.values.shape[1]))]
    for side in (first, second):
        enough = max(_ATOM * len(side), 5)
        # the rows are sorted only if each column alone has a value that occurs often enough
        if all(np.unique(c, return_counts=True)[1].max() >= enough for c in side.values.T):
            vectors, counts = np.unique(side.values, axis=0, return_counts=True)
            found.append(vectors[counts >= enough])
    return np.asarray(np.unique(np.concatenate(found), axis=0))


def _name_atoms(outputs: Outputs, atoms: FloatArray) -> Outputs:
    """Give each atom a symbol of its own."""
    codes, names = outputs.codes.copy(), list(outputs.names)
    for number, atom in enumerate(atoms):
        here = (outputs.values == atom).all(axis=1)
        for code, name in enumerate(outputs.names):
            codes[here & (outputs.codes == code)] = len(names)
            names.append(f"{name} at atom {number}")
    return Outputs(codes, tuple(names), outputs.values)


def _train_classifier(first: FloatArray, second: FloatArray) -> Score:
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
