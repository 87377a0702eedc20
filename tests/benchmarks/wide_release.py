"""Time and memory of a private release of a sparse matrix.

Run ``python -m tests.benchmarks.wide_release``.

Its arguments are rows, columns, entries and delta, by default 1e5, 2e7, 1e7 and 1e-6. Memory is
what the process holds beyond what it held with the matrix in it, at its highest in each stage.
"""

import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from privatelr.mechanisms import Problem, calibrate_all, draw_all, read_request, release_all
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import SparseRows
from privatelr.numerics.solve import Newton
from privatelr.privacy.noise import SystemRandomness

LOGISTIC = LOSSES["logistic"]


def held():
    """Gigabytes of this process in memory."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**30


class Watch:
    """The most memory that was held since it was last asked."""

    def __init__(self):
        self.base = self.most = held()
        threading.Thread(target=self.look, daemon=True).start()

    def look(self):
        while True:
            self.most = max(self.most, held())
            time.sleep(0.01)

    def stage(self, name, work):
        self.most, start = held(), time.perf_counter()
        found = work()
        seconds = time.perf_counter() - start
        print(f"{name:10} {seconds:8.1f} s {self.most - self.base:6.2f} GB", flush=True)
        return found


def main(n=1e5, d=2e7, entries=1e7, delta=1e-6):
    n, d, each = int(n), int(d), int(entries) // int(n)
    rng = np.random.default_rng(0)
    places = rng.integers(0, d, n * each, dtype=np.int32)
    starts = np.arange(0, n * each + 1, each, dtype=np.int32)
    x = sparse.csr_array((np.ones(n * each), places, starts), shape=(n, d))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    watch = Watch()
    rows = watch.stage("rows", lambda: SparseRows(x, y, bound=each**0.5, intercept=0.5))
    request = read_request(1.0, float(delta), None, None, True, None, "increase")
    facts = Problem(n, d + 1, LOGISTIC, rows.radius)
    plan = watch.stage("calibrate", lambda: calibrate_all(request, facts))
    draws = watch.stage("draw", lambda: draw_all(plan, SystemRandomness()))
    watch.stage("release", lambda: release_all(rows, plan, draws, Newton()))
    print(f"certified to {plan.coefficients.tau:.2g}")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
