"""Time and memory of a private fit of a formula with a factor of many levels.

Run ``python -m tests.benchmarks.wide_factor``.

Its arguments are levels and records, by default 4990 and 20000. Memory is what the process holds
beyond what it held with the frame in it, at its highest in each stage.
"""

import sys

import numpy as np
import pandas as pd

import privatelr

from .wide_release import Watch


def main(count=4990, n=2e4):
    levels = [f"place {number}" for number in range(int(count))]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"dose": rng.uniform(size=int(n)), "place": rng.choice(levels, int(n))})
    frame["ill"] = rng.integers(0, 2, len(frame))
    declared = {"bounds": {"dose": (0, 1)}, "levels": {"place": levels, "ill": [0, 1]}}
    watch = Watch()
    fit = watch.stage(
        "fit", lambda: privatelr.dplr("ill ~ place + dose", frame, eps=1, delta=1e-6, **declared)
    )
    watch.stage("print", lambda: str(fit))
    watch.stage("predict", lambda: fit.predict(frame))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
