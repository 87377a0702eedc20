"""What exact noise costs beside the solve: ``python -m tests.benchmarks.release_cost``.

For designs of several widths, the median over runs of the time that a release takes for its
draws, the check of its certificate, and exact rounding; the solve is the rest.
"""

import statistics
import time

import numpy as np
from flint import arb

from privatelr.mechanisms.problem import Facts
from privatelr.mechanisms.registry import calibrate
from privatelr.mechanisms.release import draw, rounded_sum
from privatelr.mechanisms.request import read_request
from privatelr.numerics.losses import LOSSES
from privatelr.privacy.randomness import SystemRandomness
from privatelr.types import Block

WIDTHS = (10, 105, 200)
RUNS = 31


def cost(blocks, d):
    """Milliseconds for the draws of tilt and shield, and for rounding the sum."""
    facts = Facts(10_000, d, LOSSES["logistic"], 3.0, blocks)
    request = read_request(1.0, 0, None, None, True, "joint", "increase")
    calibration = calibrate(request, facts)
    minimum = [arb(float(x)) for x in np.random.default_rng(0).standard_normal(d)]
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        draws = draw(calibration, SystemRandomness())
        draws.noise.nearest()
        draws.noise.enclose(128)  # the certificate looks at the exact tilt once more
        rounded_sum(minimum, draws.shield, calibration.grid)
        times.append(1e3 * (time.perf_counter() - start))
    return calibration.noise.title, times


def main():
    print(f"{'noise':<20}{'d':>6}{'median ms':>12}{'largest ms':>12}")
    for d in WIDTHS:
        factors = (d - 1) // 8
        rest = d - 1 - 8 * factors
        blocks = (
            Block(1, 0.5),
            *(Block(factors, 1.0) for _ in range(8)),
            *(Block(1, 1.0) for _ in range(rest)),
        )
        for shape in ((), blocks):
            title, times = cost(shape, d)
            print(f"{title:<20}{d:>6}{statistics.median(times):>12.2f}{max(times):>12.2f}")


if __name__ == "__main__":
    main()
