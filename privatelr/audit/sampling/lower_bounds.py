"""Lower bounds on the privacy loss from outputs alone, for any mechanism (privacy.md 11).

The outputs of each dataset are split in two halves. The first halves choose a score, an event
``score >= t``, and the dataset under which the event is to be more probable. The second halves
count the event. The bound fails with probability at most alpha, whatever the score is (Clopper
and Pearson 1934).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from privatelr.arguments import suggests_arguments
from privatelr.audit.sampling import outputs
from privatelr.audit.sampling.outputs import Mechanism, Outputs, Score
from privatelr.errors import ArgumentError, require_number, require_whole, show
from privatelr.types import FloatArray

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
    score: Score | None = None,
    rng: np.random.Generator | None = None,
) -> float:
    """A lower bound on the epsilon of a mechanism, from its outputs.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, rng)`` returns a number, a vector, or a fit. The output of a fit is its
        coefficients in scaled units, and its moments if it bought inference. Exceptions, warnings
        and NaN count as outputs, too.
    data, neighbour
        Two arguments of the mechanism; they should differ in one record.
    trials : int
        Number of runs on each of the two.
    alpha : float
        Probability that the bound is wrong.
    score : callable, optional
        The log likelihood ratio ``(m,)`` of outputs ``(m, k)``, data over neighbour, if it is
        known. By default a classifier is learned.
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
    return epsilon_from_outputs(first, second, alpha=alpha, score=score)


@suggests_arguments
def delta_lower_bound(
    mechanism: Mechanism,
    data: Any,
    neighbour: Any,
    *,
    epsilon: float,
    trials: int,
    alpha: float = 1e-3,
    score: Score | None = None,
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
    return delta_from_outputs(first, second, epsilon, alpha=alpha, score=score)


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
    first = outputs.observe(mechanism, data, number, source)
    second = outputs.observe(mechanism, neighbour, number, source)
    outputs.require_outputs(first, second)
    return outputs.gather(first, second)


@suggests_arguments
def epsilon_from_outputs(
    first: Outputs, second: Outputs, *, alpha: float = 1e-3, score: Score | None = None
) -> float:
    """A lower bound on epsilon, as `epsilon_lower_bound`, from outputs that already exist.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import audit
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.laplace(size=(2, 4000, 1))  # epsilon = 1 for numbers that move by 1
    >>> first, second = audit.outputs_of(draws[0]), audit.outputs_of(draws[1] + 1)
    >>> 0.5 < audit.epsilon_from_outputs(first, second) <= 1
    True
    """
    return _bound(first, second, lambda p, q: np.log(p) - np.log(q), alpha, score)


@suggests_arguments
def delta_from_outputs(
    first: Outputs,
    second: Outputs,
    epsilon: float,
    *,
    alpha: float = 1e-3,
    score: Score | None = None,
) -> float:
    """A lower bound on delta, as `delta_lower_bound`, from outputs that already exist.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import audit
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.laplace(size=(2, 4000, 1))  # epsilon = 1 for numbers that move by 1
    >>> first, second = audit.outputs_of(draws[0]), audit.outputs_of(draws[1] + 1)
    >>> audit.delta_from_outputs(first, second, epsilon=1.0) < 0.01
    True
    """
    return _bound(first, second, lambda p, q: p - np.exp(epsilon) * q, alpha, score)


@suggests_arguments
def rho_from_outputs(
    first: Outputs, second: Outputs, *, alpha: float = 1e-3, score: Score | None = None
) -> float:
    """A lower bound on the rho of zero-concentrated privacy, from outputs that already exist.

    It is the Kullback-Leibler divergence between the two laws of an event. That is at most the
    divergence between the laws of the outputs, which is at most rho.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import audit
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.laplace(size=(2, 4000, 1))  # epsilon = 1 for numbers that move by 1
    >>> first, second = audit.outputs_of(draws[0]), audit.outputs_of(draws[1] + 1)
    >>> audit.rho_from_outputs(first, second) <= 0.4622  # to_zcdp(PureDP(1.0))
    True
    """

    def divergence(p: FloatArray, q: FloatArray) -> FloatArray:
        found = special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)
        return np.asarray(np.where(p > q, found, 0.0))

    return _bound(first, second, divergence, alpha, score)


def _bound(
    first: Outputs, second: Outputs, evidence: Evidence, alpha: float, known: Score | None
) -> float:
    require_number(ArgumentError, "alpha", alpha, "a number between 0 and 1", above=0, at_most=0.5)
    half = (len(first) // 2, len(second) // 2)
    learned = outputs.learn(first.take(slice(half[0])), second.take(slice(half[1])), known)
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
