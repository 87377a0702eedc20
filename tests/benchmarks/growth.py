"""How time grows with rows and with columns: exponents of a power law."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .counted import passes
from .peers import ours
from .problems import synthetic
from .race import Ratios, pairs, read_once

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

ROWS = tuple((n, 10) for n in (10**4, 10**5, 10**6, 10**7))
COLUMNS = tuple((10**5, d) for d in (5, 10, 20, 50, 100, 200, 500))
QUICK = tuple((n, 5) for n in (1000, 4000, 16000))


def growth(sizes: Iterable[tuple[int, int]], repetitions: int) -> dict[str, Any]:
    """Seconds and passes at each size, and the slope of log time over all and step by step."""
    points = []
    for n, d in sizes:
        problem = synthetic("growth", n, d)
        found = pairs(lambda p=problem: ours(p), lambda p=problem: read_once(p.x), repetitions)
        taken = statistics.median(mine for mine, _ in found)
        over = Ratios.of(found).median
        points.append({"n": n, "d": d, "seconds": taken, "floor": over, **passes(problem)})
    varied = "n" if len({point["d"] for point in points}) == 1 else "d"
    logs = [(math.log(point[varied]), math.log(point["seconds"])) for point in points]
    return {
        "varied": varied,
        "slope": float(np.polyfit(*zip(*logs, strict=True), 1)[0]),
        "steps": [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(logs)],
        "points": points,
    }
