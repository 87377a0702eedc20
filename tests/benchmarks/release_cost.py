"""What exact noise costs beside the solve: ``python -m tests.benchmarks.release_cost``.

For designs of several widths, the median over runs of the time that a release takes for its
draws and exact rounding, and for the certificate's pass over 10,000 rows; the solve is the rest.
"""

import statistics
import time

import numpy as np
from flint import arb

from privatelr.mechanisms import Problem, calibrate, draw, read_request, rounded_sum
from privatelr.numerics import LOSSES, Objective
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import gradient_bound
from privatelr.privacy.noise import SystemRandomness
from privatelr.types import Block

WIDTHS = (10, 105, 200)
RUNS = 31
RECORDS = 10_000


def cost(blocks, d):
    """Milliseconds for draws and rounding, and for the certificate."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (RECORDS, d - 1)) / d, rng.choice([-1.0, 1.0], RECORDS)
    rows = DenseRows(x, y, bound=3.0, intercept=0.5, blocks=blocks)
    facts = Problem(RECORDS, d, LOSSES["logistic"], rows.radius, blocks)
    request = read_request(1.0, 0, None, None, True, "joint", "increase")
    calibration = calibrate(request, facts)
    w = rng.standard_normal(d) / d
    exact, certified = [], []
    for _ in range(RUNS):
        start = time.perf_counter()
        draws = draw(calibration, SystemRandomness())
        tilt = draws.noise.nearest() / RECORDS
        draws.noise.enclose(128)  # the certificate looks at the exact tilt once more
        rounded_sum([arb(float(entry)) for entry in w], draws.shield, calibration.grid)
        middle = time.perf_counter()
        objective = Objective(rows, facts.loss, calibration.lambda_, tilt)
        gradient_bound(objective, w)
        exact.append(1e3 * (middle - start))
        certified.append(1e3 * (time.perf_counter() - middle))
    return calibration.noise.title, exact, certified


def main():
    print(f"{'median ms':<20}{'d':>6}{'noise':>12}{'certificate':>14}")
    for d in WIDTHS:
        factors = (d - 1) // 8
        rest = d - 1 - 8 * factors
        blocks = (
            Block(1, 0.5),
            *(Block(factors, 1.0) for _ in range(8)),
            *(Block(1, 1.0) for _ in range(rest)),
        )
        for shape in ((), blocks):
            title, exact, certified = cost(shape, d)
            both = (statistics.median(exact), statistics.median(certified))
            print(f"{title:<20}{d:>6}{both[0]:>12.2f}{both[1]:>14.2f}")


if __name__ == "__main__":
    main()
