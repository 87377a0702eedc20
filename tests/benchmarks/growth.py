"""How time grows with rows and with columns: exponents of a power law.

Of one thread, so that growth is not also that of how many threads find work. More rows need
fewer passes, because a thinned table is nearer to the whole; so what grows in proportion is a
pass, and a fit grows more slowly.
"""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from privatelr.numerics import Objective, gradient_of, threads

from .counted import passes
from .peers import ours
from .problems import synthetic
from .race import Ratios, pairs, read_once, repeats, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .problems import Problem

ROWS = tuple((n, 10) for n in (10**4, 10**5, 10**6, 10**7))
COLUMNS = tuple((10**5, d) for d in (5, 10, 20, 50, 100, 200, 500))
QUICK = tuple((n, 5) for n in (1000, 4000, 16000))


def growth(sizes: Iterable[tuple[int, int]], repetitions: int) -> dict[str, Any]:
    """Seconds and passes at each size, and slopes of log time, of fits and of a pass."""
    with threads(1), threadpool_limits(1):
        points = [_point(synthetic("growth", n, d), repetitions) for n, d in sizes]
    varied = "n" if len({point["d"] for point in points}) == 1 else "d"
    return {
        "varied": varied,
        "slope": _slope(points, varied, "seconds"),
        "slope of a pass": _slope(points, varied, "pass"),
        "steps": [_slope([*pair], varied, "seconds") for pair in pairwise(points)],
        "points": points,
    }


def _point(problem: Problem, repetitions: int) -> dict[str, Any]:
    objective = Objective(problem.rows, problem.loss, problem.lambda_, np.zeros(problem.d))
    w = np.full(problem.d, 0.1)
    found = pairs(lambda: ours(problem), lambda: read_once(problem.x), repetitions)
    number = repeats(lambda: gradient_of(objective, w))
    once = [seconds(lambda: gradient_of(objective, w), number) for _ in range(repetitions)]
    return {
        "n": problem.n,
        "d": problem.d,
        "seconds": statistics.median(mine for mine, _ in found),
        "pass": statistics.median(once),
        "floor": Ratios.of(found).median,
        **passes(problem),
    }


def _slope(points: list[dict[str, Any]], varied: str, what: str) -> float:
    logs = [(math.log(point[varied]), math.log(point[what])) for point in points]
    return float(np.polyfit(*zip(*logs, strict=True), 1)[0])
