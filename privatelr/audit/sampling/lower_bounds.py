"""Lower bounds on the privacy loss from outputs alone, for any mechanism.

The outputs of each dataset are split in two halves. The first halves choose a score, an event
``score >= t``, and the dataset under which the event is to be more probable. The second halves
count the event. The bound fails with probability at most alpha, whatever the score is (Clopper
and Pearson 1934). So any score gives valid lower bounds, and a good one gives large bounds.
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
from privatelr.errors import ArgumentError, GuaranteeError, require_number, require_whole, show
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP
from privatelr.results import FitRecord
from privatelr.types import FloatArray, IntArray, ObjectArray

Mechanism = Callable[[Any, np.random.Generator], Any]
"""``mechanism(data, rng)`` returns a number, a vector or a fit; an exception is an output, too."""

Score = Callable[[FloatArray], FloatArray]
"""A function from output vectors ``(m, k)`` to scores ``(m,)``, ideally log likelihood ratios."""

Observation = tuple[str, FloatArray | None]
"""An output as a symbol and a vector; words in the symbol describe any other kind of output."""

VALUE = "value"
_ATOM = 0.01
"""A vector gets a symbol of its own if at least this share of the outputs is equal to it."""
_REFUSED, _SAID = "refused: ", "said: "
_NEARLY_ALL = 0.9
"""Outputs are refused if at least this share of the runs has an output of its own."""
_ADDRESS = " at 0x"
"""The default text of a Python object contains this, and an address that differs in each run."""


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """Outputs of repeated runs of a mechanism.

    Attributes
    ----------
    symbols : ndarray of str, shape (trials,)
        The symbol of a finite vector is ``"value"``; other symbols say in words what came instead
        of it or with it: an exception, a warning, or entries that are not finite.
    values : ndarray of shape (trials, k)
        The vectors, with zeros for outputs that have none.
    """

    symbols: ObjectArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.symbols)

    def take(self, index: slice) -> Outputs:
        """The outputs of some of the trials."""
        return Outputs(self.symbols[index], self.values[index])

    def by_symbol(self) -> dict[str, IntArray]:
        """The positions of the trials of each symbol."""
        names = set(self.symbols.tolist())
        return {name: np.flatnonzero(self.symbols == name) for name in names}


def observe(
    mechanism: Mechanism, data: Any, trials: int, rng: np.random.Generator
) -> list[Observation]:
    """Run the mechanism `trials` times; its exceptions are observations, and stop nothing."""
    observed = []
    for _ in range(trials):
        with warnings.catch_warnings(record=True, action="always") as caught:
            try:
                symbol, vector = _read(mechanism(data, rng))
            except Exception as refusal:  # a user of the mechanism would see any exception
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
    """Raise an error if the outputs can show nothing, because the mechanism is not a usable one.

    Raises
    ------
    ArgumentError
        If every run on either dataset raised the same error, or if nearly every run returned
        something new that is neither a number nor a vector.
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
    """Make two lists of observations `Outputs` of one width, that of most vectors."""
    widths = Counter(len(vector) for _, vector in [*first, *second] if vector is not None)
    width = widths.most_common(1)[0][0] if widths else 0
    return _collect(first, width), _collect(second, width)


def _collect(observed: Sequence[Observation], width: int) -> Outputs:
    symbols = np.empty(len(observed), dtype=object)
    values = np.zeros((len(observed), width))
    for at, (symbol, vector) in enumerate(observed):
        if vector is not None and len(vector) == width:
            values[at] = vector
        elif vector is not None:
            symbol = f"{symbol} of {len(vector)} numbers"
        symbols[at] = symbol
    return Outputs(symbols, values)


def outputs_of(vectors: FloatArray) -> Outputs:
    """Make `Outputs` of finite vectors ``(trials, k)``."""
    return Outputs(np.full(len(vectors), VALUE, dtype=object), vectors)


# -- scores ----------------------------------------------------------------------------------

_TRAINING = 40_000
"""A classifier is learned from at most this number of outputs of each dataset."""
_FEWEST = 50
"""A classifier is learned only from at least this number of outputs of each dataset."""
_RIDGE = 1e-3
"""The penalty of the classifier is this per output, times the mean square of a feature."""
_FAR = 6.0
"""Outputs are clipped at this number of standard deviations."""
_FEW, _MODERATE = 3, 10
"""Products of three coordinates are features up to the first number of coordinates, and products
of two up to the second."""


def learn(first: Outputs, second: Outputs, known: Score | None) -> Callable[[Outputs], FloatArray]:
    """Learn scores ``(trials,)`` from outputs of both datasets.

    A score is the log odds of the symbol, plus the score of the vector by a classifier that is
    learned among the outputs of that symbol. If the log likelihood ratio is `known`, it is the
    score of finite vectors.
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
    """Vectors ``(m, k)`` that a large share of the outputs of one dataset is equal to."""
    found = [np.zeros((0, first.values.shape[1]))]
    for side in (first, second):
        enough = max(_ATOM * len(side), 5)
        # sorting whole rows is slow, so it is done only if each column has a value that occurs
        # often enough
        if all(np.unique(c, return_counts=True)[1].max() >= enough for c in side.values.T):
            vectors, counts = np.unique(side.values, axis=0, return_counts=True)
            found.append(vectors[counts >= enough])
    return np.asarray(np.unique(np.concatenate(found), axis=0))


def _name_atoms(outputs: Outputs, atoms: FloatArray) -> Outputs:
    """Outputs in which each atom (a vector that occurs often) has a symbol of its own."""
    symbols = outputs.symbols.copy()
    for number, atom in enumerate(atoms):
        symbols[(outputs.values == atom).all(axis=1)] += f" at atom {number}"
    return Outputs(symbols, outputs.values)


def _train_classifier(first: FloatArray, second: FloatArray) -> Score:
    """Scores by a logistic regression of the dataset on polynomials of the whitened output."""
    whiten = _whitening(np.vstack([first, second]))
    features = np.vstack([_features(whiten(first)), _features(whiten(second))])
    labels = np.repeat([1.0, 0.0], [len(first), len(second)])
    weights = _logistic(features, labels)
    prior = float(np.log(len(first) / len(second)))
    return lambda values: _features(whiten(values)) @ weights - prior


def _whitening(values: FloatArray) -> Score:
    """A linear map to uncorrelated coordinates of variance one, estimated without far outputs."""
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
    """Polynomials ``(m, p)`` of the coordinates and of their hyperbolic tangents.

    Their degree is lower if there are many coordinates.
    """
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
    """The weights ``(p,)`` of a logistic regression with a ridge penalty, by Newton's method."""
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


# -- bounds ----------------------------------------------------------------------------------

_THRESHOLDS = 1000
"""This number of thresholds is tried over all ranks, and as many in the upper tail."""
_FEWEST_TRIALS = 20
"""A mechanism is run at least this number of times on each dataset."""
_CAUTION = 0.1
"""The event is chosen by bounds at alpha times this; otherwise chance would favour rare events."""

Evidence = Callable[[FloatArray, FloatArray], FloatArray]
"""A function from p and q to the loss that is proven by an event whose probability is at least p on
one side and at most q on the other."""


@suggests_arguments
def epsilon_lower_bound(
    mechanism: Mechanism,
    data: Any,
    neighbour: Any,
    *,
    trials: int,
    alpha: float = 1e-3,
    rng: np.random.Generator | None = None,
) -> float:
    """A lower bound on the epsilon of a mechanism, from its outputs.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, rng)`` returns a number, a vector, or a fit. The output of a fit is its
        coefficients in scaled units, and its moments if it bought inference. Exceptions, warnings
        and NaN count as outputs, too. Outputs that exist already are read by
        ``lambda data, rng: next(data)`` from two iterators.
    data, neighbour
        Two arguments of the mechanism; they should differ in one record.
    trials : int
        Number of runs on each of the two.
    alpha : float
        Probability that the bound is wrong.
    rng : Generator, optional

    Returns
    -------
    float
        A lower bound on the epsilon of pure differential privacy; 0 if the outputs prove none.

    Raises
    ------
    ArgumentError
        If the mechanism never returns and always raises the same error, or if its outputs are
        nearly all different and neither numbers nor vectors.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up data. *Neighbours*: the given pair.
    *Assumed public*: both datasets. *Not covered*: time and memory of the mechanism.
    """
    first, second = run_both(mechanism, data, neighbour, trials, rng)
    return bound_from_outputs(first, second, _log_ratio, alpha)


@suggests_arguments
def delta_lower_bound(
    mechanism: Mechanism,
    data: Any,
    neighbour: Any,
    *,
    epsilon: float,
    trials: int,
    alpha: float = 1e-3,
    rng: np.random.Generator | None = None,
) -> float:
    """A lower bound on the delta of a mechanism at an epsilon, from its outputs.

    The other parameters are those of `epsilon_lower_bound`.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up data. *Neighbours*: the given pair.
    *Assumed public*: both datasets. *Not covered*: time and memory of the mechanism.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import audit
    >>> def tells_all(data, rng):
    ...     return data
    >>> rng = np.random.default_rng(1)
    >>> audit.delta_lower_bound(tells_all, 0.0, 1.0, epsilon=1.0, trials=1000, rng=rng) > 0.9
    True
    """
    require_number(ArgumentError, "epsilon", epsilon, "a number from 0", at_least=0)
    first, second = run_both(mechanism, data, neighbour, trials, rng)
    return bound_from_outputs(first, second, _delta_at(epsilon), alpha)


def run_both(
    mechanism: Mechanism, data: Any, neighbour: Any, trials: int, rng: np.random.Generator | None
) -> tuple[Outputs, Outputs]:
    """Outputs of the mechanism on the two datasets."""
    takes = f"a whole number from {_FEWEST_TRIALS}"
    number = require_whole(ArgumentError, "trials", trials, takes, at_least=_FEWEST_TRIALS)
    if not callable(mechanism):
        raise ArgumentError(
            f"mechanism={show(mechanism)}: mechanism takes a function of (data, rng)."
        )
    if not (rng is None or isinstance(rng, np.random.Generator)):
        raise ArgumentError(f"rng={show(rng)}: rng takes None or a numpy Generator.")
    source = np.random.default_rng() if rng is None else rng
    first = observe(mechanism, data, number, source)
    second = observe(mechanism, neighbour, number, source)
    require_outputs(first, second)
    return gather(first, second)


def _log_ratio(p: FloatArray, q: FloatArray) -> FloatArray:
    return np.asarray(np.log(p) - np.log(q))


def _delta_at(epsilon: float) -> Evidence:
    return lambda p, q: p - np.exp(epsilon) * q


def _divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """The Kullback-Leibler divergence between the two laws of an event.

    It is at most the divergence between the laws of the outputs, which is at most rho.
    """
    found = special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)
    return np.asarray(np.where(p > q, found, 0.0))


def evidence_of(claim: Guarantee) -> Evidence:
    """What an event proves about the epsilon, the rho, or the delta at the epsilon of a claim."""
    match claim:
        case PureDP():
            return _log_ratio
        case ZCDP():
            return _divergence
        case ApproxDP():
            return _delta_at(claim.epsilon)
    raise GuaranteeError(f"claim: there is no evidence about {claim}.")


def bound_from_outputs(
    first: Outputs, second: Outputs, evidence: Evidence, alpha: float, known: Score | None = None
) -> float:
    """A lower bound on the loss that `evidence` is about, as `epsilon_lower_bound`.

    The log likelihood ratio ``(m,)`` of outputs ``(m, k)`` is learned by a classifier unless it is
    `known`.
    """
    require_number(ArgumentError, "alpha", alpha, "a number between 0 and 1", above=0, at_most=0.5)
    half = (len(first) // 2, len(second) // 2)
    learned = learn(first.take(slice(half[0])), second.take(slice(half[1])), known)
    scores = learned(first), learned(second)
    choosing = [side[:cut] for side, cut in zip(scores, half, strict=True)]
    held = [side[cut:] for side, cut in zip(scores, half, strict=True)]
    # the event ``sign * score >= threshold`` that proves the largest loss on the first halves; the
    # sign says under which dataset the event is more probable
    most, event = -np.inf, (1, 0.0)
    for sign in (1, -1):
        sides = [sign * side for side in choosing][::sign]
        # thresholds are spread evenly over the ranks of the scores, and more densely in the tail
        pooled = np.sort(np.concatenate(sides))[::-1]
        even = np.linspace(0, len(pooled) - 1, _THRESHOLDS)
        tail = np.geomspace(1, len(pooled), _THRESHOLDS) - 1
        thresholds = np.unique(pooled[np.concatenate([even, tail]).astype(int)])
        proven = _proven(evidence, sides, thresholds, _CAUTION * alpha)
        at = int(np.argmax(proven))
        if proven[at] > most:
            most, event = float(proven[at]), (sign, float(thresholds[at]))
    sign, threshold = event
    sides = [sign * side for side in held][::sign]
    return max(0.0, float(_proven(evidence, sides, np.array([threshold]), alpha)[0]))


def _proven(
    evidence: Evidence, sides: list[FloatArray], thresholds: FloatArray, alpha: float
) -> FloatArray:
    """The losses ``(m,)`` proven by the events that a score is at least each of m thresholds.

    The events are more probable on the first side. Each of the two bounds on their probabilities
    fails with probability at most alpha / 2.
    """
    trials, others = map(len, sides)
    hits, misses = (
        len(side) - np.searchsorted(np.sort(side), thresholds, side="left") for side in sides
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(hits > 0, special.betaincinv(hits, trials - hits + 1.0, alpha / 2), 0.0)
        high = np.where(
            misses < others,
            special.betaincinv(misses + 1.0, np.maximum(others - misses, 1), 1 - alpha / 2),
            1.0,
        )
        return np.asarray(evidence(low, high))
