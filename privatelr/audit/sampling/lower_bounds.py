"""Lower bounds on the privacy loss from outputs alone, for any mechanism (privacy.md 11).

The outputs of each dataset are split in two. The first halves choose a score, an event
``score >= t`` and which dataset it speaks for; the second halves count the event. The bound
holds except with probability alpha, whatever the score is (Clopper and Pearson 1934).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from privatelr.arguments import suggests_arguments
from privatelr.audit.sampling import outputs
from privatelr.audit.sampling.outputs import Mechanism, Outputs, Score
from privatelr.errors import ArgumentError, require_number, show
from privatelr.types import FloatArray

_THRESHOLDS = 1000
"""Number of thresholds over all ranks, and number in the upper tail, that are tried."""
_FEWEST_TRIALS = 20
"""Smallest number of runs on each dataset."""
_CAUTION = 0.1
"""The choice of an event is made at this part of alpha, or luck would favour small ones."""

Evidence = Callable[[FloatArray, FloatArray], FloatArray]
"""What is proven by an event of probability at least p on one side, at most q on the other."""


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
    """Epsilon that a mechanism has at least, from its outputs.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, rng)`` returns a number, a vector, or a fit, which counts as its
        coefficients in scaled units and the moments if it bought them. An exception, a warning
        and a NaN are outputs like any other.
    data, neighbour
        What the mechanism takes; they should differ in one record.
    trials : int
        Runs on each of the two.
    alpha : float
        Probability that the bound is wrong.
    score : callable, optional
        Log likelihood ratio ``(m,)`` of outputs ``(m, k)``, data over neighbour, where it is
        known. By default a classifier is learned.
    rng : Generator, optional

    Returns
    -------
    float
        A lower bound on the epsilon of pure differential privacy, 0 if nothing was seen.

    Raises
    ------
    ArgumentError
        If the mechanism never returns and always raises the same, or if its outputs are
        nearly all different and neither numbers nor vectors.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up data. *Neighbours*: whatever pair is
    given. *Assumed public*: both datasets. *Not covered*: time and memory of the mechanism.
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
    """Delta that a mechanism has at least at this epsilon; as `epsilon_lower_bound`.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up data. *Neighbours*: whatever pair is
    given. *Assumed public*: both datasets. *Not covered*: time and memory of the mechanism.
    """
    require_number(ArgumentError, "epsilon", epsilon, "a number from 0", at_least=0)
    first, second = run_both(mechanism, data, neighbour, trials, rng)
    return delta_from_outputs(first, second, epsilon, alpha=alpha, score=score)


def run_both(
    mechanism: Mechanism, data: Any, neighbour: Any, trials: int, rng: np.random.Generator | None
) -> tuple[Outputs, Outputs]:
    """Outputs of the mechanism on the two datasets."""
    takes = f"a whole number from {_FEWEST_TRIALS}"
    number = require_number(ArgumentError, "trials", trials, takes, at_least=_FEWEST_TRIALS)
    if not number.is_integer():
        raise ArgumentError(f"trials={trials!r}: trials takes {takes}.")
    if not callable(mechanism):
        raise ArgumentError(
            f"mechanism={show(mechanism)}: mechanism takes a function of (data, rng)."
        )
    if not (rng is None or isinstance(rng, np.random.Generator)):
        raise ArgumentError(f"rng={show(rng)}: rng takes None or a numpy Generator.")
    source = np.random.default_rng() if rng is None else rng
    first = outputs.observe(mechanism, data, int(number), source)
    second = outputs.observe(mechanism, neighbour, int(number), source)
    outputs.require_outputs(first, second)
    return outputs.gather(first, second)


@suggests_arguments
def epsilon_from_outputs(
    first: Outputs, second: Outputs, *, alpha: float = 1e-3, score: Score | None = None
) -> float:
    """`epsilon_lower_bound` for outputs that are already there."""
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
    """`delta_lower_bound` for outputs that are already there."""
    return _bound(first, second, lambda p, q: p - np.exp(epsilon) * q, alpha, score)


@suggests_arguments
def rho_from_outputs(
    first: Outputs, second: Outputs, *, alpha: float = 1e-3, score: Score | None = None
) -> float:
    """Rho of zero-concentrated privacy, at least.

    The divergence of the two laws of one event is at most that of the outputs, and of order 1
    it is at most rho.
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
    # the event ``sign * score >= threshold`` that proves most on the outputs that choose it;
    # the sign says which dataset it speaks for
    most, event = -np.inf, (1, 0.0)
    for sign in (1, -1):
        sides = [sign * side for side in choosing][::sign]
        # over the ranks of the scores evenly, and closer together in the upper tail
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
    """What scores of at least the thresholds prove: the first side has more of them.

    Each of the two probabilities is wrong with at most alpha / 2.
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
