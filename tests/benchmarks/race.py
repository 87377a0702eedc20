"""Side by side: every repetition runs a peer and the package one right after the other.

Seconds on a shared machine are noise; the ratio of two neighbours in time is much less so. What
is reported is the median of ratios, and their quartiles.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from privatelr.numerics import in_order

from .counted import passes
from .neutral import gradient_norm
from .peers import EQUAL, PEERS, ours, tune

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .peers import Peer, Setting
    from .problems import Problem

_RESOLVED = 0.02
"""Seconds that a measurement takes at least: what is faster is repeated within it."""
_SLOW, _HOPELESS = 2.0, 8.0
"""Seconds, and times ours, beyond both of which a peer is run twice only."""
_LONG = 10.0
"""Seconds of ours beyond which everybody is."""
_ENDLESS = 30.0
"""Seconds beyond which a peer is run once."""
_TUNED, _TIGHTER = 5 * 10**6, 2
"""Entries beyond which tolerances are tuned on some of the rows, and how often one is then made
ten times tighter, where it was enough for those."""
_SLICE, _LINE = 2**20, 2**10
"""Numbers that one thread reads at a time, and that are summed without a stop."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ours over theirs, in pairs."""

    median: float
    low: float
    high: float
    pairs: int

    @classmethod
    def of(cls, pairs: list[tuple[float, float]]) -> Ratios:
        found = [mine / theirs for mine, theirs in pairs]
        low, high = (found[0], found[0])
        if len(found) > 1:
            low, _, high = statistics.quantiles(found, n=4, method="inclusive")
        return cls(statistics.median(found), low, high, len(found))


def seconds(run: Callable[[], Any], number: int = 1) -> float:
    """Time of one run, as the mean of so many."""
    start = time.perf_counter()
    for _ in range(number):
        run()
    return (time.perf_counter() - start) / number


def repeats(run: Callable[[], Any]) -> int:
    """How many runs make a measurement that the clock resolves."""
    return max(1, math.ceil(_RESOLVED / max(seconds(run), 1e-6)))


def pairs(
    mine: Callable[[], Any], theirs: Callable[[], Any], repetitions: int
) -> list[tuple[float, float]]:
    """Seconds of both, right after each other, first one before the other and then the other."""
    numbers = repeats(mine), repeats(theirs)
    found = []
    for repetition in range(repetitions):
        order = (0, 1) if repetition % 2 == 0 else (1, 0)
        taken = {side: seconds((mine, theirs)[side], numbers[side]) for side in order}
        found.append((taken[0], taken[1]))
    return found


def read_once(x: Any) -> float:
    """Read every number of a matrix in memory once, with the threads that a fold would use.

    The squares are summed slice by slice, by a function that lets other threads run: two flops
    for eight bytes, which is as little as a reader can do.
    """
    flat = np.ravel(x.data if hasattr(x, "indptr") else x)
    return sum(in_order(lambda first: _squares(flat[first : first + _SLICE]), _starts(flat)))


def _squares(part: Any) -> float:
    whole = len(part) // _LINE * _LINE
    lines = part[:whole].reshape(-1, _LINE)
    return float(np.vecdot(lines, lines).sum() + part[whole:] @ part[whole:])


def _starts(flat: Any) -> range:
    return range(0, len(flat), _SLICE)


def race(problem: Problem, repetitions: int) -> dict[str, Any]:
    """Everything that is known of one problem, as it is written to a file."""
    start = time.perf_counter()
    w = ours(problem)
    if time.perf_counter() - start > _LONG:
        repetitions = min(repetitions, 2)
    floor = pairs(lambda: ours(problem), lambda: read_once(problem.x), repetitions)
    found: dict[str, Any] = {
        "n": problem.n,
        "d": problem.d,
        "loss": problem.loss.name,
        "lambda": problem.lambda_,
        "seconds": statistics.median(mine for mine, _ in floor),
        "gradient": gradient_norm(problem, w),
        "passes": passes(problem),
        "floor": asdict(Ratios.of(floor)),
        "peers": {},
    }
    small = problem
    if problem.x.size > _TUNED:
        small = problem.thinned(problem.n * _TUNED // problem.x.size)
    for peer in PEERS:
        if peer.can(problem):
            found["peers"][peer.name] = _against(peer, problem, tune(peer, small), repetitions)
    return found


def _against(peer: Peer, problem: Problem, setting: Setting, repetitions: int) -> dict[str, Any]:
    """Pairs with one peer, at a tolerance that was tuned before."""
    ends: list[Any] = []
    tolerance = setting.tolerance

    def theirs() -> None:
        ends[:] = [peer(problem, tolerance)]

    once = seconds(theirs)
    for _ in range(_TIGHTER if setting.is_equal else 0):
        if gradient_norm(problem, ends[0]) <= EQUAL:
            break
        tolerance /= 10
        once = seconds(theirs)
    mine = seconds(lambda: ours(problem))
    if once > _ENDLESS:
        measured = [(mine, once)]
    else:
        slow = once > max(_SLOW, _HOPELESS * mine)
        number = min(repetitions, 2) if slow else repetitions
        measured = pairs(lambda: ours(problem), theirs, number)
    gradient = gradient_norm(problem, ends[0])
    return {
        **asdict(Ratios.of(measured)),
        "seconds": statistics.median(theirs for _, theirs in measured),
        "tolerance": tolerance,
        "gradient": gradient,
        "equal": gradient <= EQUAL,
    }


def best(cell: dict[str, Any], *, equal: bool = True) -> tuple[str, dict[str, Any]] | None:
    """The peer that the package has the hardest time with, of those that are as accurate."""
    able = [(n, p) for n, p in cell["peers"].items() if p["equal"] or not equal]
    return max(able, key=lambda item: item[1]["median"], default=None)
